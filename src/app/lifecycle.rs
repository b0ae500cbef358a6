//! Log lines of runs and sessions: start, spawn, complete, stale, kill. One line per change of
//! state, each with the ids of its run, session and item.

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tracing::{error, info, warn};

use crate::event::fold::RunView;
use crate::event::{Event, LiveVerdict, Recorded, RunOutcome};
use crate::model::{RunId, SessionId, milliseconds};

pub const TARGET: &str = "lifecycle";

/// Logs a run's events until it has ended. A session is stale after `stall`.
pub async fn follow(mut events: Receiver<Recorded>, stall: Duration) {
    let mut lines = LifecycleLines::new(stall);
    loop {
        match events.recv().await {
            Ok(recorded) => {
                lines.log(&recorded);
                if matches!(recorded.event, Event::RunEnded { .. }) {
                    return;
                }
            }
            Err(RecvError::Lagged(missed)) => {
                warn!(target: TARGET, missed, "some lifecycle lines were dropped; the database \
                                               has every event");
            }
            Err(RecvError::Closed) => return,
        }
    }
}

struct LifecycleLines {
    view: RunView,
    stall_ms: u64,
    /// Items of the plan, until they are logged.
    planned: Option<u64>,
    /// Sessions already logged as stale.
    stale: HashSet<SessionId>,
}

impl LifecycleLines {
    fn new(stall: Duration) -> Self {
        let stall_ms = milliseconds(stall);
        Self { view: RunView::default(), stall_ms, planned: None, stale: HashSet::new() }
    }

    fn log(&mut self, recorded: &Recorded) {
        // Looked up first: applying the event removes an ended session from the view.
        let item = self.item_of(&recorded.event);
        let pid = recorded.event.session().and_then(|id| self.view.sessions.get(&id)?.pid);
        self.view.apply(recorded);
        let item = item.or_else(|| self.item_of(&recorded.event)).unwrap_or_default();
        let run = recorded.run.map(|run: RunId| run.to_string()).unwrap_or_default();
        match recorded.event.session() {
            Some(session) => self.log_session(&run, (session, pid), &item, &recorded.event),
            None => {
                self.log_start(&run, &recorded.event);
                log_run(&run, &item, &recorded.event);
            }
        }
    }

    /// Work and sessions are known when triage begins or is skipped; its verdicts may add more.
    fn log_start(&mut self, run_id: &str, event: &Event) {
        let (planned, sessions) = match event {
            Event::PlanMade { work, .. } => return self.planned = Some(*work),
            Event::TriageStarted { items, sessions } => {
                let Some(planned) = self.planned.take() else { return };
                (planned, planned.saturating_sub(*items) + u64::from(*sessions))
            }
            Event::TriageEnded { .. } | Event::RunEnded { .. } => match self.planned.take() {
                Some(planned) => (planned, planned),
                None => return,
            },
            _ => return,
        };
        info!(target: TARGET, run_id, work_items = planned, sessions_to_create = sessions, "start");
    }

    /// The item of an event, directly or through its session.
    fn item_of(&self, event: &Event) -> Option<String> {
        let through_session = || {
            let session = event.session()?;
            self.view.sessions.get(&session)?.item.as_ref()
        };
        event.item().or_else(through_session).map(ToString::to_string)
    }

    fn log_session(
        &mut self,
        run_id: &str,
        (session, pid): (SessionId, Option<u32>),
        work_item_id: &str,
        event: &Event,
    ) {
        let session_id = session.to_string();
        match event {
            Event::SessionSpawned { pid, host, .. } => {
                let stage = self.view.sessions.get(&session).map(|view| view.stage.into_str());
                info!(target: TARGET, run_id, session_id, work_item_id, pid, stage, host, "spawn");
            }
            Event::SessionWithdrawn { reason, detail, .. } => {
                warn!(target: TARGET, run_id, session_id, work_item_id, ?reason, detail, "not started");
            }
            Event::SessionLiveness { liveness, .. } => {
                let is_stale = matches!(liveness.verdict, LiveVerdict::Suspect | LiveVerdict::Hung);
                if !is_stale {
                    self.stale.remove(&session);
                } else if self.stale.insert(session) {
                    warn!(target: TARGET, run_id, session_id, work_item_id,
                        running_for_ms = liveness.elapsed_ms,
                        since_progress_ms = liveness.since_progress_ms,
                        threshold_ms = self.stall_ms, evidence = liveness.evidence, "stale");
                }
            }
            Event::SessionStopping { reason, why, .. } => {
                warn!(target: TARGET, run_id, session_id, work_item_id, pid, signal = "SIGINT",
                    reason, asked_by = why.map(|why| why.to_string()), "kill");
            }
            Event::SessionEnded {
                outcome,
                usage,
                duration_ms,
                swept,
                survivors,
                host,
                words,
                answered_by,
                ..
            } => {
                self.stale.remove(&session);
                let (exit_code, outcome_name) = (outcome.exit_code(), outcome.to_string());
                let cost_usd = usage.cost.unwrap_or_default().dollars();
                if *survivors > 0 {
                    error!(target: TARGET, run_id, session_id, work_item_id, survivors,
                        "processes outlived their session");
                }
                info!(target: TARGET, run_id, session_id, work_item_id, pid, exit_code,
                    outcome = outcome_name, host, duration_ms, swept, survivors, cost_usd,
                    answered_by, words = (!words.is_empty()).then_some(words), "complete");
            }
            Event::OrphanResolved { killed, .. } => {
                warn!(target: TARGET, run_id, session_id, work_item_id, killed, "orphaned session ended");
            }
            Event::Unkillable { detail, .. } => {
                error!(target: TARGET, run_id, session_id, work_item_id, detail, "unkillable");
            }
            Event::FindingStored { .. } => {
                info!(target: TARGET, run_id, session_id, work_item_id, "finding");
            }
            Event::FindingRejected { why, .. } => {
                warn!(target: TARGET, run_id, session_id, work_item_id, ?why, "finding rejected");
            }
            _ => {}
        }
    }
}

fn log_run(run_id: &str, work_item_id: &str, event: &Event) {
    match event {
        Event::RunStarted { trigger, max_live_sessions } => {
            info!(target: TARGET, run_id, ?trigger, max_live_sessions, "read");
        }
        Event::PlanMade { work, deferred, unchanged } => {
            info!(target: TARGET, run_id, work_items = work, deferred, unchanged, "plan");
        }
        Event::TriageStarted { items, sessions } => {
            info!(target: TARGET, run_id, work_items = items, sessions_to_create = sessions,
                "triage");
        }
        Event::TriageEnded { triaged, deep, failed } => {
            info!(target: TARGET, run_id, work_items = triaged, sessions_to_create = deep, failed,
                "analyse");
        }
        Event::SourceRead { source, items, requests, .. } => {
            info!(target: TARGET, run_id, source, items, requests, "source read");
        }
        Event::FetchFailed { source, class, message } => {
            error!(target: TARGET, run_id, source, class, message, "fetch failed");
        }
        Event::BreakerChanged { source, from, to, reason, .. } => {
            warn!(target: TARGET, run_id, source, from, to, reason, "breaker");
        }
        Event::ProviderBreakerChanged { agent, from, to, reason, .. } => {
            warn!(target: TARGET, run_id, agent, from, to, reason, "provider circuit breaker changed");
        }
        Event::ProviderSuspended { agent, until, reason } => {
            warn!(target: TARGET, run_id, agent, %until, reason, "provider suspended");
        }
        Event::ItemParked { reason, .. } => {
            warn!(target: TARGET, run_id, work_item_id, ?reason, "parked");
        }
        Event::ItemWaiting { attempts, next_attempt, .. } => {
            info!(target: TARGET, run_id, work_item_id, attempts, %next_attempt, "waiting");
        }
        Event::RunEnded { outcome, summary, duration_ms } => {
            let (fetched, analysed, failed) =
                (summary.fetched, summary.analysed, summary.failed_sessions);
            let cost_usd = summary.cost.dollars();
            let well = matches!(outcome, RunOutcome::Completed | RunOutcome::NothingNew);
            if well {
                info!(target: TARGET, run_id, ?outcome, duration_ms, fetched, analysed, failed,
                    cost_usd, "end");
            } else {
                warn!(target: TARGET, run_id, ?outcome, duration_ms, fetched, analysed, failed,
                    cost_usd, "end");
            }
        }
        _ => {}
    }
}
