//! The life of one session from its events: start, verdicts on its liveness, steps, end. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::event::{Event, LiveVerdict, Recorded};
use crate::model::Usd;
use crate::model::text::{clip, in_words};

/// Changes of the verdict that are kept; the rest is counted.
const MOST_CHANGES: usize = 200;
/// Longest evidence, in characters.
const LINE: usize = 300;

/// What its events say about a session.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Life {
    pub model: Option<String>,
    pub agent_version: Option<String>,
    pub pid: Option<u32>,
    pub limit_ms: Option<u64>,
    /// What was reserved for it.
    pub worst_case: Option<Usd>,
    /// Signs of life seen.
    pub beats: u64,
    pub most_processes: u32,
    pub most_memory_kib: u64,
    /// How often each kind of step happened.
    pub steps: BTreeMap<String, u32>,
    pub files_read: Option<u32>,
    pub swept: Option<u32>,
    /// When the judgement of its liveness changed, with the evidence; requests to stop and waits
    /// for the provider stand among them.
    pub changes: Vec<Change>,
    /// Changes beyond those that are kept.
    pub more_changes: u32,
}

/// One change.
#[derive(Debug, PartialEq, Serialize)]
pub struct Change {
    pub at: Timestamp,
    pub verdict: String,
    pub evidence: String,
}

/// Folds the events of one session.
pub fn life(events: &[Recorded]) -> Life {
    let (mut life, mut last) = (Life::default(), None);
    for recorded in events {
        life.apply(recorded, &mut last);
    }
    life
}

impl Life {
    fn apply(&mut self, recorded: &Recorded, last: &mut Option<LiveVerdict>) {
        match &recorded.event {
            Event::SessionRegistered { limit_ms, worst_case, .. } => {
                (self.limit_ms, self.worst_case) = (Some(*limit_ms), Some(*worst_case));
            }
            Event::SessionSpawned { pid, .. } => self.pid = Some(*pid),
            Event::SessionInitialised { model, version, .. } => {
                let told = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
                (self.model, self.agent_version) = (told(model), told(version));
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
        if self.changes.len() < MOST_CHANGES {
            self.changes.push(Change { at, verdict, evidence: clip(evidence, LINE) });
        } else {
            self.more_changes += 1;
        }
    }
}
