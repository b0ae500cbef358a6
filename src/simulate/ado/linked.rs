//! Attached files, commits, pull requests, and relations as seen from both ends.

use std::collections::BTreeMap;

use axum::http::Method;
use serde_json::{Value, json};

use super::items::item_url;
use super::reply::Reply;
use super::request::AdoRequest;
use super::tracker_data::{AdoData, PARENT, PROJECT_ID, Stored, StoredItem};
use crate::simulate::{StoredCommit, StoredFile};

/// The only repository.
pub const REPOSITORY_ID: &str = "3f5a2c1e-7777-4222-8333-444455556666";

#[derive(Debug, Clone, Default)]
pub struct StoredRequest {
    pub title: String,
    pub status: String,
    /// The merge commit.
    pub merged: Option<String>,
}

#[derive(Debug, Default)]
pub struct AdoLinks {
    pub files: BTreeMap<String, StoredFile>,
    pub commits: BTreeMap<String, StoredCommit>,
    pub requests: BTreeMap<u64, StoredRequest>,
}

impl AdoLinks {
    /// Stores a file; returns its id.
    pub fn add_file(&mut self, file: StoredFile) -> String {
        let id = format!("{:08x}-aaaa-4222-8333-444455556666", self.files.len() + 1);
        self.files.insert(id.clone(), file);
        id
    }
}

pub fn file_url(base_url: &str, id: &str, name: &str) -> String {
    let name: String = name
        .bytes()
        .map(|byte| match byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect();
    format!("{base_url}/{PROJECT_ID}/_apis/wit/attachments/{id}?fileName={name}")
}

/// `GET` and `POST attachments`.
pub fn attachments(board: &mut AdoData, request: &AdoRequest, base_url: &str) -> Reply {
    let id = request.part(2);
    if request.method == Method::POST && id.is_empty() {
        let name = request.get("filename").unwrap_or("file").to_owned();
        let id = board.linked.add_file(StoredFile::Bytes(request.body.clone()));
        let mut reply = Reply::json(&json!({ "id": id, "url": file_url(base_url, &id, &name) }));
        reply.status = 201;
        return reply;
    }
    match board.linked.files.get(&id) {
        Some(StoredFile::Bytes(bytes)) => {
            Reply::bytes(200, "application/octet-stream", bytes.clone())
        }
        Some(StoredFile::Redirect(to)) => Reply::page(302, "Found").with("location", to.clone()),
        None => {
            let text = format!("TF237077: The attachment {id} does not exist.");
            Reply::error(404, "AttachmentNotFoundException", &text)
        }
    }
}

/// `git/pullrequests/ID` and `git/repositories/ID/commits/HASH`.
pub fn code(board: &AdoData, request: &AdoRequest) -> Reply {
    let part = |at: usize| request.part(at);
    match (part(1).as_str(), part(3).as_str()) {
        ("pullrequests", "") => {
            let found = part(2).parse().ok().and_then(|id: u64| board.linked.requests.get(&id));
            let Some(found) = found else { return missing("pull request") };
            Reply::json(&json!({
                "pullRequestId": part(2).parse::<u64>().unwrap_or(0), "title": found.title,
                "status": found.status, "repository": { "id": REPOSITORY_ID, "name": "parcel" },
                "lastMergeCommit": found.merged.as_ref().map(|id| json!({ "commitId": id })),
            }))
        }
        ("repositories", "commits") => {
            let id = part(4);
            let Some(found) = board.linked.commits.get(&id) else { return missing("commit") };
            let change = |path: &String| {
                json!({ "item": { "gitObjectType": "blob", "path": format!("/{path}") },
                        "changeType": "edit" })
            };
            let changes: Vec<Value> = found.files.iter().map(change).collect();
            Reply::json(&json!({ "commitId": id, "comment": found.message, "changes": changes }))
        }
        _ => Reply::no_controller(&request.path),
    }
}

fn missing(what: &str) -> Reply {
    let text = format!("TF401019: The {what} does not exist or you do not have permissions.");
    Reply::error(404, "GitItemNotFoundException", &text)
}

/// An item's relations: its own, its parent and children, and links from other items.
pub fn relations(board: &AdoData, item: &StoredItem, base_url: &str) -> Vec<Value> {
    let mut all = item.links.clone();
    let link = |rel: &str, id: i64| json!({ "rel": rel, "url": item_url(base_url, id), "attributes": { "isLocked": false } });
    let parent = |item: &StoredItem| match item.at(None)?.values.get("System.Parent") {
        Some(Stored::Number(parent)) => Some(*parent),
        _ => None,
    };
    all.extend(parent(item).map(|parent| link(PARENT, parent)));
    let own = item_url(base_url, item.id).to_ascii_lowercase();
    for other in board.items.values().filter(|other| other.id != item.id && other.deleted.is_none())
    {
        if parent(other) == Some(item.id) {
            all.push(link("System.LinkTypes.Hierarchy-Forward", other.id));
        }
        for made in &other.links {
            let rel = made["rel"].as_str().unwrap_or_default();
            let leads_here =
                made["url"].as_str().is_some_and(|url| url.to_ascii_lowercase() == own);
            if leads_here && rel.starts_with("System.LinkTypes.") {
                all.push(link(&opposite(rel), other.id));
            }
        }
    }
    all
}

fn opposite(rel: &str) -> String {
    match rel.rsplit_once('-') {
        Some((kind, "Forward")) => format!("{kind}-Reverse"),
        Some((kind, "Reverse")) => format!("{kind}-Forward"),
        _ => rel.to_owned(),
    }
}
