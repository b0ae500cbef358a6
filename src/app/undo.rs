//! `suggest undo`: takes back what a run wrote to fields of items.

use serde::Serialize;

use super::error::CommandError;
use super::logging::{self, Purpose};
use super::{Setting, StartOptions, trackers};
use crate::fetch::{FieldChange, FieldWrite};
use crate::model::{ItemKey, RunId};
use crate::store::{Journal, Store};

/// What became of the writes to one item.
#[derive(Debug, Serialize)]
pub struct Undone {
    pub item: ItemKey,
    /// `area Shop\Cart`, one each.
    pub fields: Vec<String>,
    /// Why they were left, if they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// Takes back the writes of a run, each only if the field still has the value that was written. Can
/// be repeated: what is back already stays so.
pub async fn undo(start: &StartOptions, run: &str) -> Result<(RunId, Vec<Undone>), CommandError> {
    let (setting, _) = Setting::for_one_run(start, Purpose::DryRun).await?;
    logging::start(&setting.config, start, Purpose::DryRun)?;
    let store = Store::open(&setting.state)?;
    let journal = Journal::open(store.clone(), setting.clock.clone(), None)?;
    let found = store.runs().with_prefix(run.to_lowercase()).await?;
    let run = found.ok_or_else(|| {
        CommandError::NotFound(format!("there is no run {run}; `heartbeat runs` lists them"))
    })?;
    let trackers = trackers::trackers(&setting, &journal);
    let mut undone = Vec::new();
    for message in store.outbox().fields_written_in(run.run).await? {
        let Some(item) = message.item.clone() else { continue };
        let Ok(write) = serde_json::from_str::<FieldWrite>(&message.body) else { continue };
        let name = |change: &FieldChange| format!("{} {}", change.field.word(), change.value);
        let fields = write.changes.iter().map(name).collect();
        let changes = write.changes.iter().map(FieldChange::reversed).collect();
        let tracker = trackers.iter().find(|tracker| tracker.name == item.source());
        let left = match tracker.and_then(|tracker| tracker.writer.as_ref()) {
            None => {
                Some("its source is not configured, or writes nothing (suggest.write)".to_owned())
            }
            Some(writer) => match writer.set_fields(FieldWrite { changes, ..write }).await {
                Ok(rev) => {
                    journal.suggestions().taken_back(item.clone(), rev).await?;
                    None
                }
                Err(error) => Some(error.message),
            },
        };
        undone.push(Undone { item, fields, left });
    }
    Ok((run.run, undone))
}
