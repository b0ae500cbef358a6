//! A simulated Jira on loopback, Cloud or Data Center: a project with issues, comments and labels;
//! it searches with page tokens or numbered pages, in the time zone of its account, and injects the
//! service's faults on request.
//!
//! `jira` for Python and `jira.js`, clients we did not write, test it. Faults and issues can be
//! changed through [`Simulator`] or over HTTP below `/_simulator/`.

mod control;
mod fault;
mod issues;
mod jql;
mod linked;
mod reply;
mod resources;
mod search;
mod seed;
mod server;
mod text;
mod tracker_data;

use std::io;
use std::net::SocketAddr;

use axum::Router;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use fault::{ActiveFault, Fault};
pub use tracker_data::{FIRST_ID, OTHER, PROJECT};

use self::server::{JiraServer, JiraState};
use self::text::JiraText;
use self::tracker_data::JiraData;
use heartbeat::clock::Clock;
use heartbeat::simulate::serving::{BoundAddress, Serving};
use heartbeat::simulate::traffic::Traffic;

/// Options of `simulators jira`, and what only tests set.
#[derive(Debug, Clone, clap::Args)]
pub struct SimulatorOptions {
    /// Port on loopback; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Issues in the project PARCEL; the first 8 are always the same
    #[arg(long, default_value_t = 24)]
    pub items: usize,
    /// Seed of the issues beyond the first 8
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The only token to accept; without this, any token is accepted
    #[arg(long)]
    pub token: Option<String>,
    /// Act as a Data Center server: version 2 of the API, numbered pages, wiki markup
    #[arg(long = "server", action = clap::ArgAction::SetFalse)]
    pub is_cloud: bool,
    /// Inject a fault, optionally for one kind of request and a number of times, such as
    /// throttled429@search*2; may be repeated
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<ActiveFault>,
    // Anonymous clients may read, but see nothing.
    #[arg(skip)]
    pub lets_anonymous_read: bool,
    // Maximum rows per page, whatever was requested.
    #[arg(skip = 100_usize)]
    pub most_rows: usize,
    // Delay of the search index.
    #[arg(skip)]
    pub index_lag: SignedDuration,
    // The account's time zone.
    #[arg(skip = "Europe/Berlin")]
    pub zone: String,
    // The server's time.
    #[arg(skip = Clock::system())]
    pub clock: Clock,
}

impl Default for SimulatorOptions {
    fn default() -> Self {
        Self {
            port: 0,
            is_cloud: true,
            items: 24,
            seed: 1,
            token: None,
            lets_anonymous_read: false,
            faults: Vec::new(),
            most_rows: 100,
            index_lag: SignedDuration::ZERO,
            zone: "Europe/Berlin".to_owned(),
            clock: Clock::system(),
        }
    }
}

/// Stops when it is dropped.
#[derive(Debug)]
pub struct Simulator {
    server: JiraServer,
    serving: Serving,
}

impl Simulator {
    /// Starts serving on loopback, within the current runtime.
    pub async fn start(options: SimulatorOptions) -> io::Result<Self> {
        let bound = BoundAddress::bind(options.port).await?;
        let address = bound.address;
        let zone = jiff::tz::TimeZone::get(&options.zone).map_err(io::Error::other)?;
        let mut board = JiraData::new(options.clock, zone);
        seed::fill(&mut board, options.items, options.seed).map_err(io::Error::other)?;
        let shared = JiraState {
            board,
            traffic: Traffic::new(options.faults),
            is_cloud: options.is_cloud,
            token: options.token,
            lets_anonymous_read: options.lets_anonymous_read,
            may_comment: true,
            may_edit: true,
            most_rows: options.most_rows,
            index_lag: options.index_lag,
            base_url: format!("http://{address}"),
        };
        let server = JiraServer::new(shared);
        let router = Router::new().fallback(server::handle).with_state(server.clone());
        Ok(Self { server, serving: bound.serve(router) })
    }

    /// Serves until the task is cancelled; calls `ready` when it is up.
    pub async fn run(options: SimulatorOptions, ready: impl FnOnce(&Self)) -> io::Result<()> {
        let mut simulator = Self::start(options).await?;
        ready(&simulator);
        simulator.serving.ended().await
    }

    /// Address of the site: the value for `source.base_url`.
    pub fn base_url(&self) -> String {
        self.server.lock().base_url.clone()
    }

    pub fn address(&self) -> SocketAddr {
        self.serving.address
    }

    /// In wiki markup; returns the issue's id.
    pub fn add_issue(&self, summary: &str, description: &str) -> i64 {
        let mut shared = self.server.lock();
        let mut issue = seed::blank(PROJECT, summary);
        issue.description = JiraText::from_wiki(description);
        let now = shared.board.now();
        shared.board.add(issue, now)
    }

    /// Reports an issue at a past time, in wiki markup; returns its id and its key.
    pub fn report_at(&self, summary: &str, description: &str, at: Timestamp) -> (i64, String) {
        let mut shared = self.server.lock();
        let mut issue = seed::blank(PROJECT, summary);
        issue.description = JiraText::from_wiki(description);
        let id = shared.board.add(issue, at);
        (id, shared.board.get(id).map(tracker_data::JiraRecord::key).unwrap_or_default())
    }

    /// Sets the description and the status of an issue, at a given time.
    pub fn rewrite_at(&self, id: i64, description: &str, status: &str, at: Timestamp) -> bool {
        let (text, status) = (JiraText::from_wiki(description), status.to_owned());
        self.server.lock().board.edit_at(id, at, |issue| {
            (issue.description, issue.status) = (text, status);
        })
    }

    pub fn describe(&self, id: i64, document: &Value) -> bool {
        let text = JiraText::from_adf(document);
        self.server.lock().board.edit(id, |issue| issue.description = text)
    }

    /// False if there is no such issue.
    pub fn edit(&self, id: i64, summary: &str) -> bool {
        let summary = summary.to_owned();
        self.server.lock().board.edit(id, |issue| issue.summary = summary)
    }

    pub fn set_status(&self, id: i64, status: &str) -> bool {
        let status = status.to_owned();
        self.server.lock().board.edit(id, |issue| issue.status = status)
    }

    /// Changes many issues at the same time, as a bulk edit does.
    pub fn touch_all(&self, ids: &[i64], at: Timestamp) {
        let mut shared = self.server.lock();
        for id in ids {
            shared.board.edit_at(*id, at, |issue| issue.summary.push('.'));
        }
    }

    pub fn delete(&self, id: i64) -> bool {
        self.server.lock().board.delete(id)
    }

    /// Moves an issue to the other project: new key, same id.
    pub fn move_away(&self, id: i64) -> bool {
        self.server.lock().board.edit(id, |issue| {
            issue.project = OTHER.to_owned();
            issue.number += 1000;
        })
    }

    /// Gives the project another key; the old one still works.
    pub fn rename_project(&self, key: &str) {
        let mut shared = self.server.lock();
        shared.board.renamed.insert(PROJECT.to_owned(), key.to_owned());
        for id in shared.board.ids() {
            let updated = shared.board.get(id).map(|issue| issue.updated);
            let is_ours = shared.board.get(id).is_some_and(|issue| issue.project == PROJECT);
            if let Some(at) = updated.filter(|_| is_ours) {
                shared.board.edit_at(id, at, |issue| issue.project = key.to_owned());
            }
        }
    }

    /// Adds a comment in wiki markup.
    pub fn comment(&self, id: i64, author: &str, text: &str) {
        self.server.lock().board.add_comment(id, author, JiraText::from_wiki(text));
    }

    pub fn ids(&self) -> Vec<i64> {
        let shared = self.server.lock();
        let ids = shared.board.ids().into_iter();
        ids.filter(|id| shared.board.get(*id).is_some_and(|issue| issue.project != OTHER)).collect()
    }

    /// As plain text, oldest first.
    pub fn comments(&self, id: i64) -> Vec<String> {
        let shared = self.server.lock();
        let issue = shared.board.get(id);
        issue
            .map(|issue| issue.comments.iter().map(|one| one.text.wiki.clone()).collect())
            .unwrap_or_default()
    }

    pub fn labels(&self, id: i64) -> Vec<String> {
        self.server.lock().board.get(id).map(|issue| issue.labels.clone()).unwrap_or_default()
    }

    /// Time of the last change in milliseconds, which is the revision in heartbeat.
    pub fn revision(&self, id: i64) -> Option<i64> {
        self.server.lock().board.get(id).map(|issue| issue.updated.as_millisecond())
    }

    /// Sets the account's permissions.
    pub fn permit(&self, may_comment: bool, may_edit: bool) {
        let mut shared = self.server.lock();
        (shared.may_comment, shared.may_edit) = (may_comment, may_edit);
    }

    /// Replaces all faults.
    pub fn set_faults(&self, faults: impl IntoIterator<Item = ActiveFault>) {
        self.server.lock().traffic.faults = faults.into_iter().collect();
    }

    pub fn set_token(&self, token: Option<String>) {
        self.server.lock().token = token;
    }

    /// Without control requests.
    pub fn requests(&self) -> u64 {
        self.server.lock().traffic.total()
    }

    /// Requests of one kind: `search`, `bulkfetch`, `comment`, `edit`, …
    pub fn requests_of(&self, kind: &str) -> u64 {
        self.server.lock().traffic.of(kind)
    }

    /// Maximum number of requests that were in progress at the same time.
    pub fn most_at_once(&self) -> u32 {
        self.server.lock().traffic.most_at_once()
    }
}
