//! `heartbeat retry`: requeues one item, or all parked or failed items, and closes circuit
//! breakers.

use super::args::RetryArgs;
use super::confirm::confirm;
use super::error::CommandError;
use super::exit::Code;
use super::selection::Selection;
use super::{Context, show};
use crate::model::Phase;
use crate::store::{ItemFilter, Journal, RunLock, Store};
use crate::triage;

fn is_number(text: &str) -> bool {
    text.trim_start_matches('#').parse::<i64>().is_ok()
}

impl Context {
    pub(super) async fn retry(&self, args: &RetryArgs) -> Result<Code, CommandError> {
        // Earlier versions accepted `retry --source 123` for an item.
        let mut item = args.item.clone();
        if let Some(name) = &args.source {
            let name = name.as_ref().filter(|name| item.is_some() || !is_number(name));
            if name.is_none() {
                item = item.or_else(|| args.source.clone().flatten());
            }
            self.retry_source(name.map(String::as_str)).await?;
        }
        if args.provider {
            self.retry_provider().await?;
        }
        match &item {
            Some(item) => self.retry_item(item, &args.terms).await,
            None if args.parked || args.failed || args.gone => self.retry_many(args).await,
            None => Ok(Code::Done),
        }
    }

    async fn retry_item(&self, item: &str, terms: &[String]) -> Result<Code, CommandError> {
        let (reading, config) = self.needed_state()?;
        self.learn_names(&reading).await?;
        let key = show::find_key(&reading, &config, item).await?;
        let store = Store::open(reading.folder())?;
        let journal = Journal::open(store, self.clock.clone(), None)?;
        let terms = triage::usable_terms(terms);
        if !journal.items().requeue_with_terms(key.clone(), terms.clone()).await? {
            let held = RunLock::look(reading.folder(), &self.clock)?.is_some();
            let why = show::why_not_requeued(&reading, &key, held).await?;
            let why = self.names.get().map_or(why.clone(), |names| names.in_text(why));
            return Err(CommandError::NotFound(why));
        }
        let (name, terms_named) = (self.name_of(&key), terms.join(", "));
        let queued = serde_json::json!({ "item": key, "queued": true, "terms": terms });
        self.print(&queued, |_| match terms.is_empty() {
            true => format!("{name} is queued again with a fresh attempt count\n"),
            false => format!("{name} is queued for analysis with the search terms {terms_named}\n"),
        })?;
        Ok(Code::Done)
    }

    async fn retry_many(&self, args: &RetryArgs) -> Result<Code, CommandError> {
        let (reading, _) = self.needed_state()?;
        let open = match args.gone {
            true => {
                let gone = ItemFilter { phase: Some(Phase::Vanished), ..ItemFilter::default() };
                reading.items().matching(gone, u32::MAX).await?
            }
            false => reading.items().open(u32::MAX).await?.first,
        };
        let selection = Selection::new(args, &open);
        let keys = selection.keys();
        if keys.is_empty() {
            let nothing = serde_json::json!({ "queued": 0 });
            self.print(&nothing, |_| selection.nothing_matches())?;
            return Ok(Code::Done);
        }
        if !confirm(&selection.question(), args.yes)? {
            return Ok(Code::Done);
        }
        let store = Store::open(reading.folder())?;
        let journal = Journal::open(store, self.clock.clone(), None)?;
        let queued = journal.items().requeue_all(keys).await?;
        self.print(&serde_json::json!({ "queued": queued }), |_| {
            let unknown = selection.unknown_areas().unwrap_or_default();
            format!("requeued {queued} item(s) with a fresh attempt count\n{unknown}")
        })?;
        Ok(Code::Done)
    }
}
