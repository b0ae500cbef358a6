//! What `heartbeat doctor` says about a fleet.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::engine::{Engine, EngineError, Start};
use super::gate::POLLER_SEEN;
use super::order::{Task, WIRE};
use super::{checkout, own_host, queue, queue_of_wire};
use crate::clock::Clock;
use crate::settings::{Config, Environment};

/// Name, what was found (an error is a failure), and what to do.
pub type Look = (&'static str, Result<String, String>, Option<String>);

/// A difference of clocks that is worth a warning, in seconds.
const SKEW: i64 = 5;
/// How long a task of this process's own may take.
const OWN_TASK: Duration = Duration::from_secs(5);

/// Asks the server and looks at this host's part.
pub async fn look(config: &Config, environment: &Environment, clock: &Clock) -> Vec<Look> {
    let fleet = &config.fleet;
    let engine = match Engine::new(fleet, environment, &own_host(fleet)) {
        Ok(engine) => engine,
        Err(error) => return vec![("fleet_key", Err(error.to_string()), None)],
    };
    let mut looks = vec![("fleet_key", Ok(format!("key {}", engine.key_id())), None)];
    let server = server(&engine, &fleet.namespace).await;
    let is_there = server.1.is_ok();
    looks.push(server);
    if is_there {
        let (look, ahead) = clocks(&engine, clock).await;
        let now = clock.now();
        let now = now.saturating_add(SignedDuration::from_secs(ahead)).unwrap_or(now);
        looks.extend([look, hosts(&engine, &fleet.pool, now).await]);
    }
    looks.extend(repositories(config).await);
    looks
}

async fn server(engine: &Engine, namespace: &str) -> Look {
    let asked = async {
        let version = engine.version().await?;
        engine.ensure_usable().await?;
        Ok::<_, EngineError>(version)
    };
    match asked.await {
        Ok(version) => {
            ("fleet_server", Ok(format!("Temporal {version}, namespace {namespace}")), None)
        }
        Err(error) => {
            let (found, fix) = error.told();
            ("fleet_server", Err(found), Some(fix))
        }
    }
}

/// How far the server's clock is ahead of this machine's, in seconds, told by a task that this
/// process gives to itself: that also shows that the server hands tasks out.
async fn ahead(engine: &Engine, clock: &Clock) -> Result<i64, EngineError> {
    let name = format!("heartbeat-doctor-{}", uuid::Uuid::now_v7().simple());
    let start = Start {
        id: &name,
        queue: &name,
        task: &Task::Void,
        wait: OWN_TASK,
        limit: OWN_TASK,
        patience: None,
        again: false,
    };
    engine.start(start).await?;
    let polled = tokio::time::timeout(OWN_TASK, engine.poll(&name)).await.unwrap_or(Ok(None));
    let now = clock.now();
    let Some(task) = polled? else { return Ok(0) };
    engine.complete(&task.id, &task.token, &()).await?;
    Ok(task.at.map_or(0, |at| at.duration_since(now).as_secs()))
}

/// Whether this machine's clock and the server's agree.
async fn clocks(engine: &Engine, clock: &Clock) -> (Look, i64) {
    let name = "fleet_clock";
    let ahead = match ahead(engine, clock).await {
        Ok(ahead) => ahead,
        Err(error) => {
            let (found, fix) = error.told();
            return ((name, Err(found), Some(fix)), 0);
        }
    };
    if ahead.abs() <= SKEW {
        return ((name, Ok("the server's clock agrees".to_owned()), None), ahead);
    }
    let side = if ahead > 0 { "ahead of" } else { "behind" };
    let found = format!("the server's clock is {} s {side} this machine's", ahead.abs());
    let fix = "set both by NTP: times in reports and limits of a day are off by as much";
    ((name, Ok(found), Some(fix.to_owned())), ahead)
}

/// Who waits for work, by the server's clock.
async fn hosts(engine: &Engine, pool: &str, now: Timestamp) -> Look {
    let (name, own) = ("fleet_hosts", queue(pool));
    let seen = match seen_on(engine, &own, now).await {
        Ok(seen) => seen,
        Err(error) => return (name, Err(error.to_string()), None),
    };
    if !seen.is_empty() {
        let hosts = seen.join(", ");
        return (name, Ok(format!("{} wait for work on {own}: {hosts}", seen.len())), None);
    }
    for wire in (1..=WIRE + 2).filter(|wire| *wire != WIRE) {
        let other = queue_of_wire(pool, wire);
        let seen = seen_on(engine, &other, now).await.unwrap_or_default();
        if !seen.is_empty() {
            let hosts = seen.join(", ");
            let found = format!("no host waits for work on {own}, but on {other}: {hosts}");
            let fix = "these have another version of heartbeat: bring them and the coordinator to the same one";
            return (name, Ok(found), Some(fix.to_owned()));
        }
    }
    let fix =
        "start `heartbeat worker` on a host; hosts that are full or under load are not counted, \
               and their logs say so"
            .to_owned();
    (name, Ok(format!("no host waits for work on {own}")), Some(fix))
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

async fn repositories(config: &Config) -> Vec<Look> {
    let mut looks = Vec::new();
    for (name, path) in checkout::mirrors(config) {
        looks.push(match checkout::of(&path).await {
            Err(error) => ("fleet_repository", Err(error.to_string()), None),
            Ok(_) if checkout::is_dirty(&path).await => (
                "fleet_repository",
                Ok(format!("{name} has changes that are not committed")),
                Some("commit them: hosts read the commit, not the folder".to_owned()),
            ),
            Ok(found) => {
                let commit: String = found.commit.chars().take(12).collect();
                ("fleet_repository", Ok(format!("{name} at {commit}")), None)
            }
        });
    }
    looks
}
