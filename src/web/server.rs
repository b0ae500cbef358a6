//! Listening, routing and graceful shutdown.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use jiff::Timestamp;
use secrecy::SecretString;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::answer::{packed, refusal, signed_in_at, unauthorized};
use super::connection::{BoundedListener, Origin};
use super::guard::{Refusal, check_host, check_sign_in};
use super::hooks::{self, Hooks};
use super::hub::Hub;
use super::sign_in::Tokens;
use super::snapshot::Abilities;
use super::token::TokenFile;
use super::{Actions, api, commands, details, page, share, sse};
use crate::clock::Clock;
use crate::model::SessionId;
use crate::settings::Config;
use crate::store::Store;

/// Backlog of connections in the kernel; systems allow no more.
const WAITING: u32 = 4096;
/// How long open responses may take to end at shutdown.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(
        "{address} is in use by another program: choose another address with [http] listen (port \
         0 picks a free one), or turn the dashboard off with listen = \"\""
    )]
    Taken { address: SocketAddr },
    /// Reachable by others, but without a token.
    #[error(
        "{address} can be reached from other machines, but no token is set: set [http] token_env, or listen on \
         127.0.0.1"
    )]
    Open { address: SocketAddr },
    #[error("cannot listen on {address} ([http] listen): {source}")]
    Io { address: SocketAddr, source: io::Error },
}

/// The configured token, if there is one.
pub type Token = Option<SecretString>;

/// Binds the address, with the preferred port if that is free.
pub async fn bind(listen: SocketAddr, liked: Option<u16>) -> Result<TcpListener, ServerError> {
    if let (0, Some(port)) = (listen.port(), liked) {
        let better = SocketAddr::new(listen.ip(), port);
        if let Ok(listener) = listen_at(better) {
            return Ok(listener);
        }
    }
    listen_at(listen).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ServerError::Taken { address: listen },
        _ => ServerError::Io { address: listen, source },
    })
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Like the standard library: a port that we just released can be used again.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING)
}

pub struct ServerOptions {
    /// A separate connection to the state.
    pub store: Store,
    pub clock: Clock,
    pub config: Arc<Config>,
    /// The file with the state's own token.
    pub token_file: TokenFile,
    pub token: Token,
    pub actions: Arc<dyn Actions>,
    /// Whether a run can be started from the page.
    pub can_run: bool,
    /// Where programs are searched: without its agent, a service is not ready.
    pub search_path: OsString,
    /// Receives events of trackers; `None` if they are not wanted.
    pub hooks: Option<Hooks>,
}

/// State shared by all requests.
pub struct Shared {
    pub hub: Arc<Hub>,
    /// Only this machine can reach us.
    is_loopback: bool,
    /// The file with the state's own token.
    token_file: TokenFile,
    token: Token,
    pub actions: Arc<dyn Actions>,
    hooks: Option<Hooks>,
    /// Cancelled at shutdown.
    pub stop: CancellationToken,
}

impl Shared {
    /// The tokens that are valid now. The file is read each time: a new token is valid at once, and
    /// the old one is not.
    fn tokens(&self) -> Tokens {
        Tokens {
            own: self.token_file.read().ok(),
            configured: self.token.clone(),
            reader: TokenFile::of_readers(self.token_file.folder()).read().ok(),
        }
    }

    /// Whether the sender of these headers may change something.
    pub fn may_act(&self, headers: &HeaderMap) -> bool {
        self.tokens().may_act(headers)
    }

    /// The session whose finding this address of a shared link opens now.
    pub fn opened(&self, path: &str) -> Option<SessionId> {
        share::opened(self.token_file.folder(), path, self.hub.now())
    }

    /// A link that opens the finding of this session.
    pub fn share(&self, session: SessionId) -> io::Result<(String, Timestamp)> {
        share::link(self.token_file.folder(), session, share::DAYS, self.hub.now())
    }

    /// Whether the sender of these headers is still signed in.
    pub fn is_signed_in(&self, headers: &HeaderMap) -> bool {
        self.tokens().signed_in(headers).is_some()
    }
}

/// Serves until stopped or dropped.
pub struct Server {
    address: SocketAddr,
    hub: Arc<Hub>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves on this socket, within the current runtime.
    pub fn start(listener: TcpListener, options: ServerOptions) -> Result<Self, ServerError> {
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let address =
            listener.local_addr().map_err(|source| ServerError::Io { address: unknown, source })?;
        let is_loopback = address.ip().is_loopback();
        if !is_loopback && options.token.is_none() {
            return Err(ServerError::Open { address });
        }
        let can = Abilities { run: options.can_run, act: true };
        let hub = Hub::new(options.store, options.clock, options.config, can, options.search_path);
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            hub: Arc::clone(&hub),
            is_loopback,
            token_file: options.token_file,
            token: options.token,
            actions: options.actions,
            hooks: options.hooks,
            stop: stop.clone(),
        });
        let task = tokio::spawn(serve(listener, shared));
        Ok(Self { address, hub, stop, task })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Accepts no new requests and lets open responses end.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if tokio::time::timeout(LEAVE_WITHIN, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let (hub, stop) = (Arc::clone(&shared.hub), shared.stop.clone());
    let routes = routes(shared).into_make_service_with_connect_info::<Origin>();
    let serving = axum::serve(BoundedListener::new(listener), routes)
        .with_graceful_shutdown(stop.clone().cancelled_owned());
    tokio::select! {
        served = async { serving.await } => {
            if let Err(error) = served {
                tracing::error!(%error, "dashboard stopped");
            }
        }
        () = hub.follow() => {}
    }
}

struct Route {
    method: Method,
    path: &'static str,
    handler: MethodRouter<Arc<Shared>>,
}

fn table() -> Vec<Route> {
    let read = |path, handler| Route { method: Method::GET, path, handler };
    let act = |path, handler| Route { method: Method::POST, path, handler };
    vec![
        read("/", get(page::index)),
        read("/findings", get(page::index)),
        read("/findings/{id}", get(page::index)),
        read("/items", get(page::index)),
        read("/items/{*key}", get(page::index)),
        read("/runs", get(page::index)),
        read("/runs/{id}", get(page::index)),
        read("/sessions", get(page::index)),
        read("/sessions/{id}", get(page::index)),
        read("/app.css", get(page::style)),
        read("/app.js", get(|| page::script("app.js"))),
        read("/dom.js", get(|| page::script("dom.js"))),
        read("/views.js", get(|| page::script("views.js"))),
        read("/finding.js", get(|| page::script("finding.js"))),
        read("/items.js", get(|| page::script("items.js"))),
        read("/run.js", get(|| page::script("run.js"))),
        read("/icon.svg", get(page::icon)),
        read("/health", get(api::health)),
        read("/livez", get(api::livez)),
        read("/readyz", get(api::readyz)),
        read("/metrics", get(api::prometheus)),
        read("/heartbeat/metrics", get(api::overview)),
        read("/events", get(sse::events)),
        read("/api/state", get(api::state)),
        read("/shared/{link}", get(share::shared)),
        read("/api/me", get(api::me)),
        read("/api/findings", get(api::findings)),
        read("/api/findings/{id}", get(api::finding)),
        read("/api/findings/{id}/brief", get(details::brief)),
        read("/api/runs", get(api::runs)),
        read("/api/runs/{run}", get(details::run)),
        read("/api/sessions", get(api::sessions)),
        read("/api/sessions/{session}", get(details::session)),
        read("/api/figures", get(details::figures)),
        read("/api/report", get(details::report)),
        read("/api/items", get(api::items)),
        read("/api/items/{*key}", get(api::item)),
        act("/api/sessions/{session}/stop", post(commands::stop)),
        act("/api/retry", post(commands::retry_many)),
        act("/api/retry/{*key}", post(commands::retry)),
        act("/api/feedback/{*key}", post(commands::feedback)),
        act("/api/share/{session}", post(share::make)),
        act("/api/run", post(commands::run)),
        act("/api/pause", post(commands::pause)),
        act("/api/resume", post(commands::resume)),
    ]
}

/// Method and path of every route, for tests that try each of them.
pub fn surface() -> Vec<(Method, &'static str)> {
    table().into_iter().map(|route| (route.method, route.path)).collect()
}

fn routes(shared: Arc<Shared>) -> Router {
    table()
        .into_iter()
        .fold(Router::new(), |router, route| router.route(route.path, route.handler))
        .fallback(api::nothing)
        .layer(from_fn_with_state(Arc::clone(&shared), guarded))
        .layer(from_fn(packed))
        .with_state(shared)
}

/// Runs before every path, including unknown ones.
async fn guarded(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(Origin(slot)): ConnectInfo<Origin>,
    request: Request,
    next: Next,
) -> Response {
    slot.begin_answer();
    // Before the checks for browsers: a delivery comes from elsewhere and proves itself.
    if let Some(hooks) = &shared.hooks
        && *request.method() == Method::POST
        && request.uri().path() == hooks::PATH
    {
        return hooks.receive(request).await;
    }
    let (method, headers, address) = (request.method(), request.headers(), request.uri());
    if shared.is_loopback
        && let Err(refused) = check_host(headers)
    {
        return refuse(refused);
    }
    let tokens = shared.tokens();
    if tokens.signed_in(headers).is_some() {
        slot.sign_in();
    }
    if *method == Method::GET
        && let Some((cookie, without_token)) = tokens.sign_in(address)
    {
        return signed_in_at(&without_token, &cookie);
    }
    // A shared link needs no sign-in: its signature is checked here and again by its handler.
    if matches!(*method, Method::GET | Method::HEAD) && shared.opened(address.path()).is_some() {
        return next.run(request).await;
    }
    match check_sign_in(&tokens, method, address.path(), headers) {
        Ok(()) => next.run(request).await,
        Err(Refusal::NotSignedIn) => unauthorized(headers, address.query()),
        Err(refused) => refuse(refused),
    }
}

fn refuse(refused: Refusal) -> Response {
    let (status, code, message) = refused.response_parts();
    refusal(status, code, message)
}
