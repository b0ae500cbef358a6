//! Handles requests: authentication, API version, resource.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Request};
use axum::response::Response;
use serde_json::{Value, json};

use super::fault::{Fault, anonymous, unauthorized};
use super::reply::{self, Reply};
use super::tracker_data::JiraData;
use super::{control, issues, linked, resources, search};
use heartbeat::simulate::connection::Switch;
use heartbeat::simulate::shared::{self, decode};
use heartbeat::simulate::traffic::Traffic;

/// State shared by all requests.
#[derive(Debug)]
pub struct JiraState {
    pub board: JiraData,
    pub traffic: Traffic<Fault>,
    pub is_cloud: bool,
    /// The only accepted secret; `None` accepts any.
    pub token: Option<String>,
    /// Anonymous clients may read, but see nothing.
    pub lets_anonymous_read: bool,
    /// Permissions of the account.
    pub may_comment: bool,
    pub may_edit: bool,
    /// Maximum rows per page, whatever was requested.
    pub most_rows: usize,
    /// Delay of the search index.
    pub index_lag: jiff::SignedDuration,
    pub base_url: String,
}

pub type JiraServer = heartbeat::simulate::shared::Server<JiraState>;

pub struct JiraRequest {
    pub method: String,
    /// 2 or 3; 0 for another address.
    pub version: u8,
    /// Segments of the whole address.
    pub address: Vec<String>,
    /// Segments below the API's address.
    pub path: Vec<String>,
    pub query: BTreeMap<String, String>,
    pub headers: HeaderMap,
    pub body: Value,
    /// Whether numeric dates are accepted.
    pub takes_numbers: bool,
}

impl JiraRequest {
    fn new(parts: &axum::http::request::Parts, body: &Bytes) -> Self {
        let path: Vec<String> =
            parts.uri.path().split('/').filter(|part| !part.is_empty()).map(decode).collect();
        let api = path.windows(2).position(|pair| pair[0] == "rest" && pair[1] == "api");
        let version =
            api.and_then(|at| path.get(at + 2)).map_or(0, |version| match version.as_str() {
                "3" => 3,
                "2" | "latest" => 2,
                _ => 0,
            });
        let mut query: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in shared::query(&parts.uri) {
            // A repeated name makes a list.
            let known = query.entry(name).or_default();
            *known = if known.is_empty() { value } else { format!("{known},{value}") };
        }
        Self {
            method: parts.method.to_string(),
            version,
            path: api.map(|at| path[(at + 3).min(path.len())..].to_vec()).unwrap_or_default(),
            address: path,
            query,
            headers: parts.headers.clone(),
            body: serde_json::from_slice(body).unwrap_or_default(),
            takes_numbers: true,
        }
    }

    /// The kind of request, for faults and counters.
    pub fn kind(&self) -> &'static str {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        match (self.method.as_str(), path.as_slice()) {
            (_, ["search", "approximate-count"]) => "count",
            (_, ["search", ..]) => "search",
            (_, ["issue", "bulkfetch"]) => "bulkfetch",
            ("GET", ["issue", _, "comment", ..]) => "comments",
            ("POST", ["issue", _, "comment"]) => "comment",
            ("PUT", ["issue", _]) => "edit",
            (_, ["issue", ..]) => "issue",
            (_, ["myself"]) => "myself",
            (_, ["serverInfo"]) => "serverinfo",
            (_, ["priority"]) => "priority",
            (_, ["project", ..]) => "project",
            (_, ["mypermissions"]) => "permissions",
            _ => "other",
        }
    }

    /// The caller's secret: `Bearer`, or the password of `Basic`.
    fn secret(&self) -> Option<String> {
        shared::secret(&self.headers)
    }

    /// A value of the body or of the query string.
    pub fn value(&self, name: &str) -> Value {
        match self.body.get(name) {
            Some(value) => value.clone(),
            None => self.query.get(name).map_or(Value::Null, |text| json!(text)),
        }
    }

    pub fn number(&self, name: &str) -> Option<i64> {
        let value = self.value(name);
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }
}

pub async fn handle(
    State(server): State<JiraServer>,
    ConnectInfo(switch): ConnectInfo<Switch>,
    request: Request<Body>,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, 16 << 20).await else {
        return reply::sent(reply::error(413, "Payload too large"), false);
    };
    if let Some(rest) = parts.uri.path().strip_prefix("/_simulator/") {
        return reply::sent(control::handle(&server, &parts.method, rest, &body), false);
    }
    let mut request = JiraRequest::new(&parts, &body);
    let path = format!("/{}", request.path.join("/"));
    let (fault, now) = {
        let mut shared = server.lock();
        (shared.traffic.arrived(request.kind(), &request.method, &path), shared.board.now())
    };
    request.takes_numbers = fault != Some(Fault::NoNumbers);
    let replaced = fault.and_then(|fault| fault.answer(now));
    let reply = match (replaced, fault) {
        (Some(reply), _) => reply,
        (None, Some(Fault::Hang)) => {
            server.lock().traffic.answered();
            std::future::pending().await
        }
        (None, Some(Fault::Reset)) => {
            switch.cut();
            reply::nothing()
        }
        (None, fault) => {
            let reply = server.lock().answer(&request);
            if fault == Some(Fault::LostAnswer) {
                switch.cut();
            }
            fault.map_or(reply.clone(), |fault| fault.modify(reply))
        }
    };
    server.lock().traffic.answered();
    let accepts = parts.headers.get("accept-encoding").and_then(|value| value.to_str().ok());
    let packs = accepts.is_some_and(|text| text.contains("gzip"));
    let reply = if packs && fault != Some(Fault::Truncated) { reply.packed() } else { reply };
    reply::sent(reply, fault == Some(Fault::Truncated))
}

impl JiraState {
    fn answer(&mut self, request: &JiraRequest) -> Reply {
        let file = linked::answer(self, request);
        let served = if self.is_cloud { request.version != 0 } else { request.version == 2 };
        if !served && file.is_none() {
            return reply::page(404, "Oops, you've found a dead link");
        }
        if let Some(refused) = self.reject_unauthenticated(request) {
            return refused;
        }
        if let Some(file) = file {
            return file;
        }
        let reply = resources::answer(self, request)
            .or_else(|| search::answer(self, request))
            .unwrap_or_else(|| issues::answer(self, request));
        if self.is_cloud { reply } else { reply.with("x-seraph-loginreason", "OK") }
    }

    fn reject_unauthenticated(&self, request: &JiraRequest) -> Option<Reply> {
        if request.kind() == "serverinfo" {
            return None;
        }
        let given = request.secret();
        let known = match &self.token {
            Some(token) => given.as_ref() == Some(token),
            None => given.is_some(),
        };
        if known {
            return None;
        }
        if !self.lets_anonymous_read {
            return Some(unauthorized());
        }
        Some(match request.kind() {
            "search" => {
                anonymous(&json!({ "issues": [], "isLast": true, "total": 0, "startAt": 0 }))
            }
            "bulkfetch" => anonymous(&json!({ "issues": [], "issueErrors": [] })),
            _ => unauthorized(),
        })
    }
}
