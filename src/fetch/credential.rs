//! The credential for the tracker.

use secrecy::SecretString;

use crate::fetch::FetchError;
use crate::model::BoxFuture;

/// A credential that the app layer resolved from a variable, a file or a command.
pub trait Credential: Send + Sync {
    fn current(&self) -> BoxFuture<'_, Result<SecretString, FetchError>>;

    /// Gets a new secret after the current one was refused; false if there is no other.
    fn refresh(&self) -> BoxFuture<'_, Result<bool, FetchError>> {
        Box::pin(async { Ok(false) })
    }

    /// Drops what was read: a file or a command may have another secret by now.
    fn forget(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Its origin for messages, such as "the variable AZURE_DEVOPS_PAT".
    fn origin(&self) -> String;
}

/// A secret that never changes.
pub struct FixedCredential {
    secret: SecretString,
    origin: String,
}

impl FixedCredential {
    pub fn new(secret: SecretString, origin: impl Into<String>) -> Self {
        Self { secret, origin: origin.into() }
    }
}

impl Credential for FixedCredential {
    fn current(&self) -> BoxFuture<'_, Result<SecretString, FetchError>> {
        Box::pin(async { Ok(self.secret.clone()) })
    }

    fn origin(&self) -> String {
        self.origin.clone()
    }
}
