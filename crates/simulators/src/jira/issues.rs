//! Issues: reads, bulk reads, edits, comments.

use serde_json::{Value, json};

use super::linked;
use super::reply::{self, Reply};
use super::resources::{ME, priority, project, user};
use super::seed::blank;
use super::server::{JiraRequest, JiraState};
use super::text::JiraText;
use super::tracker_data::{Edit, JiraNote, JiraRecord, PROJECT, STATES};

/// In characters.
const MAX_COMMENT_LEN: usize = 32_767;
/// Newest comments included in an issue.
const COMMENTS_SHOWN: usize = 20;

pub fn answer(shared: &mut JiraState, request: &JiraRequest) -> Reply {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match (request.method.as_str(), path.as_slice()) {
        ("POST", ["issue"]) => create(shared, request),
        ("POST", ["issue", "bulkfetch"]) if shared.is_cloud => bulk(shared, request),
        (method, ["issue", name, rest @ ..]) => {
            let Some(id) = shared.board.find(name).map(|issue| issue.id) else {
                return reply::no_issue();
            };
            one(shared, request, method, id, rest)
        }
        _ => reply::page(404, "Oops, you've found a dead link"),
    }
}

fn one(
    shared: &mut JiraState,
    request: &JiraRequest,
    method: &str,
    id: i64,
    rest: &[&str],
) -> Reply {
    match (method, rest) {
        ("GET", []) => {
            let names: Option<Vec<String>> = request
                .query
                .get("fields")
                .map(|names| names.split(',').map(str::to_owned).collect::<Vec<_>>())
                .filter(|names| !names.iter().any(|name| name.starts_with('*')));
            match shared.board.get(id) {
                Some(issue) => {
                    let mut answer = shown(shared, issue, names.as_deref(), request.version);
                    if request.query.get("expand").is_some_and(|more| more.contains("changelog")) {
                        let all = histories(shared, issue);
                        answer["changelog"] =
                            json!({ "startAt": 0, "total": all.len(), "histories": all });
                    }
                    reply::json(&answer)
                }
                None => reply::no_issue(),
            }
        }
        ("PUT", []) => edit(shared, request, id),
        ("DELETE", []) => {
            shared.board.delete(id);
            reply::nothing()
        }
        ("GET", ["changelog"]) if shared.is_cloud => changelog(shared, request, id),
        ("GET", ["comment"]) => comments(shared, request, id),
        ("GET", ["comment", number]) => {
            let comments = shared.board.get(id).map(|issue| &issue.comments).into_iter().flatten();
            let found = comments.into_iter().find(|comment| comment.id.to_string() == *number);
            match found {
                Some(comment) => reply::json(&comment_json(shared, id, comment, request.version)),
                None => reply::error(404, "Can not find a comment for the id."),
            }
        }
        ("POST", ["comment"]) => comment(shared, request, id),
        _ => reply::page(405, "Method Not Allowed"),
    }
}

/// An issue in the service's format; `names` are the requested fields, `None` means all.
pub fn shown(
    shared: &JiraState,
    issue: &JiraRecord,
    names: Option<&[String]>,
    version: u8,
) -> Value {
    let wanted = |name: &str| names.is_none_or(|names| names.iter().any(|one| one == name));
    let mut fields = serde_json::Map::new();
    for name in FIELDS {
        if wanted(name) {
            fields.insert(name.to_owned(), field(shared, issue, name, version));
        }
    }
    let mut shown = json!({
        "id": issue.id.to_string(), "key": issue.key(), "expand": "renderedFields,names,schema",
        "self": format!("{}/rest/api/{version}/issue/{}", shared.base_url, issue.id),
    });
    if names != Some(&["id".to_owned()]) {
        shown["fields"] = Value::Object(fields);
    }
    shown
}

const FIELDS: [&str; 19] = [
    "summary",
    "status",
    "resolution",
    "issuetype",
    "priority",
    "updated",
    "created",
    "project",
    "components",
    "labels",
    "fixVersions",
    "assignee",
    "parent",
    "issuelinks",
    "subtasks",
    "attachment",
    "description",
    "environment",
    "comment",
];

fn field(shared: &JiraState, issue: &JiraRecord, name: &str, version: u8) -> Value {
    match name {
        "summary" => json!(issue.summary),
        "status" => {
            let at = STATES.iter().position(|(name, _)| *name == issue.status).unwrap_or(0);
            let category = match issue.category() {
                "new" => (2, "To Do"),
                "done" => (3, "Done"),
                _ => (4, "In Progress"),
            };
            json!({ "id": (10_000 + at).to_string(), "name": issue.status,
                    "statusCategory": { "id": category.0, "key": issue.category(), "name": category.1 } })
        }
        "resolution" if issue.category() == "done" => json!({ "id": "10000", "name": "Done" }),
        "issuetype" => json!({ "id": "10004", "name": issue.kind, "subtask": false }),
        "priority" => priority(shared, &issue.priority),
        "updated" => shared.board.time(issue.updated),
        "created" => shared.board.time(issue.created),
        "project" => project(shared, &issue.project),
        "components" => {
            let components = issue.components.iter().zip(10_000..);
            components.map(|(name, id)| json!({ "id": id.to_string(), "name": name })).collect()
        }
        "labels" => json!(issue.labels),
        "assignee" => issue.assignee.as_ref().map_or(Value::Null, |name| user(shared, name)),
        "fixVersions" => json!([]),
        "description" => issue.description.shown(version),
        "comment" => {
            let total = issue.comments.len();
            let newest = issue.comments.iter().skip(total.saturating_sub(COMMENTS_SHOWN));
            let newest: Vec<Value> =
                newest.map(|comment| comment_json(shared, issue.id, comment, version)).collect();
            json!({ "comments": newest, "maxResults": COMMENTS_SHOWN, "total": total, "startAt": 0 })
        }
        _ => linked::field(shared, issue, name, version).unwrap_or_default(),
    }
}

fn comment_json(shared: &JiraState, issue: i64, comment: &JiraNote, version: u8) -> Value {
    json!({
        "id": comment.id.to_string(), "author": user(shared, &comment.author),
        "body": comment.text.shown(version), "created": shared.board.time(comment.at),
        "updated": shared.board.time(comment.at),
        "self": format!("{}/rest/api/{version}/issue/{issue}/comment/{}", shared.base_url, comment.id),
    })
}

/// What changed, oldest first, in the service's shape.
fn histories(shared: &JiraState, issue: &JiraRecord) -> Vec<Value> {
    let entry = |(edit, number): (&Edit, i64)| {
        let item = |(name, from, to): &(&str, String, String)| {
            let mut item = json!({ "field": name, "fieldtype": "jira", "from": null,
                "fromString": from, "to": null, "toString": to });
            if shared.is_cloud {
                item["fieldId"] = json!(name);
            }
            item
        };
        json!({ "id": number.to_string(), "author": user(shared, ME),
            "created": shared.board.time(edit.at),
            "items": edit.fields.iter().map(item).collect::<Vec<_>>() })
    };
    issue.history.iter().zip(20_000..).map(entry).collect()
}

fn changelog(shared: &JiraState, request: &JiraRequest, id: i64) -> Reply {
    let Some(issue) = shared.board.get(id) else { return reply::no_issue() };
    let all = histories(shared, issue);
    let number = |name: &str| request.number(name).and_then(|n| usize::try_from(n).ok());
    let (start, size) = (number("startAt").unwrap_or(0), number("maxResults").unwrap_or(100));
    let page: Vec<&Value> = all.iter().skip(start).take(size.min(shared.most_rows)).collect();
    let is_last = start + page.len() >= all.len();
    reply::json(&json!({ "startAt": start, "maxResults": size, "total": all.len(),
        "isLast": is_last, "values": page }))
}

fn bulk(shared: &JiraState, request: &JiraRequest) -> Reply {
    let names = request.body["issueIdsOrKeys"].as_array().cloned().unwrap_or_default();
    if names.is_empty() || names.len() > 100 {
        return reply::error(400, "Provide between 1 and 100 issue IDs or keys.");
    }
    let fields: Option<Vec<String>> = serde_json::from_value(request.body["fields"].clone())
        .ok()
        .filter(|names: &Vec<String>| !names.is_empty());
    let (mut issues, mut missing) = (Vec::new(), Vec::new());
    for name in names.iter().filter_map(Value::as_str) {
        match shared.board.find(name) {
            Some(issue) => issues.push(shown(shared, issue, fields.as_deref(), request.version)),
            None => missing.push(json!({ "id": name,
                "errorMessage": "Issue does not exist or you do not have permission to see it." })),
        }
    }
    reply::json(&json!({ "issues": issues, "issueErrors": missing, "expand": "" }))
}

fn create(shared: &mut JiraState, request: &JiraRequest) -> Reply {
    let fields = &request.body["fields"];
    let name = fields["project"]["key"].as_str().unwrap_or(PROJECT);
    let Some(key) = shared.board.project(name) else {
        let body =
            json!({ "errorMessages": [], "errors": { "project": "valid project is required" } });
        return reply::with_status(400, &body);
    };
    let mut issue = blank(&key, fields["summary"].as_str().unwrap_or_default());
    issue.description = text_of(&fields["description"]);
    issue.kind = fields["issuetype"]["name"].as_str().unwrap_or("Task").to_owned();
    let now = shared.board.now();
    let id = shared.board.add(issue, now);
    let key = shared.board.get(id).map(JiraRecord::key);
    let address = format!("{}/rest/api/2/issue/{id}", shared.base_url);
    reply::with_status(201, &json!({ "id": id.to_string(), "key": key, "self": address }))
}

fn text_of(value: &Value) -> JiraText {
    match value {
        Value::Null => JiraText::default(),
        Value::String(text) => JiraText::from_wiki(text),
        document => JiraText::from_adf(document),
    }
}

/// Sets fields, and adds to or removes from sets.
fn edit(shared: &mut JiraState, request: &JiraRequest, id: i64) -> Reply {
    if !shared.may_edit {
        return reply::error(403, "You do not have permission to edit issues in this project.");
    }
    let changes = request.body["update"]["labels"].as_array().cloned().unwrap_or_default();
    let added = |change: &Value| change["add"].as_str().map(str::to_owned);
    if changes.iter().filter_map(added).any(|label| label.contains(char::is_whitespace)) {
        let errors = json!({ "labels": "The label contains spaces which is invalid." });
        return reply::with_status(400, &json!({ "errorMessages": [], "errors": errors }));
    }
    let fields = request.body["fields"].clone();
    shared.board.edit(id, |issue| {
        for change in &changes {
            if let Some(label) = added(change).filter(|label| !issue.labels.contains(label)) {
                issue.labels.push(label);
            }
            if let Some(label) = change["remove"].as_str() {
                issue.labels.retain(|known| known != label);
            }
        }
        if let Some(summary) = fields["summary"].as_str() {
            issue.summary = summary.to_owned();
        }
        if let Ok(labels) = serde_json::from_value::<Vec<String>>(fields["labels"].clone()) {
            issue.labels = labels;
        }
        if let Some(components) = fields["components"].as_array() {
            let name = |one: &Value| one["name"].as_str().map(str::to_owned);
            issue.components = components.iter().filter_map(name).collect();
        }
        if !fields["description"].is_null() {
            issue.description = text_of(&fields["description"]);
        }
    });
    reply::nothing()
}

fn comments(shared: &JiraState, request: &JiraRequest, id: i64) -> Reply {
    let Some(issue) = shared.board.get(id) else { return reply::no_issue() };
    let mut comments: Vec<&JiraNote> = issue.comments.iter().collect();
    if request.query.get("orderBy").is_some_and(|order| order == "-created") {
        comments.reverse();
    }
    let number = |name: &str| request.number(name).and_then(|n| usize::try_from(n).ok());
    let (start, size) = (number("startAt").unwrap_or(0), number("maxResults").unwrap_or(5000));
    let size = if shared.is_cloud { size.min(100) } else { size };
    let page = comments.iter().skip(start).take(size);
    let page: Vec<Value> =
        page.map(|comment| comment_json(shared, id, comment, request.version)).collect();
    reply::json(&json!({
        "startAt": start, "maxResults": size, "total": comments.len(), "comments": page,
    }))
}

fn comment(shared: &mut JiraState, request: &JiraRequest, id: i64) -> Reply {
    if !shared.may_comment {
        return reply::error(403, "You do not have the permission to comment on this issue.");
    }
    let body = &request.body["body"];
    if request.version == 3 && !(body["type"] == "doc" && body["version"] == 1) {
        let errors = json!({ "comment": "Comment body is not valid!" });
        return reply::with_status(400, &json!({ "errorMessages": [], "errors": errors }));
    }
    let length =
        body.as_str().map_or_else(|| body.to_string().chars().count(), |text| text.chars().count());
    if length > MAX_COMMENT_LEN || length == 0 {
        let text =
            "The entered text is too long. It exceeds the allowed limit of 32,767 characters.";
        return reply::with_status(
            400,
            &json!({ "errorMessages": [], "errors": { "comment": text } }),
        );
    }
    let text = text_of(body);
    let Some(comment) = shared.board.add_comment(id, ME, text) else { return reply::no_issue() };
    let issue = shared.board.get(id);
    let found = issue.and_then(|issue| issue.comments.iter().find(|one| one.id == comment));
    match found {
        Some(found) => reply::with_status(201, &comment_json(shared, id, found, request.version)),
        None => reply::no_issue(),
    }
}
