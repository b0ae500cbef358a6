//! A Jira that lives on loopback, Cloud or Data Center: a project with issues, comments and labels;
//! it searches with page tokens or counted pages, in the time zone of its account, and fails in the
//! service's ways on request.
//!
//! It is proven by clients we did not write, `jira` for Python and `jira.js`. Faults and issues can be
//! changed through [`Simulator`] or over HTTP below `/_simulator/`.

mod args;
mod beside;
mod board;
mod control;
mod fault;
mod issues;
mod jql;
mod reply;
mod resources;
mod search;
mod seed;
mod server;
mod text;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use args::{SimulateJiraArgs, run};
pub use board::{FIRST_ID, OTHER, PROJECT};
pub use fault::{ActiveFault, Fault};

use self::board::Board;
use self::server::{Server, Shared};
use self::text::Text;
use crate::clock::Clock;
use crate::simulate::serving::{Place, Serving};
use crate::simulate::traffic::Traffic;

/// How a simulator starts.
#[derive(Debug, Clone)]
pub struct SimulatorOptions {
    /// 0 takes a free one.
    pub port: u16,
    /// Cloud, or Data Center.
    pub is_cloud: bool,
    /// How many issues the project has.
    pub items: usize,
    /// For those beyond the first eight.
    pub seed: u64,
    /// The only secret that is accepted; none: any.
    pub token: Option<String>,
    /// Whoever is not signed in may read, and sees nothing.
    pub lets_anonymous_read: bool,
    /// Faults from the start.
    pub faults: Vec<ActiveFault>,
    /// Rows of one page at most, whatever was asked for.
    pub most_rows: usize,
    /// How late the index is.
    pub index_lag: SignedDuration,
    /// The account's time zone.
    pub zone: String,
    /// The server's time.
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

/// A running simulator; it stops when it is dropped.
#[derive(Debug)]
pub struct Simulator {
    server: Server,
    serving: Serving,
}

impl Simulator {
    /// Starts to serve on loopback, within the current runtime.
    pub async fn start(options: SimulatorOptions) -> io::Result<Self> {
        let place = Place::take(options.port).await?;
        let address = place.address;
        let zone = jiff::tz::TimeZone::get(&options.zone).map_err(io::Error::other)?;
        let mut board = Board::new(options.clock, zone);
        seed::fill(&mut board, options.items, options.seed);
        let shared = Shared {
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
        let server = Server(Arc::new(Mutex::new(shared)));
        let router = Router::new().fallback(server::handle).with_state(server.clone());
        Ok(Self { server, serving: place.serve(router) })
    }

    /// Address of the site: the value for `source.base_url`.
    pub fn base_url(&self) -> String {
        self.server.lock().base_url.clone()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.serving.address
    }

    /// Reports an issue now, in wiki markup; returns its id.
    pub fn add_issue(&self, summary: &str, description: &str) -> i64 {
        let mut shared = self.server.lock();
        let mut issue = seed::blank(PROJECT, summary);
        issue.description = Text::from_wiki(description);
        let now = shared.board.now();
        shared.board.add(issue, now)
    }

    /// Gives an issue this document.
    pub fn describe(&self, id: i64, document: &Value) -> bool {
        let text = Text::from_adf(document);
        self.server.lock().board.edit(id, |issue| issue.description = text)
    }

    /// Changes an issue now; false if it is not there.
    pub fn edit(&self, id: i64, summary: &str) -> bool {
        let summary = summary.to_owned();
        self.server.lock().board.edit(id, |issue| issue.summary = summary)
    }

    /// Moves an issue to another state.
    pub fn set_status(&self, id: i64, status: &str) -> bool {
        let status = status.to_owned();
        self.server.lock().board.edit(id, |issue| issue.status = status)
    }

    /// Changes many issues, all at the same time, as a bulk edit does.
    pub fn touch_all(&self, ids: &[i64], at: Timestamp) {
        let mut shared = self.server.lock();
        for id in ids {
            shared.board.edit_at(*id, at, |issue| issue.summary.push('.'));
        }
    }

    pub fn delete(&self, id: i64) -> bool {
        self.server.lock().board.delete(id)
    }

    /// Moves an issue to the other project: a new key, the same id.
    pub fn move_away(&self, id: i64) -> bool {
        self.server.lock().board.edit(id, |issue| {
            issue.project = OTHER.to_owned();
            issue.number += 1000;
        })
    }

    /// Gives the project another key; the old one still finds it.
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

    /// Somebody comments, in wiki markup.
    pub fn comment(&self, id: i64, author: &str, text: &str) {
        self.server.lock().board.comment(id, author, Text::from_wiki(text));
    }

    /// Ids of all issues of the project.
    pub fn ids(&self) -> Vec<i64> {
        let shared = self.server.lock();
        let ids = shared.board.ids().into_iter();
        ids.filter(|id| shared.board.get(*id).is_some_and(|issue| issue.project != OTHER)).collect()
    }

    /// The words of an issue's comments, oldest first.
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

    /// When an issue last changed, in milliseconds: its revision to us.
    pub fn revision(&self, id: i64) -> Option<i64> {
        self.server.lock().board.get(id).map(|issue| issue.updated.as_millisecond())
    }

    /// What the account may do.
    pub fn permit(&self, may_comment: bool, may_edit: bool) {
        let mut shared = self.server.lock();
        (shared.may_comment, shared.may_edit) = (may_comment, may_edit);
    }

    /// Puts these faults in the place of all others.
    pub fn set_faults(&self, faults: impl IntoIterator<Item = ActiveFault>) {
        self.server.lock().traffic.faults = faults.into_iter().collect();
    }

    /// Changes the secret that is accepted.
    pub fn set_token(&self, token: Option<String>) {
        self.server.lock().token = token;
    }

    /// Requests so far, control requests not counted.
    pub fn requests(&self) -> u64 {
        self.server.lock().traffic.total()
    }

    /// Requests of one kind so far: `search`, `bulkfetch`, `comment`, `edit`, …
    pub fn requests_of(&self, kind: &str) -> u64 {
        self.server.lock().traffic.of(kind)
    }

    /// Requests answered at the same time at most.
    pub fn most_at_once(&self) -> u32 {
        self.server.lock().traffic.most_at_once()
    }
}
