//! The checks of `heartbeat doctor` for a fleet.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::engine::{Cover, Engine, EngineError, Start};
use super::gate::POLLER_SEEN;
use super::hand_over::ask_host;
use super::order::{Task, WIRE};
use super::{checkout, own_host, queue, queue_of_wire};
use crate::clock::Clock;
use crate::model::SessionId;
use crate::settings::{Config, Environment, Fleet};

/// Name, result (an error is a failure), and remedy.
pub type CheckResult = (&'static str, Result<String, String>, Option<String>);

/// Clock difference that causes a warning, in seconds.
const SKEW: i64 = 5;
/// Time limit of a task that this process gives to itself.
const OWN_TASK: Duration = Duration::from_secs(5);

/// Checks the server and this host.
pub async fn check_fleet(
    config: &Config,
    environment: &Environment,
    clock: &Clock,
) -> Vec<CheckResult> {
    let fleet = &config.fleet;
    let engine = match Engine::new(fleet, environment, &own_host(fleet)) {
        Ok(engine) => engine,
        Err(error) => return vec![("fleet key", Err(error.to_string()), None)],
    };
    let mut results = vec![own_key(&engine, fleet)];
    let server = server(&engine, &fleet.namespace).await;
    let is_there = server.1.is_ok();
    results.push(server);
    if is_there {
        let (clock_check, ahead) = clocks(&engine, clock).await;
        let now = clock.now();
        let now = now.saturating_add(SignedDuration::from_secs(ahead)).unwrap_or(now);
        results.extend([clock_check, hosts(&engine, fleet, now).await]);
    }
    results.extend(repositories(config).await);
    results
}

/// The public key of this process, and what others need of it.
fn own_key(engine: &Engine, fleet: &Fleet) -> CheckResult {
    let public = engine.keys().public();
    let found = format!("public key {public}, {} workers known", fleet.workers.len());
    let fix = fleet.workers.is_empty().then(|| {
        format!(
            "on the coordinator, list the public key of every worker in [fleet.workers] \
             (`heartbeat worker --public-key` prints it); on every worker, write \
             coordinator = [\"{public}\"] in [fleet]"
        )
    });
    ("fleet key", Ok(found), fix)
}

async fn server(engine: &Engine, namespace: &str) -> CheckResult {
    let asked = async {
        let version = engine.version().await?;
        engine.ensure_usable().await?;
        Ok::<_, EngineError>(version)
    };
    match asked.await {
        Ok(version) => {
            ("fleet server", Ok(format!("Temporal {version}, namespace {namespace}")), None)
        }
        Err(error) => {
            let (found, fix) = error.message_and_fix();
            ("fleet server", Err(found), Some(fix))
        }
    }
}

/// How far the server's clock is ahead of this machine's, in seconds, measured with a task that
/// this process gives to itself: that also shows that the server assigns tasks.
async fn ahead(engine: &Engine, clock: &Clock) -> Result<i64, EngineError> {
    let name = format!("heartbeat-doctor-{}", uuid::Uuid::now_v7().simple());
    let start = Start {
        id: &name,
        queue: &name,
        task: &Task::Void,
        wait: OWN_TASK,
        limit: OWN_TASK,
        heartbeat_timeout: None,
        again: false,
    };
    engine.start(start).await?;
    let polled = tokio::time::timeout(OWN_TASK, engine.poll(&name)).await.unwrap_or(Ok(None));
    let now = clock.now();
    let Some(task) = polled? else { return Ok(0) };
    engine.complete(&task.id, &task.token, &Cover::Signed, &()).await?;
    Ok(task.at.map_or(0, |at| at.duration_since(now).as_secs()))
}

/// Compares this machine's clock with the server's.
async fn clocks(engine: &Engine, clock: &Clock) -> (CheckResult, i64) {
    let name = "fleet clock";
    let ahead = match ahead(engine, clock).await {
        Ok(ahead) => ahead,
        Err(error) => {
            let (found, fix) = error.message_and_fix();
            return ((name, Err(found), Some(fix)), 0);
        }
    };
    if ahead.abs() <= SKEW {
        return ((name, Ok("the server's clock agrees".to_owned()), None), ahead);
    }
    let side = if ahead > 0 { "ahead of" } else { "behind" };
    let found = format!("the server's clock is {} s {side} this machine's", ahead.abs());
    let fix = "synchronise both with NTP: times in reports and daily limits are off by that much";
    ((name, Ok(found), Some(fix.to_owned())), ahead)
}

/// The hosts that wait for work, by the server's clock.
async fn hosts(engine: &Engine, fleet: &Fleet, now: Timestamp) -> CheckResult {
    let pool = fleet.pool.as_str();
    let (name, own) = ("fleet hosts", queue(pool));
    let seen = match seen_on(engine, &own, now).await {
        Ok(seen) => seen,
        Err(error) => return (name, Err(error.to_string()), None),
    };
    if !seen.is_empty() {
        let mut faults = Vec::new();
        // A worker knows none of the others' keys.
        let asked = if fleet.workers.is_empty() { &[] } else { seen.as_slice() };
        for host in asked {
            faults.extend(unproven(engine, fleet, host).await);
        }
        let waiting = format!("{} waiting for work on {own}: {}", seen.len(), seen.join(", "));
        return match faults.is_empty() {
            true if asked.is_empty() => (name, Ok(waiting), None),
            true => (name, Ok(format!("{waiting}; each proved its key")), None),
            false => {
                let found = format!("{waiting}; {}", faults.join("; "));
                let fix = "until then the coordinator gives them no order".to_owned();
                (name, Err(found), Some(fix))
            }
        };
    }
    for wire in (1..=WIRE + 2).filter(|wire| *wire != WIRE) {
        let other = queue_of_wire(pool, wire);
        let seen = seen_on(engine, &other, now).await.unwrap_or_default();
        if !seen.is_empty() {
            let hosts = seen.join(", ");
            let found = format!("no host is waiting for work on {own}; on {other}: {hosts}");
            let fix = "these run another version of heartbeat: install the same version on all hosts and the coordinator";
            return (name, Ok(found), Some(fix.to_owned()));
        }
    }
    let fix =
        "start `heartbeat worker` on a host; hosts that are full or under load are not counted, \
               and their logs say so"
            .to_owned();
    (name, Ok(format!("no host is waiting for work on {own}")), Some(fix))
}

/// Why a waiting host did not prove that it has the key by which the coordinator knows it: it is
/// asked about a session that never was, and its answer is signed, and sealed to this request.
async fn unproven(engine: &Engine, fleet: &Fleet, host: &str) -> Option<String> {
    let session = SessionId(uuid::Uuid::now_v7());
    let id = format!("hb/doctor/{session}");
    let why = match ask_host(engine, fleet, host, (&id, session), Instant::now() + OWN_TASK).await {
        Ok(Some(_)) => return None,
        Ok(None) => format!("no answer within {} s", OWN_TASK.as_secs()),
        Err(error) => error.to_string(),
    };
    Some(format!("{host} did not prove its key ({why})"))
}

async fn seen_on(engine: &Engine, queue: &str, now: Timestamp) -> Result<Vec<String>, EngineError> {
    let pollers = engine.pollers(queue).await?;
    let longest = i64::try_from(POLLER_SEEN.as_secs()).unwrap_or(i64::MAX);
    let mut seen: Vec<String> = pollers
        .into_iter()
        .filter(|poller| now.duration_since(poller.seen_at).as_secs() < longest)
        .map(|poller| poller.host)
        .collect();
    seen.sort_unstable();
    seen.dedup();
    Ok(seen)
}

async fn repositories(config: &Config) -> Vec<CheckResult> {
    let mut results = Vec::new();
    for (name, path) in checkout::mirrors(config) {
        results.push(match checkout::of(&path).await {
            Err(error) => ("fleet commit", Err(error.to_string()), None),
            Ok(_) if checkout::is_dirty(&path).await => (
                "fleet commit",
                Ok(format!("{name} has changes that are not committed")),
                Some("commit them: hosts read the commit, not the folder".to_owned()),
            ),
            Ok(found) => {
                let commit: String = found.commit.chars().take(12).collect();
                ("fleet commit", Ok(format!("{name} at {commit}")), None)
            }
        });
    }
    results
}
