//! `heartbeat items`: the known work items by state and reason, with triage's explanation.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};

use super::error::CommandError;
use super::exit::Code;
use super::{Context, status};
use crate::model::Phase;
use crate::model::text::{clip, in_words};
use crate::report::lines::short_key;
use crate::store::{ItemFilter, ItemRow};

#[derive(Debug, Clone, Args)]
pub struct ItemsArgs {
    /// Only items in this state
    #[arg(long, value_enum)]
    pub state: Option<StateWord>,
    /// Only items with this reason, such as max_deep_per_run or attempts_exhausted
    #[arg(long, value_name = "REASON")]
    pub reason: Option<String>,
    /// Number of items to show
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N")]
    pub limit: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StateWord {
    /// Queued
    Pending,
    /// A session for it is running
    Claimed,
    /// Finished, with a finding or by triage
    Done,
    /// Finished by triage without deep analysis
    Settled,
    /// Failed; will be retried
    Waiting,
    /// Needs a person: not retried until it changes or is requeued
    Parked,
    /// No longer in the source
    Vanished,
}

impl StateWord {
    const fn phase(self) -> Phase {
        match self {
            Self::Pending => Phase::Pending,
            Self::Claimed => Phase::Claimed,
            Self::Done | Self::Settled => Phase::Done,
            Self::Waiting => Phase::Waiting,
            Self::Parked => Phase::Parked,
            Self::Vanished => Phase::Vanished,
        }
    }
}

impl Context {
    pub(super) async fn items(&self, args: &ItemsArgs) -> Result<Code, CommandError> {
        let filter = ItemFilter {
            phase: args.state.map(StateWord::phase),
            reason: args.reason.as_deref().map(|reason| reason.replace(['-', ' '], "_")),
            settled_by_triage: args.state == Some(StateWord::Settled),
        };
        self.list(async |store, _| {
            let items = store.items().matching(filter, args.limit).await?;
            let now = self.clock.now();
            self.print(&items, |items| match items.is_empty() {
                true => "no matching items\n".to_owned(),
                false => items.iter().map(|item| describe(item, now)).collect(),
            })
        })
        .await
    }
}

fn describe(item: &ItemRow, now: jiff::Timestamp) -> String {
    let mut text = format!("{:<8} {}\n", in_words(item.phase), status::describe_item(item, now));
    if let Some(verdict) = &item.verdict {
        let judged = if verdict.needs_deep_analysis { "deep analysis" } else { "settled" };
        let reason = clip(&verdict.reason, 300);
        let width = short_key(&item.key).len();
        // Writing to a string cannot fail.
        let _: std::fmt::Result =
            writeln!(text, "{:<8} {:width$} triage: {judged}: {reason}", "", "");
    }
    text
}
