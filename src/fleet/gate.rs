//! Decides whether one more session may be given to the fleet now.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::engine::Poller;
use super::right::{RightError, RunRight};
use super::sessions::Coordinator;
use crate::event::Reason;
use crate::model::BoxFuture;
use crate::ports::Ledger as _;
use crate::session::Gate;
use crate::settings::WhenDown;

/// A poll lasts a minute: a worker not seen for longer is not waiting for work.
pub const POLLER_SEEN: Duration = Duration::from_secs(75);
/// How long the server's answer is valid.
const FRESH: Duration = Duration::from_secs(2);

type GateAnswer = Result<(), (Reason, String)>;

/// Checks the rows, the right to run, the server and its hosts, in this order.
pub struct FleetGate {
    shared: Arc<Coordinator>,
    right: Arc<RunRight>,
    /// This machine, for sessions while the server is unreachable.
    machine: Arc<dyn Gate>,
    last: Mutex<Option<(Instant, GateAnswer)>>,
}

impl FleetGate {
    pub fn new(shared: Arc<Coordinator>, right: Arc<RunRight>, machine: Arc<dyn Gate>) -> Self {
        Self { shared, right, machine, last: Mutex::new(None) }
    }

    async fn ask(&self) -> GateAnswer {
        let down = |why: String| Err((Reason::EngineUnavailable, why));
        match self.right.take().await {
            Ok(()) => {}
            Err(error @ RightError::Engine(_)) => return down(error.to_string()),
            Err(error) => return down(format!("this run may not start sessions: {error}")),
        }
        let queue = match self.shared.names().await {
            Ok(names) => names.queue(),
            Err(error) => return down(error.to_string()),
        };
        let pollers = match self.shared.engine.pollers(&queue).await {
            Ok(pollers) => pollers,
            Err(error) => return down(error.to_string()),
        };
        if self.shared.config.fleet.workers.is_empty() {
            let why = "no worker is listed in [fleet.workers]: write the public key of each there, \
                       which `heartbeat worker --public-key` prints on its host";
            return Err((Reason::NoWorker, why.to_owned()));
        }
        if self.has_waiting_host(&pollers) {
            return Ok(());
        }
        let rows = self.shared.journal.open_rows().await.unwrap_or_default();
        let busy = rows.iter().filter(|row| row.host.is_some()).count();
        match busy {
            0 => Err((
                Reason::NoWorker,
                format!("no host is waiting for work on {queue}: start `heartbeat worker` on one"),
            )),
            busy => Err((
                Reason::NoWorker,
                format!("every host on the queue {queue} is busy ({busy} sessions running)"),
            )),
        }
    }

    fn has_waiting_host(&self, pollers: &[Poller]) -> bool {
        let now = self.right.server_time();
        let recent = |poller: &Poller| {
            let age = now.duration_since(poller.seen_at);
            age.as_secs() < i64::try_from(POLLER_SEEN.as_secs()).unwrap_or(i64::MAX)
        };
        pollers.iter().any(recent)
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<(Instant, GateAnswer)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate for FleetGate {
    fn admit(&self) -> BoxFuture<'_, GateAnswer> {
        Box::pin(async move {
            let rows = self.shared.journal.open_rows().await.unwrap_or_default();
            let live = u32::try_from(rows.len()).unwrap_or(u32::MAX);
            let max = self.shared.config.limits.max_live_sessions;
            if live >= max {
                let detail = format!("{live} of {max} session slots of the fleet are in use");
                return Err((Reason::MaxLiveSessions, detail));
            }
            let fresh = self.last().clone().filter(|(at, _)| at.elapsed() < FRESH);
            let answer = match fresh {
                Some((_, answer)) => answer,
                None => {
                    let answer = self.ask().await;
                    *self.last() = Some((Instant::now(), answer.clone()));
                    answer
                }
            };
            let local = self.shared.config.fleet.when_down == WhenDown::Local;
            match answer {
                Err((Reason::EngineUnavailable, _)) if local => self.machine.admit().await,
                answer => answer,
            }
        })
    }
}
