//! `heartbeat why`: why an item has a finding or has none. The tracker is asked about items that
//! the state does not know.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::error::CommandError;
use super::exit::Code;
use super::{Context, show};
use crate::app::ConfiguredCredential;
use crate::fetch::{Connection, FetchRequest, InMemory, Tracker, connect};
use crate::model::{FailureClass, ItemId, ItemKey, WorkItem};
use crate::report::why;
use crate::settings::{Config, Source};

#[derive(Debug, Serialize)]
struct Answer {
    item: ItemKey,
    why: String,
}

impl Context {
    pub(super) async fn why(&self, item: &str) -> Result<Code, CommandError> {
        let (store, config) = self.needed_state()?;
        self.learn_names(&store).await?;
        let key = show::find_key(&store, &config, item).await?;
        let why = match store.items().get(key.clone()).await? {
            Some(row) => {
                let findings = store.findings().of_item(key.clone()).await?;
                why::known(&row, !findings.is_empty())
            }
            None => self.ask_tracker(&config, &key).await,
        };
        self.print(&Answer { item: key.clone(), why }, |answer| {
            let name = crate::report::lines::short_key(&answer.item);
            format!("{name}: {}\n", answer.why)
        })?;
        Ok(Code::Done)
    }

    /// About an item that no run has read. Nothing is changed.
    async fn ask_tracker(&self, config: &Config, key: &ItemKey) -> String {
        let Some(id) = key.item_id() else { return "It is not the key of an item.".to_owned() };
        let Some(source) = config.sources().iter().find(|source| source.name == key.source())
        else {
            return format!("No source {:?} is configured.", key.source());
        };
        let credential = ConfiguredCredential::new(source, config, &self.environment);
        let memory = InMemory::shared();
        let connection = Connection::new(Arc::new(credential), self.clock.clone(), memory);
        match connect(source, connection) {
            Ok(tracker) => asked(&*tracker, source, id, self.clock.now()).await,
            Err(error) => format!("No run has read it, and the tracker cannot be asked: {error}"),
        }
    }
}

async fn asked(tracker: &dyn Tracker, source: &Source, id: ItemId, now: Timestamp) -> String {
    let condition = match (source.saved_query.as_str(), source.where_clause.as_str()) {
        ("", "") => "its project".to_owned(),
        ("", clause) => clause.to_owned(),
        (query, _) => format!("the saved query {query}"),
    };
    match tracker.still_matching(vec![id]).await {
        Ok(Some(ids)) if ids.contains(&id) => {
            return "It matches the query, and no run has read it yet: the next run does, if it \
                    changed within source.look_back."
                .to_owned();
        }
        Err(error) => return refused(error.class, &error.to_string()),
        Ok(_) => {}
    }
    match read(tracker, id, now).await {
        Ok(Some(item)) => {
            let finished = if item.finished == Some(true) { ", which is closed" } else { "" };
            let area = item.area_path.as_deref().map(|area| format!(", area {area}"));
            format!(
                "It is not in the query: its type is {}, its state {}{finished}{}; the query \
                 admits: {condition}",
                item.item_type,
                item.state,
                area.unwrap_or_default()
            )
        }
        Ok(None) => "It does not exist in the tracker, or its account may not read it.".to_owned(),
        Err((class, message)) => refused(class, &message),
    }
}

fn refused(class: FailureClass, message: &str) -> String {
    match class {
        FailureClass::Gone => {
            "It does not exist in the tracker, or its account may not read it.".to_owned()
        }
        FailureClass::Auth | FailureClass::Denied => {
            format!("The tracker's account has no permission: {message}")
        }
        _ => format!("No run has read it, and the tracker did not answer: {message}"),
    }
}

/// The item itself, whatever the query says.
async fn read(
    tracker: &dyn Tracker,
    id: ItemId,
    now: Timestamp,
) -> Result<Option<WorkItem>, (FailureClass, String)> {
    let failed = |error: crate::fetch::FetchError| (error.class, error.to_string());
    // Almost nothing else changed since now.
    let request = FetchRequest { changed_since: Some(now), also: vec![id] };
    let mut pages = tracker.open(request).await.map_err(failed)?;
    while let Some(page) = pages.next().await.map_err(failed)? {
        if let Some(item) = page.items.into_iter().find(|item| item.id == id) {
            return Ok(Some(item));
        }
        if page.vanished.contains(&id) {
            return Ok(None);
        }
    }
    Ok(None)
}
