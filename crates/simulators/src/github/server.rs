//! Handles requests: authentication, rate limit, resource.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Request};
use axum::response::Response;
use serde_json::Value;

use super::fault::Fault;
use super::reply::{self, Reply};
use super::tracker_data::GithubData;
use super::{control, issues, linked, resources};
use heartbeat::simulate::connection::Switch;
use heartbeat::simulate::shared::{self, decode};
use heartbeat::simulate::traffic::Traffic;

/// Rejected tokens that lock the account out for a while.
const MAX_REFUSALS: u32 = 10;
/// Length of a rate-limit window, in seconds.
const WINDOW: i64 = 3600;

/// State shared by all requests.
#[derive(Debug)]
pub struct GithubState {
    pub board: GithubData,
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

pub type GithubServer = heartbeat::simulate::shared::Server<GithubState>;

pub struct GithubRequest {
    pub method: String,
    /// Segments below the API's address.
    pub path: Vec<String>,
    pub query: BTreeMap<String, String>,
    pub headers: HeaderMap,
    pub body: Value,
}

impl GithubRequest {
    fn new(parts: &axum::http::request::Parts, body: &Bytes) -> Self {
        let path = parts.uri.path();
        let path = path.strip_prefix("/api/v3").unwrap_or(path);
        Self {
            method: parts.method.to_string(),
            path: path.split('/').filter(|part| !part.is_empty()).map(decode).collect(),
            query: shared::query(&parts.uri).collect(),
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
        shared::secret(&self.headers)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn number(&self, name: &str) -> Option<usize> {
        self.query.get(name)?.parse().ok()
    }
}

pub async fn handle(
    State(server): State<GithubServer>,
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
    let request = GithubRequest::new(&parts, &body);
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
    reply::sent(reply, fault == Some(Fault::Truncated))
}

impl GithubState {
    fn answer(&mut self, request: &GithubRequest, drop_labels: bool) -> Reply {
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
            let reply = reply::error(403, "API rate limit exceeded for user ID 583231.");
            return self.with_limits(reply);
        }
        let reply = resources::answer(self, request)
            .or_else(|| linked::answer(self, request))
            .unwrap_or_else(|| issues::answer(self, request, drop_labels));
        let marked = request.method == "GET" && reply.status == 200;
        let reply =
            if marked { reply::marked(reply, request.header("if-none-match")) } else { reply };
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

    fn reject_unauthenticated(&mut self, request: &GithubRequest) -> Option<Reply> {
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
        if given.as_deref() == Some(expected) && self.refusals < MAX_REFUSALS {
            return None;
        }
        if self.refusals >= MAX_REFUSALS {
            let text = "Maximum number of login attempts exceeded. Please try again later.";
            return Some(reply::error(403, text));
        }
        self.refusals += 1;
        Some(reply::error(401, "Bad credentials"))
    }
}
