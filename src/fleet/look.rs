//! What `heartbeat doctor` says about a fleet.

use jiff::Timestamp;

use super::engine::{Engine, EngineError, OLDEST_SERVER};
use super::gate::POLLER_SEEN;
use super::{checkout, own_host, queue};
use crate::clock::Clock;
use crate::settings::{Config, Environment};

/// Name, what was found (an error is a failure), and what to do.
pub type Look = (&'static str, Result<String, String>, Option<String>);

/// A difference of clocks that is worth a warning, in seconds.
const SKEW: i64 = 5;

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
        looks.push(hosts(&engine, &queue(&fleet.pool), clock).await);
    }
    looks.extend(repositories(config).await);
    looks
}

async fn server(engine: &Engine, namespace: &str) -> Look {
    let name = "fleet_server";
    let version = match engine.version().await {
        Ok(version) => version,
        Err(error) => {
            let fix = "check [fleet] address, the network and the server's certificate";
            return (name, Err(error.to_string()), Some(fix.to_owned()));
        }
    };
    let (major, minor) = OLDEST_SERVER;
    if is_older(&version) {
        let fix = format!("upgrade the server to {major}.{minor} or newer");
        return (name, Err(format!("Temporal {version} is too old")), Some(fix));
    }
    match engine.ensure_usable().await {
        Ok(()) => (name, Ok(format!("Temporal {version}, namespace {namespace}")), None),
        Err(error @ EngineError::Refused(..)) => {
            let fix = format!(
                "create the namespace {namespace:?}, give this credential access to it, or set \
                 `activity.enableStandalone: true` in the server's dynamic configuration"
            );
            (name, Err(error.to_string()), Some(fix))
        }
        Err(error) => (name, Err(error.to_string()), None),
    }
}

fn is_older(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) < OLDEST_SERVER,
        _ => false,
    }
}

/// Who waits for work, and whether their clocks and ours agree with the server's.
async fn hosts(engine: &Engine, queue: &str, clock: &Clock) -> Look {
    let name = "fleet_hosts";
    let pollers = match engine.pollers(queue).await {
        Ok(pollers) => pollers,
        Err(error) => return (name, Err(error.to_string()), None),
    };
    let now = clock.now();
    let age = |seen: Timestamp| now.duration_since(seen).as_secs();
    let longest = i64::try_from(POLLER_SEEN.as_secs()).unwrap_or(i64::MAX);
    let mut seen: Vec<&str> = pollers
        .iter()
        .filter(|poller| age(poller.seen_at) < longest)
        .map(|poller| poller.host.as_str())
        .collect();
    seen.sort_unstable();
    seen.dedup();
    let ahead = pollers.iter().map(|poller| -age(poller.seen_at)).max().unwrap_or(0);
    if ahead > SKEW {
        let fix = "set this machine's clock by NTP: hosts that are alive may look lost".to_owned();
        return (name, Ok(format!("the server's clock is {ahead} s ahead of this one")), Some(fix));
    }
    if seen.is_empty() {
        let fix = "start `heartbeat worker` on a host; busy hosts are not counted".to_owned();
        return (name, Ok(format!("no host waits for work on {queue}")), Some(fix));
    }
    (name, Ok(format!("{} wait for work on {queue}: {}", seen.len(), seen.join(", "))), None)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_compared_by_number() {
        assert!(is_older("1.9.12") && is_older("1.31.2") && is_older("0.40"));
        assert!(!is_older("1.32.0") && !is_older("1.100.0") && !is_older("2.0"));
        assert!(!is_older("a build of our own"), "what says nothing is tried");
    }
}
