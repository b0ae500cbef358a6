//! Handles requests: authentication, rate limit, resource.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Request};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::fault::Fault;
use super::reply::Reply;
use super::tracker_data::TrackerData;
use super::{control, issues, linked, resources};
use crate::simulate::connection::Switch;
use crate::simulate::traffic::Traffic;

/// Rejected tokens that lock the account out for a while.
const MOST_REFUSALS: u32 = 10;
/// Length of a rate-limit window, in seconds.
const WINDOW: i64 = 3600;

/// State shared by all requests.
#[derive(Debug)]
pub struct Shared {
    pub board: TrackerData,
    pub traffic: Traffic<Fault>,
    /// The only accepted secret; `None` accepts any.
    pub token: Option<String>,
    pub refusals: u32,
    /// Requests per window; `None` for no limit, as on an Enterprise Server.
    pub limit: Option<i64>,
    pub used: i64,
    pub window_ends: i64,
    /// Pages are numbered (`page=2`, `rel="last"`) instead of continued (`after=`).
    pub counts_pages: bool,
    /// The App that may sign in.
    pub app: Option<super::app::App>,
    pub base_url: String,
}

#[derive(Debug, Clone)]
pub struct Server(pub Arc<Mutex<Shared>>);

impl Server {
    /// Ignores poisoning.
    pub fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct ApiRequest {
    pub method: String,
    /// Segments below the API's address.
    pub path: Vec<String>,
    pub query: BTreeMap<String, String>,
    pub headers: HeaderMap,
    pub body: Value,
}

impl ApiRequest {
    fn new(parts: &axum::http::request::Parts, body: &Bytes) -> Self {
        let path = parts.uri.path();
        let path = path.strip_prefix("/api/v3").unwrap_or(path);
        let decode = |text: &str| {
            percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
        };
        let query = parts.uri.query().unwrap_or_default().split('&').filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((decode(name), decode(&value.replace('+', " "))))
        });
        Self {
            method: parts.method.to_string(),
            path: path.split('/').filter(|part| !part.is_empty()).map(decode).collect(),
            query: query.collect(),
            headers: parts.headers.clone(),
            body: serde_json::from_slice(body).unwrap_or_default(),
        }
    }

    /// The kind of request, for faults and counters.
    pub fn kind(&self) -> &'static str {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let path = match path.as_slice() {
            ["repos", _, _, rest @ ..] | ["repositories", _, rest @ ..] => rest,
            ["app", ..] | ["installation", ..] | ["users" | "orgs", _, "installation"] => {
                return "app";
            }
            ["users" | "orgs", _, "repos"] => return "repos",
            _ => return "other",
        };
        match (self.method.as_str(), path) {
            (_, []) => "repo",
            (_, ["installation"]) => "app",
            ("GET", ["issues"]) => "issues",
            ("GET", ["issues", _]) => "issue",
            ("GET", ["issues", _, "comments"]) => "comments",
            ("POST", ["issues", _, "comments"]) => "comment",
            ("POST", ["issues", _, "labels"]) => "label",
            ("GET", ["issues", _, "timeline"]) => "timeline",
            _ => "other",
        }
    }

    /// The caller's secret: `Bearer`, `token`, or the password of `Basic`.
    pub fn secret(&self) -> Option<String> {
        let header = self.headers.get("authorization")?.to_str().ok()?;
        let (scheme, value) = header.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return Some(value.trim().to_owned());
        }
        let decoded = String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()?;
        decoded.split_once(':').map(|(_, password)| password.to_owned())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn number(&self, name: &str) -> Option<usize> {
        self.query.get(name)?.parse().ok()
    }
}

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
    let request = ApiRequest::new(&parts, &body);
    let path = format!("/{}", request.path.join("/"));
    let (fault, now) = {
        let mut shared = server.lock();
        let now = shared.board.now().as_second();
        (shared.traffic.arrived(request.kind(), &request.method, &path), now)
    };
    let address = parts.uri.to_string();
    let replaced = fault.and_then(|fault| fault.answer(&address, now));
    let reply = match (replaced, fault) {
        (Some(reply), _) => reply,
        (None, Some(Fault::Hang)) => {
            server.lock().traffic.answered();
            std::future::pending().await
        }
        (None, fault) => {
            if fault == Some(Fault::Reset) {
                switch.cut();
            }
            let drop_labels = fault == Some(Fault::NoLabels);
            let reply = server.lock().answer(&request, drop_labels);
            if fault == Some(Fault::LostAnswer) {
                switch.cut();
            }
            reply
        }
    };
    server.lock().traffic.answered();
    let cut = (fault == Some(Fault::Truncated)).then(|| Bytes::from(reply.body.clone()));
    let mut response = reply.into_response();
    if let Some(whole) = cut {
        *response.body_mut() = crate::simulate::body::first_half(&whole);
    }
    response
}

impl Shared {
    fn answer(&mut self, request: &ApiRequest, drop_labels: bool) -> Reply {
        if request.header("user-agent").unwrap_or_default().is_empty() {
            let text = "Request forbidden by administrative rules. Please make sure your request has \
                        a User-Agent header.";
            return Reply::bytes(403, "application/octet-stream", text.into());
        }
        if let Some(refused) = self.reject_unauthenticated(request) {
            return refused;
        }
        let now = self.board.now().as_second();
        if now >= self.window_ends {
            (self.used, self.window_ends) = (0, now + WINDOW);
        }
        if self.limit.is_some_and(|limit| self.used >= limit) {
            let reply = Reply::error(403, "API rate limit exceeded for user ID 583231.");
            return self.with_limits(reply);
        }
        let reply = resources::answer(self, request)
            .or_else(|| linked::answer(self, request))
            .unwrap_or_else(|| issues::answer(self, request, drop_labels));
        let marked = request.method == "GET" && reply.status == 200;
        let reply = if marked { reply.marked(request.header("if-none-match")) } else { reply };
        if reply.status != 304 {
            self.used += 1;
        }
        self.with_limits(reply)
    }

    fn with_limits(&self, reply: Reply) -> Reply {
        let Some(limit) = self.limit else { return reply };
        reply
            .with("x-ratelimit-limit", limit.to_string())
            .with("x-ratelimit-remaining", (limit - self.used).max(0).to_string())
            .with("x-ratelimit-used", self.used.to_string())
            .with("x-ratelimit-reset", self.window_ends.to_string())
            .with("x-ratelimit-resource", "core")
    }

    fn reject_unauthenticated(&mut self, request: &ApiRequest) -> Option<Reply> {
        let given = request.secret();
        if request.path.first().is_some_and(|first| first == "media") {
            return None;
        }
        if request.kind() == "app" && self.app.is_some() && request.path[0] != "installation" {
            // Signed in as the App itself, which `app` checks.
            return None;
        }
        if let Some(app) = &self.app
            && given.as_deref().is_some_and(|token| app.accepts(token, self.board.now()))
        {
            return None;
        }
        let expected = self.token.as_deref()?;
        if given.as_deref() == Some(expected) && self.refusals < MOST_REFUSALS {
            return None;
        }
        if self.refusals >= MOST_REFUSALS {
            let text = "Maximum number of login attempts exceeded. Please try again later.";
            return Some(Reply::error(403, text));
        }
        self.refusals += 1;
        Some(Reply::error(401, "Bad credentials"))
    }
}
