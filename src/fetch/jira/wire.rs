//! Jira's JSON as types: tolerant of what is missing, ignorant of what is not needed. Each field is
//! read by itself, so that an odd one costs nothing but itself, whatever its depth.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

/// Answer of a search, new and old shape.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Search {
    pub issues: Option<Vec<Issue>>,
    pub next_page_token: Option<String>,
    pub is_last: Option<bool>,
    pub total: Option<u64>,
    pub start_at: Option<u64>,
    /// What the server made of the query instead of what was asked.
    #[serde(default)]
    pub warning_messages: Option<Vec<String>>,
}

/// One issue.
#[derive(Debug, Deserialize)]
pub struct Issue {
    /// A number in quotes.
    pub id: Box<RawValue>,
    #[serde(default)]
    pub key: Option<String>,
    #[serde(default)]
    pub fields: Option<Fields>,
}

impl Issue {
    /// The number; none if it is none.
    pub fn number(&self) -> Option<i64> {
        number(&self.id)
    }
}

impl Named {
    /// The number of this, if it has one.
    pub fn number(&self) -> Option<i64> {
        number(self.id.as_ref()?)
    }
}

fn number(id: &RawValue) -> Option<i64> {
    id.get().trim_matches('"').parse().ok()
}

/// Values by field id.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Fields(HashMap<String, Box<RawValue>>);

impl Fields {
    /// A value of this shape; none if it is missing, null or something else.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let raw = self.raw(name)?;
        // The reader of bytes mends texts that no string can hold.
        crate::fetch::json::from_json(raw.as_bytes()).ok()
    }

    /// The JSON of a value that is not null.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|raw| raw.get()).filter(|raw| *raw != "null")
    }

    /// How many entries a list has.
    pub fn count(&self, name: &str) -> u64 {
        let entries: Vec<IgnoredAny> = self.get(name).unwrap_or_default();
        entries.len() as u64
    }
}

/// Something with a name: a priority, a component, a version, a type.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Named {
    /// A number, in quotes or without.
    #[serde(default)]
    pub id: Option<Box<RawValue>>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub key: Option<String>,
}

/// A workflow state.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub status_category: Option<Named>,
}

/// A person.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    #[serde(default)]
    pub display_name: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub time_zone: Option<String>,
}

/// The comments of an issue, in it or by themselves.
#[derive(Debug, Default, Deserialize)]
pub struct Comments {
    #[serde(default)]
    pub comments: Vec<CommentEntry>,
    #[serde(default)]
    pub total: Option<u64>,
}

/// One comment.
#[derive(Debug, Deserialize)]
pub struct CommentEntry {
    #[serde(default)]
    pub body: Option<Box<RawValue>>,
    #[serde(default)]
    pub author: Option<User>,
    #[serde(default)]
    pub created: Option<String>,
    #[serde(default)]
    pub updated: Option<String>,
}

/// What a server says about itself.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    #[serde(default)]
    pub base_url: Option<String>,
    #[serde(default)]
    pub deployment_type: Option<String>,
}

/// How many issues a query finds, roughly.
#[derive(Debug, Deserialize)]
pub struct Count {
    pub count: usize,
}

/// What the account may do.
#[derive(Debug, Default, Deserialize)]
pub struct Permissions {
    #[serde(default)]
    pub permissions: HashMap<String, Permission>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Permission {
    #[serde(default)]
    pub have_permission: bool,
}
