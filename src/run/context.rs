//! What the stages of a run share: id, configuration, state, side effects, stop signal and
//! deadline.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Edges, RunError};
use crate::event::{Event, Reason, Sink as _, Trigger};
use crate::model::text::seconds;
use crate::model::{ItemKey, RunId, WorkItem, milliseconds};
use crate::prompt::Prompts;
use crate::schedule::Schedule;
use crate::session::stop::StopState;
use crate::session::{StopHandle, StopReason, StopSignal};
use crate::settings::{AgentKind, Config};
use crate::store::{Journal, Store};

/// The limit of a run if neither the configuration nor the schedule sets a shorter one.
const MAX: Duration = Duration::from_hours(2);

/// Cheap to clone.
#[derive(Clone)]
pub struct RunContext {
    pub(super) id: RunId,
    pub(super) trigger: Trigger,
    /// As it was when the run began; a reload applies to the next run.
    pub(super) config: Arc<Config>,
    pub(super) prompts: Arc<Prompts>,
    pub(super) journal: Journal,
    pub(super) edges: Edges,
    pub(super) stop: RunStop,
    /// See [`Self::of_past_items`].
    pub(super) past: bool,
    /// Sessions that end together are judged one after the other (see `blame`).
    pub(super) judging: Arc<tokio::sync::Mutex<()>>,
    /// Models whose hold this run has already skipped because a person started it.
    pub(super) waived: Arc<std::sync::Mutex<BTreeSet<(AgentKind, String)>>>,
}

impl RunContext {
    /// `stop` lets the caller end the run early.
    pub fn new(
        id: RunId,
        trigger: Trigger,
        config: Arc<Config>,
        prompts: Arc<Prompts>,
        journal: Journal,
        edges: Edges,
        stop: StopHandle,
    ) -> Self {
        let stop = RunStop::new(stop, &config);
        let (judging, waived) = (Arc::default(), Arc::default());
        Self { id, trigger, config, prompts, journal, edges, stop, past: false, judging, waived }
    }

    /// For items of the past, each at its own time: all are analysed without triage, and none gets
    /// background from other items, which may be newer.
    pub fn of_past_items(self) -> Self {
        Self { past: true, ..self }
    }

    /// Applies the rule for this item to the configuration.
    pub(super) fn for_item(&self, item: &WorkItem) -> Self {
        Self { config: self.config.for_item(item), ..self.clone() }
    }

    pub(super) fn store(&self) -> &Store {
        self.journal.store()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.journal.clock().now()
    }

    pub(super) fn emit(&self, event: Event) {
        self.journal.emit(event);
    }

    /// Whether this run skips the hold of a model: once, if a person started it.
    pub(super) fn waives_hold(&self, agent: AgentKind, model: &str) -> bool {
        let mut waived = self.waived.lock().unwrap_or_else(PoisonError::into_inner);
        self.trigger == Trigger::Manual && waived.insert((agent, model.to_owned()))
    }

    /// Reports why a session did not start.
    pub(super) fn refuse(&self, item: Option<ItemKey>, reason: Reason, detail: String) {
        self.emit(Event::AdmissionRefused { item, reason, detail, until: None });
    }

    /// The same for a fault that prevents every session.
    pub(super) fn refuse_for(&self, item: Option<ItemKey>, fault: &RunError) {
        self.refuse(item, fault.refusal(), fault.to_string());
    }

    /// Whether items in this workflow state are finished: `finished` if the tracker reports it,
    /// otherwise by the state's name, ignoring case.
    pub(super) fn is_terminal(&self, state: &str, finished: Option<bool>) -> bool {
        if let Some(finished) = finished {
            return finished;
        }
        let state = state.to_lowercase();
        self.config.dedupe.terminal_states.iter().any(|known| known.to_lowercase() == state)
    }
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct RunStop {
    requested: StopHandle,
    deadline: StopHandle,
    limit: Duration,
    ends_at: Instant,
}

/// Cancels the deadline's timer on drop.
pub(super) struct DeadlineTimer(tokio::task::JoinHandle<()>);

impl Drop for DeadlineTimer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RunStop {
    pub(super) fn new(requested: StopHandle, config: &Config) -> Self {
        let (limit, now) = (limit(config), Instant::now());
        let ends_at = now.checked_add(limit).unwrap_or(now + MAX * 1000);
        Self { requested, deadline: StopHandle::new(), limit, ends_at }
    }

    /// Starts the timer: everything that listens to [`signal`](Self::signal) ends at the deadline.
    pub(super) fn start_deadline(&self) -> DeadlineTimer {
        let (deadline, at) = (self.deadline.clone(), self.ends_at);
        DeadlineTimer(tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            deadline.stop(StopReason::RunDeadline);
        }))
    }

    /// Why the run should end, if it should.
    pub(super) fn reason(&self) -> Option<StopReason> {
        self.requested.state().reason.or(self.deadline.state().reason)
    }

    /// Whether a stop was requested, as opposed to the deadline.
    pub(super) fn requested(&self) -> bool {
        self.requested.state().reason.is_some()
    }

    /// For tasks that must end with the run.
    pub(super) fn signal(&self) -> StopSignal {
        self.requested.signal().and(&self.deadline)
    }

    /// Drops `work` and returns `None` as soon as the run should end.
    pub(super) async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut signal = self.signal();
        tokio::select! {
            biased;
            _ = signal.changed(StopState::default()) => None,
            done = work => Some(done),
        }
    }

    /// Like `unless_stopped`, but `work` gets `grace` to finish.
    pub(super) async fn with_grace<T>(
        &self,
        grace: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut signal = self.signal();
        let over = async {
            signal.changed(StopState::default()).await;
            tokio::time::sleep(grace).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = over => None,
        }
    }

    /// When half of the run's time is over.
    pub(super) fn half_time(&self) -> Instant {
        Instant::now() + self.time_left() / 2
    }

    /// The limit, if it passed and no stop was requested before.
    pub(super) fn deadline_passed(&self) -> Option<String> {
        let by_deadline = !self.requested() && self.deadline.state().reason.is_some();
        by_deadline.then(|| readable(self.limit))
    }

    pub(super) fn time_left(&self) -> Duration {
        self.ends_at.saturating_duration_since(Instant::now())
    }
}

/// The configured limit, or one interval of the schedule, but long enough for one session.
fn limit(config: &Config) -> Duration {
    config.limits.run_deadline.unwrap_or_else(|| {
        let interval = Schedule::parse(&config.schedule.cron, &config.schedule.timezone)
            .map_or(MAX, |schedule| schedule.interval_hint().min(MAX));
        interval.max(config.shortest_run())
    })
}

/// The deferral reason when the run ends early.
pub(super) const fn deferral_reason(stop: StopReason) -> Reason {
    match stop {
        StopReason::RunDeadline => Reason::RunDeadline,
        StopReason::ItemGone => Reason::OutOfQuery,
        StopReason::Operator => Reason::StoppedByOperator,
        StopReason::Shutdown | StopReason::LeaseLost => Reason::Shutdown,
    }
}

pub(super) fn readable(duration: Duration) -> String {
    seconds(milliseconds(duration))
}
