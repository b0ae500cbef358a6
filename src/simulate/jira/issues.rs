//! Issues: read one by one and many at once, changed, commented on.

use serde_json::{Value, json};

use super::beside;
use super::board::{Issue, PROJECT, Remark, STATES};
use super::reply::Reply;
use super::resources::{ME, priority, project, user};
use super::seed::blank;
use super::server::{Asked, Shared};
use super::text::Text;

/// Characters of a comment.
const LONGEST_COMMENT: usize = 32_767;
/// Comments that an issue shows of its newest ones.
const COMMENTS_SHOWN: usize = 20;

pub fn answer(shared: &mut Shared, asked: &Asked) -> Reply {
    let path: Vec<&str> = asked.path.iter().map(String::as_str).collect();
    match (asked.method.as_str(), path.as_slice()) {
        ("POST", ["issue"]) => create(shared, asked),
        ("POST", ["issue", "bulkfetch"]) if shared.is_cloud => bulk(shared, asked),
        (method, ["issue", name, rest @ ..]) => {
            let Some(id) = shared.board.find(name).map(|issue| issue.id) else {
                return Reply::no_issue();
            };
            one(shared, asked, method, id, rest)
        }
        _ => Reply::page(404, "Oops, you've found a dead link"),
    }
}

fn one(shared: &mut Shared, asked: &Asked, method: &str, id: i64, rest: &[&str]) -> Reply {
    match (method, rest) {
        ("GET", []) => {
            let names: Option<Vec<String>> = asked
                .query
                .get("fields")
                .map(|names| names.split(',').map(str::to_owned).collect::<Vec<_>>())
                .filter(|names| !names.iter().any(|name| name.starts_with('*')));
            match shared.board.get(id) {
                Some(issue) => Reply::json(&shown(shared, issue, names.as_deref(), asked.version)),
                None => Reply::no_issue(),
            }
        }
        ("PUT", []) => edit(shared, asked, id),
        ("DELETE", []) => {
            shared.board.delete(id);
            Reply::nothing()
        }
        ("GET", ["comment"]) => comments(shared, asked, id),
        ("GET", ["comment", number]) => {
            let remarks = shared.board.get(id).map(|issue| &issue.comments).into_iter().flatten();
            let found = remarks.into_iter().find(|remark| remark.id.to_string() == *number);
            match found {
                Some(remark) => Reply::json(&remark_shown(shared, id, remark, asked.version)),
                None => Reply::error(404, "Can not find a comment for the id."),
            }
        }
        ("POST", ["comment"]) => comment(shared, asked, id),
        _ => Reply::page(405, "Method Not Allowed"),
    }
}

/// An issue in the service's shape; `names` are the fields that are wanted, none: all.
pub fn shown(shared: &Shared, issue: &Issue, names: Option<&[String]>, version: u8) -> Value {
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

fn field(shared: &Shared, issue: &Issue, name: &str, version: u8) -> Value {
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
                newest.map(|remark| remark_shown(shared, issue.id, remark, version)).collect();
            json!({ "comments": newest, "maxResults": COMMENTS_SHOWN, "total": total, "startAt": 0 })
        }
        _ => beside::field(shared, issue, name, version).unwrap_or_default(),
    }
}

fn remark_shown(shared: &Shared, issue: i64, remark: &Remark, version: u8) -> Value {
    json!({
        "id": remark.id.to_string(), "author": user(shared, &remark.author),
        "body": remark.text.shown(version), "created": shared.board.time(remark.at),
        "updated": shared.board.time(remark.at),
        "self": format!("{}/rest/api/{version}/issue/{issue}/comment/{}", shared.base_url, remark.id),
    })
}

fn bulk(shared: &Shared, asked: &Asked) -> Reply {
    let names = asked.body["issueIdsOrKeys"].as_array().cloned().unwrap_or_default();
    if names.is_empty() || names.len() > 100 {
        return Reply::error(400, "Provide between 1 and 100 issue IDs or keys.");
    }
    let fields: Option<Vec<String>> = serde_json::from_value(asked.body["fields"].clone())
        .ok()
        .filter(|names: &Vec<String>| !names.is_empty());
    let (mut issues, mut missing) = (Vec::new(), Vec::new());
    for name in names.iter().filter_map(Value::as_str) {
        match shared.board.find(name) {
            Some(issue) => issues.push(shown(shared, issue, fields.as_deref(), asked.version)),
            None => missing.push(json!({ "id": name,
                "errorMessage": "Issue does not exist or you do not have permission to see it." })),
        }
    }
    Reply::json(&json!({ "issues": issues, "issueErrors": missing, "expand": "" }))
}

fn create(shared: &mut Shared, asked: &Asked) -> Reply {
    let fields = &asked.body["fields"];
    let name = fields["project"]["key"].as_str().unwrap_or(PROJECT);
    let Some(key) = shared.board.project(name) else {
        let body =
            json!({ "errorMessages": [], "errors": { "project": "valid project is required" } });
        return Reply::with_status(400, &body);
    };
    let mut issue = blank(&key, fields["summary"].as_str().unwrap_or_default());
    issue.description = text_of(&fields["description"]);
    issue.kind = fields["issuetype"]["name"].as_str().unwrap_or("Task").to_owned();
    let now = shared.board.now();
    let id = shared.board.add(issue, now);
    let key = shared.board.get(id).map(Issue::key);
    let address = format!("{}/rest/api/2/issue/{id}", shared.base_url);
    Reply::with_status(201, &json!({ "id": id.to_string(), "key": key, "self": address }))
}

fn text_of(value: &Value) -> Text {
    match value {
        Value::Null => Text::default(),
        Value::String(text) => Text::from_wiki(text),
        document => Text::from_adf(document),
    }
}

/// Sets fields, and adds to or takes from sets.
fn edit(shared: &mut Shared, asked: &Asked, id: i64) -> Reply {
    if !shared.may_edit {
        return Reply::error(403, "You do not have permission to edit issues in this project.");
    }
    let changes = asked.body["update"]["labels"].as_array().cloned().unwrap_or_default();
    let added = |change: &Value| change["add"].as_str().map(str::to_owned);
    if changes.iter().filter_map(added).any(|label| label.contains(char::is_whitespace)) {
        let errors = json!({ "labels": "The label contains spaces which is invalid." });
        return Reply::with_status(400, &json!({ "errorMessages": [], "errors": errors }));
    }
    let fields = asked.body["fields"].clone();
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
        if !fields["description"].is_null() {
            issue.description = text_of(&fields["description"]);
        }
    });
    Reply::nothing()
}

fn comments(shared: &Shared, asked: &Asked, id: i64) -> Reply {
    let Some(issue) = shared.board.get(id) else { return Reply::no_issue() };
    let mut remarks: Vec<&Remark> = issue.comments.iter().collect();
    if asked.query.get("orderBy").is_some_and(|order| order == "-created") {
        remarks.reverse();
    }
    let number = |name: &str| asked.number(name).and_then(|n| usize::try_from(n).ok());
    let (start, size) = (number("startAt").unwrap_or(0), number("maxResults").unwrap_or(5000));
    let size = if shared.is_cloud { size.min(100) } else { size };
    let page = remarks.iter().skip(start).take(size);
    let page: Vec<Value> =
        page.map(|remark| remark_shown(shared, id, remark, asked.version)).collect();
    Reply::json(&json!({
        "startAt": start, "maxResults": size, "total": remarks.len(), "comments": page,
    }))
}

fn comment(shared: &mut Shared, asked: &Asked, id: i64) -> Reply {
    if !shared.may_comment {
        return Reply::error(403, "You do not have the permission to comment on this issue.");
    }
    let body = &asked.body["body"];
    if asked.version == 3 && !(body["type"] == "doc" && body["version"] == 1) {
        let errors = json!({ "comment": "Comment body is not valid!" });
        return Reply::with_status(400, &json!({ "errorMessages": [], "errors": errors }));
    }
    let length =
        body.as_str().map_or_else(|| body.to_string().chars().count(), |text| text.chars().count());
    if length > LONGEST_COMMENT || length == 0 {
        let text =
            "The entered text is too long. It exceeds the allowed limit of 32,767 characters.";
        return Reply::with_status(
            400,
            &json!({ "errorMessages": [], "errors": { "comment": text } }),
        );
    }
    let text = text_of(body);
    let Some(remark) = shared.board.comment(id, ME, text) else { return Reply::no_issue() };
    let issue = shared.board.get(id);
    let found = issue.and_then(|issue| issue.comments.iter().find(|one| one.id == remark));
    match found {
        Some(found) => Reply::with_status(201, &remark_shown(shared, id, found, asked.version)),
        None => Reply::no_issue(),
    }
}
