//! Serves the dashboard and performs its actions.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::{mpsc, oneshot};

use super::after_run::Reporter;
use super::error::CommandError;
use super::{Setting, StartOptions, fleet};
use crate::clock::Clock;
use crate::config::credential::{hooks_secret, http_token};
use crate::model::{BoxFuture, ItemKey, Opinion, RunId, SessionId};
use crate::ports::Ledger as _;
use crate::report::digest::Scope;
use crate::report::terminal::{Progress, say};
use crate::session::LiveSessions;
use crate::session::orphans::request_end;
use crate::settings::{Config, Environment, ReportFormat};
use crate::store::{Journal, Store, StoreError};
use crate::web::address::{self, PublishedAddress};
use crate::web::hooks::Hooks;
use crate::web::token::TokenFile;
use crate::web::{ActionError, Actions, Hub, Server, ServerError, ServerOptions, bind};

/// The demo's fixed port.
const DEMO_PORT: u16 = 7979;

/// A request for a run from the dashboard; answered with the run's id, or the reason why not.
pub type RunRequest = oneshot::Sender<Result<RunId, String>>;
pub type RunRequests = mpsc::Receiver<RunRequest>;

/// What the service accepts from outside.
pub struct Requests {
    /// Of persons, from the dashboard.
    pub runs: mpsc::Sender<RunRequest>,
    /// Of trackers, which only make the next run earlier.
    pub events: mpsc::Sender<()>,
}

/// How the dashboard's address is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnnounceOptions {
    /// Used if the configuration does not set a port.
    preferred_port: Option<u16>,
    /// Print the address with its token even if standard error is not a terminal.
    with_token: bool,
}

impl AnnounceOptions {
    /// For the service. The demo has a fixed port.
    pub fn service(options: &StartOptions) -> Self {
        let preferred_port = options.demo.then_some(DEMO_PORT);
        Self { preferred_port, ..Self::single_run(options) }
    }

    /// For a single run.
    pub fn single_run(options: &StartOptions) -> Self {
        let with_token = options.demo && options.progress != Progress::Silent;
        Self { preferred_port: None, with_token }
    }
}

/// Observers of all runs: the dashboard, if it is served.
#[derive(Clone, Default)]
pub struct Observers {
    hub: Option<Arc<Hub>>,
}

impl Observers {
    /// Subscribes them to this journal's events.
    pub fn subscribe(&self, journal: &Journal) {
        if let Some(hub) = &self.hub {
            hub.subscribe_to(journal);
        }
    }

    pub fn adopt(&self, config: &Arc<Config>) {
        if let Some(hub) = &self.hub {
            hub.adopt(Arc::clone(config));
        }
    }

    /// `None` when the state database is usable again.
    pub fn report_fault(&self, fault: Option<String>) {
        if let Some(hub) = &self.hub {
            hub.set_fault(fault);
        }
    }

    /// Records that the daemon's loop is alive.
    pub fn beat(&self) {
        if let Some(hub) = &self.hub {
            hub.note_loop();
        }
    }
}

/// Serves the dashboard if an address is configured, and prints the address.
pub async fn serve(
    setting: &mut Setting,
    requests: Option<Requests>,
    announce_options: AnnounceOptions,
    progress: Progress,
) -> Result<Option<Dashboard>, CommandError> {
    let config = Arc::clone(&setting.config);
    if config.http.listen.is_empty() {
        return Ok(None);
    }
    let listen: SocketAddr = config.http.listen.parse().map_err(|_| {
        CommandError::Usage(format!(
            "`http.listen` is not a valid address: `{}`\n  hint: write for example 127.0.0.1:7979",
            config.http.listen
        ))
    })?;
    let token = http_token(&config, &setting.environment)?;
    let secret = hooks_secret(&config, &setting.environment)?;
    let (requests, events) = requests.map(|r| (r.runs, r.events)).unzip();
    let hooks = secret.zip(events).map(|(secret, events)| Hooks::new(secret, events));
    let listener = bind(listen, announce_options.preferred_port).await.map_err(refused)?;
    // The folder must exist before it can be read.
    drop(Store::open(&setting.state)?);
    let Some(store) = Store::open_for_reading(&setting.state)? else { return Ok(None) };
    let actions = DashboardActions {
        state: setting.state.clone(),
        clock: setting.clock.clone(),
        live: setting.live.clone(),
        requests: requests.clone(),
        reporter: Reporter::new(setting),
        config: Arc::clone(&config),
        environment: setting.environment.clone(),
    };
    let clock = setting.clock.clone();
    let (actions, can_run) = (Arc::new(actions), requests.is_some());
    let search_path = setting.environment.raw("PATH").unwrap_or_default().to_owned();
    let token_file = TokenFile::in_state(&setting.state);
    let own = token_file.read_or_create().map_err(unwritable(&token_file))?;
    let options = ServerOptions {
        store,
        clock,
        config,
        token_file,
        token,
        actions,
        can_run,
        search_path,
        hooks,
    };
    let server = Server::start(listener, options).map_err(refused)?;
    setting.observers = Observers { hub: Some(Arc::clone(server.hub())) };
    let published = address::publish(&setting.state, server.address()).unwrap_or_else(|error| {
        tracing::warn!(%error, "could not store the address of the dashboard; `heartbeat dashboard` will not find it");
        None
    });
    announce(server.address(), &own, announce_options, progress);
    tracing::info!(address = %server.address(), "dashboard listening");
    Ok(Some(Dashboard { server, own, _published: published }))
}

pub struct Dashboard {
    server: Server,
    own: SecretString,
    _published: Option<PublishedAddress>,
}

impl Dashboard {
    /// The address that signs a browser in.
    pub fn sign_in(&self) -> String {
        sign_in_address(self.server.address(), &self.own)
    }

    /// Closes open responses and stops.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}

/// The token is shown on a terminal and in the demo, never in a log.
fn announce(
    address: SocketAddr,
    token: &SecretString,
    announce_options: AnnounceOptions,
    progress: Progress,
) {
    let progress = if announce_options.with_token { Progress::Live } else { progress };
    if progress == Progress::Live {
        say(progress, &format!("dashboard  {}", sign_in_address(address, token)));
    } else {
        let page = page_address(address);
        say(progress, &format!("dashboard  {page} (to sign in, run: heartbeat dashboard)"));
    }
}

/// The address to open: a wildcard address is replaced.
pub fn page_address(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        return format!("http://localhost:{}/", address.port());
    }
    format!("http://{address}/")
}

/// The address that signs a browser in.
pub fn sign_in_address(address: SocketAddr, token: &SecretString) -> String {
    format!("{}?token={}", page_address(address), token.expose_secret())
}

fn unwritable(file: &TokenFile) -> impl FnOnce(std::io::Error) -> CommandError {
    CommandError::io(format!("cannot write the dashboard's token {}", file.path().display()))
}

/// For a single run, which continues without a dashboard if the server fails.
pub async fn serve_in_background(
    setting: &mut Setting,
    announce_options: AnnounceOptions,
    progress: Progress,
) -> Option<Dashboard> {
    match serve(setting, None, announce_options, progress).await {
        Ok(dashboard) => dashboard,
        Err(error) => {
            tracing::warn!(%error, "continuing without a dashboard");
            None
        }
    }
}

fn refused(error: ServerError) -> CommandError {
    CommandError::Io {
        what: "cannot start the dashboard".into(),
        source: std::io::Error::other(error),
    }
}

/// What a person can do from the dashboard.
struct DashboardActions {
    state: PathBuf,
    clock: Clock,
    live: LiveSessions,
    requests: Option<mpsc::Sender<RunRequest>>,
    reporter: Reporter,
    /// For sessions on other hosts.
    config: Arc<Config>,
    environment: Environment,
}

impl DashboardActions {
    fn journal(&self) -> Result<Journal, StoreError> {
        Journal::open(Store::open_existing(&self.state)?, self.clock.clone(), None)
    }
}

fn failed(error: impl std::fmt::Display) -> ActionError {
    ActionError::Failed(error.to_string())
}

impl Actions for DashboardActions {
    fn stop_session(&self, session: SessionId) -> BoxFuture<'_, Result<(), ActionError>> {
        Box::pin(async move {
            if self.live.stop(session) {
                return Ok(());
            }
            let rows = self.journal().map_err(failed)?.open_rows().await.map_err(failed)?;
            let row = rows.iter().find(|row| row.session.id == session);
            match row {
                Some(row) if row.host.is_some() => {
                    let journal = self.journal().map_err(failed)?;
                    fleet::cancel(&self.config, &self.environment, &journal, session)
                        .await
                        .map_err(ActionError::NotNow)
                }
                Some(row) if request_end(row).is_ok_and(|asked| asked) => Ok(()),
                Some(_) => Err(ActionError::NotNow(format!(
                    "the keeper of session {} has exited; the next run cleans up",
                    session.short()
                ))),
                None => {
                    let message = format!("session {} is not running", session.short());
                    Err(ActionError::NotFound(message))
                }
            }
        })
    }

    fn retry_item(&self, item: ItemKey) -> BoxFuture<'_, Result<(), ActionError>> {
        Box::pin(async move {
            let journal = self.journal().map_err(failed)?;
            if journal.items().requeue(item.clone()).await.map_err(failed)? {
                return Ok(());
            }
            match journal.store().items().get(item.clone()).await.map_err(failed)? {
                Some(_) => {
                    let sessions = journal.store().sessions().of_item(item.clone()).await;
                    let alive = sessions.map_err(failed)?.iter().any(|session| session.alive);
                    Err(ActionError::NotNow(if alive {
                        format!("a session for {item} is running")
                    } else {
                        format!("the session for {item} crashed; the next run requeues it")
                    }))
                }
                None => Err(ActionError::NotFound(format!(
                    "{item} is not among the items that the query returned"
                ))),
            }
        })
    }

    fn retry_items(&self, items: Vec<ItemKey>) -> BoxFuture<'_, Result<u32, ActionError>> {
        Box::pin(async move {
            self.journal().map_err(failed)?.items().requeue_all(items).await.map_err(failed)
        })
    }

    fn pause(&self, note: String) -> BoxFuture<'_, Result<(), ActionError>> {
        Box::pin(async move {
            let journal = self.journal().map_err(failed)?;
            journal.ticks().pause(note).await.map(drop).map_err(failed)
        })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), ActionError>> {
        Box::pin(async move {
            let journal = self.journal().map_err(failed)?;
            journal.ticks().resume().await.map(drop).map_err(failed)
        })
    }

    fn report(
        &self,
        scope: Scope,
        format: ReportFormat,
    ) -> BoxFuture<'_, Result<String, ActionError>> {
        Box::pin(async move {
            let store = Store::open_for_reading(&self.state).map_err(failed)?;
            let store = store.ok_or_else(|| ActionError::NotFound("there is no state".into()))?;
            self.reporter.text(&store, scope, format).await.map_err(failed)
        })
    }

    fn brief(&self, session: SessionId) -> BoxFuture<'_, Result<String, ActionError>> {
        Box::pin(async move {
            let store = Store::open_for_reading(&self.state).map_err(failed)?;
            let store = store.ok_or_else(|| ActionError::NotFound("there is no state".into()))?;
            let text = self.reporter.brief(&store, session).await.map_err(failed)?;
            text.ok_or_else(|| ActionError::NotFound("unknown finding".into()))
        })
    }

    fn give_feedback(
        &self,
        item: ItemKey,
        opinion: Opinion,
        note: String,
    ) -> BoxFuture<'_, Result<(), ActionError>> {
        Box::pin(async move {
            let journal = self.journal().map_err(failed)?;
            let stored = journal.findings().give_feedback(item.clone(), opinion, note).await;
            match stored.map_err(failed)? {
                true => Ok(()),
                false => Err(ActionError::NotFound(format!("{item} has no finding"))),
            }
        })
    }

    fn run_now(&self) -> BoxFuture<'_, Result<RunId, ActionError>> {
        Box::pin(async move {
            let here = "this process does one run and exits; start the service to trigger runs \
                        from the dashboard";
            let requests =
                self.requests.as_ref().ok_or_else(|| ActionError::NotNow(here.into()))?;
            let (request, answer) = oneshot::channel();
            let busy = || ActionError::NotNow("another request is still being handled".into());
            requests.try_send(request).map_err(|_| busy())?;
            answer
                .await
                .map_err(|_| ActionError::NotNow("heartbeat is stopping".into()))?
                .map_err(ActionError::NotNow)
        })
    }
}
