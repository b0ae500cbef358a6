//! `heartbeat why`: why an item has a finding or has none. The tracker is asked about items that
//! the state does not know.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::error::CommandError;
use super::exit::Code;
use super::{Context, show};
use crate::app::ConfiguredCredential;
use crate::fetch::{
    Connection, FetchError, FetchRequest, InMemory, Source as _, Tracker, connect, filters,
};
use crate::model::{FailureClass, ItemId, ItemKey, WorkItem, name_in};
use crate::report::lines::short_key;
use crate::report::moment::day;
use crate::report::why;
use crate::settings::{Config, Source, SourceKind};

#[derive(Debug, Serialize)]
struct WhyAnswer {
    /// The name that people use.
    item: String,
    why: String,
}

impl Context {
    pub(super) async fn why(&self, item: &str) -> Result<Code, CommandError> {
        let (store, config, _temporary) = self.state_or_empty()?;
        self.learn_names(&store).await?;
        let found = show::find_key(&store, &config, item).await;
        let is_configured = |key: &ItemKey| config.source_of(key).is_some();
        let key = match found {
            Ok(key) if is_configured(&key) => Ok(key),
            // A name that no run has read: only its tracker knows the number.
            other => match self.named(&config, item).await {
                Ok(Some(key)) => Ok(key),
                Ok(None) => other,
                Err(why) => {
                    return self.say_why(WhyAnswer { item: item.to_owned(), why });
                }
            },
        }?;
        let why = match store.items().get(key.clone()).await? {
            Some(row) => {
                let findings = store.findings().of_item(key.clone()).await?;
                let same = store.items().duplicates_of(key.clone()).await?;
                why::known(&row, !findings.is_empty(), &same, |key| self.name_of(key))
            }
            None => match self.ask_tracker(&config, &key).await {
                // A tracker resolves names of projects that the source does not read.
                told if told == NOT_THERE => elsewhere(&config, item).unwrap_or(told),
                told => told,
            },
        };
        self.say_why(WhyAnswer { item: self.name_of(&key), why })
    }

    pub(super) fn name_of(&self, key: &ItemKey) -> String {
        self.names.get().map_or_else(|| short_key(key), |names| names.name(key))
    }

    fn say_why(&self, answer: WhyAnswer) -> Result<Code, CommandError> {
        self.print(&answer, |answer| format!("{}: {}\n", answer.item, answer.why))?;
        Ok(Code::Done)
    }

    /// The key of the item with this name, `PARCEL-4` or `contoso/web#12`, from its tracker; `None` if
    /// the text is no such name. An error is the answer.
    async fn named(&self, config: &Config, item: &str) -> Result<Option<ItemKey>, String> {
        let name = name_in(item).unwrap_or_else(|| item.to_owned());
        let Some((kind, _)) = named_in(&name) else { return Ok(None) };
        let mut refused_by = None;
        for source in config.sources().iter().filter(|source| source.kind == kind) {
            let asked = match self.tracker(config, source) {
                Ok(tracker) => tracker.id_of(name.clone()).await,
                Err(error) => Err(error),
            };
            match asked {
                Ok(Some(id)) => return Ok(Some(ItemKey::new(&source.name, id))),
                Ok(None) => {}
                Err(error) => refused_by = Some(refused(error.class, &error.to_string())),
            }
        }
        // The other trackers may have said nothing because the item is in none of their projects.
        let told = elsewhere(config, item).or(refused_by);
        Err(told.unwrap_or_else(|| NOT_THERE.to_owned()))
    }

    pub(super) fn tracker(&self, config: &Config, source: &Source) -> Result<Tracker, FetchError> {
        let credential = ConfiguredCredential::new(source, config, &self.environment);
        let memory = InMemory::shared();
        connect(source, Connection::new(Arc::new(credential), self.clock.clone(), memory))
    }

    /// About an item that no run has read. Nothing is changed.
    async fn ask_tracker(&self, config: &Config, key: &ItemKey) -> String {
        let Some(id) = key.item_id() else { return "It is not the key of an item.".to_owned() };
        let Some(source) = config.sources().iter().find(|source| source.name == key.source())
        else {
            return format!("No source {:?} is configured.", key.source());
        };
        match self.tracker(config, source) {
            Ok(tracker) => {
                let open = |part: &str| {
                    let part = Source {
                        where_clause: part.to_owned(),
                        saved_query: String::new(),
                        ..filters::without(source)
                    };
                    self.tracker(config, &part)
                };
                asked(&tracker, source, id, self.clock.now(), open).await
            }
            Err(error) => format!("No run has read it, and the tracker cannot be asked: {error}"),
        }
    }
}

const NOT_THERE: &str = "It does not exist in the tracker, or its account may not read it.";

/// Conditions that are tried one by one; each is a request.
const MAX_TRIED: usize = 12;

async fn asked(
    tracker: &Tracker,
    source: &Source,
    id: ItemId,
    now: Timestamp,
    open: impl Fn(&str) -> Result<Tracker, FetchError>,
) -> String {
    let conditions = filters::conditions(source);
    let condition = match (source.saved_query.as_str(), conditions.as_slice()) {
        ("", []) => "all items of its project".to_owned(),
        ("", parts) => parts.join(" and "),
        (query, _) => format!("what the saved query {query} returns"),
    };
    match tracker.still_matching(vec![id]).await {
        Ok(Some(ids)) if ids.contains(&id) => {
            return unread(tracker, source, id, now).await;
        }
        Err(error) => return refused(error.class, &error.to_string()),
        Ok(_) => {}
    }
    // Without conditions: some trackers take an item that no longer meets them for one that is gone.
    let plain = match open("") {
        Ok(plain) => plain,
        Err(error) => return refused(error.class, &error.to_string()),
    };
    match read(&plain, id, now).await {
        Ok(Some(item)) => {
            let finished = if item.finished == Some(true) { ", which is closed" } else { "" };
            let area = item.area_path.as_deref().map(|area| format!(", area {area}"));
            let mut refusing = Vec::new();
            if source.saved_query.is_empty() {
                for part in conditions.iter().take(MAX_TRIED) {
                    let admitted = match open(part) {
                        Ok(tracker) => tracker.still_matching(vec![id]).await,
                        Err(error) => Err(error),
                    };
                    if matches!(admitted, Ok(Some(ids)) if !ids.contains(&id)) {
                        refusing.push(part.as_str());
                    }
                }
            }
            let admits = match refusing.as_slice() {
                [] => format!("the query admits {condition}"),
                parts => format!("it does not meet {}", parts.join(" and ")),
            };
            format!(
                "It is not in the query: its type is {}, its state {}{finished}{}; {admits}",
                item.item_type,
                item.state,
                area.unwrap_or_default()
            )
        }
        Ok(None) => NOT_THERE.to_owned(),
        Err((class, message)) => refused(class, &message),
    }
}

/// The answer for a name of a project or repository that no source reads.
fn elsewhere(config: &Config, item: &str) -> Option<String> {
    let name = name_in(item).unwrap_or_else(|| item.to_owned());
    let (kind, own) = named_in(&name)?;
    let of_kind = config.sources().iter().filter(|source| source.kind == kind);
    let mut read: Vec<&str> =
        of_kind.flat_map(|source| source.project.split(',')).map(str::trim).collect();
    read.dedup();
    let admits = |project: &&str| {
        let owner = project.strip_suffix("/*").unwrap_or(project);
        let all_of_owner = own.split_once('/').is_some_and(|(first, _)| first == owner);
        project.is_empty() || own.eq_ignore_ascii_case(project) || all_of_owner
    };
    (!read.iter().any(admits)).then(|| match read.join(", ") {
        none if none.is_empty() => format!("No source of the configuration reads {own}."),
        projects => format!("No source reads {own}; the configuration has {projects}."),
    })
}

/// The kind of tracker that has such names, and the name's project or repository.
fn named_in(name: &str) -> Option<(SourceKind, &str)> {
    match name.rsplit_once('#') {
        Some((repository, _)) if repository.contains('/') => Some((SourceKind::Github, repository)),
        None if !name.contains('/') => {
            name.rsplit_once('-').map(|(project, _)| (SourceKind::Jira, project))
        }
        _ => None,
    }
}

/// About an item that the query returns and no run has read.
async fn unread(tracker: &Tracker, source: &Source, id: ItemId, now: Timestamp) -> String {
    let first = now.checked_sub(source.look_back).unwrap_or(Timestamp::UNIX_EPOCH);
    match read(tracker, id, now).await {
        Ok(Some(item)) if item.changed_at < first => format!(
            "It matches the query, but it was last changed on {}, and nothing before {} is read \
             (source.look_back). It is read when it changes.",
            day(item.changed_at),
            day(first)
        ),
        _ => "It matches the query, and no run has read it yet: the next run does.".to_owned(),
    }
}

fn refused(class: FailureClass, message: &str) -> String {
    match class {
        FailureClass::Gone => NOT_THERE.to_owned(),
        FailureClass::Auth | FailureClass::Denied => {
            format!("The tracker's account has no permission or no valid credential: {message}")
        }
        _ => format!("No run has read it, and the tracker did not answer: {message}"),
    }
}

/// The item itself, whatever the query says.
async fn read(
    tracker: &Tracker,
    id: ItemId,
    now: Timestamp,
) -> Result<Option<WorkItem>, (FailureClass, String)> {
    let failed = |error: FetchError| (error.class, error.to_string());
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
