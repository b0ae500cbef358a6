//! The secrets in force, for whoever must keep them out of what is shown.

use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::Setting;
use crate::fetch::Credential;
use crate::model::BoxFuture;
use crate::run::Secrets;
use crate::settings::{AgentAuth, AgentKind, Config, Environment, HeldSecrets};

/// Where this setting's secrets come from.
pub struct SettingSecrets {
    config: Arc<Config>,
    environment: Environment,
    credentials: Vec<Arc<dyn Credential>>,
}

impl SettingSecrets {
    /// Nothing is read yet.
    pub fn new(setting: &Setting) -> Self {
        Self {
            config: Arc::clone(&setting.config),
            environment: setting.environment.clone(),
            credentials: setting.credentials.clone(),
        }
    }
}

impl Secrets for SettingSecrets {
    fn held(&self) -> BoxFuture<'_, HeldSecrets> {
        Box::pin(async move {
            // One that cannot be had now cannot have been told to anybody either.
            let mut trackers = Vec::new();
            for credential in &self.credentials {
                trackers.extend(credential.current().await.ok());
            }
            HeldSecrets::of(&self.config, &self.environment, trackers)
        })
    }

    fn agent_fingerprint<'a>(
        &'a self,
        agent: AgentKind,
        key: &'a str,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move { fingerprint(agent, key, &self.config, &self.environment) })
    }
}

/// Of everything an agent may log in with: the command, its variable and its login file.
fn fingerprint(
    agent: AgentKind,
    key: &str,
    config: &Config,
    environment: &Environment,
) -> Option<String> {
    let mut hash = Sha256::new();
    hash.update(key);
    for part in config.command_of(agent) {
        hash.update(part);
        hash.update([0]);
    }
    if let Some(credential) = environment.text(config.credential_env_of(agent)) {
        hash.update(credential.trim());
    }
    if agent == AgentKind::Claude && config.agent.auth == AgentAuth::Login {
        let home = environment.text("HOME").map(|home| PathBuf::from(home).join(".claude"));
        let folder = environment.text("CLAUDE_CONFIG_DIR").map(PathBuf::from).or(home)?;
        hash.update(std::fs::read(folder.join(".credentials.json")).unwrap_or_default());
    }
    Some(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}
