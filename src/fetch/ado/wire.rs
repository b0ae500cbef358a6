//! The tracker's JSON as types: missing values are tolerated, unused ones ignored.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::model::Attachment;

/// Response of a query.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryResult {
    /// The time the rows refer to, by the server's clock.
    pub as_of: Option<String>,
    /// Rows of a flat query.
    pub work_items: Option<Vec<Reference>>,
    /// Rows of a tree or one-hop query.
    pub work_item_relations: Option<Vec<RowLink>>,
}

/// A row of a flat query.
#[derive(Debug, Deserialize)]
pub struct Reference {
    pub id: i64,
}

/// A row of a link query; roots have no source.
#[derive(Debug, Deserialize)]
pub struct RowLink {
    /// The parent end.
    pub source: Option<Reference>,
    /// The child end.
    pub target: Option<Reference>,
}

impl QueryResult {
    /// Ids of all rows in order, each once.
    pub fn ids(&self) -> Vec<i64> {
        let flat = self.work_items.iter().flatten().map(|row| row.id);
        let linked = self.work_item_relations.iter().flatten();
        let linked = linked.flat_map(|link| [&link.source, &link.target]).flatten();
        let mut seen = std::collections::HashSet::new();
        flat.chain(linked.map(|end| end.id)).filter(|id| seen.insert(*id)).collect()
    }
}

/// A list response; entries that cannot be read under `errorPolicy: omit` are `null`.
#[derive(Debug, Deserialize)]
pub struct AdoList<T> {
    pub value: Vec<Option<T>>,
}

/// Values by reference name; a field without value is absent.
pub type AdoFields = HashMap<String, Value>;

/// A work item. Every field may be missing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdoItem {
    /// The only required field.
    pub id: i64,
    /// Revision counter.
    pub rev: Option<i64>,
    /// Values by reference name; a field without value is absent.
    pub fields: Option<AdoFields>,
    /// Which long texts are Markdown; empty or missing: none.
    pub multiline_fields_format: Option<HashMap<String, String>>,
}

/// An item with its links. Links exclude a choice of fields, so the response has every field, and
/// they are skipped.
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
    pub attributes: Option<RelationAttributes>,
}

#[derive(Debug, Deserialize)]
pub struct RelationAttributes {
    name: Option<String>,
    #[serde(rename = "resourceSize")]
    size: Option<u64>,
}

impl Relation {
    /// The attached file, if this is one.
    pub fn file(&self) -> Option<Attachment> {
        let attributes = self.attributes.as_ref().filter(|_| self.rel == "AttachedFile")?;
        let name = attributes.name.clone().unwrap_or_default();
        Some(Attachment { name, address: self.url.clone(), size: attributes.size })
    }
}

/// Response of the comments resource, new and old shape.
#[derive(Debug, Deserialize)]
pub struct AdoComments {
    #[serde(default, alias = "value")]
    pub comments: Vec<AdoComment>,
}

/// One comment, new and old shape.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdoComment {
    /// As it was written.
    #[serde(default)]
    pub text: String,
    /// `markdown` or `html`; missing on older servers, which support only HTML.
    pub format: Option<String>,
    #[serde(alias = "revisedBy")]
    pub created_by: Option<Value>,
    #[serde(alias = "revisedDate")]
    pub created_date: Option<String>,
    /// Deleted comments stay in the list.
    #[serde(default)]
    pub is_deleted: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdoField {
    pub reference_name: String,
    /// `html`, `plainText`, `string` and so on.
    #[serde(default, rename = "type")]
    pub kind: String,
}

#[derive(Debug, Deserialize)]
pub struct SavedQuery {
    pub id: String,
    /// Set for a folder of queries.
    #[serde(default, rename = "isFolder")]
    pub is_folder: bool,
}

/// One entry of the server's list of resources.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Location {
    pub area: String,
    /// Such as `workItemsBatch`.
    pub resource_name: String,
    /// Version of the resource, the `N` of `-preview.N`.
    pub resource_version: u32,
    /// Highest version served.
    pub max_version: String,
    /// Highest version that is not a preview; `0.0`: none.
    pub released_version: String,
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
