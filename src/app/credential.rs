//! The tracker's credential, read when a run needs it, and again when it is rejected.

use secrecy::SecretString;
use tokio::sync::Mutex;

use crate::config::credential::source_credential;
use crate::fetch::{Credential, FetchError};
use crate::model::{BoxFuture, FailureClass};
use crate::settings::{Config, Environment, Source};

pub struct ConfiguredCredential {
    source: Source,
    /// The section's name in messages.
    section: String,
    config: Config,
    environment: Environment,
    current: Mutex<Option<SecretString>>,
}

impl ConfiguredCredential {
    pub fn new(source: &Source, config: &Config, environment: &Environment) -> Self {
        let section = match config.source_list.is_empty() {
            true => "[source]".to_owned(),
            false => format!("source {:?}", source.name),
        };
        Self {
            source: source.clone(),
            section,
            config: config.clone(),
            environment: environment.clone(),
            current: Mutex::new(None),
        }
    }

    async fn resolve(&self) -> Result<SecretString, FetchError> {
        source_credential(&self.source, &self.config, &self.environment)
            .await
            .map_err(|error| FetchError::new(FailureClass::Auth, error.to_string()))
    }
}

impl Credential for ConfiguredCredential {
    fn current(&self) -> BoxFuture<'_, Result<SecretString, FetchError>> {
        Box::pin(async move {
            let mut current = self.current.lock().await;
            if current.is_none() {
                *current = Some(self.resolve().await?);
            }
            current
                .clone()
                .ok_or_else(|| FetchError::new(FailureClass::Auth, "no credential is configured"))
        })
    }

    /// A variable cannot change; a file or a command may return a new value.
    fn refresh(&self) -> BoxFuture<'_, Result<bool, FetchError>> {
        Box::pin(async move {
            let from_variable = self.environment.raw(&self.source.token_env).is_some();
            if from_variable {
                return Ok(false);
            }
            *self.current.lock().await = Some(self.resolve().await?);
            Ok(true)
        })
    }

    fn forget(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { *self.current.lock().await = None })
    }

    fn origin(&self) -> String {
        let Self { source, section, .. } = self;
        if self.environment.raw(&source.token_env).is_some() {
            format!("the variable {} ({section} token_env)", source.token_env)
        } else if !source.token_file.as_os_str().is_empty() {
            format!("the file {} ({section} token_file)", source.token_file.display())
        } else {
            format!("{section} token_command")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use secrecy::ExposeSecret as _;

    use super::*;

    #[tokio::test]
    async fn a_renewed_file_is_read_by_the_next_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let write = |secret: &str| {
            std::fs::write(&file, secret).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        let text = include_str!("../config/default.toml");
        let mut config: Config = toml::from_str(text).unwrap();
        config.source.token_file.clone_from(&file);
        let environment = Environment::new(Vec::<(String, String)>::new());
        let credential = ConfiguredCredential::new(&config.source, &config, &environment);
        let current = async || credential.current().await.unwrap().expose_secret().to_owned();
        write("one");
        assert_eq!(current().await, "one");
        write("two");
        assert_eq!(current().await, "one", "a run keeps what it began with");
        credential.forget().await;
        assert_eq!(current().await, "two");
    }
}
