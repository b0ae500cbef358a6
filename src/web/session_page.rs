//! The history of one session from its events: start, liveness verdicts, steps, end. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::event::{Event, LiveVerdict, Recorded};
use crate::model::Usd;
use crate::model::text::{clip, in_words};

/// Verdict changes that are kept; the rest are counted.
const MAX_CHANGES: usize = 200;
/// Maximum length of the evidence, in characters.
const LINE: usize = 300;

#[derive(Debug, Default, PartialEq, Serialize)]
pub struct SessionHistory {
    pub model: Option<String>,
    pub agent_version: Option<String>,
    pub pid: Option<u32>,
    pub limit_ms: Option<u64>,
    /// The cost reserved for it.
    pub worst_case: Option<Usd>,
    /// Number of liveness events.
    pub beats: u64,
    pub most_processes: u32,
    pub most_memory_kib: u64,
    /// Number of steps by kind.
    pub steps: BTreeMap<String, u32>,
    pub files_read: Option<u32>,
    pub swept: Option<u32>,
    /// Changes of the liveness verdict with the evidence, including requests to stop and waits for
    /// the provider.
    pub changes: Vec<Change>,
    /// Changes that were not kept.
    pub more_changes: u32,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct Change {
    pub at: Timestamp,
    pub verdict: String,
    pub evidence: String,
}

/// Folds the events of one session.
pub fn history(events: &[Recorded]) -> SessionHistory {
    let (mut history, mut last) = (SessionHistory::default(), None);
    for recorded in events {
        history.apply(recorded, &mut last);
    }
    history
}

impl SessionHistory {
    fn apply(&mut self, recorded: &Recorded, last: &mut Option<LiveVerdict>) {
        match &recorded.event {
            Event::SessionRegistered { limit_ms, worst_case, .. } => {
                (self.limit_ms, self.worst_case) = (Some(*limit_ms), Some(*worst_case));
            }
            Event::SessionSpawned { pid, .. } => self.pid = Some(*pid),
            Event::SessionInitialised { model, version, .. } => {
                let non_empty = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
                (self.model, self.agent_version) = (non_empty(model), non_empty(version));
            }
            Event::SessionLiveness { liveness, .. } => {
                self.beats += 1;
                self.most_processes = self.most_processes.max(liveness.processes);
                self.most_memory_kib = self.most_memory_kib.max(liveness.rss_kib);
                if *last != Some(liveness.verdict) {
                    *last = Some(liveness.verdict);
                    self.change(recorded.at, in_words(liveness.verdict), &liveness.evidence);
                }
            }
            Event::SessionProgressed { what, .. } => {
                *self.steps.entry(what.clone()).or_default() += 1;
            }
            Event::SessionRetrying { attempt, delay_ms, status, .. } => {
                let status = status.map(|status| format!(", HTTP {status}")).unwrap_or_default();
                let waits = delay_ms.map(|delay| format!(", waits {delay} ms")).unwrap_or_default();
                let evidence = format!("attempt {attempt}{waits}{status}");
                self.change(recorded.at, "retrying".into(), &evidence);
            }
            Event::SessionStopping { reason, why, .. } => {
                let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
                self.change(recorded.at, "stopping".into(), &format!("{reason}{why}"));
            }
            Event::SessionEnded { files_read, swept, .. } => {
                (self.files_read, self.swept) = (Some(*files_read), Some(*swept));
            }
            _ => {}
        }
    }

    fn change(&mut self, at: Timestamp, verdict: String, evidence: &str) {
        if self.changes.len() < MAX_CHANGES {
            self.changes.push(Change { at, verdict, evidence: clip(evidence, LINE) });
        } else {
            self.more_changes += 1;
        }
    }
}
