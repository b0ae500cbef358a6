//! A simulated Azure DevOps on loopback: it has a backlog, keeps revisions, parses the query
//! language, enforces the service's limits and injects the service's faults on request.
//!
//! The `azure-devops` SDK, a client we did not write, tests it. Faults and items can be changed
//! through [`Simulator`] or over HTTP below `/_simulator/`.

mod control;
mod fault;
mod filter;
mod items;
mod linked;
mod patch;
mod queries;
mod reply;
mod request;
mod seed;
mod server;
mod simulated_users;
mod tracker_data;
mod wiql;

use std::io;
use std::net::SocketAddr;

use axum::Router;
use jiff::Timestamp;
use serde_json::Value;

pub use crate::simulate::{StoredCommit, StoredFile};
pub use fault::{ActiveFault, Fault};
pub use linked::StoredRequest;
pub use seed::FIRST_ID;
pub use tracker_data::PROJECT;

use self::server::{AdoServer, AdoState};
use self::tracker_data::{AdoData, ItemChange};
use crate::clock::Clock;
use crate::simulate::serving::{BoundAddress, Serving};
use crate::simulate::traffic::Traffic;

/// Options of `heartbeat simulate ado`, and what only tests set.
#[derive(Debug, Clone, clap::Args)]
pub struct SimulatorOptions {
    /// Port on loopback; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Items in the backlog; the first 24 are always the same
    #[arg(long, default_value_t = 24)]
    pub items: usize,
    /// Seed of the items beyond the first 24
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The only token to accept; without this, any token is accepted
    #[arg(long)]
    pub token: Option<String>,
    /// Path before the project, as on an Azure DevOps Server: tfs/DefaultCollection
    #[arg(long, default_value = "contoso")]
    pub collection: String,
    /// Inject a fault, optionally for one kind of request and a number of times, such as
    /// throttled429@wiql*2; may be repeated
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<ActiveFault>,
    // Highest supported API version, such as `7.2`; lower values simulate older servers.
    #[arg(skip = (7_u32, 2_u32))]
    pub max_version: (u32, u32),
    // Maximum number of rows of a query.
    #[arg(skip = 20_000_usize)]
    pub row_limit: usize,
    // Whether to compress responses for clients that accept it; the service does, a server may not.
    #[arg(skip = true)]
    pub packs: bool,
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
            collection: "contoso".to_owned(),
            max_version: (7, 2),
            row_limit: 20_000,
            packs: true,
            clock: Clock::system(),
        }
    }
}

/// Stops when it is dropped.
#[derive(Debug)]
pub struct Simulator {
    server: AdoServer,
    serving: Serving,
}

impl Simulator {
    /// Starts serving on loopback, within the current runtime.
    pub async fn start(options: SimulatorOptions) -> io::Result<Self> {
        let bound = BoundAddress::bind(options.port).await?;
        let address = bound.address;
        let mut board = AdoData::new(options.clock);
        seed::fill(&mut board, options.items, options.seed).map_err(io::Error::other)?;
        let collection = options.collection.trim_matches('/').to_owned();
        let base_url = format!("http://{address}/{collection}");
        let shared = AdoState {
            board,
            traffic: Traffic::new(options.faults),
            packed: 0,
            token: options.token,
            max_version: options.max_version,
            row_limit: options.row_limit,
            packs: options.packs,
            collection,
            base_url: base_url.trim_end_matches('/').to_owned(),
        };
        let server = AdoServer::new(shared);
        let router = Router::new().fallback(server::handle).with_state(server.clone());
        Ok(Self { server, serving: bound.serve(router) })
    }

    /// Serves until the task is cancelled; calls `ready` when it is up.
    pub async fn run(options: SimulatorOptions, ready: impl FnOnce(&Self)) -> io::Result<()> {
        let mut simulator = Self::start(options).await?;
        ready(&simulator);
        simulator.serving.ended().await
    }

    /// Address of the collection: the value for `source.base_url`.
    pub fn base_url(&self) -> String {
        self.server.lock().base_url.clone()
    }

    pub fn address(&self) -> SocketAddr {
        self.serving.address
    }

    pub fn project(&self) -> &'static str {
        PROJECT
    }

    pub async fn stop(self) {
        self.serving.stop().await;
    }

    /// Returns the item's number.
    pub fn add_item(&self, fields: &[(&str, Value)]) -> i64 {
        let mut shared = self.server.lock();
        let (id, now) = (shared.board.next_id(), shared.board.now());
        let values = change(fields).into_iter();
        let values = values.filter_map(|(name, value)| value.map(|value| (name.into(), value)));
        shared.board.add(id, now, values.collect());
        id
    }

    /// Adds an item that was created in the past.
    pub fn add_past_item(&self, id: i64, created: Timestamp, fields: &[(&str, Value)]) {
        let values = change(fields).into_iter();
        let values = values.filter_map(|(name, value)| value.map(|value| (name.into(), value)));
        self.server.lock().board.add(id, created, values.collect());
    }

    /// Links an item to a commit or a pull request by its `vstfs:///` address, at a given time.
    pub fn link_artifact(&self, id: i64, at: Timestamp, address: &str) {
        self.server.lock().board.link_artifact(id, at, address);
    }

    pub fn add_past_comment(&self, id: i64, at: Timestamp, text: &str) {
        self.server.lock().board.add_comment_at(id, at, text);
    }

    /// Returns the new revision; `None` if there is no such item.
    pub fn edit_item(&self, id: i64, fields: &[(&str, Value)]) -> Option<i64> {
        self.server.lock().board.edit(id, change(fields))
    }

    /// Changes fields of many items with the same date, as a bulk edit does.
    pub fn bulk_edit(&self, ids: &[i64], at: Timestamp, fields: &[(&str, Value)]) {
        let mut shared = self.server.lock();
        for id in ids {
            shared.board.edit_at(*id, at, change(fields));
        }
    }

    /// Moves an item to the recycle bin; false if there is no such item.
    pub fn delete_item(&self, id: i64) -> bool {
        self.server.lock().board.delete(id)
    }

    /// Without deleted items.
    pub fn item_ids(&self) -> Vec<i64> {
        let shared = self.server.lock();
        shared.board.items.values().filter(|i| i.deleted.is_none()).map(|i| i.id).collect()
    }

    pub fn revision(&self, id: i64) -> Option<i64> {
        self.server.lock().board.item(id).and_then(|item| item.at(None)).map(|r| r.rev)
    }

    /// As JSON; null without a value.
    pub fn field(&self, id: i64, name: &str) -> Value {
        let shared = self.server.lock();
        let value = shared.board.item(id).and_then(|item| item.at(None)?.values.get(name));
        serde_json::to_value(value).unwrap_or_default()
    }

    /// Oldest first.
    pub fn comments(&self, id: i64) -> Vec<String> {
        let shared = self.server.lock();
        let item = shared.board.item(id);
        item.map(|i| i.comments.iter().map(|r| r.text.clone()).collect()).unwrap_or_default()
    }

    /// Attaches a file to an item; returns its address.
    pub fn attach(&self, id: i64, name: &str, file: StoredFile) -> String {
        let mut shared = self.server.lock();
        let size = file.size();
        let file = shared.board.linked.add_file(file);
        let url = linked::file_url(&shared.base_url, &file, name);
        drop(shared);
        let attributes = serde_json::json!({ "name": name, "resourceSize": size });
        self.link(id, "AttachedFile", &url, attributes);
        url
    }

    pub fn link(&self, id: i64, rel: &str, url: &str, attributes: Value) {
        let link = serde_json::json!({ "rel": rel, "url": url, "attributes": attributes });
        if let Some(item) = self.server.lock().board.items.get_mut(&id) {
            item.links.push(link);
        }
    }

    /// Links two items of this tracker.
    pub fn link_items(&self, id: i64, rel: &str, other: i64) {
        let url = items::item_url(&self.base_url(), other);
        self.link(id, rel, &url, serde_json::json!({}));
    }

    /// Stores a commit and links an item to it.
    pub fn link_commit(&self, id: i64, hash: &str, commit: StoredCommit) {
        self.server.lock().board.linked.commits.insert(hash.to_owned(), commit);
        self.link_change(id, "Commit", hash);
    }

    /// Stores a pull request and links an item to it.
    pub fn link_pull_request(&self, id: i64, number: u64, request: StoredRequest) {
        self.server.lock().board.linked.requests.insert(number, request);
        self.link_change(id, "PullRequestId", &number.to_string());
    }

    fn link_change(&self, id: i64, kind: &str, of: &str) {
        let place = format!("{}%2F{}", tracker_data::PROJECT_ID, linked::REPOSITORY_ID);
        let url = format!("vstfs:///Git/{kind}/{place}%2F{of}");
        self.link(id, "ArtifactLink", &url, serde_json::json!({ "name": "Fixed in Commit" }));
    }

    /// Removes a field of the collection, as another process template would.
    pub fn remove_field(&self, name: &str) {
        self.server.lock().board.fields.remove(name);
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

    /// Number of compressed responses.
    pub fn packed(&self) -> u64 {
        self.server.lock().packed
    }

    /// Requests of one kind: `wiql`, `batch`, `comments`, `patch`, …
    pub fn requests_of(&self, kind: &str) -> u64 {
        self.server.lock().traffic.of(kind)
    }
}

fn change(fields: &[(&str, Value)]) -> ItemChange {
    fields.iter().map(|(name, value)| ((*name).to_owned(), patch::stored(value))).collect()
}
