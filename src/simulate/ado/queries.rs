//! Queries and saved queries of the simulated tracker.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fault::too_many_rows;
use super::filter::{self, QueryScope};
use super::items::item_url;
use super::reply::Reply;
use super::request::AdoRequest;
use super::tracker_data::{AdoData, Saved, Stored};
use super::wiql::{self, Refused, WiqlQuery};

const MAX_QUERY_LEN: usize = 32_000;

/// `POST wiql`.
pub fn run(board: &AdoData, request: &AdoRequest, base_url: &str, limit: usize) -> Reply {
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
    board: &AdoData,
    request: &AdoRequest,
    text: &str,
) -> Result<(WiqlQuery, Vec<i64>), Refused> {
    let query = wiql::parse(text)?;
    let scope = QueryScope {
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
    query: &WiqlQuery,
    mut ids: Vec<i64>,
    as_of: Timestamp,
    request: &AdoRequest,
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

fn head(kind: &str, result: &str, as_of: Timestamp, query: &WiqlQuery, base_url: &str) -> Value {
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
    board: &AdoData,
    request: &AdoRequest,
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
fn links(board: &AdoData, ids: &[i64], base_url: &str) -> Vec<Value> {
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
pub fn saved_query(board: &AdoData, name: &str) -> Reply {
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
