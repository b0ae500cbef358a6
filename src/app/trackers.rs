//! The configured sources as trackers: to read from, behind the circuit breaker, and to write
//! findings to as comments.

use std::sync::Arc;

use super::Setting;
use super::secrets::SettingSecrets;
use crate::fetch::{self, Connection, Credential, FetchError, FieldWrite, WriteBack, connect};
use crate::model::{BoxFuture, FailureClass, Format};
use crate::ports::HeldCredentials as _;
use crate::run::{FieldWriter, Publisher, Publishing, Tracker};
use crate::settings;
use crate::store::Journal;

/// One tracker per configured source. An unusable one reports an error when it is read, and does
/// not stop the others.
pub(super) fn trackers(setting: &Setting, journal: &Journal) -> Arc<[Tracker]> {
    let sources = setting.config.sources().iter().zip(&setting.credentials);
    let one = |(source, credential): (&settings::Source, &Arc<dyn Credential>)| {
        build(setting, source, credential, journal).unwrap_or_else(|error| {
            let unusable = Arc::new(fetch::Tracker::unusable(error));
            Tracker { name: source.name.clone(), source: unusable, publisher: None, writer: None }
        })
    };
    sources.map(one).collect()
}

/// The tracker behind its breaker, and its publisher if write-back is configured.
fn build(
    setting: &Setting,
    source: &settings::Source,
    credential: &Arc<dyn Credential>,
    journal: &Journal,
) -> Result<Tracker, FetchError> {
    let (clock, memory) = (setting.clock.clone(), Arc::new(journal.clone()));
    let connection = Connection {
        turns: setting.turns.clone(),
        ..Connection::new(Arc::clone(credential), clock.clone(), memory)
    };
    let tracker = connect(source, connection)?;
    let publisher = setting.config.may_write_back(source).then(|| {
        Arc::new(TrackerPublisher {
            tracker: tracker.clone(),
            tag: source.write_back_tag.clone(),
            secrets: SettingSecrets::new(setting),
        }) as Arc<dyn Publisher>
    });
    let writes = !setting.config.suggest.write.is_empty();
    let writer = writes.then(|| {
        let secrets = SettingSecrets::new(setting);
        Arc::new(TrackerWriter { tracker: tracker.clone(), secrets }) as Arc<dyn FieldWriter>
    });
    let source_of_runs = tracker.guarded(clock, Arc::new(journal.clone()));
    Ok(Tracker { name: source.name.clone(), source: Arc::new(source_of_runs), publisher, writer })
}

/// Writes values to fields after a check for secrets.
struct TrackerWriter {
    tracker: fetch::Tracker,
    secrets: SettingSecrets,
}

impl FieldWriter for TrackerWriter {
    fn set_fields(&self, write: FieldWrite) -> BoxFuture<'_, Result<i64, FetchError>> {
        Box::pin(async move {
            let held = self.secrets.held_now().await;
            if write.changes.iter().any(|change| held.are_in(&change.value)) {
                let message = format!(
                    "a value for item {} contains one of heartbeat's credentials; nothing was written",
                    write.id
                );
                return Err(FetchError::new(FailureClass::Gone, message));
            }
            Ok(self.tracker.set_fields(&write).await?.rev)
        })
    }
}

/// Writes to the tracker after a check for secrets.
struct TrackerPublisher {
    tracker: fetch::Tracker,
    tag: String,
    /// A comment that contains one of them is not written.
    secrets: SettingSecrets,
}

impl TrackerPublisher {
    async fn write<'a>(&'a self, publishing: &'a Publishing) -> Result<WriteBack<'a>, FetchError> {
        if self.secrets.held_now().await.are_in(&publishing.comment) {
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
            async move { Ok(self.tracker.write_back(&self.write(&publishing).await?).await?.rev) },
        )
    }

    fn validate(&self, publishing: Publishing) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(
            async move { self.tracker.validate_write_back(&self.write(&publishing).await?).await },
        )
    }
}
