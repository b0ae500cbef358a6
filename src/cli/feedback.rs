//! `heartbeat feedback`: rates a finding.

use clap::Args;

use super::error::CommandError;
use super::exit::Code;
use super::{Context, show};
use crate::clock::Clock;
use crate::model::text::clip;
use crate::model::{Field, ItemKey, MAX_NOTE_LEN, Opinion};
use crate::report::names::Names;
use crate::settings::Config;
use crate::store::{Journal, Store};

#[derive(Debug, Clone, Args)]
pub struct FeedbackArgs {
    /// The item as people name it: 4106, #4106, PARCEL-4, contoso/web#12, or its address
    pub item: String,
    /// Your rating of its newest finding
    pub opinion: Opinion,
    /// Reason, in your own words
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub note: String,
    /// Rate what triage suggested for this field instead: useful or wrong, in this area only
    #[arg(long, value_enum)]
    pub field: Option<Field>,
}

impl Context {
    pub(super) async fn feedback(&self, args: &FeedbackArgs) -> Result<Code, CommandError> {
        let (reading, config) = self.needed_state()?;
        self.learn_names(&reading).await?;
        let opinion = args.opinion;
        if let Some(field) = args.field {
            return self.rate_suggestion((&reading, &config), args, field).await;
        }
        let rating = (args.item.as_str(), opinion, args.note.as_str());
        let key = give(&reading, &config, &self.clock, rating).await?;
        let note = clip(args.note.trim(), MAX_NOTE_LEN);
        let stored = serde_json::json!({ "item": key, "feedback": opinion, "note": note });
        let name = self.name_of(&key);
        self.print(&stored, |_| format!("marked the newest finding of {name} as {opinion}\n"))?;
        Ok(Code::Done)
    }
}

impl Context {
    /// Moves the record of one field in the item's area, up or down.
    async fn rate_suggestion(
        &self,
        (reading, config): (&Store, &Config),
        args: &FeedbackArgs,
        field: Field,
    ) -> Result<Code, CommandError> {
        let key = show::find_key(reading, config, &args.item).await?;
        let item = self.name_of(&key);
        let journal = Journal::open(Store::open(reading.folder())?, self.clock.clone(), None)?;
        let right = args.opinion != Opinion::Wrong;
        let name = field.into_str();
        if !journal.suggestions().rate(key.clone(), field, right).await? {
            return Err(CommandError::NotFound(format!(
                "nothing was suggested for the {name} of {item}; `heartbeat show {}` lists its \
                 suggestions",
                args.item
            )));
        }
        let word = if right { "right" } else { "wrong" };
        let stored = serde_json::json!({ "item": key, "field": field, "right": right });
        self.print(&stored, |_| format!("marked the suggested {name} of {item} as {word}\n"))?;
        Ok(Code::Done)
    }
}

/// Rates the newest finding of an item; returns the item's key.
pub(super) async fn give(
    reading: &Store,
    config: &Config,
    clock: &Clock,
    (item, opinion, note): (&str, Opinion, &str),
) -> Result<ItemKey, CommandError> {
    let key = show::find_key(reading, config, item).await?;
    let store = Store::open(reading.folder())?;
    let journal = Journal::open(store, clock.clone(), None)?;
    let note = clip(note.trim(), MAX_NOTE_LEN);
    if journal.findings().give_feedback(key.clone(), opinion, note).await? {
        return Ok(key);
    }
    Err(CommandError::NotFound(format!(
        "{} has no finding to give feedback on; `heartbeat report --since 7d` lists the findings of \
         a week",
        Names::read(reading).await?.name(&key)
    )))
}
