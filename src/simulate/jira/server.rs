//! Requests in, answers out: who asks, which version of the API, which resource.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Request};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::board::Board;
use super::fault::{Fault, anonymous, unauthorized};
use super::reply::Reply;
use super::{beside, control, issues, resources, search};
use crate::simulate::connection::Switch;
use crate::simulate::traffic::Traffic;

/// What all requests share.
#[derive(Debug)]
pub struct Shared {
    pub board: Board,
    pub traffic: Traffic<Fault>,
    pub is_cloud: bool,
    /// The only secret that is accepted; none: any.
    pub token: Option<String>,
    /// Whoever is not signed in may read, and sees nothing.
    pub lets_anonymous_read: bool,
    /// May the account comment, and may it edit?
    pub may_comment: bool,
    pub may_edit: bool,
    /// Rows of one page at most, whatever was asked for.
    pub most_rows: usize,
    /// How late the index is.
    pub index_lag: jiff::SignedDuration,
    pub base_url: String,
}

/// The state of the server.
#[derive(Debug, Clone)]
pub struct Server(pub Arc<Mutex<Shared>>);

impl Server {
    /// The data, whatever happened to an earlier holder.
    pub fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request, taken apart.
pub struct Asked {
    pub method: String,
    /// 2 or 3; 0: another address.
    pub version: u8,
    /// Segments of the whole address.
    pub address: Vec<String>,
    /// Segments below the API's address.
    pub path: Vec<String>,
    pub query: BTreeMap<String, String>,
    pub headers: HeaderMap,
    pub body: Value,
    /// Dates that are numbers are understood.
    pub takes_numbers: bool,
}

impl Asked {
    fn new(parts: &axum::http::request::Parts, body: &Bytes) -> Self {
        let decode = |text: &str| {
            percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
        };
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
        for pair in parts.uri.query().unwrap_or_default().split('&') {
            let Some((name, value)) = pair.split_once('=') else { continue };
            let value = decode(&value.replace('+', " "));
            // A name that is repeated makes a list.
            let known = query.entry(decode(name)).or_default();
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

    /// What it is about, for faults and counters.
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

    /// The secret of the caller: `Bearer`, or the password of `Basic`.
    fn secret(&self) -> Option<String> {
        let header = self.headers.get("authorization")?.to_str().ok()?;
        let (scheme, value) = header.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return Some(value.trim().to_owned());
        }
        let decoded = String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()?;
        decoded.split_once(':').map(|(_, password)| password.to_owned())
    }

    /// A value of the body or of the query string.
    pub fn value(&self, name: &str) -> Value {
        match self.body.get(name) {
            Some(value) => value.clone(),
            None => self.query.get(name).map_or(Value::Null, |text| json!(text)),
        }
    }

    /// The same as a number.
    pub fn number(&self, name: &str) -> Option<i64> {
        let value = self.value(name);
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }
}

/// Answers every request.
pub async fn handle(
    State(server): State<Server>,
    ConnectInfo(switch): ConnectInfo<Switch>,
    request: Request<Body>,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, 16 << 20).await else {
        return Reply::error(413, "Payload too large").into_response();
    };
    if let Some(rest) = parts.uri.path().strip_prefix("/_simulator/") {
        return control::handle(&server, &parts.method, rest, &body).into_response();
    }
    let mut asked = Asked::new(&parts, &body);
    let path = format!("/{}", asked.path.join("/"));
    let (fault, now) = {
        let mut shared = server.lock();
        (shared.traffic.arrived(asked.kind(), &asked.method, &path), shared.board.now())
    };
    asked.takes_numbers = fault != Some(Fault::NoNumbers);
    let replaced = fault.and_then(|fault| fault.answer(now));
    let reply = match (replaced, fault) {
        (Some(reply), _) => reply,
        (None, Some(Fault::Hang)) => {
            server.lock().traffic.answered();
            std::future::pending().await
        }
        (None, Some(Fault::Reset)) => {
            switch.cut();
            Reply::nothing()
        }
        (None, fault) => {
            let reply = server.lock().answer(&asked);
            if fault == Some(Fault::LostAnswer) {
                switch.cut();
            }
            fault.map_or(reply.clone(), |fault| fault.bend(reply))
        }
    };
    server.lock().traffic.answered();
    let accepts = parts.headers.get("accept-encoding").and_then(|value| value.to_str().ok());
    let packs = accepts.is_some_and(|text| text.contains("gzip"));
    let reply = if packs && fault != Some(Fault::Truncated) { reply.packed() } else { reply };
    let cut = (fault == Some(Fault::Truncated)).then(|| Bytes::from(reply.body.clone()));
    let mut response = reply.into_response();
    if let Some(whole) = cut {
        *response.body_mut() = crate::simulate::body::first_half(&whole);
    }
    response
}

impl Shared {
    fn answer(&mut self, asked: &Asked) -> Reply {
        let file = beside::answer(self, asked);
        let served = if self.is_cloud { asked.version != 0 } else { asked.version == 2 };
        if !served && file.is_none() {
            return Reply::page(404, "Oops, you've found a dead link");
        }
        if let Some(refused) = self.refuse_stranger(asked) {
            return refused;
        }
        if let Some(file) = file {
            return file;
        }
        let reply = resources::answer(self, asked)
            .or_else(|| search::answer(self, asked))
            .unwrap_or_else(|| issues::answer(self, asked));
        if self.is_cloud { reply } else { reply.with("x-seraph-loginreason", "OK") }
    }

    fn refuse_stranger(&self, asked: &Asked) -> Option<Reply> {
        if asked.kind() == "serverinfo" {
            return None;
        }
        let given = asked.secret();
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
        Some(match asked.kind() {
            "search" => {
                anonymous(&json!({ "issues": [], "isLast": true, "total": 0, "startAt": 0 }))
            }
            "bulkfetch" => anonymous(&json!({ "issues": [], "issueErrors": [] })),
            _ => unauthorized(),
        })
    }
}
