//! Queries, saved queries and the revision stream of the simulated tracker.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fault::too_many_rows;
use super::filter::{self, Scope};
use super::items::{Shown, View, item_url};
use super::reply::Reply;
use super::request::ApiRequest;
use super::tracker_data::{Saved, Stored, TrackerData};
use super::wiql::{self, Query, Refused};

const MAX_QUERY_LEN: usize = 32_000;
/// Default number of revisions in one batch of the stream.
const STREAM_PAGE: usize = 200;

/// `POST wiql`.
pub fn run(board: &TrackerData, request: &ApiRequest, base_url: &str, limit: usize) -> Reply {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let Some(text) = body.get("query").and_then(Value::as_str) else {
        let text = "VS402347: The query must not be empty.";
        return Reply::error(400, "VssPropertyValidationException", text);
    };
    if text.chars().count() > MAX_QUERY_LEN {
        let text = "VS402338: The query text is longer than allowed.";
        return Reply::error(400, "WorkItemTrackingQueryException", text);
    }
    match find(board, request, text) {
        Ok((query, ids)) => answer_flat(&query, ids, board.now(), request, base_url, limit),
        Err(refused) => refusal(&refused),
    }
}

fn find(
    board: &TrackerData,
    request: &ApiRequest,
    text: &str,
) -> Result<(Query, Vec<i64>), Refused> {
    let query = wiql::parse(text)?;
    let scope = Scope {
        time_precision: request.flag("timeprecision"),
        has_team: request.scope.len() > 1,
        now: board.now(),
    };
    let ids = filter::run(board, &query, scope)?;
    Ok((query, ids))
}

fn refusal(refused: &Refused) -> Reply {
    let text = match refused.code {
        "" => refused.message.clone(),
        code => format!("{code}: {}", refused.message),
    };
    // The only query error that the service reports as its own failure.
    let status = if refused.code == "VS402612" { 500 } else { 400 };
    Reply::error(status, "SyntaxErrorException", &text)
}

fn answer_flat(
    query: &Query,
    mut ids: Vec<i64>,
    as_of: Timestamp,
    request: &ApiRequest,
    base_url: &str,
    limit: usize,
) -> Reply {
    if let Some(top) = request.get("$top").and_then(|top| top.parse().ok()) {
        ids.truncate(top);
    }
    if ids.len() > limit {
        return too_many_rows(limit);
    }
    let rows: Vec<Value> =
        ids.iter().map(|id| json!({ "id": id, "url": item_url(base_url, *id) })).collect();
    let mut answer = head("flat", "workItem", as_of, query, base_url);
    answer["workItems"] = Value::from(rows);
    Reply::json(&answer).with("x-total-count", ids.len().to_string())
}

fn head(kind: &str, result: &str, as_of: Timestamp, query: &Query, base_url: &str) -> Value {
    let column = |name: &String| {
        let short = name.rsplit('.').next().unwrap_or(name);
        json!({
            "referenceName": name,
            "name": short,
            "url": format!("{base_url}/_apis/wit/fields/{name}"),
        })
    };
    let columns: Vec<Value> = query.columns.iter().map(column).collect();
    json!({ "queryType": kind, "queryResultType": result, "asOf": as_of, "columns": columns })
}

/// `GET wiql/{id}`.
pub fn run_saved(
    board: &TrackerData,
    request: &ApiRequest,
    id: &str,
    base_url: &str,
    limit: usize,
) -> Reply {
    let Some(saved) = board.saved.iter().find(|saved| saved.id.eq_ignore_ascii_case(id)) else {
        let text = format!("TF401243: The query {id} does not exist.");
        return Reply::error(404, "QueryItemNotFoundException", &text);
    };
    let (query, ids) = match find(board, request, &saved.wiql) {
        Ok(found) => found,
        Err(refused) => return refusal(&refused),
    };
    if saved.kind == "flat" {
        return answer_flat(&query, ids, board.now(), request, base_url, limit);
    }
    let mut answer = head(saved.kind, "workItemLink", board.now(), &query, base_url);
    answer["workItemRelations"] = Value::from(links(board, &ids, base_url));
    Reply::json(&answer)
}

/// Each item as a root, and each child below its parent: ids may be repeated.
fn links(board: &TrackerData, ids: &[i64], base_url: &str) -> Vec<Value> {
    let end = |id: i64| json!({ "id": id, "url": item_url(base_url, id) });
    let mut rows: Vec<Value> =
        ids.iter().map(|id| json!({ "rel": null, "source": null, "target": end(*id) })).collect();
    for id in ids {
        let parent = board.item(*id).and_then(|item| item.at(None)?.values.get("System.Parent"));
        if let Some(Stored::Number(parent)) = parent {
            let rel = "System.LinkTypes.Hierarchy-Forward";
            rows.push(json!({ "rel": rel, "source": end(*parent), "target": end(*id) }));
        }
    }
    rows
}

/// `GET queries/{path or id}`.
pub fn saved_query(board: &TrackerData, name: &str) -> Reply {
    let found = |saved: &&Saved| {
        saved.id.eq_ignore_ascii_case(name) || saved.path.eq_ignore_ascii_case(name)
    };
    if let Some(saved) = board.saved.iter().find(found) {
        let name = saved.path.rsplit('/').next();
        return Reply::json(&json!({
            "id": saved.id, "name": name, "path": saved.path, "queryType": saved.kind,
            "isPublic": true,
        }));
    }
    let below = format!("{}/", name.to_lowercase());
    if board.saved.iter().any(|saved| saved.path.to_lowercase().starts_with(&below)) {
        return Reply::json(&json!({
            "id": "0d2c7c1f-0000-4000-8000-000000000001", "name": name, "path": name,
            "isFolder": true, "hasChildren": true,
        }));
    }
    let text = format!("TF401243: The query {name} does not exist, or you do not have permission.");
    Reply::error(404, "QueryItemNotFoundException", &text)
}

/// `GET|POST reporting/workitemrevisions`.
pub fn revisions(board: &TrackerData, request: &ApiRequest, base_url: &str) -> Reply {
    let size = request.get("$maxpagesize").and_then(|n| n.parse().ok()).unwrap_or(STREAM_PAGE);
    let start = match request.get("continuationtoken").filter(|token| !token.is_empty()) {
        Some(token) => token.split(';').next().and_then(|n| n.parse().ok()).unwrap_or(0),
        None => first_since(board, request.get("startdatetime").and_then(|t| t.parse().ok())),
    };
    let end = board.stream.len().min(start.saturating_add(size));
    let latest_only = request.flag("includelatestonly");
    let mut values = Vec::new();
    for entry in board.stream.get(start..end).unwrap_or_default() {
        let Some(item) = board.items.get(&entry.id) else { continue };
        let Some(last) = item.revisions.last() else { continue };
        match entry.rev {
            None if request.flag("includedeleted") => values.push(json!({
                "id": item.id,
                "rev": last.rev + 1,
                "fields": { "System.Id": item.id, "System.IsDeleted": true,
                            "System.ChangedDate": item.deleted },
            })),
            None => {}
            Some(rev) if latest_only && (rev != last.rev || item.deleted.is_some()) => {}
            Some(rev) => {
                if let Some(revision) = item.revisions.iter().find(|r| r.rev == rev) {
                    values.push(stream_entry(item, revision, request, base_url));
                }
            }
        }
    }
    let token = format!("{end};{};1", board.stream.get(end.wrapping_sub(1)).map_or(0, |e| e.id));
    let encoded = token.replace(';', "%3B");
    Reply::json(&json!({
        "values": values,
        // Present even on the last batch.
        "nextLink": format!(
            "{base_url}/_apis/wit/reporting/workItemRevisions?continuationToken={encoded}"
        ),
        "continuationToken": token,
        "isLastBatch": end >= board.stream.len(),
    }))
}

fn first_since(board: &TrackerData, since: Option<Timestamp>) -> usize {
    let Some(since) = since else { return 0 };
    let at = |entry: &super::tracker_data::Entry| {
        let item = board.items.get(&entry.id)?;
        match entry.rev {
            Some(rev) => item.revisions.iter().find(|r| r.rev == rev).map(|r| r.changed),
            None => item.deleted,
        }
    };
    let found = board.stream.iter().position(|entry| at(entry).is_some_and(|at| at >= since));
    found.unwrap_or(board.stream.len())
}

/// Identities are strings in the stream, and long texts are only sent on request.
fn stream_entry(
    item: &super::tracker_data::Item,
    revision: &super::tracker_data::Revision,
    request: &ApiRequest,
    base_url: &str,
) -> Value {
    let view = View { base_url, fields: None, relations: None };
    let mut value = serde_json::to_value(Shown { item, revision, view }).unwrap_or_default();
    let whole = request.get("$expand").is_some_and(|expand| expand.eq_ignore_ascii_case("fields"));
    if let Some(fields) = value["fields"].as_object_mut() {
        fields
            .retain(|_, field| whole || !field.as_str().is_some_and(|text| text.starts_with('<')));
        for field in fields.values_mut().filter(|field| field.is_object()) {
            let name = field["displayName"].as_str().unwrap_or_default().to_owned();
            let mail = field["uniqueName"].as_str().unwrap_or_default().to_owned();
            *field = Value::from(format!("{name} <{mail}>"));
        }
    }
    value
}
