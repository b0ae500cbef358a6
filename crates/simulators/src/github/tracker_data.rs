//! The data of the simulated GitHub: repositories, issues, comments, labels.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use heartbeat::clock::Clock;

/// The account of the accepted token.
pub const ME: &str = "heartbeat-bot";

#[derive(Debug)]
pub struct GithubData {
    pub repositories: Vec<StoredRepository>,
    pub linked: super::linked::GithubLinks,
    pub clock: Clock,
    next_id: i64,
}

#[derive(Debug)]
pub struct StoredRepository {
    pub id: i64,
    /// `owner/name`.
    pub name: String,
    /// Former names; requests for them are redirected.
    pub earlier: Vec<String>,
    pub archived: bool,
    /// Issues are disabled.
    pub without_issues: bool,
    pub labels: BTreeSet<String>,
    pub issues: BTreeMap<i64, GithubRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssueFate {
    Here,
    Deleted,
    /// New repository and number.
    Transferred(i64, i64),
    /// Converted to a discussion.
    Discussion,
}

#[derive(Debug, Clone)]
pub struct GithubRecord {
    pub id: i64,
    pub number: i64,
    pub title: String,
    pub body: Option<String>,
    pub open: bool,
    pub state_reason: Option<&'static str>,
    pub labels: Vec<String>,
    pub user: String,
    pub assignees: Vec<String>,
    pub milestone: Option<String>,
    pub kind: Option<String>,
    pub created: Timestamp,
    pub updated: Timestamp,
    pub comments: Vec<GithubNote>,
    pub locked: bool,
    pub is_pull_request: bool,
    pub fate: IssueFate,
    /// Pull requests that refer to it, and commits that closed it.
    pub events: Vec<Value>,
    /// Repository and number.
    pub parent: Option<(String, i64)>,
    pub children: Vec<(String, i64)>,
}

#[derive(Debug, Clone)]
pub struct GithubNote {
    pub id: i64,
    pub user: String,
    pub body: String,
    pub at: Timestamp,
}

impl GithubData {
    pub fn new(clock: Clock) -> Self {
        Self { repositories: Vec::new(), linked: Default::default(), clock, next_id: 4_570_308_119 }
    }

    /// In whole seconds, like GitHub.
    pub fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    pub fn id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id
    }

    pub fn add_repository(&mut self, name: &str) -> i64 {
        let id = 1_296_269 + i64::try_from(self.repositories.len()).unwrap_or(0);
        self.repositories.push(StoredRepository {
            id,
            name: name.to_owned(),
            earlier: Vec::new(),
            archived: false,
            without_issues: false,
            labels: BTreeSet::new(),
            issues: BTreeMap::new(),
        });
        id
    }

    pub fn by_id(&self, id: i64) -> Option<&StoredRepository> {
        self.repositories.iter().find(|repository| repository.id == id)
    }

    /// The repository that has this name now.
    pub fn by_name(&self, name: &str) -> Option<&StoredRepository> {
        self.repositories.iter().find(|repository| repository.name.eq_ignore_ascii_case(name))
    }

    pub fn by_name_mut(&mut self, name: &str) -> Option<&mut StoredRepository> {
        self.repositories.iter_mut().find(|repository| repository.name.eq_ignore_ascii_case(name))
    }

    /// The repository that formerly had this name.
    pub fn renamed(&self, name: &str) -> Option<&StoredRepository> {
        let had = |known: &String| known.eq_ignore_ascii_case(name);
        self.repositories.iter().find(|repository| repository.earlier.iter().any(had))
    }

    /// Returns the issue's number.
    pub fn add_issue(&mut self, repository: &str, issue: NewIssue<'_>, at: Timestamp) -> i64 {
        let id = self.id();
        let Some(repository) = self.by_name_mut(repository) else { return 0 };
        let number = repository.issues.last_key_value().map_or(1, |(number, _)| number + 1);
        repository.labels.extend(issue.labels.iter().map(|&label| label.to_owned()));
        let added = GithubRecord {
            id,
            number,
            title: issue.title.to_owned(),
            body: Some(issue.body.to_owned()).filter(|body| !body.is_empty()),
            open: true,
            state_reason: None,
            labels: issue.labels.iter().map(|&label| label.to_owned()).collect(),
            user: issue.user.to_owned(),
            assignees: Vec::new(),
            milestone: None,
            kind: issue.labels.contains(&"bug").then(|| "Bug".to_owned()),
            created: at,
            updated: at,
            comments: Vec::new(),
            locked: false,
            is_pull_request: issue.is_pull_request,
            fate: IssueFate::Here,
            events: Vec::new(),
            parent: None,
            children: Vec::new(),
        };
        repository.issues.insert(number, added);
        number
    }

    /// Changes an existing issue and sets its time of change to now.
    pub fn edit<T>(
        &mut self,
        repository: &str,
        number: i64,
        change: impl FnOnce(&mut GithubRecord) -> T,
    ) -> Option<T> {
        let now = self.now();
        let issue = self.by_name_mut(repository)?.issues.get_mut(&number)?;
        if issue.fate != IssueFate::Here {
            return None;
        }
        let changed = change(issue);
        issue.updated = issue.updated.max(now);
        Some(changed)
    }

    /// Adds a comment, which changes the issue's time.
    pub fn add_comment(
        &mut self,
        repository: &str,
        number: i64,
        user: &str,
        body: &str,
    ) -> Option<GithubNote> {
        let (id, at) = (self.id(), self.now());
        let comment = GithubNote { id, user: user.to_owned(), body: body.to_owned(), at };
        let kept = comment.clone();
        self.edit(repository, number, move |issue| issue.comments.push(kept))?;
        Some(comment)
    }

    /// Moves an issue to another repository, where it gets a new number.
    pub fn transfer(&mut self, from: &str, number: i64, to: &str) -> Option<i64> {
        let now = self.now();
        let moved = self.by_name(from)?.issues.get(&number)?.clone();
        let target = self.by_name_mut(to)?;
        let new = target.issues.last_key_value().map_or(1, |(number, _)| number + 1);
        let target_id = target.id;
        target.issues.insert(new, GithubRecord { number: new, updated: now, ..moved });
        self.by_name_mut(from)?.issues.get_mut(&number)?.fate =
            IssueFate::Transferred(target_id, new);
        Some(new)
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct NewIssue<'a> {
    pub title: &'a str,
    pub body: &'a str,
    pub user: &'a str,
    pub labels: &'a [&'a str],
    pub is_pull_request: bool,
}

pub fn account(base: &str, login: &str) -> Value {
    let kind = if login.ends_with("[bot]") || login == ME { "Bot" } else { "User" };
    json!({
        "login": login, "id": 583_231, "node_id": "MDQ6VXNlcjU4MzIzMQ==", "type": kind,
        "avatar_url": "https://avatars.githubusercontent.com/u/583231", "gravatar_id": "",
        "url": format!("{base}/users/{login}"), "html_url": format!("https://github.com/{login}"),
        "site_admin": false,
    })
}

fn label(base: &str, repository: &str, name: &str) -> Value {
    json!({
        "id": 208_045_946, "node_id": "MDU6TGFiZWwyMDgwNDU5NDY=", "name": name, "color": "f29513",
        "default": false, "description": null,
        "url": format!("{base}/repos/{repository}/labels/{name}"),
    })
}

impl StoredRepository {
    pub fn to_json(&self, base: &str) -> Value {
        let (owner, short) = self.name.split_once('/').unwrap_or(("", &self.name));
        let open = self.issues.values().filter(|issue| issue.open && issue.fate == IssueFate::Here);
        json!({
            "id": self.id, "node_id": "MDEwOlJlcG9zaXRvcnkxMjk2MjY5", "name": short,
            "full_name": self.name, "owner": account(base, owner), "private": true,
            "html_url": format!("https://github.com/{}", self.name), "description": null,
            "fork": false, "url": format!("{base}/repos/{}", self.name),
            "issues_url": format!("{base}/repos/{}/issues{{/number}}", self.name),
            "has_issues": !self.without_issues, "archived": self.archived, "disabled": false,
            "open_issues_count": open.count(), "default_branch": "main", "visibility": "private",
            "permissions": { "admin": false, "push": true, "pull": true, "triage": true },
            "created_at": "2011-01-26T19:01:12Z", "updated_at": "2026-01-26T19:14:43Z",
            "pushed_at": "2026-01-26T19:06:43Z",
        })
    }

    pub fn labels_json(&self, base: &str, issue: &GithubRecord) -> Value {
        issue.labels.iter().map(|name| label(base, &self.name, name)).collect()
    }

    pub fn issue_json(&self, base: &str, issue: &GithubRecord) -> Value {
        let url = format!("{base}/repos/{}/issues/{}", self.name, issue.number);
        let page = if issue.is_pull_request { "pull" } else { "issues" };
        let html_url = format!("https://github.com/{}/{page}/{}", self.name, issue.number);
        let people: Vec<Value> = issue.assignees.iter().map(|who| account(base, who)).collect();
        let milestone = issue.milestone.as_ref().map(|title| {
            json!({ "id": 1_002_604, "number": 1, "title": title, "state": "open",
                    "url": format!("{base}/repos/{}/milestones/1", self.name) })
        });
        let kind = issue.kind.as_ref().map(|name| json!({ "id": 410, "name": name }));
        let mut value = json!({
            "id": issue.id, "node_id": "MDU6SXNzdWUx", "number": issue.number, "url": url,
            "repository_url": format!("{base}/repos/{}", self.name),
            "labels_url": format!("{url}/labels{{/name}}"), "comments_url": format!("{url}/comments"),
            "events_url": format!("{url}/events"), "timeline_url": format!("{url}/timeline"),
            "html_url": html_url, "title": issue.title, "body": issue.body,
            "user": account(base, &issue.user), "labels": self.labels_json(base, issue),
            "state": if issue.open { "open" } else { "closed" }, "state_reason": issue.state_reason,
            "locked": issue.locked, "active_lock_reason": null,
            "assignee": people.first(), "assignees": people, "milestone": milestone, "type": kind,
            "comments": issue.comments.len(), "author_association": "NONE",
            "created_at": issue.created.to_string(), "updated_at": issue.updated.to_string(),
            "closed_at": if issue.open { None } else { Some(issue.updated.to_string()) },
            "closed_by": null, "performed_via_github_app": null,
            "sub_issues_summary": { "total": issue.children.len(), "completed": 0, "percent_completed": 0 },
            "reactions": { "url": format!("{url}/reactions"), "total_count": 0 },
        });
        if let Some((name, number)) = &issue.parent {
            value["parent_issue_url"] = json!(format!("{base}/repos/{name}/issues/{number}"));
        }
        if issue.is_pull_request {
            let pull = format!("{base}/repos/{}/pulls/{}", self.name, issue.number);
            value["pull_request"] = json!({ "url": pull, "html_url": html_url, "merged_at": null });
        }
        value
    }

    pub fn comment_json(&self, base: &str, number: i64, comment: &GithubNote) -> Value {
        json!({
            "id": comment.id, "node_id": "MDEyOklzc3VlQ29tbWVudDE=", "body": comment.body,
            "url": format!("{base}/repos/{}/issues/comments/{}", self.name, comment.id),
            "html_url": format!("https://github.com/{}/issues/{number}#issuecomment-{}", self.name, comment.id),
            "issue_url": format!("{base}/repos/{}/issues/{number}", self.name),
            "user": account(base, &comment.user), "author_association": association(&comment.user),
            "created_at": comment.at.to_string(), "updated_at": comment.at.to_string(),
            "performed_via_github_app": null,
        })
    }
}

/// What a person is to every repository.
fn association(user: &str) -> &'static str {
    match user {
        super::STRANGER => "NONE",
        _ => "MEMBER",
    }
}
