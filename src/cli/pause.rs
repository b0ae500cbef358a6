//! `heartbeat pause` and `heartbeat resume`: turn scheduled runs off and on, whichever process
//! follows the schedule.

use super::Context;
use super::error::CommandError;
use super::exit::Code;
use crate::model::MAX_NOTE_LEN;
use crate::model::text::clip;
use crate::report::moment::moment;
use crate::store::{Journal, Store};

impl Context {
    pub(super) async fn pause(&self, note: &str) -> Result<Code, CommandError> {
        let journal = self.journal_to_change()?;
        let new = journal.ticks().pause(clip(note.trim(), MAX_NOTE_LEN)).await?;
        let pause = journal.ticks().pause_state().await?;
        let now = self.clock.now();
        self.print(&serde_json::json!({ "paused": pause, "changed": new }), |_| {
            let since = pause.as_ref().map(|pause| moment(pause.since, now)).unwrap_or_default();
            match new {
                true => {
                    "The schedule is paused: no scheduled run starts until `heartbeat resume`. \
                         `heartbeat --once` and the dashboard's Run now still work.\n"
                        .to_owned()
                }
                false => format!("The schedule has been paused since {since}.\n"),
            }
        })?;
        Ok(Code::Done)
    }

    pub(super) async fn resume(&self) -> Result<Code, CommandError> {
        let changed = self.journal_to_change()?.ticks().resume().await?;
        self.print(
            &serde_json::json!({ "paused": null, "changed": changed }),
            |_| match changed {
                true => {
                    "The schedule is active again. Runs that were due during the pause are not \
                     started later.\n"
                        .to_owned()
                }
                false => "The schedule was not paused.\n".to_owned(),
            },
        )?;
        Ok(Code::Done)
    }

    /// Works before the first run too: a service may be paused before it starts.
    fn journal_to_change(&self) -> Result<Journal, CommandError> {
        let (config, _) = self.load_for_reading()?;
        let store = Store::open(&crate::app::state_folder(&config, &self.environment)?)?;
        Ok(Journal::open(store, self.clock.clone(), None)?)
    }
}
