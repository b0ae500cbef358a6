//! Reading and writing the simulated work items.

use jiff::Timestamp;
use serde::Deserialize;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Value, json};

use super::beside::relations as relations_of;
use super::board::{Board, Item, PROJECT_ID, Revision};
use super::reply::Reply;
use super::request::ApiRequest;

/// The limit of ids in one request.
pub const LARGEST_BATCH: usize = 200;

/// How an item is shown.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Address of the collection, for links.
    pub base_url: &'a str,
    /// Only these fields; none: all.
    pub fields: Option<&'a [String]>,
    /// With links to other items, which this board knows.
    pub relations: Option<&'a Board>,
}

/// An item as JSON, written without a copy.
pub struct Shown<'a> {
    /// The item.
    pub item: &'a Item,
    /// Which of its revisions.
    pub revision: &'a Revision,
    /// How.
    pub view: View<'a>,
}

struct ShownFields<'a>(&'a Shown<'a>);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.item.id)?;
        map.serialize_entry("rev", &self.revision.rev)?;
        map.serialize_entry("fields", &ShownFields(self))?;
        map.serialize_entry("multilineFieldsFormat", &*self.revision.formats)?;
        let relations = self.view.relations;
        let relations = relations.map(|board| relations_of(board, self.item, self.view.base_url));
        // Absent when there are none.
        if let Some(relations) = relations.filter(|relations| !relations.is_empty()) {
            map.serialize_entry("relations", &relations)?;
        }
        map.serialize_entry("url", &item_url(self.view.base_url, self.item.id))?;
        map.end()
    }
}

impl Serialize for ShownFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let wanted = |name: &str| {
            self.0
                .view
                .fields
                .is_none_or(|names| names.iter().any(|n| n.eq_ignore_ascii_case(name)))
        };
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.0.revision.values.iter().filter(|(name, _)| wanted(name)) {
            map.serialize_entry(&**name, value)?;
        }
        // Counted when they are requested by name.
        for name in self.0.view.fields.into_iter().flatten() {
            if let Some(count) = self.0.item.link_count(name) {
                map.serialize_entry(name, &count)?;
            }
        }
        map.end()
    }
}

/// The address of an item.
pub fn item_url(base_url: &str, id: i64) -> String {
    format!("{base_url}/{PROJECT_ID}/_apis/wit/workItems/{id}")
}

/// A list with nulls in the place of what cannot be read.
struct ShownList<'a>(Vec<Option<Shown<'a>>>);

impl Serialize for ShownList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Values<'a>(&'a [Option<Shown<'a>>]);
        impl Serialize for Values<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut list = serializer.serialize_seq(Some(self.0.len()))?;
                for entry in self.0 {
                    list.serialize_element(entry)?;
                }
                list.end()
            }
        }
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("count", &self.0.len())?;
        map.serialize_entry("value", &Values(&self.0))?;
        map.end()
    }
}

/// The body of a batch request, and what the GET form says in its query string.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BatchRequest {
    ids: Vec<i64>,
    fields: Option<Vec<String>>,
    #[serde(rename = "errorPolicy")]
    error_policy: Value,
    #[serde(rename = "$expand")]
    expand: Value,
    #[serde(rename = "asOf")]
    as_of: Option<Timestamp>,
}

/// `POST workitemsbatch`.
pub fn batch(board: &Board, request: &ApiRequest, base_url: &str) -> Reply {
    match serde_json::from_slice::<BatchRequest>(&request.body) {
        Ok(request) => list(board, &request, base_url),
        Err(error) => {
            let text = format!("VS403357: Work items batch request is not valid: {error}");
            Reply::error(400, "VssPropertyValidationException", &text)
        }
    }
}

/// `GET workitems?ids=…`.
pub fn get_many(board: &Board, request: &ApiRequest, base_url: &str) -> Reply {
    let split = |text: &str| text.split(',').map(|part| part.trim().to_owned()).collect();
    let ids: Vec<String> = request.get("ids").map(split).unwrap_or_default();
    let request = BatchRequest {
        ids: ids.iter().filter_map(|id| id.parse().ok()).collect(),
        fields: request.get("fields").map(split),
        error_policy: request.get("errorpolicy").map(Value::from).unwrap_or_default(),
        expand: request.get("$expand").map(Value::from).unwrap_or_default(),
        as_of: request.get("asof").and_then(|text| text.parse().ok()),
    };
    list(board, &request, base_url)
}

/// Enums come as words or as numbers.
fn is_word_or_number(value: &Value, word: &str, number: i64) -> bool {
    value.as_str().is_some_and(|text| text.eq_ignore_ascii_case(word))
        || value.as_i64() == Some(number)
}

fn list(board: &Board, request: &BatchRequest, base_url: &str) -> Reply {
    if request.ids.len() > LARGEST_BATCH {
        let text = format!(
            "VS403474: You requested {} work items which exceeds the limit of {LARGEST_BATCH}.",
            request.ids.len()
        );
        return Reply::error(400, "VssPropertyValidationException", &text);
    }
    if request.fields.is_some() && !request.expand.is_null() {
        let text = "The expand parameter can not be used with the fields parameter.";
        return Reply::error(400, "ConflictingParametersException", text);
    }
    if let Some(missing) = unknown_field(board, request.fields.as_deref()) {
        let text = format!("TF51535: Cannot find field {missing}.");
        return Reply::error(400, "WorkItemTrackingFieldDefinitionNotFoundException", &text);
    }
    let omit = is_word_or_number(&request.error_policy, "omit", 2);
    let relations = is_word_or_number(&request.expand, "relations", 1)
        || is_word_or_number(&request.expand, "all", 4);
    let relations = relations.then_some(board);
    let view = View { base_url, fields: request.fields.as_deref(), relations };
    let mut shown = Vec::with_capacity(request.ids.len());
    for id in &request.ids {
        let found = board
            .item(*id)
            .and_then(|item| item.at(request.as_of).map(|revision| Shown { item, revision, view }));
        if found.is_none() && !omit {
            return gone(*id);
        }
        shown.push(found);
    }
    Reply::json(&ShownList(shown))
}

fn unknown_field<'a>(board: &Board, fields: Option<&'a [String]>) -> Option<&'a str> {
    let unknown = |name: &&String| board.field(name).is_none();
    fields.and_then(|names| names.iter().find(unknown)).map(String::as_str)
}

/// The answer for an item that is not there.
pub fn gone(id: i64) -> Reply {
    let text = format!(
        "TF401232: Work item {id} does not exist, or you do not have permissions to read it."
    );
    Reply::error(404, "WorkItemUnauthorizedAccessException", &text)
}

/// `GET workitems/{id}`.
pub fn get_one(board: &Board, request: &ApiRequest, id: i64, base_url: &str) -> Reply {
    let fields: Option<Vec<String>> =
        request.get("fields").map(|text| text.split(',').map(|f| f.trim().to_owned()).collect());
    let relations = request
        .get("$expand")
        .is_some_and(|expand| ["relations", "all", "1", "4"].contains(&&*expand.to_lowercase()));
    let relations = relations.then_some(board);
    let view = View { base_url, fields: fields.as_deref(), relations };
    let as_of = request.get("asof").and_then(|text| text.parse().ok());
    match board.item(id).and_then(|item| Some((item, item.at(as_of)?))) {
        Some((item, revision)) => Reply::json(&Shown { item, revision, view }),
        None => gone(id),
    }
}

/// `DELETE workitems/{id}`.
pub fn delete(board: &mut Board, id: i64, base_url: &str) -> Reply {
    let Some(item) = board.item(id) else { return gone(id) };
    let name = item.at(None).and_then(|r| r.values.get("System.Title").cloned());
    board.delete(id);
    Reply::json(&json!({ "id": id, "code": 200, "name": name, "url": item_url(base_url, id) }))
}

/// The comments of an item as JSON, and adding one.
pub fn comments(board: &mut Board, request: &ApiRequest, id: i64, base_url: &str) -> Reply {
    if board.item(id).is_none() {
        return gone(id);
    }
    if request.method == axum::http::Method::POST {
        return add_comment(board, request, id, base_url);
    }
    let Some(item) = board.item(id) else { return gone(id) };
    let mut remarks: Vec<_> = item.remarks.iter().collect();
    if request.get("order").is_none_or(|order| order.eq_ignore_ascii_case("desc")) {
        remarks.reverse();
    }
    let top = request.get("$top").and_then(|top| top.parse().ok()).unwrap_or(200_usize);
    let total = remarks.len();
    remarks.truncate(top);
    let shown: Vec<Value> = remarks.iter().map(|r| show_comment(r, id, base_url)).collect();
    Reply::json(&json!({ "totalCount": total, "count": shown.len(), "comments": shown }))
}

fn add_comment(board: &mut Board, request: &ApiRequest, id: i64, base_url: &str) -> Reply {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let Some(text) = body.get("text").and_then(Value::as_str) else {
        let text = "VS403302: The comment text must not be empty.";
        return Reply::error(400, "WorkItemCommentException", text);
    };
    let markdown = request
        .get("format")
        .is_some_and(|format| format.eq_ignore_ascii_case("markdown") || format == "0");
    let format = if markdown { "markdown" } else { "html" };
    let Some(remark) = board.remark(id, text, format) else { return gone(id) };
    board.edit(id, vec![("System.History".into(), Some(super::board::Stored::text(text)))]);
    Reply::json(&show_comment(&remark, id, base_url))
}

fn show_comment(remark: &super::board::Remark, id: i64, base_url: &str) -> Value {
    json!({
        "workItemId": id,
        "id": remark.id,
        "version": 1,
        "text": remark.text,
        "format": remark.format,
        "createdBy": super::board::identity(&remark.by),
        "createdDate": remark.at,
        "modifiedBy": super::board::identity(&remark.by),
        "modifiedDate": remark.at,
        "isDeleted": false,
        "url": format!("{}/comments/{}", item_url(base_url, id), remark.id),
    })
}
