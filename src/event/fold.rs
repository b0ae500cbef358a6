//! The current state of a run as a pure fold over its events, live or from the log.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::event::{
    Decision, DecisionCounts, Event, LiveVerdict, Reason, Recorded, RunOutcome, RunSummary, Trigger,
};
use crate::model::text::in_words;
use crate::model::{
    Alarms, FailureKind, ItemKey, Outcome, RetryClass, RunId, SessionId, Stage, Tier, Usage, Usd,
};

/// Items with alarms that are listed by name; the rest are only counted.
const MAX_ALARMED: usize = 20;

/// An item whose text contains content that a person may not see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlarmedItem {
    pub item: ItemKey,
    pub alarms: Alarms,
}

/// Everything that is shown about one run.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RunView {
    pub run: Option<RunId>,
    pub trigger: Option<Trigger>,
    pub started_at: Option<Timestamp>,
    /// Time of the newest event.
    pub at: Option<Timestamp>,
    pub step: Step,
    /// Items received so far.
    pub fetched: u64,
    /// Why the source could not be read.
    pub fetch_failed: Option<String>,
    /// Whether every fetched item has a decision.
    pub planned: bool,
    /// Bytes of text before cleaning.
    pub raw_bytes: u64,
    /// Bytes of text after cleaning.
    pub clean_bytes: u64,
    /// Number of items with hidden or invisible text.
    pub alarms: u64,
    /// The first of these items.
    pub alarmed: Vec<AlarmedItem>,
    pub shares: DecisionCounts,
    /// Number of items per decision.
    pub decisions: BTreeMap<String, u64>,
    /// Items to process in this run.
    pub work: u64,
    /// Items to triage in this run.
    pub to_triage: u64,
    /// Items to analyse in this run.
    pub to_analyse: u64,
    /// What a session is waiting for, until when, and the key that changes it; `None` if none
    /// waits.
    pub waits_for: Option<String>,
    /// What stopped the run, and what to do.
    pub error: Option<String>,
    /// Verdicts so far.
    pub triaged: u64,
    /// Verdicts that ask for deep analysis.
    pub deep: u64,
    pub triage_ended: bool,
    /// Whether a triage session failed.
    pub triage_failed: bool,
    pub failed_analyses: u64,
    /// Locate sessions that failed: the analyses took our own order of files instead.
    pub failed_orders: u64,
    /// Why a session was last refused admission.
    pub refused: Option<String>,
    /// Findings stored so far.
    pub analysed: u64,
    /// Items finished by triage alone.
    pub settled: u64,
    /// Sessions that did not complete.
    pub failed: u64,
    /// Items deferred to the next run.
    pub deferred: u64,
    /// Those of them that the provider or the agent's program held up.
    pub held_up: u64,
    /// Items whose attempt failed and will be retried.
    pub waiting: u64,
    pub parked: u64,
    /// Cost of ended sessions, as reported or estimated.
    pub cost: Usd,
    /// The part of `cost` that is estimated from tokens and prices.
    pub cost_estimated: Usd,
    /// Worst case of ended sessions that never reported their cost; not part of `cost`.
    pub cost_at_worst: Usd,
    /// Live sessions.
    pub sessions: BTreeMap<SessionId, SessionView>,
    pub ended_sessions: u64,
    /// Titles of the items in this run's work.
    #[serde(skip)]
    pub titles: BTreeMap<ItemKey, String>,
    /// What needs attention: breaker, provider, configuration, a process that cannot be killed.
    pub notices: Vec<String>,
    /// `None` until the run ends.
    pub outcome: Option<RunOutcome>,
    /// `None` until the run ends.
    pub summary: Option<RunSummary>,
}

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Cleaning up after an earlier process.
    #[default]
    Starting,
    /// Fetching, cleaning, planning.
    Fetching,
    Triaging,
    Analysing,
    Ended,
}

/// Everything that is shown about one live session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionView {
    pub stage: Stage,
    /// `None` for triage.
    pub item: Option<ItemKey>,
    pub attempt: u32,
    /// Containment in use.
    pub tier: String,
    /// When its row was written.
    pub started_at: Timestamp,
    /// Its time limit.
    pub limit_ms: u64,
    /// Its maximum cost; the actual cost is known when it ends.
    pub worst_case: Usd,
    /// Set if it runs on another host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The agent's process; `None` until it is started.
    pub pid: Option<u32>,
    /// `None` until the agent reports it.
    pub model: Option<String>,
    /// From the last liveness event.
    pub verdict: LiveVerdict,
    pub evidence: String,
    /// At the last liveness event.
    pub processes: u32,
    /// Number of progress events so far.
    pub progress: u64,
    pub last_progress: String,
    /// The reason, once we have begun to end it.
    pub stopping: Option<String>,
}

impl RunView {
    pub fn apply(&mut self, recorded: &Recorded) {
        self.at = Some(recorded.at);
        if recorded.run.is_some() {
            self.run = recorded.run;
        }
        match &recorded.event {
            Event::RunStarted { trigger, .. } => {
                self.trigger = Some(*trigger);
                self.started_at = Some(recorded.at);
            }
            Event::RunEnded { outcome, summary, .. } => {
                self.step = Step::Ended;
                // Only a crashed run still has some; nobody supervises them any more.
                self.ended_sessions += self.sessions.len() as u64;
                self.sessions.clear();
                self.outcome = Some(*outcome);
                self.summary = Some(*summary);
            }
            event if event.session().is_some() => self.apply_session(recorded.at, event),
            event => self.apply_step(event),
        }
    }

    fn apply_step(&mut self, event: &Event) {
        match event {
            Event::FetchStarted => self.step = Step::Fetching,
            Event::FetchProgressed { items } => self.fetched = *items,
            Event::FetchCompleted { items, .. } => {
                self.fetched = *items;
                // Other sources were read.
                self.fetch_failed = None;
            }
            Event::FetchFailed { source, message, .. } => {
                let message = of_source(source, message);
                self.notices.push(message.clone());
                self.fetch_failed = Some(message);
            }
            Event::ConfigBroken { message } => self.notices.push(message.clone()),
            Event::BreakerChanged { source, from, to, reason, .. } => {
                let change = format!("circuit breaker {from} → {to}: {reason}");
                self.notices.push(of_source(source, &change));
            }
            Event::PlanMade { work, unchanged, .. } => {
                (self.planned, self.work) = (true, *work);
                self.decisions.insert(Decision::Unchanged.into_str().into(), *unchanged);
            }
            Event::TriageStarted { items, .. } => {
                self.step = Step::Triaging;
                self.to_triage = *items;
            }
            Event::AnalysisStarted { items } => {
                self.step = Step::Analysing;
                self.to_analyse = *items;
            }
            Event::AdmissionRefused { reason, detail, until, .. } => {
                self.refused = Some(format!("{}: {detail}", in_words(reason)));
                self.waits_for = Some(waiting_text(*reason, detail, *until));
            }
            Event::RunFailed { message } => {
                self.error = Some(message.clone());
                self.notices.push(message.clone());
            }
            Event::TriageEnded { failed, .. } => {
                self.step = Step::Analysing;
                self.triage_ended = true;
                self.triage_failed |= *failed > 0;
            }
            Event::ProviderBreakerChanged { agent, from, to, reason, .. } => {
                let whose = provider_text(agent);
                self.notices.push(format!("{whose}'s circuit breaker {from} → {to}: {reason}"));
            }
            Event::ProviderSuspended { agent, until, reason } => {
                let whose = provider_text(agent);
                self.notices.push(format!("{whose} suspended until {until}: {reason}"));
            }
            event => self.apply_item(event),
        }
    }

    fn apply_item(&mut self, event: &Event) {
        match event {
            Event::ItemsCleaned { raw_bytes, clean_bytes, alarms, .. } => {
                self.raw_bytes += raw_bytes;
                self.clean_bytes += clean_bytes;
                self.alarms += alarms;
            }
            Event::TextAlarm { item, alarms }
                if alarms.tier() == Some(Tier::Alarm) && self.alarmed.len() < MAX_ALARMED =>
            {
                self.alarmed.push(AlarmedItem { item: item.clone(), alarms: *alarms });
            }
            Event::ItemDecided { item, title, decision, .. } => {
                // Only items of this run's work keep a title; memory must not grow with the
                // backlog.
                match decision {
                    Decision::New | Decision::Changed => {
                        self.titles.insert(item.clone(), title.clone());
                    }
                    _ => drop(self.titles.remove(item)),
                }
                *self.decisions.entry(decision.into_str().into()).or_default() += 1;
            }
            Event::ItemsShared { shares } => self.shares = *shares,
            Event::ItemTriaged { deep, .. } => {
                self.triaged += 1;
                self.deep += u64::from(*deep);
            }
            Event::ItemSettled { .. } => self.settled += 1,
            Event::ItemDeferred { item, reason } => {
                self.deferred += 1;
                self.held_up += u64::from(reason.is_agents());
                if matches!(reason, Reason::MaxItemsPerRun | Reason::MaxDeepPerRun) {
                    // Over a limit, so not part of this run's work.
                    self.titles.remove(item);
                }
            }
            Event::ItemWaiting { .. } => self.waiting += 1,
            Event::ItemParked { .. } => self.parked += 1,
            _ => {}
        }
    }

    fn apply_session(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::SessionRegistered {
                session,
                stage,
                item,
                attempt,
                tier,
                limit_ms,
                worst_case,
                ..
            } => {
                let view = SessionView {
                    stage: *stage,
                    item: item.clone(),
                    attempt: *attempt,
                    tier: tier.clone(),
                    started_at: at,
                    limit_ms: *limit_ms,
                    worst_case: *worst_case,
                    host: None,
                    pid: None,
                    model: None,
                    verdict: LiveVerdict::Starting,
                    evidence: String::new(),
                    processes: 0,
                    progress: 0,
                    last_progress: String::new(),
                    stopping: None,
                };
                self.sessions.insert(*session, view);
                self.waits_for = None;
            }
            Event::SessionEnded { session, stage, outcome, usage, .. } => {
                let ended = self.sessions.remove(session);
                if let Some(ended) = ended.filter(|_| outcome.counts_at_worst(usage)) {
                    self.cost_at_worst += ended.worst_case;
                }
                self.count_end(*stage, outcome, usage);
            }
            Event::SessionWithdrawn { session, .. } => {
                self.sessions.remove(session);
            }
            Event::FindingStored { .. } => self.analysed += 1,
            Event::FindingRejected { .. } => {
                self.failed += 1;
                self.failed_analyses += 1;
            }
            Event::Unkillable { session, detail } => {
                self.notices
                    .push(format!("session {} could not be killed: {detail}", session.short()));
            }
            event => {
                if let Some(view) = event.session().and_then(|id| self.sessions.get_mut(&id)) {
                    view.apply(event);
                }
            }
        }
    }

    fn count_end(&mut self, stage: Stage, outcome: &Outcome, usage: &Usage) {
        self.ended_sessions += 1;
        let cost = usage.cost.unwrap_or_default();
        self.cost += cost;
        if usage.estimated {
            self.cost_estimated += cost;
        }
        // A provider limit or an operator's stop is not a failure of the analysis.
        let failed = outcome.retry_class() == RetryClass::CountsAsAttempt;
        self.failed += u64::from(failed || was_cut_off(outcome));
        self.failed_orders += u64::from((failed || was_cut_off(outcome)) && stage == Stage::Locate);
        self.failed_analyses += u64::from(failed && stage == Stage::Deep);
    }

    pub fn figures(&self) -> RunSummary {
        let decided =
            |decision: Decision| self.decisions.get(decision.into_str()).copied().unwrap_or(0);
        RunSummary {
            fetched: self.fetched,
            shares: self.shares,
            triaged: self.triaged,
            analysed: self.analysed,
            settled_by_triage: self.settled,
            deferred: self.deferred + decided(Decision::Deferred),
            waiting: self.waiting + decided(Decision::Waiting),
            parked: self.parked + decided(Decision::Parked),
            vanished: decided(Decision::Vanished),
            failed_sessions: self.failed,
            sessions: self.ended_sessions + self.sessions.len() as u64,
            cost: self.cost,
            cost_estimated: self.cost_estimated,
            cost_at_worst: self.cost_at_worst,
        }
    }

    /// Empty if not known.
    pub fn title(&self, item: &ItemKey) -> &str {
        self.titles.get(item).map_or("", String::as_str)
    }
}

/// By the provider, or with a lost host: it failed, and counts against nobody.
const fn was_cut_off(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::AgentError { why: FailureKind::ApiError } | Outcome::Orphaned)
}

/// Display name of a model provider, by its agent.
pub fn provider_text(agent: &str) -> String {
    match agent {
        "" => "provider".to_owned(),
        agent => format!("provider of {agent}"),
    }
}

/// Prefixes the text with the source's name, if there are several sources.
pub fn of_source(source: &str, words: &str) -> String {
    match source {
        "" => words.to_owned(),
        source => format!("{source}: {words}"),
    }
}

/// Why a session does not start, until when it is retried, and the keys that change it.
pub fn waiting_text(reason: Reason, detail: &str, until: Option<Timestamp>) -> String {
    let key = reason.limit_key().map(|key| format!(" ({key})")).unwrap_or_default();
    let until = until.map(|until| {
        let local = until.to_zoned(jiff::tz::TimeZone::system());
        format!(", retrying until {} (limits.admission_wait)", local.strftime("%T %Z"))
    });
    format!("{detail}{key}{}", until.unwrap_or_default())
}

impl SessionView {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::SessionSpawned { pid, host, .. } => {
                self.pid = Some(*pid);
                self.host.clone_from(host);
                // Counts at least the agent until the first liveness event counts all processes.
                self.processes = self.processes.max(1);
            }
            Event::SessionInitialised { model, .. } => {
                self.model = Some(model.clone());
                self.verdict = LiveVerdict::Working;
            }
            Event::SessionLiveness { liveness, .. } => {
                self.verdict = liveness.verdict;
                self.evidence.clone_from(&liveness.evidence);
                self.processes = liveness.processes;
            }
            Event::SessionProgressed { what, .. } => {
                self.progress += 1;
                self.last_progress.clone_from(what);
                self.verdict = LiveVerdict::Working;
            }
            Event::SessionRetrying { .. } => self.verdict = LiveVerdict::Retrying,
            Event::SessionStopping { reason, why, .. } => {
                let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
                self.stopping = Some(format!("{reason}{why}"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ItemId;

    fn view_of(events: Vec<Event>) -> RunView {
        let mut view = RunView::default();
        for (seq, event) in (1..).zip(events) {
            view.apply(&Recorded { seq, at: Timestamp::UNIX_EPOCH, run: None, event });
        }
        view
    }

    #[test]
    fn titles_are_kept_for_the_work_of_this_run_only() {
        let mut events = Vec::new();
        for id in 1..=100 {
            let item = ItemKey::new("ado", ItemId(id));
            let (decision, reason) = (Decision::New, Reason::FirstSeen);
            let title = format!("Item {id}");
            let key = item.clone();
            events.push(Event::ItemDecided { item: key, rev: 1, title, decision, reason });
            if id > 10 {
                events.push(Event::ItemDeferred { item, reason: Reason::MaxItemsPerRun });
            }
        }
        assert_eq!(view_of(events).titles.len(), 10, "those crowded out are not shown any more");
    }
}
