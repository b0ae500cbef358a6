//! Jira's JSON as types: missing values are tolerated, unused ones ignored. Each field is parsed
//! separately, so that an unexpected one affects only itself.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

/// Response of a search, new and old shape.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JiraSearch {
    pub issues: Option<Vec<JiraIssue>>,
    pub next_page_token: Option<String>,
    pub is_last: Option<bool>,
    pub total: Option<u64>,
    pub start_at: Option<u64>,
    /// How the server rewrote the query.
    #[serde(default)]
    pub warning_messages: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
pub struct JiraIssue {
    /// A number in quotes.
    pub id: Box<RawValue>,
    #[serde(default)]
    pub key: Option<String>,
    #[serde(default)]
    pub fields: Option<JiraFields>,
}

impl JiraIssue {
    /// `None` if it is not a number.
    pub fn number(&self) -> Option<i64> {
        number(&self.id)
    }
}

impl JiraNamed {
    /// The number, if it has one.
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
pub struct JiraFields(HashMap<String, Box<RawValue>>);

impl JiraFields {
    /// A value of this shape; `None` if it is missing, null or of another shape.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let raw = self.raw(name)?;
        // The byte reader repairs texts that a string cannot hold.
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

#[derive(Debug, Clone, Default, Deserialize)]
pub struct JiraNamed {
    /// A number, with or without quotes.
    #[serde(default)]
    pub id: Option<Box<RawValue>>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JiraStatus {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub status_category: Option<JiraNamed>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    #[serde(default)]
    pub display_name: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub time_zone: Option<String>,
    /// On Cloud: `atlassian` for people, `app`, or `customer` of a portal.
    #[serde(default)]
    pub account_type: Option<String>,
    #[serde(default)]
    pub active: Option<bool>,
}

/// The comments of an issue, embedded or requested separately.
#[derive(Debug, Default, Deserialize)]
pub struct JiraComments {
    #[serde(default)]
    pub comments: Vec<JiraComment>,
    #[serde(default)]
    pub total: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub struct JiraComment {
    #[serde(default)]
    pub body: Option<Box<RawValue>>,
    #[serde(default)]
    pub author: Option<User>,
    #[serde(default)]
    pub created: Option<String>,
    #[serde(default)]
    pub updated: Option<String>,
}

/// A page of an issue's changelog, on Cloud.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JiraChanges {
    #[serde(default)]
    pub values: Vec<ChangeEntry>,
    #[serde(default)]
    pub is_last: Option<bool>,
}

/// An issue with its changelog, on Data Center.
#[derive(Debug, Default, Deserialize)]
pub struct WithChanges {
    #[serde(default)]
    pub changelog: Histories,
}

#[derive(Debug, Default, Deserialize)]
pub struct Histories {
    #[serde(default)]
    pub histories: Vec<ChangeEntry>,
}

/// One edit of an issue.
#[derive(Debug, Deserialize)]
pub struct ChangeEntry {
    #[serde(default)]
    pub created: Option<String>,
    #[serde(default)]
    pub items: Vec<JiraFieldChange>,
}

/// The change of one field.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JiraFieldChange {
    #[serde(default)]
    pub field: String,
    /// Cloud only.
    #[serde(default)]
    pub field_id: Option<String>,
    #[serde(default)]
    pub fieldtype: Option<String>,
    #[serde(default)]
    pub from_string: Option<String>,
}

impl JiraFieldChange {
    /// The field's id, or its name if the server does not send an id.
    pub fn id(&self) -> &str {
        self.field_id.as_deref().unwrap_or(&self.field)
    }

    pub fn is_custom(&self) -> bool {
        self.fieldtype.as_deref() == Some("custom")
    }
}

/// What a server reports about itself.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    #[serde(default)]
    pub base_url: Option<String>,
    #[serde(default)]
    pub deployment_type: Option<String>,
}

/// Approximate number of issues that a query matches.
#[derive(Debug, Deserialize)]
pub struct Count {
    pub count: usize,
}

/// Permissions of the account.
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
