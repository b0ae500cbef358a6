//! Idle connections to the dashboard during a session: heartbeat keeps the file descriptors it
//! needs.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::attacks::AttackRow;
use crate::app::selftest::Rig;
use crate::clock::Clock;
use crate::model::{BoxFuture, ItemKey, Opinion, Outcome, RunId, SessionId};
use crate::report::digest::Scope;
use crate::session::StopHandle;
use crate::settings::ReportFormat;
use crate::simulate::hostile::Misbehaviour;
use crate::store::Store;
use crate::web::token::TokenFile;
use crate::web::{ActionError, Actions, Server, ServerOptions, bind};

/// Together more than the usual limit of open files, by two processes with their own limits.
const HOLDERS: u32 = 2;
const CONNECTIONS_EACH: u32 = 550;
/// The usual limit per process.
const USUAL_FILES: u64 = 1024;
/// How long a probe may wait behind them.
const PROBE_WITHIN: Duration = Duration::from_secs(60);

pub(super) async fn idle_connections(rig: &Rig) -> io::Result<AttackRow> {
    let _limit = UsualLimit::set()?;
    let server = serve(&rig.folder.join("web")).await?;
    let address = server.address();
    let mut holders = Vec::new();
    let mut held = 0;
    for _ in 0..HOLDERS {
        let holder = ConnectionHolder::start(&rig.program, address.port())?;
        held += holder.connections;
        holders.push(holder);
    }
    let spec = rig.spec(Misbehaviour::WellBehaved, 1, 1);
    let observed = rig.observe(spec, &StopHandle::new()).await.map_err(io::Error::other)?;
    let probed = tokio::task::spawn_blocking(move || probe(address)).await?;
    drop(holders);
    server.stop().await;
    let answer = match &probed {
        Ok(waited) => format!("/livez answered after {:.1} s", waited.as_secs_f64()),
        Err(error) => format!("/livez did not answer: {error}"),
    };
    let outcome = observed.end.outcome;
    Ok(AttackRow {
        attack: format!("{} idle connections during a session", HOLDERS * CONNECTIONS_EACH),
        happened: format!("{held} held, the session {outcome}, {answer}"),
        held: outcome == Outcome::Completed && probed.is_ok(),
        survivors: observed.survivors,
    })
}

/// Sets the usual limit of open files while it is held.
struct UsualLimit {
    soft: u64,
    hard: u64,
}

impl UsualLimit {
    fn set() -> io::Result<Self> {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
        setrlimit(Resource::RLIMIT_NOFILE, soft.min(USUAL_FILES), hard)?;
        Ok(Self { soft, hard })
    }
}

impl Drop for UsualLimit {
    fn drop(&mut self) {
        setrlimit(Resource::RLIMIT_NOFILE, self.soft, self.hard).ok();
    }
}

async fn serve(state: &Path) -> io::Result<Server> {
    drop(Store::open(state).map_err(io::Error::other)?);
    let store = Store::open_for_reading(state).map_err(io::Error::other)?;
    let options = ServerOptions {
        store: store.ok_or_else(|| io::Error::other("the state is gone"))?,
        clock: Clock::system(),
        config: Arc::new(toml::from_str(crate::config::DEFAULT_TOML).map_err(io::Error::other)?),
        token_file: TokenFile::in_state(state),
        token: None,
        actions: Arc::new(NoActions),
        can_run: false,
        search_path: std::ffi::OsString::new(),
        hooks: None,
    };
    let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0)), None).await;
    Server::start(listener.map_err(io::Error::other)?, options).map_err(io::Error::other)
}

/// Time until the server answered a probe.
fn probe(address: SocketAddr) -> io::Result<Duration> {
    let began = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address, PROBE_WITHIN)?;
    stream.set_read_timeout(Some(PROBE_WITHIN))?;
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200") {
        return Ok(began.elapsed());
    }
    Err(io::Error::other(answer.lines().next().unwrap_or("no answer").to_owned()))
}

/// A process that holds connections and sends nothing. Killed on drop.
struct ConnectionHolder {
    child: Child,
    connections: u32,
}

impl ConnectionHolder {
    #[expect(clippy::disallowed_methods, reason = "a client of the server, not an agent")]
    fn start(program: &Path, port: u16) -> io::Result<Self> {
        let attack = format!("idle-connections:{port}/{CONNECTIONS_EACH}");
        let child = Command::new(program)
            .args(["simulate", "agent", "--misbehave", "attacks", "--attack", &attack])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut holder = Self { child, connections: 0 };
        let stdout = holder.child.stdout.take();
        let lines = BufReader::new(stdout.ok_or_else(|| io::Error::other("no output"))?).lines();
        let holding = lines.map_while(Result::ok).find_map(|line| {
            line.strip_prefix("holding ").and_then(|count| count.trim().parse().ok())
        });
        holder.connections = holding.unwrap_or(0);
        Ok(holder)
    }
}

impl Drop for ConnectionHolder {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

struct NoActions;

impl Actions for NoActions {
    fn stop_session(&self, _: SessionId) -> BoxFuture<'_, Result<(), ActionError>> {
        Box::pin(async { Err(refused()) })
    }

    fn retry_item(&self, _: ItemKey) -> BoxFuture<'_, Result<(), ActionError>> {
        Box::pin(async { Err(refused()) })
    }

    fn retry_items(&self, _: Vec<ItemKey>) -> BoxFuture<'_, Result<u32, ActionError>> {
        Box::pin(async { Err(refused()) })
    }

    fn pause(&self, _: String) -> BoxFuture<'_, Result<(), ActionError>> {
        Box::pin(async { Err(refused()) })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), ActionError>> {
        Box::pin(async { Err(refused()) })
    }

    fn report(&self, _: Scope, _: ReportFormat) -> BoxFuture<'_, Result<String, ActionError>> {
        Box::pin(async { Err(refused()) })
    }

    fn brief(&self, _: SessionId) -> BoxFuture<'_, Result<String, ActionError>> {
        Box::pin(async { Err(refused()) })
    }

    fn give_feedback(
        &self,
        _: ItemKey,
        _: Opinion,
        _: String,
    ) -> BoxFuture<'_, Result<(), ActionError>> {
        Box::pin(async { Err(refused()) })
    }

    fn run_now(&self) -> BoxFuture<'_, Result<RunId, ActionError>> {
        Box::pin(async { Err(refused()) })
    }
}

fn refused() -> ActionError {
    ActionError::NotNow("this is a self-test".into())
}
