//! Why an item has a finding or has none, from its row.

use super::moment::minute;
use crate::dedupe::why::{Standing, why};
use crate::model::ItemKey;
use crate::store::{DuplicateGroup, ItemRow};

/// The answer for an item that the query returned at some time; `name` gives an item's name.
pub fn known(
    item: &ItemRow,
    has_finding: bool,
    same: &DuplicateGroup,
    name: impl Fn(&ItemKey) -> String,
) -> String {
    let keep = same.live().filter(|live| live.key != item.key);
    why(&Standing {
        phase: item.phase,
        reason: item.reason,
        attempts: item.attempts,
        deferrals: item.deferrals,
        next_attempt: item.next_attempt.map(minute),
        verdict: item.verdict.as_ref(),
        has_finding,
        same_as: keep.map(|live| name(&live.key)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Reason;
    use crate::model::{Complexity, ItemId, Phase, Verdict};
    use crate::report::digest::samples::report;

    #[test]
    fn every_state_has_its_own_answer() {
        let row = report("words").open.first[0].clone();
        let of_row = |row: &ItemRow, has_finding| {
            known(row, has_finding, &DuplicateGroup::default(), ToString::to_string)
        };
        let of = |phase, reason, verdict: Option<Verdict>| {
            of_row(&ItemRow { phase, reason, verdict, ..row.clone() }, false)
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
            (of_row(&ItemRow { phase: Phase::Done, ..row.clone() }, true), "its finding"),
        ];
        for (answer, part) in answers {
            assert!(answer.contains(part), "{answer}");
        }
    }
}
