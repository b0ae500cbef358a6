//! The secrets in force, for whoever must keep them out of what is shown.

use std::sync::Arc;

use super::Setting;
use crate::fetch::ado::Credential;
use crate::model::BoxFuture;
use crate::run::Secrets;
use crate::settings::{Config, Environment, HeldSecrets};

/// Where this setting's secrets come from.
pub struct SettingSecrets {
    config: Arc<Config>,
    environment: Environment,
    credential: Arc<dyn Credential>,
}

impl SettingSecrets {
    /// Nothing is read yet.
    pub fn new(setting: &Setting) -> Self {
        Self {
            config: Arc::clone(&setting.config),
            environment: setting.environment.clone(),
            credential: Arc::clone(&setting.credential),
        }
    }
}

impl Secrets for SettingSecrets {
    fn held(&self) -> BoxFuture<'_, HeldSecrets> {
        Box::pin(async move {
            // One that cannot be had now cannot have been told to anybody either.
            let tracker = self.credential.current().await.ok();
            HeldSecrets::of(&self.config, &self.environment, tracker)
        })
    }
}
