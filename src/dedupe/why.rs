//! Why an item has a finding or has none, as one answer.

use crate::event::Reason;
use crate::model::text::{counted, in_words};
use crate::model::{Phase, Verdict};

/// Where an item stands.
#[derive(Debug, Clone)]
pub struct Standing<'a> {
    pub phase: Phase,
    pub reason: Reason,
    pub attempts: u32,
    pub deferrals: u32,
    /// For people.
    pub next_attempt: Option<String>,
    pub verdict: Option<&'a Verdict>,
    pub has_finding: bool,
    /// The name of the item that reports the same and is the one to keep.
    pub same_as: Option<String>,
}

/// The answer for an item that the query returned at some time.
pub fn why(item: &Standing<'_>) -> String {
    let reason = item.reason.to_text();
    let triage = item.verdict.filter(|verdict| !verdict.needs_deep_analysis);
    match (item.phase, item.reason) {
        (Phase::Done, _) if item.has_finding => {
            "It was analysed; its finding is stored.".to_owned()
        }
        (_, Reason::Baseline) => {
            "It existed before the first run, which marked all items as seen (baseline). It is \
             triaged when it changes, or after `heartbeat retry`."
                .to_owned()
        }
        (Phase::Done, _) if let Some(verdict) = triage => settled(item, verdict),
        (Phase::Done, _) => format!("It is finished: {reason}. It is read again when it changes."),
        (Phase::Claimed, _) => "A session is working on it now.".to_owned(),
        (Phase::Pending, _) => {
            let times = match item.deferrals {
                0 => String::new(),
                n => format!(" {} did not get to it.", counted(n as usize, "run")),
            };
            let limit = item.reason.limit_key().map(|key| format!(" ({key})")).unwrap_or_default();
            format!("It is queued: {reason}{limit}.{times} The next run with room takes it.")
        }
        (Phase::Waiting, _) => {
            let next = item.next_attempt.as_ref().map(|at| format!(", not before {at}"));
            format!(
                "{} failed ({reason}); it is tried again{}.",
                counted(item.attempts as usize, "attempt"),
                next.unwrap_or_default()
            )
        }
        (Phase::Parked, _) => {
            let after = match item.attempts {
                0 => String::new(),
                n => format!(", after {}", counted(n as usize, "attempt")),
            };
            format!(
                "It is parked: {reason}{after}. It waits for a change of the item, or for \
                 `heartbeat retry`."
            )
        }
        (Phase::Vanished, Reason::Deleted) => {
            "The tracker no longer has it, or its account may not read it.".to_owned()
        }
        (Phase::Vanished, _) => {
            "It left the query: it is closed, or a condition of the query no longer admits it."
                .to_owned()
        }
    }
}

/// Triage's answer is the answer, with what it says beyond its reason.
fn settled(item: &Standing<'_>, verdict: &Verdict) -> String {
    let same = item.same_as.as_ref().map(|name| format!(" It reports the same as {name}."));
    let ask = (!verdict.ask.is_empty())
        .then(|| format!(" Information is missing; the question to ask: {}", verdict.ask));
    format!(
        "Triage settled it without deep analysis ({}): {}{}{}",
        in_words(verdict.complexity),
        verdict.reason,
        same.unwrap_or_default(),
        ask.unwrap_or_default()
    )
}
