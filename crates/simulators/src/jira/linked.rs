//! Sub-tasks, links, attached files.

use serde_json::{Value, json};

use super::Simulator;
use super::reply::{self, Reply};
use super::server::{JiraRequest, JiraState};
use super::tracker_data::{JiraRecord, STATES};
use heartbeat::simulate::StoredFile;

/// Where Cloud redirects file downloads to.
const STORE: &str = "https://api.media.atlassian.com/file/0a1b2c/binary?token=x";

/// The value of a field, if it is one of these.
pub fn field(shared: &JiraState, issue: &JiraRecord, name: &str, version: u8) -> Option<Value> {
    let brief = |id: i64| shared.board.get(id).map(brief);
    Some(match name {
        "parent" => issue.parent.and_then(brief).unwrap_or_default(),
        "subtasks" => issue.children.iter().filter_map(|id| brief(*id)).collect(),
        "issuelinks" => {
            let link = |(kind, outward, other): &(String, bool, i64)| {
                let end = if *outward { "outwardIssue" } else { "inwardIssue" };
                // A link to an issue that may not be seen is omitted.
                Some(json!({ "id": "10000", "type": { "id": "10002", "name": kind,
                             "inward": kind, "outward": kind }, end: brief(*other)? }))
            };
            issue.links.iter().filter_map(link).collect()
        }
        "attachment" => {
            let file = |(id, name, file): &(i64, String, StoredFile)| {
                let content = match shared.is_cloud {
                    true => {
                        format!("{}/rest/api/{version}/attachment/content/{id}", shared.base_url)
                    }
                    false => {
                        format!("{}/secure/attachment/{id}/{}", shared.base_url, escaped(name))
                    }
                };
                json!({ "id": id.to_string(), "filename": name, "size": file.size(),
                        "mimeType": "application/octet-stream", "content": content })
            };
            issue.files.iter().map(file).collect()
        }
        _ => return None,
    })
}

/// The short form of an issue in links.
fn brief(issue: &JiraRecord) -> Value {
    let at = STATES.iter().position(|(name, _)| *name == issue.status).unwrap_or(0);
    json!({ "id": issue.id.to_string(), "key": issue.key(), "fields": {
        "summary": issue.summary, "issuetype": { "id": "10004", "name": issue.kind },
        "status": { "id": (10_000 + at).to_string(), "name": issue.status },
    } })
}

fn escaped(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The bytes of an attached file, if the request is about one. Cloud redirects to its store unless
/// asked not to.
pub fn answer(shared: &JiraState, request: &JiraRequest) -> Option<Reply> {
    let address: Vec<&str> = request.address.iter().map(String::as_str).collect();
    let (id, direct) = match (shared.is_cloud, address.as_slice()) {
        (true, ["rest", "api", _, "attachment", "content", id]) => {
            (*id, request.query.get("redirect").is_some_and(|value| value == "false"))
        }
        (false, ["secure", "attachment", id, _]) => (*id, true),
        _ => return None,
    };
    Some(match shared.board.file(id) {
        Some(StoredFile::Bytes(bytes)) if direct => {
            Reply::bytes(200, "application/octet-stream", bytes.clone())
        }
        Some(StoredFile::Bytes(_)) => reply::leading(303, STORE),
        Some(StoredFile::Redirect(to)) => reply::leading(303, to),
        None => reply::error(404, "The attachment with id was not found."),
    })
}

impl Simulator {
    pub fn set_parent(&self, child: i64, parent: i64) {
        let mut shared = self.server.lock();
        shared.board.edit(child, |issue| issue.parent = Some(parent));
        shared.board.edit(parent, |issue| issue.children.push(child));
    }

    pub fn link(&self, from: i64, kind: &str, to: i64) {
        let mut shared = self.server.lock();
        shared.board.edit(from, |issue| issue.links.push((kind.to_owned(), true, to)));
        shared.board.edit(to, |issue| issue.links.push((kind.to_owned(), false, from)));
    }

    pub fn attach(&self, id: i64, name: &str, file: StoredFile) {
        self.server.lock().board.edit(id, |issue| {
            let number = id * 1_000 + i64::try_from(issue.files.len()).unwrap_or(0);
            issue.files.push((number, name.to_owned(), file));
        });
    }
}
