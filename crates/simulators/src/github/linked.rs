//! Parents and sub-issues, references, commits, files.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Simulator;
use super::reply::{self, Reply};
use super::server::{GithubRequest, GithubState};
use super::tracker_data::GithubData;
use heartbeat::simulate::{StoredCommit, StoredFile};

#[derive(Debug, Default)]
pub struct GithubLinks {
    /// By their path on the web server.
    files: BTreeMap<String, StoredFile>,
    commits: BTreeMap<String, StoredCommit>,
    /// Files of pull requests, by repository and number.
    pull_requests: BTreeMap<(String, i64), Vec<String>>,
}

/// The response, if the request is about one of these.
pub fn answer(shared: &GithubState, request: &GithubRequest) -> Option<Reply> {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let linked = &shared.board.linked;
    Some(match path.as_slice() {
        ["user-attachments" | "media", ..] => match linked.files.get(&path.join("/")) {
            // The file store has no authentication: a credential sent to it is a bug of the client.
            _ if path[0] == "media" && request.secret().is_some() => {
                reply::error(400, "Only one auth mechanism allowed")
            }
            Some(StoredFile::Bytes(bytes)) => {
                Reply::bytes(200, "application/octet-stream", bytes.clone())
            }
            Some(StoredFile::Redirect(to)) => reply::moved(302, to.clone()),
            None => reply::not_found(),
        },
        ["repos", _, _, "commits", hash] => match linked.commits.get(*hash) {
            Some(commit) => Reply::json(&json!({
                "sha": hash, "commit": { "message": commit.message }, "files": named(&commit.files),
            })),
            None => reply::error(422, "No commit found for SHA"),
        },
        ["repos", owner, name, "pulls", number, "files"] => {
            let number = number.parse().unwrap_or(0);
            match linked.pull_requests.get(&(format!("{owner}/{name}"), number)) {
                Some(files) => Reply::json(&named(files)),
                None => reply::not_found(),
            }
        }
        ["repos", owner, name, "issues", number, "sub_issues"] => {
            let number = number.parse().unwrap_or(0);
            sub_issues(&shared.board, &format!("{owner}/{name}"), number, &shared.base_url)
        }
        _ => return None,
    })
}

fn named(files: &[String]) -> Value {
    files.iter().map(|name| json!({ "filename": name, "status": "modified" })).collect()
}

fn sub_issues(board: &GithubData, repository: &str, number: i64, base: &str) -> Reply {
    let issue = board.by_name(repository).and_then(|found| found.issues.get(&number));
    let Some(issue) = issue else { return reply::not_found() };
    let child = |(name, number): &(String, i64)| {
        let repository = board.by_name(name)?;
        Some(repository.issue_json(base, repository.issues.get(number)?))
    };
    let children: Vec<Value> = issue.children.iter().filter_map(child).collect();
    Reply::json(&children)
}

impl Simulator {
    pub fn set_parent(&self, child: (&str, i64), parent: (&str, i64)) {
        let mut shared = self.server.lock();
        let owned = |(name, number): (&str, i64)| (name.to_owned(), number);
        shared.board.edit(child.0, child.1, |issue| issue.parent = Some(owned(parent)));
        shared.board.edit(parent.0, parent.1, |issue| issue.children.push(owned(child)));
    }

    /// Adds a mention of an issue by another issue or pull request.
    pub fn refer(&self, to: (&str, i64), from: (&str, i64)) {
        let mut shared = self.server.lock();
        let (base, now) = (shared.base_url.clone(), shared.board.now().to_string());
        let repository = shared.board.by_name(from.0);
        let source = repository.and_then(|found| {
            found.issues.get(&from.1).map(|issue| found.issue_json(&base, issue))
        });
        let event = json!({
            "event": "cross-referenced", "created_at": now,
            "source": { "type": "issue", "issue": source },
        });
        shared.board.edit(to.0, to.1, |issue| issue.events.push(event));
    }

    /// Returns its number.
    pub fn add_pull_request(&self, repository: &str, title: &str, files: &[&str]) -> i64 {
        let mut shared = self.server.lock();
        let now = shared.board.now();
        let new = super::NewIssue {
            title,
            user: "mira",
            is_pull_request: true,
            ..super::NewIssue::default()
        };
        let number = shared.board.add_issue(repository, new, now);
        let files = files.iter().map(|&name| name.to_owned()).collect();
        shared.board.linked.pull_requests.insert((repository.to_owned(), number), files);
        number
    }

    pub fn close_by_commit(&self, repository: &str, number: i64, hash: &str, commit: StoredCommit) {
        let mut shared = self.server.lock();
        let (base, now) = (shared.base_url.clone(), shared.board.now().to_string());
        let event = json!({
            "event": "closed", "created_at": now, "commit_id": hash,
            "commit_url": format!("{base}/repos/{repository}/commits/{hash}"),
        });
        shared.board.edit(repository, number, |issue| {
            issue.open = false;
            issue.events.push(event);
        });
        shared.board.linked.commits.insert(hash.to_owned(), commit);
    }

    /// Stores a file; returns its address.
    pub fn keep_file(&self, path: &str, file: StoredFile) -> String {
        self.server.lock().board.linked.files.insert(path.to_owned(), file);
        format!("http://{}/{path}", self.address())
    }

    pub fn set_body(&self, repository: &str, number: i64, body: &str) {
        let body = Some(body.to_owned());
        self.server.lock().board.edit(repository, number, |issue| issue.body = body);
    }
}
