//! The names that a tracker has, which `heartbeat init` shows where it asks for them: of the types,
//! states, areas and tags of items that changed lately, the most frequent first.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::DEFAULT_TOML;
use crate::fetch::{FetchError, FetchRequest, Source as _, Tracker};
use crate::model::WorkItem;
use crate::settings::Config;

use super::init_sources::NamedSource;

/// Items that are read, and for how long: a person is waiting.
const MOST_ITEMS: usize = 500;
const WITHIN: Duration = Duration::from_secs(20);
/// A quiet project has names too.
const LOOK_BACK: &str = "365d";
/// Names of one kind that are shown, and characters of one.
const MOST_NAMES: usize = 12;
const LONGEST: usize = 60;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrackerNames {
    pub items: usize,
    types: BTreeMap<String, usize>,
    states: BTreeMap<String, usize>,
    areas: BTreeMap<String, usize>,
    tags: BTreeMap<String, usize>,
}

impl TrackerNames {
    /// Reads some items; what was read when the time is up counts.
    pub async fn of(tracker: &Tracker) -> Result<Self, FetchError> {
        let mut names = Self::default();
        let read = async {
            let everything = FetchRequest { changed_since: None, also: Vec::new() };
            let mut pages = tracker.open(everything).await?;
            while let Some(page) = pages.next().await? {
                page.items.iter().for_each(|item| names.add(item));
                if names.items >= MOST_ITEMS {
                    break;
                }
            }
            Ok::<(), FetchError>(())
        };
        tokio::time::timeout(WITHIN, read).await.unwrap_or(Ok(()))?;
        Ok(names)
    }

    fn add(&mut self, item: &WorkItem) {
        self.items += 1;
        count(&mut self.types, &item.item_type);
        count(&mut self.states, &item.state);
        item.areas().for_each(|area| count(&mut self.areas, area));
        item.tags.iter().for_each(|tag| count(&mut self.tags, tag));
    }

    pub fn types(&self) -> String {
        shown(&self.types)
    }

    pub fn states(&self) -> String {
        shown(&self.states)
    }

    pub fn areas(&self) -> String {
        shown(&self.areas)
    }

    pub fn tags(&self) -> String {
        shown(&self.tags)
    }
}

fn count(names: &mut BTreeMap<String, usize>, name: &str) {
    let name: String = name.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
    if !name.is_empty() {
        *names.entry(name).or_default() += 1;
    }
}

/// `Bug 12, Task 3`; empty if there is none.
fn shown(names: &BTreeMap<String, usize>) -> String {
    let mut all: Vec<_> = names.iter().collect();
    all.sort_by_key(|(_, items)| std::cmp::Reverse(**items));
    let more = all.len().saturating_sub(MOST_NAMES);
    let mut text: Vec<String> =
        all.iter().take(MOST_NAMES).map(|(name, items)| format!("{name} {items}")).collect();
    text.extend((more > 0).then(|| format!("and {more} more")));
    text.join(", ")
}

/// The configuration that reads all of a source, or all of its saved query.
pub(super) fn config_of(source: &NamedSource) -> Option<Config> {
    let mut table: toml::Table = DEFAULT_TOML.parse().ok()?;
    let section = table.get_mut("source")?.as_table_mut()?;
    for (key, value) in source.keys() {
        section.insert(key.to_owned(), value.into());
    }
    section.insert("where".to_owned(), "".into());
    section.insert("look_back".to_owned(), LOOK_BACK.into());
    table.try_into().ok()
}
