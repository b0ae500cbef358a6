//! A simulated GitHub on loopback: repositories with issues, pull requests, comments and labels; it
//! supports ETags and rate limits, transfers and deletions, and injects the service's faults on
//! request.
//!
//! PyGithub and Octokit, clients we did not write, test it. Faults and issues can be changed
//! through [`Simulator`] or over HTTP below `/_simulator/`. The API is served at the root and, as
//! on an Enterprise Server, below `/api/v3`.

mod app;
mod control;
mod fault;
mod issues;
mod linked;
mod reply;
mod resources;
mod seed;
mod server;
mod tracker_data;

use std::io;
use std::net::SocketAddr;

use axum::Router;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

pub use fault::{ActiveFault, Fault};
pub use tracker_data::ME;

use self::server::{GithubServer, GithubState};
use self::tracker_data::{GithubData, GithubRecord, IssueFate, NewIssue};
use heartbeat::clock::Clock;
use heartbeat::simulate::serving::{BoundAddress, Serving};
use heartbeat::simulate::traffic::Traffic;

/// The repository with the issues.
pub const REPOSITORY: &str = "parcel/tracking";
/// A second repository of the same owner.
pub const LIBRARY: &str = "parcel/addresses";
/// An account without rights in any repository.
pub const STRANGER: &str = "stranger";

/// Options of `simulators github`, and what only tests set.
#[derive(Debug, Clone, clap::Args)]
pub struct SimulatorOptions {
    /// Port on loopback; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Issues in the first repository, parcel/tracking; the first 8 are always the same
    #[arg(long, default_value_t = 24)]
    pub items: usize,
    /// Seed of the issues beyond the first 8
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The only token to accept; without this, any token is accepted
    #[arg(long)]
    pub token: Option<String>,
    /// Inject a fault, optionally for one kind of request and a number of times, such as
    /// secondary403@issues*2; may be repeated
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<ActiveFault>,
    /// Number pages with `page=2` and `rel="last"`, like older servers, instead of `after=`
    #[arg(long)]
    pub counts_pages: bool,
    // Requests per hour; `None` for no limit.
    #[arg(skip = Some(5_000_i64))]
    pub limit: Option<i64>,
    // An App that may sign in: its id, its public key as PKCS#1 DER, and the lifetime of its tokens.
    #[arg(skip)]
    pub app: Option<(String, Vec<u8>, SignedDuration)>,
    // The server's time.
    #[arg(skip = Clock::system())]
    pub clock: Clock,
}

impl Default for SimulatorOptions {
    fn default() -> Self {
        Self {
            port: 0,
            items: 24,
            seed: 1,
            token: None,
            faults: Vec::new(),
            limit: Some(5_000),
            counts_pages: false,
            app: None,
            clock: Clock::system(),
        }
    }
}

/// Stops when it is dropped.
#[derive(Debug)]
pub struct Simulator {
    server: GithubServer,
    serving: Serving,
}

impl Simulator {
    /// Starts serving on loopback, within the current runtime.
    pub async fn start(options: SimulatorOptions) -> io::Result<Self> {
        let bound = BoundAddress::bind(options.port).await?;
        let address = bound.address;
        let mut board = GithubData::new(options.clock);
        seed::fill(&mut board, options.items, options.seed).map_err(io::Error::other)?;
        let app = options.app.map(|(id, public_key, token_lasts)| app::App {
            id,
            public_key,
            token_lasts,
            tokens: Vec::new(),
        });
        let shared = GithubState {
            window_ends: board.now().as_second() + 3600,
            board,
            traffic: Traffic::new(options.faults),
            token: options.token,
            refusals: 0,
            limit: options.limit,
            used: 0,
            counts_pages: options.counts_pages,
            app,
            base_url: format!("http://{address}/api/v3"),
        };
        let server = GithubServer::new(shared);
        let router = Router::new().fallback(server::handle).with_state(server.clone());
        Ok(Self { server, serving: bound.serve(router) })
    }

    /// Serves until the task is cancelled; calls `ready` when it is up.
    pub async fn run(options: SimulatorOptions, ready: impl FnOnce(&Self)) -> io::Result<()> {
        let mut simulator = Self::start(options).await?;
        ready(&simulator);
        simulator.serving.ended().await
    }

    /// Address of the API: the value for `source.base_url`.
    pub fn base_url(&self) -> String {
        self.server.lock().base_url.clone()
    }

    pub fn address(&self) -> SocketAddr {
        self.serving.address
    }

    /// Returns the issue's number.
    pub fn add_issue(&self, repository: &str, title: &str, body: &str, labels: &[&str]) -> i64 {
        let mut shared = self.server.lock();
        let now = shared.board.now();
        let new = NewIssue { title, body, user: "mira", labels, is_pull_request: false };
        shared.board.add_issue(repository, new, now)
    }

    /// False if there is no such issue.
    pub fn edit(&self, repository: &str, number: i64, title: &str) -> bool {
        let title = title.to_owned();
        let edited = self.server.lock().board.edit(repository, number, |issue| issue.title = title);
        edited.is_some()
    }

    /// Sets the same time of change on many issues, as a labelling script does.
    pub fn touch_all(&self, repository: &str, numbers: &[i64], at: Timestamp) {
        let mut shared = self.server.lock();
        for number in numbers {
            shared.board.edit(repository, *number, |issue| issue.title.push('.'));
            if let Some(repository) = shared.board.by_name_mut(repository)
                && let Some(issue) = repository.issues.get_mut(number)
            {
                issue.updated = at;
            }
        }
    }

    pub fn close(&self, repository: &str, number: i64) {
        self.server.lock().board.edit(repository, number, |issue| {
            issue.open = false;
            issue.state_reason = Some("completed");
        });
    }

    /// Closes an issue by a commit, with a pull request that refers to it.
    pub fn fix(&self, repository: &str, number: i64, commit: &str, pull_request: i64) {
        let mut shared = self.server.lock();
        let (now, base) = (shared.board.now().to_string(), shared.base_url.clone());
        let source = json!({ "issue": {
            "number": pull_request, "pull_request": { "url": "" },
            "repository_url": format!("{base}/repos/{repository}"),
        }});
        shared.board.edit(repository, number, |issue| {
            (issue.open, issue.state_reason) = (false, Some("completed"));
            let was = issue.title.clone();
            issue.title.push_str(" (fixed)");
            let rename = json!({ "from": was, "to": issue.title });
            issue.events.extend([
                json!({ "event": "cross-referenced", "created_at": now, "source": source }),
                json!({ "event": "closed", "created_at": now, "commit_id": commit }),
                json!({ "event": "renamed", "created_at": now, "rename": rename }),
            ]);
        });
    }

    pub fn lock_issue(&self, repository: &str, number: i64) {
        self.server.lock().board.edit(repository, number, |issue| issue.locked = true);
    }

    pub fn delete(&self, repository: &str, number: i64) {
        self.server.lock().board.edit(repository, number, |issue| issue.fate = IssueFate::Deleted);
    }

    pub fn make_discussion(&self, repository: &str, number: i64) {
        self.server
            .lock()
            .board
            .edit(repository, number, |issue| issue.fate = IssueFate::Discussion);
    }

    /// Moves an issue to another repository; returns its new number.
    pub fn transfer(&self, from: &str, number: i64, to: &str) -> Option<i64> {
        self.server.lock().board.transfer(from, number, to)
    }

    /// Renames a repository; the old name is redirected.
    pub fn rename(&self, from: &str, to: &str) {
        if let Some(repository) = self.server.lock().board.by_name_mut(from) {
            repository.earlier.push(from.to_owned());
            repository.name = to.to_owned();
        }
    }

    pub fn archive(&self, repository: &str) {
        if let Some(repository) = self.server.lock().board.by_name_mut(repository) {
            repository.archived = true;
        }
    }

    pub fn disable_issues(&self, repository: &str) {
        if let Some(repository) = self.server.lock().board.by_name_mut(repository) {
            repository.without_issues = true;
        }
    }

    /// Adds a comment by a person.
    pub fn comment(&self, repository: &str, number: i64, body: &str) {
        self.server.lock().board.add_comment(repository, number, "mira", body);
    }

    /// Adds a comment by this account; [`STRANGER`] has no rights.
    pub fn comment_by(&self, repository: &str, number: i64, login: &str, body: &str) {
        self.server.lock().board.add_comment(repository, number, login, body);
    }

    fn look<T: Default>(
        &self,
        repository: &str,
        number: i64,
        look: impl FnOnce(&GithubRecord) -> T,
    ) -> T {
        let shared = self.server.lock();
        let issue = shared.board.by_name(repository).and_then(|r| r.issues.get(&number));
        issue.map(look).unwrap_or_default()
    }

    /// Oldest first.
    pub fn comments(&self, repository: &str, number: i64) -> Vec<String> {
        self.look(repository, number, |issue| {
            issue.comments.iter().map(|comment| comment.body.clone()).collect()
        })
    }

    pub fn labels(&self, repository: &str, number: i64) -> Vec<String> {
        self.look(repository, number, |issue| issue.labels.clone())
    }

    pub fn updated(&self, repository: &str, number: i64) -> Option<Timestamp> {
        self.look(repository, number, |issue| Some(issue.updated))
    }

    /// Numbers of the existing issues, without pull requests.
    pub fn numbers(&self, repository: &str) -> Vec<i64> {
        let shared = self.server.lock();
        let issues = shared.board.by_name(repository).map(|r| r.issues.values());
        let here = |issue: &&GithubRecord| issue.fate == IssueFate::Here && !issue.is_pull_request;
        issues.into_iter().flatten().filter(here).map(|issue| issue.number).collect()
    }

    /// Replaces all faults.
    pub fn set_faults(&self, faults: impl IntoIterator<Item = ActiveFault>) {
        self.server.lock().traffic.faults = faults.into_iter().collect();
    }

    pub fn set_token(&self, token: Option<String>) {
        let mut shared = self.server.lock();
        shared.token = token;
        shared.refusals = 0;
    }

    /// Without control requests.
    pub fn requests(&self) -> u64 {
        self.server.lock().traffic.total()
    }

    /// Requests of one kind: `issues`, `issue`, `comments`, `comment`, `label`, …
    pub fn requests_of(&self, kind: &str) -> u64 {
        self.server.lock().traffic.of(kind)
    }

    /// Requests counted in the current rate-limit window.
    pub fn used(&self) -> i64 {
        self.server.lock().used
    }

    /// Maximum number of requests that were in progress at the same time.
    pub fn most_at_once(&self) -> u32 {
        self.server.lock().traffic.most_at_once()
    }

    /// Number of tokens given to the App's installation.
    pub fn tokens_given(&self) -> usize {
        self.server.lock().app.as_ref().map_or(0, |app| app.tokens.len())
    }
}
