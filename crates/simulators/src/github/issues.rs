//! Issues: lists, single issues, comments, labels, writes.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::reply::{self, Reply, error_body};
use super::resources::{counted, encode};
use super::server::{GithubRequest, GithubState};
use super::tracker_data::{GithubRecord, IssueFate, ME, NewIssue, StoredRepository};

/// In characters.
const MAX_BODY_LEN: usize = 65_536;

/// Handles a request about a repository or its content.
pub fn answer(shared: &mut GithubState, request: &GithubRequest, drop_labels: bool) -> Reply {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let base = shared.base_url.clone();
    let (name, rest) = match path.as_slice() {
        ["repos", owner, name, rest @ ..] => (format!("{owner}/{name}"), rest),
        ["repositories", id, rest @ ..] => {
            let found = id.parse().ok().and_then(|id| shared.board.by_id(id));
            let Some(found) = found else { return reply::not_found() };
            (found.name.clone(), rest)
        }
        _ => return reply::not_found(),
    };
    let Some(repository) = shared.board.by_name(&name) else {
        let Some(renamed) = shared.board.renamed(&name) else { return reply::not_found() };
        // A write keeps its method: 307.
        let status = if request.method == "GET" { 301 } else { 307 };
        let mut to = format!("{base}/repositories/{}", renamed.id);
        for part in rest {
            to.push('/');
            to.push_str(part);
        }
        return reply::moved(status, with_query(to, request));
    };
    if rest.is_empty() {
        return Reply::json(&repository.to_json(&base));
    }
    if rest.first() != Some(&"issues") {
        return reply::not_found();
    }
    if repository.without_issues {
        return reply::error(410, "Issues are disabled for this repo");
    }
    match (request.method.as_str(), &rest[1..]) {
        ("GET", []) => list(shared, &name, request),
        ("POST", []) => create(shared, &name, request),
        (_, [number, rest @ ..]) => match number.parse() {
            Ok(number) => one(shared, &name, number, rest, request, drop_labels),
            Err(_) => reply::not_found(),
        },
        _ => reply::not_found(),
    }
}

fn with_query(mut address: String, request: &GithubRequest) -> String {
    let query: Vec<String> =
        request.query.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    if !query.is_empty() {
        address.push('?');
        address.push_str(&query.join("&"));
    }
    address
}

/// The issues of a repository, including pull requests.
fn list(shared: &GithubState, name: &str, request: &GithubRequest) -> Reply {
    let Some(repository) = shared.board.by_name(name) else { return reply::not_found() };
    let since = request.query.get("since").map(|text| text.parse::<Timestamp>());
    let since = match since {
        Some(Err(_)) => {
            let mut body = error_body(422, "Validation Failed");
            body["errors"] = json!([{ "resource": "Issue", "field": "since", "code": "invalid" }]);
            return Reply::with_status(422, &body);
        }
        other => other.and_then(Result::ok),
    };
    let state = request.query.get("state").map_or("open", String::as_str);
    let labels: Vec<&str> =
        request.query.get("labels").map(|text| text.split(',').collect()).unwrap_or_default();
    let fits = |issue: &&GithubRecord| {
        issue.fate == IssueFate::Here
            && since.is_none_or(|since| issue.updated >= since)
            && (state == "all" || issue.open == (state == "open"))
            && labels
                .iter()
                .all(|label| issue.labels.iter().any(|has| has.eq_ignore_ascii_case(label)))
    };
    let mut rows: Vec<&GithubRecord> = repository.issues.values().filter(fits).collect();
    let by_update = request.query.get("sort").map(String::as_str) == Some("updated");
    let key = |issue: &GithubRecord| {
        (if by_update { issue.updated } else { issue.created }, issue.number)
    };
    rows.sort_by_key(|issue| key(issue));
    let descending = request.query.get("direction").map(String::as_str) != Some("asc");
    if descending {
        rows.reverse();
    }
    let base = &shared.base_url;
    if shared.counts_pages {
        let rows: Vec<Value> =
            rows.iter().map(|issue| repository.issue_json(base, issue)).collect();
        return counted(&rows, request, base);
    }
    continued(repository, rows, request, base, |issue| {
        let (at, number) = key(issue);
        (at.as_second(), number)
    })
}

/// A page by cursor, with a link only to the next one.
fn continued(
    repository: &StoredRepository,
    rows: Vec<&GithubRecord>,
    request: &GithubRequest,
    base: &str,
    key: impl Fn(&GithubRecord) -> (i64, i64),
) -> Reply {
    let size = request.number("per_page").unwrap_or(30).clamp(1, 100);
    let after = request.query.get("after").and_then(|text| {
        let (at, number) = text.strip_prefix("Y3Vyc29y")?.split_once('.')?;
        Some((at.parse::<i64>().ok()?, number.parse::<i64>().ok()?))
    });
    let descending = request.query.get("direction").map(String::as_str) != Some("asc");
    let is_after = |issue: &&&GithubRecord| match after {
        None => true,
        Some(after) if descending => key(issue) < after,
        Some(after) => key(issue) > after,
    };
    let mut rest = rows.iter().filter(is_after);
    let shown: Vec<&&GithubRecord> = rest.by_ref().take(size).collect();
    let page: Vec<Value> = shown.iter().map(|issue| repository.issue_json(base, issue)).collect();
    let reply = Reply::json(&page);
    let Some(last) = shown.last().filter(|_| rest.next().is_some()) else { return reply };
    let (at, number) = key(last);
    let mut query: Vec<String> = request
        .query
        .iter()
        .filter(|(name, _)| *name != "after" && *name != "page")
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect();
    let page = request.number("page").unwrap_or(1) + 1;
    query.push(format!("after=Y3Vyc29y{at}.{number}"));
    query.push(format!("page={page}"));
    let next = format!("{base}/repositories/{}/issues?{}", repository.id, query.join("&"));
    reply.with("link", format!("<{next}>; rel=\"next\""))
}

fn create(shared: &mut GithubState, name: &str, request: &GithubRequest) -> Reply {
    let text = |key: &str| request.body[key].as_str().unwrap_or_default().to_owned();
    let (title, body, now) = (text("title"), text("body"), shared.board.now());
    if title.is_empty() {
        return reply::error(422, "Validation Failed");
    }
    let new = NewIssue { title: &title, body: &body, user: ME, ..NewIssue::default() };
    let number = shared.board.add_issue(name, new, now);
    issue_reply(shared, name, number, 201)
}

/// One issue and its sub-resources.
fn one(
    shared: &mut GithubState,
    name: &str,
    number: i64,
    rest: &[&str],
    request: &GithubRequest,
    drop_labels: bool,
) -> Reply {
    let base = shared.base_url.clone();
    let Some(repository) = shared.board.by_name(name) else { return reply::not_found() };
    let Some(issue) = repository.issues.get(&number) else { return reply::not_found() };
    match issue.fate {
        IssueFate::Here => {}
        IssueFate::Deleted => return reply::error(410, "This issue was deleted"),
        IssueFate::Discussion => return reply::not_found(),
        IssueFate::Transferred(to, number) => {
            let status = if request.method == "GET" { 301 } else { 307 };
            return reply::moved(status, format!("{base}/repositories/{to}/issues/{number}"));
        }
    }
    if request.method != "GET" && repository.archived {
        return reply::error(403, "Repository was archived so is read-only.");
    }
    match (request.method.as_str(), rest) {
        ("GET", []) => Reply::json(&repository.issue_json(&base, issue)),
        ("PATCH", []) => edit(shared, name, number, request),
        ("GET", ["comments"]) => {
            let since = request.query.get("since").and_then(|text| text.parse::<Timestamp>().ok());
            let shown = issue.comments.iter().filter(|c| since.is_none_or(|since| c.at >= since));
            let rows: Vec<Value> =
                shown.map(|comment| repository.comment_json(&base, number, comment)).collect();
            counted(&rows, request, &base)
        }
        ("POST", ["comments"]) => {
            let body = request.body["body"].as_str().unwrap_or_default();
            if issue.locked {
                return reply::error(403, "Unable to create comment because issue is locked.");
            }
            if body.is_empty() || body.chars().count() > MAX_BODY_LEN {
                return reply::error(
                    422,
                    "Validation Failed: body is too long (maximum is 65536 characters)",
                );
            }
            let body = body.to_owned();
            let Some(comment) = shared.board.add_comment(name, number, ME, &body) else {
                return reply::not_found();
            };
            let Some(repository) = shared.board.by_name(name) else { return reply::not_found() };
            Reply::with_status(201, &repository.comment_json(&base, number, &comment))
        }
        ("GET", ["labels"]) => Reply::json(&repository.labels_json(&base, issue)),
        ("POST", ["labels"]) => add_labels(shared, name, number, request, drop_labels),
        ("DELETE", ["labels", label]) => {
            let label = (*label).to_owned();
            shared.board.edit(name, number, move |issue| issue.labels.retain(|own| *own != label));
            let Some(repository) = shared.board.by_name(name) else { return reply::not_found() };
            let Some(issue) = repository.issues.get(&number) else { return reply::not_found() };
            Reply::json(&repository.labels_json(&base, issue))
        }
        ("GET", ["timeline"]) => counted(&issue.events, request, &base),
        _ => reply::not_found(),
    }
}

fn issue_reply(shared: &GithubState, name: &str, number: i64, status: u16) -> Reply {
    let Some(repository) = shared.board.by_name(name) else { return reply::not_found() };
    let Some(issue) = repository.issues.get(&number) else { return reply::not_found() };
    Reply::with_status(status, &repository.issue_json(&shared.base_url, issue))
}

fn edit(shared: &mut GithubState, name: &str, number: i64, request: &GithubRequest) -> Reply {
    let Some(fields) = request.body.as_object().filter(|fields| !fields.is_empty()) else {
        // An empty change has no effect.
        return issue_reply(shared, name, number, 200);
    };
    let fields = fields.clone();
    shared.board.edit(name, number, move |issue| {
        let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(title) = text("title") {
            issue.title = title;
        }
        if let Some(body) = text("body") {
            issue.body = Some(body);
        }
        if let Some(people) = fields.get("assignees").and_then(Value::as_array) {
            issue.assignees =
                people.iter().filter_map(|who| who.as_str().map(str::to_owned)).collect();
        }
        if let Some(state) = text("state") {
            issue.open = state == "open";
            let reason = if issue.open { "reopened" } else { "completed" };
            issue.state_reason = Some(reason);
        }
    });
    issue_reply(shared, name, number, 200)
}

/// Adds labels; existing ones have no effect, unknown ones are created.
fn add_labels(
    shared: &mut GithubState,
    name: &str,
    number: i64,
    request: &GithubRequest,
    drop_labels: bool,
) -> Reply {
    let list = request.body.get("labels").unwrap_or(&request.body);
    let wanted: Vec<String> = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let Some(repository) = shared.board.by_name_mut(name) else { return reply::not_found() };
    let Some(issue) = repository.issues.get(&number) else { return reply::not_found() };
    let missing: Vec<String> = wanted
        .into_iter()
        .filter(|label| !issue.labels.iter().any(|has| has.eq_ignore_ascii_case(label)))
        .collect();
    if !missing.is_empty() && !drop_labels {
        repository.labels.extend(missing.iter().cloned());
        shared.board.edit(name, number, move |issue| issue.labels.extend(missing));
    }
    let base = &shared.base_url;
    let Some(repository) = shared.board.by_name(name) else { return reply::not_found() };
    let Some(issue) = repository.issues.get(&number) else { return reply::not_found() };
    Reply::json(&repository.labels_json(base, issue))
}
