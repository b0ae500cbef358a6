//! Why an item has a finding or has none, as one answer.

use super::moment::minute;
use crate::event::Reason;
use crate::model::Phase;
use crate::model::text::in_words;
use crate::store::ItemRow;

/// The answer for an item that the query returned at some time.
pub fn known(item: &ItemRow, has_finding: bool) -> String {
    let reason = item.reason.to_text();
    let triage = item.verdict.as_ref().filter(|verdict| !verdict.needs_deep_analysis);
    match (item.phase, item.reason) {
        (Phase::Done, _) if has_finding => "It was analysed; its finding is stored.".to_owned(),
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
            let next = item.next_attempt.map(|at| format!(", not before {}", minute(at)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Complexity, ItemId, Verdict};
    use crate::report::digest::samples::report;

    #[test]
    fn every_state_has_its_own_answer() {
        let row = report("words").open.first[0].clone();
        let of = |phase, reason, verdict: Option<Verdict>| {
            known(&ItemRow { phase, reason, verdict, ..row.clone() }, false)
        };
        let settled = Verdict::new(ItemId(1), Complexity::Trivial, "a typo");
        let answers = [
            (of(Phase::Done, Reason::NotNeeded, Some(settled)), "a typo"),
            (of(Phase::Done, Reason::Baseline, None), "baseline"),
            (of(Phase::Pending, Reason::MaxDeepPerRun, None), "queued"),
            (of(Phase::Parked, Reason::AttemptsExhausted, None), "`heartbeat retry`"),
            (of(Phase::Vanished, Reason::Deleted, None), "no longer has it"),
            (of(Phase::Vanished, Reason::OutOfQuery, None), "left the query"),
            (of(Phase::Waiting, Reason::Backoff, None), "tried again"),
            (of(Phase::Claimed, Reason::InFlight, None), "working on it"),
            (known(&ItemRow { phase: Phase::Done, ..row.clone() }, true), "its finding"),
        ];
        for (answer, part) in answers {
            assert!(answer.contains(part), "{answer}");
        }
    }
}
