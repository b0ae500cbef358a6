//! Searches: page tokens on Cloud, numbered pages on Data Center. A token is an offset in the
//! result at the time of the next request, so rows that move shift the others.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::fault::SAME_TOKEN;
use super::issues::shown;
use super::jql::JqlQuery;
use super::reply::{self, Reply};
use super::server::{JiraRequest, JiraState};
use super::tracker_data::JiraRecord;

/// Properties that a search on Cloud accepts; others are rejected.
const KEYS: [&str; 9] = [
    "jql",
    "fields",
    "expand",
    "maxResults",
    "nextPageToken",
    "reconcileIssues",
    "fieldsByKeys",
    "properties",
    "failFast",
];

/// The response, if the request is a search.
pub fn answer(shared: &JiraState, request: &JiraRequest) -> Option<Reply> {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    Some(match (shared.is_cloud, path.as_slice()) {
        (true, ["search"]) => reply::error(
            410,
            "The requested API has been removed. Please migrate to the /rest/api/3/search/jql API. \
             A full migration guideline is available at \
             https://developer.atlassian.com/changelog/#CHANGE-2046",
        ),
        (true, ["search", "jql"]) => cloud(shared, request),
        (true, ["search", "approximate-count"]) => match query(shared, request) {
            Ok(query) => reply::json(&json!({ "count": rows(shared, &query, &[]).len() })),
            Err(reply) => reply,
        },
        (false, ["search"]) => server(shared, request),
        _ => return None,
    })
}

fn query(shared: &JiraState, request: &JiraRequest) -> Result<JqlQuery, Reply> {
    let text = request.value("jql");
    let parsed =
        JqlQuery::parse(text.as_str().unwrap_or_default(), &shared.board, request.takes_numbers);
    parsed.map_err(|why| reply::error(400, &why))
}

/// The indexed part of the result, plus the issues requested past the index.
fn rows<'a>(shared: &'a JiraState, query: &JqlQuery, reconciled: &[i64]) -> Vec<&'a JiraRecord> {
    let now = shared.board.now();
    let indexed = match shared.index_lag.is_zero() {
        true => jiff::Timestamp::MAX,
        false => now.checked_sub(shared.index_lag).unwrap_or(now),
    };
    // Only some issues are late, so that a client that follows the newest row would miss them.
    let is_late = |issue: &JiraRecord| issue.id % 2 == 0 && issue.updated > indexed;
    let is_seen = |issue: &&JiraRecord| {
        (!is_late(issue) || reconciled.contains(&issue.id)) && query.matches(issue)
    };
    let mut rows: Vec<&JiraRecord> = shared.board.by_change(query.from).filter(is_seen).collect();
    if !query.by_change {
        rows.sort_by_key(|issue| issue.id);
    }
    rows
}

/// The requested fields; `None` means all.
fn fields(request: &JiraRequest, default: &[&str]) -> Option<Vec<String>> {
    let names: Vec<String> = match request.value("fields") {
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Value::String(names) => names.split(',').map(|name| name.trim().to_owned()).collect(),
        _ => default.iter().map(|&name| name.to_owned()).collect(),
    };
    let is_all = |name: &String| name == "*all" || name == "*navigable";
    (!names.iter().any(is_all)).then_some(names)
}

fn cloud(shared: &JiraState, request: &JiraRequest) -> Reply {
    if request.method == "POST" {
        let unknown = request.body.as_object().into_iter().flatten().map(|(key, _)| key);
        if unknown.into_iter().any(|key| !KEYS.contains(&key.as_str())) {
            return reply::error(
                400,
                "Invalid request payload. Refer to the REST API documentation and try again.",
            );
        }
    }
    let query = match query(shared, request) {
        Ok(query) => query,
        Err(reply) => return reply,
    };
    if query.is_unbounded() {
        return reply::error(
            400,
            "Unbounded JQL queries are not allowed here. Please add a search restriction to your query.",
        );
    }
    let size = request.number("maxResults").unwrap_or(50);
    if !(1..=5000).contains(&size) {
        return reply::error(400, "The value of maxResults must be between 1 and 5000.");
    }
    let offset = match request.value("nextPageToken").as_str() {
        Some(token) => match place_of(token) {
            Some(offset) => offset,
            None => {
                return reply::error(400, "The provided nextPageToken is invalid or has expired.");
            }
        },
        None => 0,
    };
    let reconciled: Vec<i64> = request
        .value("reconcileIssues")
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_i64)
        .collect();
    let rows = rows(shared, &query, &reconciled);
    let size = usize::try_from(size).unwrap_or(50).min(shared.most_rows);
    let names = fields(request, &["id"]);
    let page: Vec<Value> = rows
        .iter()
        .skip(offset)
        .take(size)
        .map(|issue| shown(shared, issue, names.as_deref(), request.version))
        .collect();
    let next = offset + page.len();
    let is_last = next >= rows.len() || page.is_empty();
    let mut body = json!({ "issues": page, "isLast": is_last });
    if !is_last {
        body["nextPageToken"] = json!(token_of(next));
    }
    reply::json(&body)
}

fn token_of(offset: usize) -> String {
    URL_SAFE_NO_PAD.encode(format!("place:{offset}"))
}

fn place_of(token: &str) -> Option<usize> {
    if token == SAME_TOKEN {
        return Some(0);
    }
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    text.strip_prefix("place:")?.parse().ok()
}

fn server(shared: &JiraState, request: &JiraRequest) -> Reply {
    let query = match query(shared, request) {
        Ok(query) => query,
        Err(reply) => return reply,
    };
    let number = |name: &str| request.number(name).and_then(|n| usize::try_from(n).ok());
    let (start, size) = (number("startAt").unwrap_or(0), number("maxResults").unwrap_or(50));
    let size = size.min(shared.most_rows);
    let rows = rows(shared, &query, &[]);
    let names = fields(request, &["*all"]);
    let page: Vec<Value> = rows
        .iter()
        .skip(start)
        .take(size)
        .map(|issue| shown(shared, issue, names.as_deref(), 2))
        .collect();
    reply::json(&json!({
        "expand": "names,schema", "startAt": start, "maxResults": size, "total": rows.len(), "issues": page,
    }))
}
