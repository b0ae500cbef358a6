//! The initial items: the backlog of a small parcel-tracking product, and as many variations of it
//! as requested.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::tracker_data::{AdoData, AdoNote, PROJECT, Person, Saved, Stored, Values};
use crate::simulate::SeededRng;

static ITEMS: &str = include_str!("items.json");

/// Number of the first item.
pub const FIRST_ID: i64 = 4101;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seed {
    people: BTreeMap<String, SeedPerson>,
    items: Vec<SeedItem>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedPerson {
    name: String,
    mail: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedItem {
    #[serde(rename = "type")]
    item_type: String,
    title: String,
    state: String,
    #[serde(default)]
    priority: Option<i64>,
    #[serde(default)]
    severity: Option<String>,
    area: String,
    iteration: String,
    #[serde(default)]
    tags: String,
    #[serde(default)]
    assigned_to: Option<String>,
    created_by: String,
    /// Relative to the simulator's start.
    created_hours_ago: i64,
    /// Relative to the simulator's start.
    changed_hours_ago: i64,
    /// Position of its parent in the list, from 1.
    #[serde(default)]
    parent: Option<i64>,
    /// Keyed by reference name.
    texts: BTreeMap<String, SeedText>,
    /// Names of the texts that are Markdown.
    #[serde(default)]
    markdown: Vec<String>,
    #[serde(default)]
    comments: Vec<SeedComment>,
}

/// A text on one line or on several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum SeedText {
    One(String),
    Lines(Vec<String>),
}

impl SeedText {
    fn joined(&self) -> String {
        match self {
            Self::One(text) => text.clone(),
            Self::Lines(lines) => lines.join("\n"),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedComment {
    by: String,
    hours_ago: i64,
    text: String,
}

/// Fills an empty board; the first 24 items are always the same.
pub fn fill(board: &mut AdoData, count: usize, seed: u64) -> Result<(), serde_json::Error> {
    let data: Seed = serde_json::from_str(ITEMS)?;
    let people: BTreeMap<&str, Arc<Person>> = data
        .people
        .iter()
        .map(|(key, person)| {
            let person = Person { name: person.name.clone(), mail: person.mail.clone() };
            (key.as_str(), Arc::new(person))
        })
        .collect();
    let now = board.now();
    let templates: Vec<ItemTemplate> =
        data.items.iter().map(|item| ItemTemplate::new(item, &people, now)).collect();
    for (id, template) in (FIRST_ID..).zip(templates.iter().take(count)) {
        template.add(board, id, template.changed, None);
    }
    let mut rng = SeededRng::new(seed);
    let generated = count.saturating_sub(templates.len());
    for number in 0..generated {
        let template = &templates[rng.roll(templates.len())];
        let id = FIRST_ID + i64::try_from(templates.len() + number).unwrap_or(0);
        // Spread over the last twenty days, several in the same second.
        let seconds = i64::try_from(rng.roll(20 * 86_400)).unwrap_or(0);
        let changed = now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(now);
        template.add(board, id, changed, Some(number));
    }
    board.saved = saved_queries();
    Ok(())
}

fn saved_queries() -> Vec<Saved> {
    let saved = |id: &str, path: &str, kind, condition: &str| Saved {
        id: id.to_owned(),
        path: path.to_owned(),
        kind,
        wiql: format!(
            "SELECT [System.Id], [System.Title] FROM WorkItems WHERE [System.TeamProject] = \
             @project AND {condition} ORDER BY [Microsoft.VSTS.Common.Priority], [System.Id]"
        ),
    };
    let open = "[System.State] <> 'Closed'";
    vec![
        saved(
            "253d8eb4-0bd1-4c92-adc9-d305c8b99b92",
            "Shared Queries/Open bugs",
            "flat",
            "[System.WorkItemType] = 'Bug' AND [System.State] <> 'Closed'",
        ),
        saved("253d8eb4-0bd1-4c92-adc9-d305c8b99b93", "Shared Queries/Backlog", "tree", open),
        saved("253d8eb4-0bd1-4c92-adc9-d305c8b99b94", "Shared Queries/Linked", "oneHop", open),
    ]
}

/// An item of the list, prepared to be added many times cheaply.
struct ItemTemplate {
    values: Values,
    title: String,
    formats: Arc<BTreeMap<String, String>>,
    created: Timestamp,
    changed: Timestamp,
    comments: Vec<AdoNote>,
}

impl ItemTemplate {
    fn new(item: &SeedItem, people: &BTreeMap<&str, Arc<Person>>, now: Timestamp) -> Self {
        let person = |key: &String| people.get(key.as_str()).cloned();
        let before = |hours: i64| now.checked_sub(SignedDuration::from_hours(hours)).unwrap_or(now);
        let mut values = Values::new();
        let mut set = |name: &str, value: Option<Stored>| {
            value.and_then(|value| values.insert(name.into(), value));
        };
        let text = |text: &str| Some(Stored::text(text)).filter(|_| !text.is_empty());
        set("System.WorkItemType", text(&item.item_type));
        set("System.State", text(&item.state));
        set("System.AreaPath", text(&format!("{PROJECT}\\{}", item.area)));
        set("System.IterationPath", text(&format!("{PROJECT}\\{}", item.iteration)));
        set("System.Tags", text(&item.tags));
        set("Microsoft.VSTS.Common.Priority", item.priority.map(Stored::Number));
        set("Microsoft.VSTS.Common.Severity", item.severity.as_deref().and_then(text));
        let parent = item.parent.map(|position| Stored::Number(FIRST_ID - 1 + position));
        set("System.Parent", parent);
        set("System.AssignedTo", item.assigned_to.as_ref().and_then(person).map(Stored::Person));
        set("System.CreatedBy", person(&item.created_by).map(Stored::Person));
        set("System.ChangedBy", person(&item.created_by).map(Stored::Person));
        for (name, value) in &item.texts {
            set(name, text(&value.joined()));
        }
        let markdown = item.markdown.iter().map(|name| (name.clone(), "markdown".to_owned()));
        let comments = item.comments.iter().zip(1..).filter_map(|(comment, id)| {
            let (at, text) = (before(comment.hours_ago), comment.text.clone());
            Some(AdoNote { id, by: person(&comment.by)?, at, text, format: "html" })
        });
        Self {
            values,
            title: item.title.clone(),
            formats: Arc::new(markdown.collect()),
            created: before(item.created_hours_ago),
            changed: before(item.changed_hours_ago),
            comments: comments.collect(),
        }
    }

    fn add(&self, board: &mut AdoData, id: i64, changed: Timestamp, number: Option<usize>) {
        let mut values = self.values.clone();
        let title = match number {
            Some(number) => format!("{} (case {number})", self.title),
            None => self.title.clone(),
        };
        values.insert("System.Title".into(), Stored::text(&title));
        values.insert("System.CreatedDate".into(), Stored::Date(self.created.min(changed)));
        let count = i64::try_from(self.comments.len()).unwrap_or(0);
        let comments = self.comments.clone();
        board.add_formatted(id, changed, values, Arc::clone(&self.formats));
        if let Some(item) = board.items.get_mut(&id)
            && count > 0
        {
            item.comments = comments;
            if let Some(revision) = item.revisions.last_mut() {
                let values = Arc::make_mut(&mut revision.values);
                values.insert("System.CommentCount".into(), Stored::Number(count));
            }
        }
    }
}
