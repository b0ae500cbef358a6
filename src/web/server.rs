//! Listening, routing, and leaving in order.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::answer::refusal;
use super::connection::BoundedListener;
use super::guard::{Policy, Refusal, random_token};
use super::hub::Hub;
use super::snapshot::Abilities;
use super::{Actions, api, page, sse};
use crate::clock::Clock;
use crate::settings::Config;
use crate::store::Store;

/// How long open answers may take to end when we leave.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// Why the address cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Somebody else has it.
    #[error(
        "{address} is in use by another program: choose another address with [http] listen (port \
         0 picks a free one), or turn the dashboard off with listen = \"\""
    )]
    Taken {
        /// The address.
        address: SocketAddr,
    },
    /// Others could reach it, and nothing asks who they are.
    #[error(
        "others can reach {address} and there is no token: set [http] token_env, or listen on \
         127.0.0.1"
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
    /// Anything else the system says.
    #[error("cannot listen on {address} ([http] listen): {source}")]
    Io {
        /// The address.
        address: SocketAddr,
        /// The system's word.
        source: io::Error,
    },
}

/// The configured token, if there is one.
pub type Token = Option<SecretString>;

/// Takes the address, or the port that is liked better if it is free.
pub async fn bind(listen: SocketAddr, liked: Option<u16>) -> Result<TcpListener, ServerError> {
    if let (0, Some(port)) = (listen.port(), liked) {
        let better = SocketAddr::new(listen.ip(), port);
        if let Ok(listener) = TcpListener::bind(better).await {
            return Ok(listener);
        }
    }
    TcpListener::bind(listen).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ServerError::Taken { address: listen },
        _ => ServerError::Io { address: listen, source },
    })
}

/// What a server is made of.
pub struct ServerOptions {
    /// The state, by a connection of its own.
    pub store: Store,
    /// Time.
    pub clock: Clock,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The configured token.
    pub token: Token,
    /// What a person can do.
    pub actions: Arc<dyn Actions>,
    /// A run can be started from the page.
    pub can_run: bool,
    /// Where programs are looked for: without its agent, a service is not ready.
    pub search_path: OsString,
}

/// What all requests share.
pub struct Shared {
    /// The follower of the log.
    pub hub: Arc<Hub>,
    /// Who may ask.
    pub policy: Policy,
    /// What a person can do.
    pub actions: Arc<dyn Actions>,
    /// We are leaving.
    pub stop: CancellationToken,
}

/// The server, until it is stopped or dropped.
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
        let action = random_token().map_err(|source| ServerError::Io { address, source })?;
        let can = Abilities { run: options.can_run, act: true };
        let hub = Hub::new(options.store, options.clock, options.config, can, options.search_path);
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            hub: Arc::clone(&hub),
            policy: Policy { is_loopback, access: options.token, action },
            actions: options.actions,
            stop: stop.clone(),
        });
        let task = tokio::spawn(serve(listener, shared));
        Ok(Self { address, hub, stop, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who follows the log.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Answers nothing new, lets open answers end, and is gone.
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
    let serving = axum::serve(BoundedListener::new(listener), routes(shared))
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

/// Every path there is.
pub fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page::index))
        .route("/app.css", get(page::style))
        .route("/app.js", get(|| page::script("app.js")))
        .route("/dom.js", get(|| page::script("dom.js")))
        .route("/views.js", get(|| page::script("views.js")))
        .route("/finding.js", get(|| page::script("finding.js")))
        .route("/icon.svg", get(page::icon))
        .route("/health", get(api::health))
        .route("/healthz", get(api::health))
        .route("/livez", get(api::livez))
        .route("/readyz", get(api::readyz))
        .route("/metrics", get(api::prometheus))
        .route("/heartbeat/metrics", get(api::overview))
        .route("/events", get(sse::events))
        .route("/api/state", get(api::state))
        .route("/api/findings", get(api::findings))
        .route("/api/runs", get(api::runs))
        .route("/api/sessions", get(api::sessions))
        .route("/api/items/{*key}", get(api::item))
        .route("/api/sessions/{session}/stop", post(api::stop))
        .route("/api/retry/{*key}", post(api::retry))
        .route("/api/feedback/{*key}", post(api::feedback))
        .route("/api/run", post(api::run))
        .fallback(api::nothing)
        .layer(from_fn_with_state(Arc::clone(&shared), guarded))
        .with_state(shared)
}

async fn guarded(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let admitted = shared.policy.admit(request.method(), request.uri().path(), request.headers());
    let Err(refused) = admitted else { return next.run(request).await };
    let (status, code, message) = refused.told();
    let mut response = refusal(status, code, message);
    if refused == Refusal::NoToken && status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Basic realm=\"heartbeat\", charset=\"UTF-8\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}
