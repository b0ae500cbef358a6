//! The simulated tracker's data: items with all their revisions, comments and saved queries.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::linked::AdoLinks;
use crate::clock::Clock;

/// The only project.
pub const PROJECT: &str = "Parcel";
pub const PROJECT_ID: &str = "6f1c2a52-0f1e-4a37-9a55-3b0d5f8f2c11";

/// The relation type of an item's parent.
pub const PARENT: &str = "System.LinkTypes.Hierarchy-Reverse";

/// Shared by all items that refer to the person.
#[derive(Debug, PartialEq, Eq)]
pub struct Person {
    /// Display name.
    pub name: String,
    /// Unique name.
    pub mail: String,
}

/// The value of a field. Texts are shared, to save memory.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    Text(Arc<str>),
    Number(i64),
    Date(Timestamp),
    Person(Arc<Person>),
}

impl Stored {
    pub fn text(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl Serialize for Stored {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(number) => serializer.serialize_i64(*number),
            // Trailing zeros of a second's fraction are cut, as in the service.
            Self::Date(at) => serializer.collect_str(at),
            Self::Person(person) => identity(person).serialize(serializer),
        }
    }
}

/// An identity in the service's JSON.
pub fn identity(person: &Person) -> Value {
    let id = format!("{:08x}-1111-4222-8333-444455556666", person.mail.len() * 7919);
    json!({
        "displayName": person.name,
        "url": format!("https://spsprodweu1.vssps.visualstudio.com/_apis/Identities/{id}"),
        "_links": { "avatar": { "href": format!("https://dev.azure.com/_apis/GraphProfile/{id}") } },
        "id": id,
        "uniqueName": person.mail,
        "imageUrl": format!("https://dev.azure.com/_apis/GraphProfile/MemberAvatars/{id}"),
        "descriptor": format!("aad.{id}"),
    })
}

/// Keyed by reference name.
pub type Values = BTreeMap<Arc<str>, Stored>;

#[derive(Debug, Clone)]
pub struct Revision {
    /// From 1.
    pub rev: i64,
    pub changed: Timestamp,
    /// All values at that time.
    pub values: Arc<Values>,
    /// The long texts that are Markdown.
    pub formats: Arc<BTreeMap<String, String>>,
}

#[derive(Debug, Clone)]
pub struct AdoNote {
    pub id: i64,
    pub by: Arc<Person>,
    pub at: Timestamp,
    pub text: String,
    /// `html` or `markdown`.
    pub format: &'static str,
}

/// A work item with its history.
#[derive(Debug, Clone)]
pub struct StoredItem {
    pub id: i64,
    /// Oldest first; never empty.
    pub revisions: Vec<Revision>,
    pub comments: Vec<AdoNote>,
    /// Time of its move to the recycle bin.
    pub deleted: Option<Timestamp>,
    /// Links do not create revisions.
    pub links: Vec<Value>,
}

impl StoredItem {
    /// The newest revision, or the one that was current at `as_of`.
    pub fn at(&self, as_of: Option<Timestamp>) -> Option<&Revision> {
        match as_of {
            None => self.revisions.last(),
            Some(at) => self.revisions.iter().rev().find(|revision| revision.changed <= at),
        }
    }

    /// Number of links that this field counts; `None` for other fields.
    pub fn link_count(&self, field: &str) -> Option<usize> {
        let is_kind: fn(&str) -> bool = match field.to_ascii_lowercase().as_str() {
            "system.relatedlinkcount" => |rel| rel.starts_with("System.LinkTypes."),
            "system.externallinkcount" => |rel| rel == "ArtifactLink",
            "system.hyperlinkcount" => |rel| rel == "Hyperlink",
            "system.attachedfilecount" => |rel| rel == "AttachedFile",
            _ => return None,
        };
        let kinds = self.links.iter().filter_map(|link| link["rel"].as_str());
        // The parent is also a link, stored as a field.
        let parent = is_kind(PARENT) && self.at(None)?.values.contains_key("System.Parent");
        Some(kinds.filter(|rel| is_kind(rel)).count() + usize::from(parent))
    }
}

#[derive(Debug, Clone)]
pub struct Saved {
    pub id: String,
    /// Such as `Shared Queries/Open bugs`.
    pub path: String,
    /// `flat`, `tree` or `oneHop`.
    pub kind: &'static str,
    pub wiql: String,
}

#[derive(Debug)]
pub struct AdoData {
    /// By number, including deleted ones.
    pub items: BTreeMap<i64, StoredItem>,
    pub saved: Vec<Saved>,
    /// Fields of the collection: name and type.
    pub fields: BTreeMap<String, &'static str>,
    /// Files, commits and pull requests.
    pub linked: AdoLinks,
    clock: Clock,
    me: Arc<Person>,
    next_comment: i64,
}

/// New values; `None` removes a value.
pub type ItemChange = Vec<(String, Option<Stored>)>;

impl AdoData {
    pub fn new(clock: Clock) -> Self {
        let me =
            Person { name: "Parcel Build Service".into(), mail: "build@parcel.example".into() };
        Self {
            items: BTreeMap::new(),
            saved: Vec::new(),
            fields: known_fields(),
            linked: AdoLinks::default(),
            clock,
            me: Arc::new(me),
            next_comment: 9001,
        }
    }

    /// In milliseconds, like the tracker.
    pub fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }

    /// Adds an item with its first revision.
    pub fn add(&mut self, id: i64, changed: Timestamp, values: Values) {
        let formats = Arc::new(BTreeMap::new());
        self.add_formatted(id, changed, values, formats);
    }

    /// Adds an item with some texts in Markdown.
    pub fn add_formatted(
        &mut self,
        id: i64,
        changed: Timestamp,
        mut values: Values,
        formats: Arc<BTreeMap<String, String>>,
    ) {
        values.insert("System.Id".into(), Stored::Number(id));
        values.entry("System.TeamProject".into()).or_insert_with(|| Stored::text(PROJECT));
        values.entry("System.CreatedDate".into()).or_insert(Stored::Date(changed));
        let item =
            StoredItem { id, revisions: vec![], comments: vec![], deleted: None, links: vec![] };
        self.items.insert(id, item);
        self.push(id, changed, values, formats);
    }

    fn push(
        &mut self,
        id: i64,
        changed: Timestamp,
        mut values: Values,
        formats: Arc<BTreeMap<String, String>>,
    ) -> i64 {
        let Some(item) = self.items.get_mut(&id) else { return 0 };
        let rev = item.revisions.last().map_or(1, |last| last.rev + 1);
        values.insert("System.Rev".into(), Stored::Number(rev));
        values.insert("System.ChangedDate".into(), Stored::Date(changed));
        let comments = i64::try_from(item.comments.len()).unwrap_or(i64::MAX);
        values.insert("System.CommentCount".into(), Stored::Number(comments));
        item.revisions.push(Revision { rev, changed, values: Arc::new(values), formats });
        rev
    }

    /// Creates a revision and returns its number; `None` if there is no such item.
    pub fn edit(&mut self, id: i64, change: ItemChange) -> Option<i64> {
        let now = self.now();
        self.edit_at(id, now, change)
    }

    /// The same with a given date, as a bulk edit does for many items.
    pub fn edit_at(&mut self, id: i64, at: Timestamp, change: ItemChange) -> Option<i64> {
        let item = self.items.get(&id).filter(|item| item.deleted.is_none())?;
        let last = item.revisions.last()?;
        let formats = Arc::clone(&last.formats);
        let mut values = Values::clone(&last.values);
        // The comment of a revision belongs only to that revision.
        values.remove("System.History");
        for (name, value) in change {
            match value {
                Some(value) => values.insert(name.into(), value),
                None => values.remove(name.as_str()),
            };
        }
        let me = Stored::Person(Arc::clone(&self.me));
        values.insert("System.ChangedBy".into(), me);
        Some(self.push(id, at, values, formats))
    }

    /// Links an item to something in the code, which creates a revision, like a link to a page.
    pub fn link_artifact(&mut self, id: i64, at: Timestamp, address: &str) {
        if let Some(item) = self.items.get_mut(&id) {
            let attributes = json!({ "resourceCreatedDate": at });
            item.links
                .push(json!({ "rel": "ArtifactLink", "url": address, "attributes": attributes }));
            self.edit_at(id, at, Vec::new());
        }
    }

    /// Adds a comment with a given date, and its revision.
    pub fn add_comment_at(&mut self, id: i64, at: Timestamp, text: &str) {
        if let Some(comment) = self.add_comment(id, text, "html")
            && let Some(item) = self.items.get_mut(&id)
        {
            let written = item.comments.iter_mut().find(|known| known.id == comment.id);
            written.into_iter().for_each(|known| known.at = at);
            self.edit_at(id, at, vec![("System.History".into(), Some(Stored::text(text)))]);
        }
    }

    /// Adds a comment without a revision; the caller creates that.
    pub fn add_comment(&mut self, id: i64, text: &str, format: &'static str) -> Option<AdoNote> {
        let (at, by) = (self.now(), Arc::clone(&self.me));
        let number = self.next_comment;
        let item = self.items.get_mut(&id).filter(|item| item.deleted.is_none())?;
        self.next_comment += 1;
        let comment = AdoNote { id: number, by, at, text: text.to_owned(), format };
        item.comments.push(comment.clone());
        Some(comment)
    }

    /// Moves an item to the recycle bin; false if there is no such item.
    pub fn delete(&mut self, id: i64) -> bool {
        let now = self.now();
        match self.items.get_mut(&id).filter(|item| item.deleted.is_none()) {
            Some(item) => {
                item.deleted = Some(now);
                true
            }
            None => false,
        }
    }

    /// `None` if it is missing or deleted.
    pub fn item(&self, id: i64) -> Option<&StoredItem> {
        self.items.get(&id).filter(|item| item.deleted.is_none())
    }

    pub fn next_id(&self) -> i64 {
        self.items.last_key_value().map_or(1, |(id, _)| id + 1)
    }

    /// Reference names are case-insensitive.
    pub fn field(&self, name: &str) -> Option<(&str, &'static str)> {
        let found = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(name, kind)| (name.as_str(), *kind))
    }
}

fn known_fields() -> BTreeMap<String, &'static str> {
    serde_json::from_str(include_str!("fields.json")).unwrap_or_default()
}
