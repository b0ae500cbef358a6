//! Reads and writes the simulated work items.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::linked::relations as relations_of;
use super::reply::Reply;
use super::request::AdoRequest;
use super::tracker_data::{AdoData, PROJECT_ID, Revision, StoredItem};

/// Maximum number of ids in one request.
pub const MAX_BATCH: usize = 200;

#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Address of the collection, for links.
    pub base_url: &'a str,
    /// `None` means all fields.
    pub fields: Option<&'a [String]>,
    /// If set, includes relations to other items of this board.
    pub relations: Option<&'a AdoData>,
}

/// An item as the service returns it.
pub fn shown(item: &StoredItem, revision: &Revision, view: View<'_>) -> Value {
    let wanted = |name: &str| {
        view.fields.is_none_or(|names| names.iter().any(|n| n.eq_ignore_ascii_case(name)))
    };
    let values = revision.values.iter().filter(|(name, _)| wanted(name));
    let mut fields: Map<String, Value> =
        values.map(|(name, value)| (name.to_string(), json!(value))).collect();
    // Only counted when requested by name.
    for name in view.fields.into_iter().flatten() {
        fields.extend(item.link_count(name).map(|count| (name.clone(), json!(count))));
    }
    let mut shown = json!({
        "id": item.id, "rev": revision.rev, "fields": fields,
        "multilineFieldsFormat": *revision.formats, "url": item_url(view.base_url, item.id),
    });
    let relations = view.relations.map(|board| relations_of(board, item, view.base_url));
    // Absent if there are none.
    if let Some(relations) = relations.filter(|relations| !relations.is_empty()) {
        shown["relations"] = relations.into();
    }
    shown
}

pub fn item_url(base_url: &str, id: i64) -> String {
    format!("{base_url}/{PROJECT_ID}/_apis/wit/workItems/{id}")
}

/// The body of a batch request; the GET form has the same in its query string.
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
pub fn batch(board: &AdoData, request: &AdoRequest, base_url: &str) -> Reply {
    match serde_json::from_slice::<BatchRequest>(&request.body) {
        Ok(request) if request.ids.iter().any(|id| is_poisoned(board, *id)) => {
            Reply::error(500, "NullReferenceException", "Object reference not set.")
        }
        Ok(request) => list(board, &request, base_url),
        Err(error) => {
            let text = format!("VS403357: Work items batch request is not valid: {error}");
            Reply::error(400, "VssPropertyValidationException", &text)
        }
    }
}

/// An item with this tag makes every request fail that asks for it.
pub const POISON: &str = "simulator:poison";

fn is_poisoned(board: &AdoData, id: i64) -> bool {
    let tags = board.item(id).and_then(|item| item.at(None)?.values.get("System.Tags"));
    let tags = serde_json::to_value(tags).unwrap_or_default();
    tags.as_str().is_some_and(|tags| tags.contains(POISON))
}

/// `GET workitems?ids=…`.
pub fn get_many(board: &AdoData, request: &AdoRequest, base_url: &str) -> Reply {
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

/// Enums are sent as words or as numbers.
fn is_word_or_number(value: &Value, word: &str, number: i64) -> bool {
    value.as_str().is_some_and(|text| text.eq_ignore_ascii_case(word))
        || value.as_i64() == Some(number)
}

fn list(board: &AdoData, request: &BatchRequest, base_url: &str) -> Reply {
    if request.ids.len() > MAX_BATCH {
        let text = format!(
            "VS403474: You requested {} work items which exceeds the limit of {MAX_BATCH}.",
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
    let mut found = Vec::with_capacity(request.ids.len());
    for id in &request.ids {
        let one = board
            .item(*id)
            .and_then(|item| item.at(request.as_of).map(|revision| shown(item, revision, view)));
        if one.is_none() && !omit {
            return gone(*id);
        }
        found.push(one);
    }
    Reply::json(&json!({ "count": found.len(), "value": found }))
}

fn unknown_field<'a>(board: &AdoData, fields: Option<&'a [String]>) -> Option<&'a str> {
    let unknown = |name: &&String| board.field(name).is_none();
    fields.and_then(|names| names.iter().find(unknown)).map(String::as_str)
}

/// The response for an item that does not exist.
pub fn gone(id: i64) -> Reply {
    let text = format!(
        "TF401232: Work item {id} does not exist, or you do not have permissions to read it."
    );
    Reply::error(404, "WorkItemUnauthorizedAccessException", &text)
}

/// `GET workitems/{id}`.
pub fn get_one(board: &AdoData, request: &AdoRequest, id: i64, base_url: &str) -> Reply {
    let fields: Option<Vec<String>> =
        request.get("fields").map(|text| text.split(',').map(|f| f.trim().to_owned()).collect());
    let relations = request
        .get("$expand")
        .is_some_and(|expand| ["relations", "all", "1", "4"].contains(&&*expand.to_lowercase()));
    let relations = relations.then_some(board);
    let view = View { base_url, fields: fields.as_deref(), relations };
    let as_of = request.get("asof").and_then(|text| text.parse().ok());
    match board.item(id).and_then(|item| Some((item, item.at(as_of)?))) {
        Some((item, revision)) => Reply::json(&shown(item, revision, view)),
        None => gone(id),
    }
}

/// `DELETE workitems/{id}`.
pub fn delete(board: &mut AdoData, id: i64, base_url: &str) -> Reply {
    let Some(item) = board.item(id) else { return gone(id) };
    let name = item.at(None).and_then(|r| r.values.get("System.Title").cloned());
    board.delete(id);
    Reply::json(&json!({ "id": id, "code": 200, "name": name, "url": item_url(base_url, id) }))
}

/// Lists the comments of an item, or adds one.
pub fn comments(board: &mut AdoData, request: &AdoRequest, id: i64, base_url: &str) -> Reply {
    if board.item(id).is_none() {
        return gone(id);
    }
    if request.method == axum::http::Method::POST {
        return add_comment(board, request, id, base_url);
    }
    let Some(item) = board.item(id) else { return gone(id) };
    let mut comments: Vec<_> = item.comments.iter().collect();
    if request.get("order").is_none_or(|order| order.eq_ignore_ascii_case("desc")) {
        comments.reverse();
    }
    let top = request.get("$top").and_then(|top| top.parse().ok()).unwrap_or(200_usize);
    let total = comments.len();
    comments.truncate(top);
    let shown: Vec<Value> = comments.iter().map(|r| show_comment(r, id, base_url)).collect();
    Reply::json(&json!({ "totalCount": total, "count": shown.len(), "comments": shown }))
}

fn add_comment(board: &mut AdoData, request: &AdoRequest, id: i64, base_url: &str) -> Reply {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let Some(text) = body.get("text").and_then(Value::as_str) else {
        let text = "VS403302: The comment text must not be empty.";
        return Reply::error(400, "WorkItemCommentException", text);
    };
    let markdown = request
        .get("format")
        .is_some_and(|format| format.eq_ignore_ascii_case("markdown") || format == "0");
    let format = if markdown { "markdown" } else { "html" };
    let Some(comment) = board.add_comment(id, text, format) else { return gone(id) };
    board.edit(id, vec![("System.History".into(), Some(super::tracker_data::Stored::text(text)))]);
    Reply::json(&show_comment(&comment, id, base_url))
}

fn show_comment(comment: &super::tracker_data::AdoNote, id: i64, base_url: &str) -> Value {
    json!({
        "workItemId": id,
        "id": comment.id,
        "version": 1,
        "text": comment.text,
        "format": comment.format,
        "createdBy": super::tracker_data::identity(&comment.by),
        "createdDate": comment.at,
        "modifiedBy": super::tracker_data::identity(&comment.by),
        "modifiedDate": comment.at,
        "isDeleted": false,
        "url": format!("{}/comments/{}", item_url(base_url, id), comment.id),
    })
}
