//! Findings as comments in Azure DevOps.

use secrecy::{ExposeSecret as _, SecretString};

use crate::fetch::ado::{AdoSource, WriteBack};
use crate::fetch::{FailureClass, FetchError};
use crate::model::{BoxFuture, Format};
use crate::run::{Publisher, Publishing};

/// Writes to the tracker, after a look for secrets.
pub struct AdoPublisher {
    source: AdoSource,
    tag: String,
    /// The agent's credential: a finding that holds it is not written anywhere.
    agent_secret: Option<SecretString>,
}

impl AdoPublisher {
    /// `source` keeps the tracker's own credential out by itself.
    pub fn new(source: AdoSource, tag: &str, agent_secret: Option<SecretString>) -> Self {
        Self { source, tag: tag.to_owned(), agent_secret }
    }

    fn write<'a>(&'a self, publishing: &'a Publishing) -> Result<WriteBack<'a>, FetchError> {
        let holds = |secret: &SecretString| {
            let secret = secret.expose_secret();
            !secret.is_empty() && publishing.comment.contains(secret)
        };
        if self.agent_secret.as_ref().is_some_and(holds) {
            let message = format!(
                "the finding for item {} holds the agent's credential; nothing was written",
                publishing.id
            );
            return Err(FetchError::new(FailureClass::Denied, message));
        }
        Ok(WriteBack {
            id: publishing.id,
            rev: publishing.rev,
            comment: &publishing.comment,
            format: Format::Markdown,
            tag: &self.tag,
        })
    }
}

impl Publisher for AdoPublisher {
    fn publish(&self, publishing: Publishing) -> BoxFuture<'_, Result<i64, FetchError>> {
        Box::pin(async move { Ok(self.source.write_back(&self.write(&publishing)?).await?.rev) })
    }

    fn validate(&self, publishing: Publishing) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async move { self.source.validate_write_back(&self.write(&publishing)?).await })
    }
}
