//! The present state of a run as a fold over its events. Pure: the same events give the same view,
//! live or from the log.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::event::{
    Decision, Event, LiveVerdict, Reason, Recorded, RunOutcome, RunSummary, Shares, Trigger,
};
use crate::model::text::in_words;
use crate::model::{Alarms, ItemKey, Outcome, RetryClass, RunId, SessionId, Stage, Usage, Usd};

/// Items with an alarm that are named; the rest is counted.
const MOST_ALARMED: usize = 20;

/// An item whose text shows a machine what a person may not see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlarmedItem {
    pub item: ItemKey,
    /// How much, and why.
    pub alarms: Alarms,
}

/// Everything to be shown of one run.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RunView {
    /// Which.
    pub run: Option<RunId>,
    /// Why it began.
    pub trigger: Option<Trigger>,
    /// When.
    pub started_at: Option<Timestamp>,
    /// Of the newest event.
    pub at: Option<Timestamp>,
    /// What it does now.
    pub step: Step,
    /// Items delivered so far.
    pub fetched: u64,
    /// Why the source could not be read.
    pub fetch_failed: Option<String>,
    /// Every fetched item has its decision.
    pub planned: bool,
    /// Bytes of text before and after cleaning.
    pub raw_bytes: u64,
    /// Bytes of text after cleaning.
    pub clean_bytes: u64,
    /// Items with hidden or invisible text.
    pub alarms: u64,
    /// The first of them, with how much and why.
    pub alarmed: Vec<AlarmedItem>,
    /// What became of everything that was fetched.
    pub shares: Shares,
    /// Decisions, counted.
    pub decisions: BTreeMap<String, u64>,
    /// Work for this run.
    pub work: u64,
    /// Items that triage works on in this run.
    pub to_triage: u64,
    /// Items that deep analysis works on in this run.
    pub to_analyse: u64,
    /// What a session waits for, until when, and which key changes it; none while none waits.
    pub waits_for: Option<String>,
    /// What kept the run from its work, and what to do.
    pub error: Option<String>,
    /// Verdicts so far.
    pub triaged: u64,
    /// Of these, for deep analysis.
    pub deep: u64,
    /// Triage is over.
    pub triage_ended: bool,
    /// A triage session failed.
    pub triage_failed: bool,
    /// Analyses that did not complete.
    pub failed_analyses: u64,
    /// Why a session was last not allowed to start.
    pub refused: Option<String>,
    /// Findings stored so far.
    pub analysed: u64,
    /// Finished by triage alone.
    pub settled: u64,
    /// Sessions that did not complete.
    pub failed: u64,
    /// Left for the next run.
    pub deferred: u64,
    /// Attempts that failed, with another to come.
    pub waiting: u64,
    /// Left to people.
    pub parked: u64,
    /// Spent by ended sessions, as they reported it.
    pub cost: Usd,
    /// The part of it that is estimated from tokens and prices.
    pub cost_estimated: Usd,
    /// Beside that, the worst case of ended sessions that never reported their cost.
    pub cost_at_worst: Usd,
    /// Sessions that are alive, by id.
    pub sessions: BTreeMap<SessionId, SessionView>,
    /// Sessions that ended.
    pub ended_sessions: u64,
    /// Titles of items that were decided on.
    #[serde(skip)]
    pub titles: BTreeMap<ItemKey, String>,
    /// What needs attention: breaker, provider, configuration, something unkillable.
    pub notices: Vec<String>,
    /// How it ended.
    pub outcome: Option<RunOutcome>,
    /// With what.
    pub summary: Option<RunSummary>,
}

/// The part of the way a run is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Resolving what an earlier life left.
    #[default]
    Starting,
    /// Reading, cleaning, deciding.
    Fetching,
    /// One session for all.
    Triaging,
    /// Bounded sessions on the code base.
    Analysing,
    /// Over.
    Ended,
}

/// Everything to be shown of one live session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionView {
    /// What for.
    pub stage: Stage,
    /// For which item.
    pub item: Option<ItemKey>,
    /// Which try.
    pub attempt: u32,
    /// Containment in force.
    pub tier: String,
    /// When its row was written.
    pub started_at: Timestamp,
    /// The hard limit.
    pub limit_ms: u64,
    /// The most it may cost; what it really cost is known when it ends.
    pub worst_case: Usd,
    /// The host it runs on, if that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The agent's process.
    pub pid: Option<u32>,
    /// The model in use.
    pub model: Option<String>,
    /// The judgement of the last sign of life.
    pub verdict: LiveVerdict,
    /// Its evidence.
    pub evidence: String,
    /// Live processes at the last sign of life.
    pub processes: u32,
    /// Achievements so far.
    pub progress: u64,
    /// The last of them.
    pub last_progress: String,
    /// We began to end it, for this reason.
    pub stopping: Option<String>,
}

impl RunView {
    /// The view after one more event.
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
                // Only of a run that crashed some are left: they are no longer its own.
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
                // Of several sources, others were read.
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
                self.waits_for = Some(waiting_words(*reason, detail, *until));
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
                let whose = provider_words(agent);
                self.notices.push(format!("{whose}'s circuit breaker {from} → {to}: {reason}"));
            }
            Event::ProviderSuspended { agent, until, reason } => {
                let whose = provider_words(agent);
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
            Event::TextAlarm { item, alarms } if self.alarmed.len() < MOST_ALARMED => {
                self.alarmed.push(AlarmedItem { item: item.clone(), alarms: *alarms });
            }
            Event::ItemDecided { item, title, decision, .. } => {
                // Only work of this run needs its title; memory must not grow with the backlog.
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
                if matches!(reason, Reason::MaxItemsPerRun | Reason::MaxDeepPerRun) {
                    // Over a limit: no work of this run.
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
        // A provider's limit or somebody's word is no failure of the work.
        let failed = outcome.retry_class() == RetryClass::CountsAsAttempt;
        self.failed += u64::from(failed);
        self.failed_analyses += u64::from(failed && stage == Stage::Deep);
    }

    /// The run in figures.
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

    /// Title of an item, as far as it is known.
    pub fn title(&self, item: &ItemKey) -> &str {
        self.titles.get(item).map_or("", String::as_str)
    }
}

/// A model provider for people, by the name of its agent.
pub fn provider_words(agent: &str) -> String {
    match agent {
        "" => "provider".to_owned(),
        agent => format!("provider of {agent}"),
    }
}

/// The words with the source they are about, if it is named.
pub fn of_source(source: &str, words: &str) -> String {
    match source {
        "" => words.to_owned(),
        source => format!("{source}: {words}"),
    }
}

/// Why a session does not start, until when that is tried again, and the keys that change it.
pub fn waiting_words(reason: Reason, detail: &str, until: Option<Timestamp>) -> String {
    let key = reason.limit_key().map(|key| format!(" ({key})")).unwrap_or_default();
    let until = until.map(|until| {
        let local = until.to_zoned(jiff::tz::TimeZone::system());
        format!(", tried again until {} (limits.admission_wait)", local.strftime("%T %Z"))
    });
    format!("{detail}{key}{}", until.unwrap_or_default())
}

impl SessionView {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::SessionSpawned { pid, host, .. } => {
                self.pid = Some(*pid);
                self.host.clone_from(host);
                // Its own; the first sign of life counts the others.
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
