//! The tracker's JSON as types: tolerant of what is missing, ignorant of what is not needed.

use std::collections::HashMap;

use serde::Deserialize;

use super::fields::{FieldValue, Fields};
use crate::model::Attachment;

/// Answer of a query.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryResult {
    /// The instant the rows were true at, by the server's clock.
    pub as_of: Option<String>,
    /// Rows of a flat query.
    pub work_items: Option<Vec<Reference>>,
    /// Rows of a tree or one-hop query.
    pub work_item_relations: Option<Vec<Link>>,
}

/// A row of a flat query.
#[derive(Debug, Deserialize)]
pub struct Reference {
    /// The item's number.
    pub id: i64,
}

/// A row of a link query; roots have no source.
#[derive(Debug, Deserialize)]
pub struct Link {
    /// The end above.
    pub source: Option<Reference>,
    /// The end below.
    pub target: Option<Reference>,
}

impl QueryResult {
    /// Ids of all rows in their order, each once.
    pub fn ids(&self) -> Vec<i64> {
        let flat = self.work_items.iter().flatten().map(|row| row.id);
        let linked = self.work_item_relations.iter().flatten();
        let linked = linked.flat_map(|link| [&link.source, &link.target]).flatten();
        let mut seen = std::collections::HashSet::new();
        flat.chain(linked.map(|end| end.id)).filter(|id| seen.insert(*id)).collect()
    }
}

/// A list answer; what cannot be read under `errorPolicy: omit` is `null`.
#[derive(Debug, Deserialize)]
pub struct Listing<T> {
    /// The entries.
    pub value: Vec<Option<T>>,
}

/// A work item. Every field may be missing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The number; nothing can be done without it.
    pub id: i64,
    /// Revision counter.
    pub rev: Option<i64>,
    /// Values by reference name; a field without value is absent.
    pub fields: Option<Fields>,
    /// Which long texts are Markdown; empty or missing: none.
    pub multiline_fields_format: Option<HashMap<String, String>>,
}

/// An item with its links. A choice of fields and links exclude each other, so it comes with every
/// field, and they are skipped.
#[derive(Debug, Deserialize)]
pub struct WithRelations {
    pub id: i64,
    pub relations: Option<Vec<Relation>>,
}

/// A link, or an attached file.
#[derive(Debug, Deserialize)]
pub struct Relation {
    #[serde(default)]
    pub rel: String,
    #[serde(default)]
    pub url: String,
    pub attributes: Option<Attributes>,
}

#[derive(Debug, Deserialize)]
pub struct Attributes {
    name: Option<String>,
    #[serde(rename = "resourceSize")]
    size: Option<u64>,
}

impl Relation {
    /// The attached file that this is.
    pub fn file(&self) -> Option<Attachment> {
        let attributes = self.attributes.as_ref().filter(|_| self.rel == "AttachedFile")?;
        let name = attributes.name.clone().unwrap_or_default();
        Some(Attachment { name, address: self.url.clone(), size: attributes.size })
    }
}

/// Answer of the comments resource, new and old shape.
#[derive(Debug, Deserialize)]
pub struct Comments {
    /// The entries.
    #[serde(default, alias = "value")]
    pub comments: Vec<CommentEntry>,
}

/// One comment, new and old shape.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommentEntry {
    /// The text as it was written.
    #[serde(default)]
    pub text: String,
    /// `markdown` or `html`; missing on older servers, which only know HTML.
    pub format: Option<String>,
    /// Who.
    #[serde(alias = "revisedBy")]
    pub created_by: Option<FieldValue>,
    /// When.
    #[serde(alias = "revisedDate")]
    pub created_date: Option<String>,
    /// Deleted ones keep their place.
    #[serde(default)]
    pub is_deleted: bool,
}

/// A field the collection has.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// Such as `System.Title`.
    pub reference_name: String,
    /// `html`, `plainText`, `string`, …
    #[serde(default, rename = "type")]
    pub kind: String,
}

/// A saved query, for its id.
#[derive(Debug, Deserialize)]
pub struct SavedQuery {
    /// The id.
    pub id: String,
    /// A folder is no query.
    #[serde(default, rename = "isFolder")]
    pub is_folder: bool,
}

/// One entry of the server's list of resources.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Location {
    /// `wit`.
    pub area: String,
    /// Such as `workItemsBatch`.
    pub resource_name: String,
    /// Its own version, the `N` of `-preview.N`.
    pub resource_version: u32,
    /// Highest version served.
    pub max_version: String,
    /// Highest version that is not a preview; `0.0`: none.
    pub released_version: String,
}

/// One batch of the revision stream. The key is `values`, unlike everywhere else.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Revisions {
    /// The revisions.
    pub values: Vec<Item>,
    /// Where to go on; opaque.
    pub continuation_token: Option<String>,
    /// Present even on the last batch, so never a reason to go on.
    pub next_link: Option<String>,
    /// The stream ends here for now.
    #[serde(default)]
    pub is_last_batch: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::json::from_json;

    #[test]
    fn ids_of_link_queries_come_once_each() {
        let body = br#"{"queryType":"tree","asOf":"2026-01-01T00:00:00Z","workItemRelations":[
            {"target":{"id":7}},{"rel":"x","source":{"id":7},"target":{"id":9}},
            {"rel":null,"source":null,"target":{"id":9}}]}"#;
        let result: QueryResult = from_json(body).unwrap();
        assert_eq!(result.ids(), [7, 9]);
    }
}
