//! Writes findings as comments to the tracker.

use std::sync::Arc;

use super::secrets::SettingSecrets;
use crate::fetch::{FetchError, Tracker, WriteBack};
use crate::model::{BoxFuture, FailureClass, Format};
use crate::run::{Publisher, Publishing, Secrets as _};

/// Writes to the tracker after a check for secrets.
pub struct TrackerPublisher {
    source: Arc<dyn Tracker>,
    tag: String,
    /// A comment that contains one of them is not written.
    secrets: SettingSecrets,
}

impl TrackerPublisher {
    pub fn new(source: Arc<dyn Tracker>, tag: &str, secrets: SettingSecrets) -> Self {
        Self { source, tag: tag.to_owned(), secrets }
    }

    async fn write<'a>(&'a self, publishing: &'a Publishing) -> Result<WriteBack<'a>, FetchError> {
        if self.secrets.held().await.are_in(&publishing.comment) {
            let message = format!(
                "the finding for item {} contains one of heartbeat's credentials; nothing was \
                 written",
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
            may_be_there: publishing.may_be_there,
        })
    }
}

impl Publisher for TrackerPublisher {
    fn publish(&self, publishing: Publishing) -> BoxFuture<'_, Result<i64, FetchError>> {
        Box::pin(
            async move { Ok(self.source.write_back(&self.write(&publishing).await?).await?.rev) },
        )
    }

    fn validate(&self, publishing: Publishing) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(
            async move { self.source.validate_write_back(&self.write(&publishing).await?).await },
        )
    }
}
