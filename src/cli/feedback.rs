//! `heartbeat feedback`: rates a finding.

use clap::{Args, ValueEnum};

use super::error::CommandError;
use super::exit::Code;
use super::{Context, show};
use crate::model::text::clip;
use crate::model::{LONGEST_NOTE, Opinion};
use crate::store::{Journal, Store};

#[derive(Debug, Clone, Args)]
pub struct FeedbackArgs {
    /// Number of the item, or its key such as ado/123
    pub item: String,
    /// Your rating of its newest finding
    pub opinion: OpinionWord,
    /// Reason, in your own words
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub note: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OpinionWord {
    /// It helped
    Useful,
    /// It names the wrong cause or the wrong place
    Wrong,
    /// The item is done; nothing is left to do
    Done,
}

impl From<OpinionWord> for Opinion {
    fn from(word: OpinionWord) -> Self {
        match word {
            OpinionWord::Useful => Self::Useful,
            OpinionWord::Wrong => Self::Wrong,
            OpinionWord::Done => Self::Done,
        }
    }
}

impl Context {
    pub(super) async fn feedback(&self, args: &FeedbackArgs) -> Result<Code, CommandError> {
        let (reading, config) = self.needed_state()?;
        let key = show::find_key(&reading, &config, &args.item).await?;
        let store = Store::open(reading.folder())?;
        let journal = Journal::open(store, self.clock.clone(), None)?;
        let opinion = Opinion::from(args.opinion);
        let note = clip(args.note.trim(), LONGEST_NOTE);
        if !journal.findings().give_feedback(key.clone(), opinion, note.clone()).await? {
            return Err(CommandError::NotFound(format!(
                "{key} has no finding to give feedback on; `heartbeat report --since 7d` lists \
                 the findings of a week"
            )));
        }
        let stored = serde_json::json!({ "item": key, "feedback": opinion, "note": note });
        self.print(&stored, |_| format!("marked the newest finding of {key} as {opinion}\n"))?;
        Ok(Code::Done)
    }
}
