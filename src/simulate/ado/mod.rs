//! An Azure DevOps that lives on loopback: it has a backlog, keeps revisions, speaks the query
//! language, enforces the service's limits and fails in its ways on request.
//!
//! It is proven by a client we did not write, the `azure-devops` SDK. Faults and items can be
//! changed through [`Simulator`] or over HTTP below `/_simulator/`.

mod args;
mod beside;
mod board;
mod control;
mod fault;
mod filter;
mod items;
mod life;
mod patch;
mod queries;
mod reply;
mod request;
mod seed;
mod server;
mod wiql;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use jiff::Timestamp;
use serde_json::Value;

pub use crate::simulate::{StoredCommit, StoredFile};
pub use args::{SimulateAdoArgs, run};
pub use beside::StoredRequest;
pub use board::PROJECT;
pub use fault::{ActiveFault, Fault};
pub use seed::FIRST_ID;

use self::board::{Board, Change};
use self::server::{Server, Shared};
use crate::clock::Clock;
use crate::simulate::serving::{Place, Serving};
use crate::simulate::traffic::Traffic;

/// How a simulator starts.
#[derive(Debug, Clone)]
pub struct SimulatorOptions {
    /// 0 takes a free one.
    pub port: u16,
    /// How many items there are; the first 24 are always the same.
    pub items: usize,
    /// For the items beyond.
    pub seed: u64,
    /// The only secret that is accepted; none: any.
    pub token: Option<String>,
    /// Faults from the start.
    pub faults: Vec<ActiveFault>,
    /// Part of the path before the project, such as `tfs/DefaultCollection`.
    pub collection: String,
    /// Highest API version served, such as `7.2`; lower ones stand for older servers.
    pub max_version: (u32, u32),
    /// Rows a query may return.
    pub row_limit: usize,
    /// Pack answers for who accepts that, as the service does; a server may be set up not to.
    pub packs: bool,
    /// The server's time.
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
        let mut board = Board::new(options.clock);
        seed::fill(&mut board, options.items, options.seed).map_err(io::Error::other)?;
        let collection = options.collection.trim_matches('/').to_owned();
        let base_url = format!("http://{address}/{collection}");
        let shared = Shared {
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
        let server = Server(Arc::new(Mutex::new(shared)));
        let router = Router::new().fallback(server::handle).with_state(server.clone());
        Ok(Self { server, serving: place.serve(router) })
    }

    /// Address of the collection: the value for `source.base_url`.
    pub fn base_url(&self) -> String {
        self.server.lock().base_url.clone()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.serving.address
    }

    /// The name of the one project.
    pub fn project(&self) -> &'static str {
        PROJECT
    }

    /// Stops serving and waits for it.
    pub async fn stop(self) {
        self.serving.stop().await;
    }

    /// Adds an item with these fields; returns its number.
    pub fn add_item(&self, fields: &[(&str, Value)]) -> i64 {
        let mut shared = self.server.lock();
        let (id, now) = (shared.board.next_id(), shared.board.now());
        let values = change(fields).into_iter();
        let values = values.filter_map(|(name, value)| value.map(|value| (name.into(), value)));
        shared.board.add(id, now, values.collect());
        id
    }

    /// Adds an item with this number that was created at a time of the past.
    pub fn add_past_item(&self, id: i64, created: Timestamp, fields: &[(&str, Value)]) {
        let values = change(fields).into_iter();
        let values = values.filter_map(|(name, value)| value.map(|value| (name.into(), value)));
        self.server.lock().board.add(id, created, values.collect());
    }

    /// Links an item to a commit or a pull request by its `vstfs:///` address, as of a time.
    pub fn link_artifact(&self, id: i64, at: Timestamp, address: &str) {
        self.server.lock().board.link_artifact(id, at, address);
    }

    /// Adds a comment at a time of the past.
    pub fn add_past_comment(&self, id: i64, at: Timestamp, text: &str) {
        self.server.lock().board.remark_at(id, at, text);
    }

    /// Changes fields of an item now; returns the new revision, or none if it is not there.
    pub fn edit_item(&self, id: i64, fields: &[(&str, Value)]) -> Option<i64> {
        self.server.lock().board.edit(id, change(fields))
    }

    /// Changes fields of many items, all with the same date, as a bulk edit does.
    pub fn bulk_edit(&self, ids: &[i64], at: Timestamp, fields: &[(&str, Value)]) {
        let mut shared = self.server.lock();
        for id in ids {
            shared.board.edit_at(*id, at, change(fields));
        }
    }

    /// Moves an item to the recycle bin; false if it is not there.
    pub fn delete_item(&self, id: i64) -> bool {
        self.server.lock().board.delete(id)
    }

    /// Numbers of all items that are not deleted.
    pub fn item_ids(&self) -> Vec<i64> {
        let shared = self.server.lock();
        shared.board.items.values().filter(|i| i.deleted.is_none()).map(|i| i.id).collect()
    }

    /// The current revision of an item.
    pub fn revision(&self, id: i64) -> Option<i64> {
        self.server.lock().board.item(id).and_then(|item| item.at(None)).map(|r| r.rev)
    }

    /// A field of an item as JSON; null if it has no value.
    pub fn field(&self, id: i64, name: &str) -> Value {
        let shared = self.server.lock();
        let value = shared.board.item(id).and_then(|item| item.at(None)?.values.get(name));
        serde_json::to_value(value).unwrap_or_default()
    }

    /// Texts of an item's comments, oldest first.
    pub fn comments(&self, id: i64) -> Vec<String> {
        let shared = self.server.lock();
        let item = shared.board.item(id);
        item.map(|i| i.remarks.iter().map(|r| r.text.clone()).collect()).unwrap_or_default()
    }

    /// Keeps a file and attaches it to an item; returns its address.
    pub fn attach(&self, id: i64, name: &str, file: StoredFile) -> String {
        let mut shared = self.server.lock();
        let size = file.size();
        let file = shared.board.beside.add_file(file);
        let url = beside::file_url(&shared.base_url, &file, name);
        drop(shared);
        let attributes = serde_json::json!({ "name": name, "resourceSize": size });
        self.link(id, "AttachedFile", &url, attributes);
        url
    }

    /// Adds a relation to an item.
    pub fn link(&self, id: i64, rel: &str, url: &str, attributes: Value) {
        let link = serde_json::json!({ "rel": rel, "url": url, "attributes": attributes });
        if let Some(item) = self.server.lock().board.items.get_mut(&id) {
            item.links.push(link);
        }
    }

    /// Links an item with another one of this tracker.
    pub fn link_items(&self, id: i64, rel: &str, other: i64) {
        let url = items::item_url(&self.base_url(), other);
        self.link(id, rel, &url, serde_json::json!({}));
    }

    /// Keeps a commit and links an item with it.
    pub fn link_commit(&self, id: i64, hash: &str, commit: StoredCommit) {
        self.server.lock().board.beside.commits.insert(hash.to_owned(), commit);
        self.link_change(id, "Commit", hash);
    }

    /// Keeps a pull request and links an item with it.
    pub fn link_pull_request(&self, id: i64, number: u64, request: StoredRequest) {
        self.server.lock().board.beside.requests.insert(number, request);
        self.link_change(id, "PullRequestId", &number.to_string());
    }

    fn link_change(&self, id: i64, kind: &str, of: &str) {
        let place = format!("{}%2F{}", board::PROJECT_ID, beside::REPOSITORY_ID);
        let url = format!("vstfs:///Git/{kind}/{place}%2F{of}");
        self.link(id, "ArtifactLink", &url, serde_json::json!({ "name": "Fixed in Commit" }));
    }

    /// Takes away a field of the collection, as another process template would.
    pub fn remove_field(&self, name: &str) {
        self.server.lock().board.fields.remove(name);
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

    /// Answers so far that went out packed, to clients that take them so.
    pub fn packed(&self) -> u64 {
        self.server.lock().packed
    }

    /// Requests of one kind so far: `wiql`, `batch`, `comments`, `patch`, `reporting`, …
    pub fn requests_of(&self, kind: &str) -> u64 {
        self.server.lock().traffic.of(kind)
    }
}

fn change(fields: &[(&str, Value)]) -> Change {
    fields.iter().map(|(name, value)| ((*name).to_owned(), patch::stored(value))).collect()
}
