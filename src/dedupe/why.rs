//! Why an item has a finding or has none, as one answer.

use crate::event::Reason;
use crate::model::text::in_words;
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
        (Phase::Done, _) if let Some(verdict) = triage => format!(
            "Triage settled it without deep analysis ({}): {}",
            in_words(verdict.complexity),
            verdict.reason
        ),
        (Phase::Done, _) => format!("It is finished: {reason}. It is read again when it changes."),
        (Phase::Claimed, _) => "A session is working on it now.".to_owned(),
        (Phase::Pending, _) => {
            let times = match item.deferrals {
                0 => String::new(),
                n => format!(" {n} runs did not get to it."),
            };
            format!("It is queued: {reason}.{times} The next run with room takes it.")
        }
        (Phase::Waiting, _) => {
            let next = item.next_attempt.as_ref().map(|at| format!(", not before {at}"));
            format!(
                "{} attempts failed ({reason}); it is tried again{}.",
                item.attempts,
                next.unwrap_or_default()
            )
        }
        (Phase::Parked, _) => format!(
            "It is parked: {reason}, after {} attempts. It waits for a change of the item, or for \
             `heartbeat retry`.",
            item.attempts
        ),
        (Phase::Vanished, Reason::Deleted) => {
            "The tracker no longer has it, or its account may not read it.".to_owned()
        }
        (Phase::Vanished, _) => {
            "It left the query: it is closed, or a condition of the query no longer admits it."
                .to_owned()
        }
    }
}
