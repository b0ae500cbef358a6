//! JSON patches on simulated work items: atomic, one revision.

use serde::Deserialize;
use serde_json::{Value, json};

use super::items::{View, gone, shown};
use super::reply::Reply;
use super::request::AdoRequest;
use super::tracker_data::{AdoData, ItemChange, Stored, Values};

#[derive(Debug, Deserialize)]
struct Operation {
    op: String,
    path: String,
    #[serde(default)]
    value: Value,
}

/// The effect of a patch, computed before anything is changed.
#[derive(Default)]
struct PatchPlan {
    change: ItemChange,
    comments: Vec<(String, &'static str)>,
    formats: Vec<(String, String)>,
    links: Vec<Value>,
}

/// `PATCH workitems/{id}`.
pub fn update(board: &mut AdoData, request: &AdoRequest, id: i64, base_url: &str) -> Reply {
    let Some(item) = board.item(id) else { return gone(id) };
    let Some(current) = item.at(None) else { return gone(id) };
    let plan = match plan(board, &current.values, current.rev, &request.body) {
        Ok(plan) => plan,
        Err(reply) => return *reply,
    };
    if request.flag("validateonly") {
        return show(board, id, base_url, None);
    }
    let comment = apply(board, id, plan);
    show(board, id, base_url, comment)
}

/// `POST workitems/${type}`.
pub fn create(board: &mut AdoData, request: &AdoRequest, item_type: &str, base_url: &str) -> Reply {
    let plan = match plan(board, &Values::new(), 0, &request.body) {
        Ok(plan) => plan,
        Err(reply) => return *reply,
    };
    let mut values = Values::new();
    values.insert("System.WorkItemType".into(), Stored::text(item_type));
    values.insert("System.State".into(), Stored::text("New"));
    for (name, value) in plan.change {
        value.and_then(|value| values.insert(name.into(), value));
    }
    let (id, now) = (board.next_id(), board.now());
    board.add(id, now, values);
    show(board, id, base_url, None)
}

fn show(board: &AdoData, id: i64, base_url: &str, comment: Option<i64>) -> Reply {
    let Some(item) = board.item(id) else { return gone(id) };
    let Some(revision) = item.at(None) else { return gone(id) };
    let view = View { base_url, fields: None, relations: Some(board) };
    let mut value = shown(item, revision, view);
    if let Some(comment) = comment {
        value["commentVersionRef"] = json!({ "commentId": comment, "version": 1 });
    }
    Reply::json(&value)
}

fn apply(board: &mut AdoData, id: i64, plan: PatchPlan) -> Option<i64> {
    let mut comment = None;
    for (text, format) in &plan.comments {
        comment = board.add_comment(id, text, format).map(|comment| comment.id);
    }
    // Links to other items change neither revision nor date; files and pages do.
    let is_item_link =
        |link: &Value| link["rel"].as_str().is_some_and(|rel| rel.starts_with("System.LinkTypes."));
    let moves = !plan.links.iter().all(is_item_link);
    if let Some(item) = board.items.get_mut(&id) {
        item.links.extend(plan.links);
    }
    if moves || !plan.change.is_empty() || !plan.formats.is_empty() {
        board.edit(id, plan.change);
        if !plan.formats.is_empty()
            && let Some(revision) = board.items.get_mut(&id).and_then(|i| i.revisions.last_mut())
        {
            let mut formats = (*revision.formats).clone();
            formats.extend(plan.formats);
            revision.formats = std::sync::Arc::new(formats);
        }
    }
    comment
}

fn plan(board: &AdoData, values: &Values, rev: i64, body: &[u8]) -> Result<PatchPlan, Box<Reply>> {
    let operations: Vec<Operation> = serde_json::from_slice(body).map_err(|error| {
        let text =
            format!("You must pass a valid patch document in the body of the request: {error}");
        Box::new(Reply::error(400, "VssPropertyValidationException", &text))
    })?;
    let mut plan = PatchPlan::default();
    for operation in operations {
        if operation.op.eq_ignore_ascii_case("remove") && !operation.value.is_null() {
            let body =
                json!({ "count": 1, "value": { "Message": "Remove requires Value to be null." } });
            return Err(Box::new(Reply { status: 400, ..Reply::json(&body) }));
        }
        add_to_plan(board, values, rev, operation, &mut plan)?;
    }
    Ok(plan)
}

fn add_to_plan(
    board: &AdoData,
    values: &Values,
    rev: i64,
    operation: Operation,
    plan: &mut PatchPlan,
) -> Result<(), Box<Reply>> {
    let Operation { op, path, value } = operation;
    let op = op.to_ascii_lowercase();
    if op == "test" {
        return test(values, rev, &path, &value);
    }
    if let Some(name) = path.strip_prefix("/fields/") {
        let Some((name, _)) = board.field(name) else {
            let text = format!("TF51535: Cannot find field {name}.");
            return Err(Box::new(Reply::error(400, "WorkItemFieldInvalidException", &text)));
        };
        match (name, op.as_str()) {
            ("System.History", _) => plan.comments.push(comment_text(&value)),
            ("System.Tags", "add") => {
                let merged = merge_tags(values.get("System.Tags"), &value);
                plan.change.push((name.to_owned(), Some(Stored::text(&merged))));
                return Ok(());
            }
            _ => {}
        }
        plan.change.push((name.to_owned(), stored(&value)));
    } else if let Some(name) = path.strip_prefix("/multilineFieldsFormat/") {
        let format = value.as_str().unwrap_or_default().to_ascii_lowercase();
        plan.formats.push((name.to_owned(), format));
    } else if path.starts_with("/relations/") {
        plan.links.push(value);
    } else {
        let text = format!("VS403357: The path {path} is not valid.");
        return Err(Box::new(Reply::error(400, "VssPropertyValidationException", &text)));
    }
    Ok(())
}

fn test(values: &Values, rev: i64, path: &str, value: &Value) -> Result<(), Box<Reply>> {
    let current = match path.strip_prefix("/fields/") {
        Some(name) => serde_json::to_value(values.get(name)).unwrap_or_default(),
        None => json!(rev),
    };
    if current == *value {
        return Ok(());
    }
    let text = format!(
        "VS403351: Test Operation for path {path} failed, value {current} was not equal to test \
         value {value}."
    );
    Err(Box::new(Reply::error(412, "TestPatchOperationFailedException", &text)))
}

fn comment_text(value: &Value) -> (String, &'static str) {
    match value.get("text").and_then(Value::as_str) {
        Some(text) => (text.to_owned(), "markdown"),
        None => (value.as_str().unwrap_or_default().to_owned(), "html"),
    }
}

/// Converts a value of a patch or of the control interface; null removes.
pub fn stored(value: &Value) -> Option<Stored> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(Stored::text(text)),
        Value::Object(object) if object.contains_key("text") => {
            object["text"].as_str().map(Stored::text)
        }
        value => {
            Some(value.as_i64().map_or_else(|| Stored::text(&value.to_string()), Stored::Number))
        }
    }
}

/// `add` merges into the set of tags, ignoring case.
fn merge_tags(current: Option<&Stored>, added: &Value) -> String {
    let current = match current {
        Some(Stored::Text(text)) => text.to_string(),
        _ => String::new(),
    };
    let mut tags: Vec<&str> = Vec::new();
    let added = added.as_str().unwrap_or_default();
    for tag in current.split(';').chain(added.split(';')).map(str::trim) {
        if !tag.is_empty() && !tags.iter().any(|known| known.eq_ignore_ascii_case(tag)) {
            tags.push(tag);
        }
    }
    tags.join("; ")
}
