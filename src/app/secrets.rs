//! The current secrets, which must be removed from everything that is shown.

use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::Setting;
use crate::fetch::Credential;
use crate::model::BoxFuture;
use crate::ports::HeldCredentials;
use crate::run::Secrets;
use crate::settings::{AgentAuth, AgentKind, Config, Environment, HeldSecrets};

pub struct SettingSecrets {
    config: Arc<Config>,
    environment: Environment,
    credentials: Vec<Arc<dyn Credential>>,
}

impl SettingSecrets {
    pub fn new(setting: &Setting) -> Self {
        Self {
            config: Arc::clone(&setting.config),
            environment: setting.environment.clone(),
            credentials: setting.credentials.clone(),
        }
    }
}

impl HeldCredentials for SettingSecrets {
    fn held_now(&self) -> BoxFuture<'_, HeldSecrets> {
        Box::pin(async move {
            // A credential that cannot be read now cannot have leaked either.
            let mut trackers = Vec::new();
            for credential in &self.credentials {
                trackers.extend(credential.current().await.ok());
            }
            HeldSecrets::of(&self.config, &self.environment, trackers)
        })
    }
}

impl Secrets for SettingSecrets {
    /// Covers everything an agent may log in with: the command, its variable and its login file.
    fn agent_fingerprint(&self, agent: AgentKind, key: &str) -> Option<String> {
        let Self { config, environment, .. } = self;
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
            // A file that is not a login does not change the fingerprint.
            let login = crate::private::read_own(&folder.join(".credentials.json"), 1 << 16);
            hash.update(login.unwrap_or_default());
        }
        Some(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }
}
