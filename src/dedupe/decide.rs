//! Decides about one item from what is known of it, with a reason.

use jiff::Timestamp;

use super::fingerprint::is_older_form;
use crate::event::{Decision, Reason};
use crate::model::{Phase, Verdict};

/// An item as read by a run.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Of the text that would be in the prompt.
    pub fingerprint: &'a str,
    /// The revision that was read.
    pub revision: i64,
    /// Empty if it has none.
    pub area_path: &'a str,
    /// Its workflow state counts as finished.
    pub terminal: bool,
    /// False if its texts could not be cleaned.
    pub readable: bool,
    /// Attempts per text.
    pub max_attempts: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    pub decision: Decision,
    pub reason: Reason,
    /// Triage's verdict from an earlier run, if it still applies: the item is not triaged again.
    pub verdict: Option<Verdict>,
    pub write: Write,
}

/// What a decision changes in the item's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// The row is up to date.
    Nothing,
    /// Only data outside the prompt changed: revision, date, title for display.
    Touch,
    /// A new text or another phase.
    Row,
}

/// The stored state of an item.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownItem {
    pub phase: Phase,
    /// Why it is in this phase.
    pub reason: Reason,
    /// Earliest time, if it waits for a retry.
    pub next_attempt: Option<Timestamp>,
    pub revision: i64,
    /// Of the text that was last seen.
    pub fingerprint: String,
    /// Of the text that was last finished.
    pub processed_fingerprint: Option<String>,
    /// Triage's verdict on `fingerprint`.
    pub verdict: Option<Verdict>,
    /// Attempts used on the current text, at any time.
    pub attempts: u32,
    /// Number of runs that deferred it.
    pub deferrals: u32,
    /// `None`: not read since the state stores it; empty: the item has none.
    pub area_path: Option<String>,
    /// Number of items among which triage failed with this one in it; 0: none.
    pub suspect_among: u32,
}

/// Total: every combination has a decision.
pub fn decide(seen: Seen<'_>, known: Option<&KnownItem>, now: Timestamp) -> Decided {
    let (mut decision, mut reason, verdict) = judge(seen, known, now);
    if !seen.readable && matches!(decision, Decision::New | Decision::Changed) {
        (decision, reason) = (Decision::Parked, Reason::CannotBeRead);
    }
    let write = row_write(seen, known, decision, reason);
    Decided { decision, reason, verdict, write }
}

fn judge(
    seen: Seen<'_>,
    known: Option<&KnownItem>,
    now: Timestamp,
) -> (Decision, Reason, Option<Verdict>) {
    let plain = |decision, reason| (decision, reason, None);
    let Some(known) = known else {
        return if seen.terminal {
            plain(Decision::Unchanged, Reason::OutOfQuery)
        } else {
            plain(Decision::New, Reason::FirstSeen)
        };
    };
    if known.phase == Phase::Claimed {
        return plain(Decision::Deferred, Reason::InFlight);
    }
    if seen.terminal {
        // Finished items stay finished; open ones are no longer to be done.
        let left_alone = matches!(known.phase, Phase::Done | Phase::Vanished);
        let decision = if left_alone { Decision::Unchanged } else { Decision::Vanished };
        return plain(decision, Reason::OutOfQuery);
    }
    // An older version of heartbeat computed fingerprints differently; then the revision shows
    // whether the item changed. An upgrade alone creates no work.
    let is_comparable = !is_older_form(&known.fingerprint);
    let same_as_seen = match is_comparable {
        true => known.fingerprint == seen.fingerprint,
        false => known.revision == seen.revision,
    };
    let finished = known.processed_fingerprint.as_deref();
    // Also an edit that was reverted before it was processed: nothing is left to do.
    if finished == Some(seen.fingerprint)
        || (!is_comparable && same_as_seen && finished == Some(known.fingerprint.as_str()))
    {
        return plain(Decision::Unchanged, Reason::SameFingerprint);
    }
    match known.phase {
        Phase::Parked if same_as_seen => plain(Decision::Parked, known.reason),
        // A text that reappears after its attempts were used up gets no new ones.
        _ if known.attempts >= seen.max_attempts => {
            plain(Decision::Parked, Reason::AttemptsExhausted)
        }
        Phase::Waiting
            if same_as_seen && known.next_attempt.is_some_and(|at| lies_ahead(at, now)) =>
        {
            plain(Decision::Waiting, Reason::Backoff)
        }
        phase => {
            let (again, reason) = match phase {
                Phase::Pending if same_as_seen => (true, Reason::CarriedOver),
                Phase::Waiting if same_as_seen => (true, Reason::RetryDue),
                _ => (false, Reason::ContentChanged),
            };
            let decision = if known.processed_fingerprint.is_none() {
                Decision::New
            } else {
                Decision::Changed
            };
            let verdict = known.verdict.clone().filter(|_| again && is_comparable);
            (decision, reason, verdict)
        }
    }
}

/// What a decision changes in the row: nothing if it is up to date.
fn row_write(
    seen: Seen<'_>,
    known: Option<&KnownItem>,
    decision: Decision,
    reason: Reason,
) -> Write {
    let Some(known) = known else {
        // Finished before it was first seen.
        return if decision == Decision::Unchanged { Write::Nothing } else { Write::Row };
    };
    let stands = match decision {
        Decision::New | Decision::Changed => known.phase == Phase::Pending,
        Decision::Unchanged if reason == Reason::OutOfQuery => return Write::Nothing,
        Decision::Unchanged => known.phase == Phase::Done,
        Decision::Waiting => known.phase == Phase::Waiting,
        Decision::Parked => known.phase == Phase::Parked,
        Decision::Deferred | Decision::Vanished => return Write::Nothing,
    };
    // The area changes without a revision when a part of its path is renamed.
    let same_area = known.area_path.as_deref() == Some(seen.area_path);
    let same_facts = known.revision == seen.revision && same_area;
    match (stands && known.fingerprint == seen.fingerprint, same_facts) {
        (true, true) => Write::Nothing,
        (true, false) => Write::Touch,
        (false, _) => Write::Row,
    }
}

/// In the future, but not further than the longest delay.
fn lies_ahead(next: Timestamp, now: Timestamp) -> bool {
    next > now && next.duration_since(now) <= crate::model::MAX_WAIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn now() -> Timestamp {
        "2026-11-16T08:00:00Z".parse().unwrap()
    }

    fn new_form(text: &str) -> String {
        format!("2:{text}")
    }

    fn seen(fingerprint: &str, revision: i64) -> Seen<'_> {
        Seen {
            fingerprint,
            revision,
            area_path: "",
            terminal: false,
            readable: true,
            max_attempts: 3,
        }
    }

    fn known(phase: Phase, fingerprint: &str, processed: Option<&str>) -> KnownItem {
        KnownItem {
            phase,
            reason: Reason::FirstSeen,
            next_attempt: None,
            revision: 1,
            fingerprint: new_form(fingerprint),
            processed_fingerprint: processed.map(new_form),
            verdict: None,
            attempts: 0,
            deferrals: 0,
            area_path: Some(String::new()),
            suspect_among: 0,
        }
    }

    fn waiting(next_attempt: Option<Timestamp>, fingerprint: &str) -> KnownItem {
        KnownItem { next_attempt, ..known(Phase::Waiting, fingerprint, None) }
    }

    fn parked(reason: Reason, fingerprint: &str) -> KnownItem {
        KnownItem { reason, ..known(Phase::Parked, fingerprint, None) }
    }

    fn decided(known: Option<KnownItem>, fingerprint: &str) -> (Decision, Reason) {
        let fingerprint = &new_form(fingerprint);
        let seen = seen(fingerprint, 2);
        let decided = decide(seen, known.as_ref(), now());
        (decided.decision, decided.reason)
    }

    #[test]
    fn every_phase_has_its_answer() {
        use Decision as D;
        use Reason as R;
        let later = Some(now() + jiff::SignedDuration::from_secs(1));
        let cases = [
            (None, "a", D::New, R::FirstSeen),
            (Some(known(Phase::Done, "a", Some("a"))), "a", D::Unchanged, R::SameFingerprint),
            (Some(known(Phase::Done, "a", Some("a"))), "b", D::Changed, R::ContentChanged),
            (Some(known(Phase::Pending, "a", None)), "a", D::New, R::CarriedOver),
            (Some(known(Phase::Pending, "a", None)), "b", D::New, R::ContentChanged),
            (Some(known(Phase::Pending, "b", Some("a"))), "b", D::Changed, R::CarriedOver),
            (Some(known(Phase::Pending, "b", Some("a"))), "a", D::Unchanged, R::SameFingerprint),
            (Some(waiting(later, "a")), "a", D::Waiting, R::Backoff),
            (Some(waiting(later, "a")), "b", D::New, R::ContentChanged),
            (Some(waiting(Some(now()), "a")), "a", D::New, R::RetryDue),
            (Some(parked(R::ForAPerson, "a")), "a", D::Parked, R::ForAPerson),
            (Some(parked(R::AttemptsExhausted, "a")), "b", D::New, R::ContentChanged),
            (Some(known(Phase::Claimed, "a", None)), "b", D::Deferred, R::InFlight),
            (Some(known(Phase::Vanished, "a", Some("a"))), "a", D::Unchanged, R::SameFingerprint),
            (Some(known(Phase::Vanished, "a", None)), "a", D::New, R::ContentChanged),
        ];
        for (known, fingerprint, decision, reason) in cases {
            assert_eq!(decided(known.clone(), fingerprint), (decision, reason), "{known:?}");
        }
    }

    #[test]
    fn an_item_that_reached_a_terminal_state_is_left_alone() {
        let seen = Seen { terminal: true, ..seen("2:b", 2) };
        let known = known(Phase::Pending, "a", None);
        let left = decide(seen, Some(&known), now());
        assert_eq!((left.decision, left.reason), (Decision::Vanished, Reason::OutOfQuery));
        assert_eq!(decide(seen, None, now()).decision, Decision::Unchanged);
    }

    #[test]
    fn a_text_whose_attempts_are_used_up_gets_no_new_ones_by_coming_back() {
        for phase in [Phase::Pending, Phase::Vanished, Phase::Done] {
            let known = KnownItem { attempts: 3, ..known(phase, "b", None) };
            assert_eq!(decided(Some(known), "a"), (Decision::Parked, Reason::AttemptsExhausted));
        }
    }

    #[test]
    fn an_upgrade_alone_makes_no_work_and_an_edit_does() {
        let older = |phase, processed: bool| KnownItem {
            fingerprint: "79dea57e".into(),
            processed_fingerprint: processed.then(|| "79dea57e".into()),
            reason: Reason::ForAPerson,
            ..known(phase, "", None)
        };
        let at = |revision, known: KnownItem| {
            let seen = seen("2:a", revision);
            let decided = decide(seen, Some(&known), now());
            (decided.decision, decided.reason)
        };
        let unchanged = (Decision::Unchanged, Reason::SameFingerprint);
        assert_eq!(at(1, older(Phase::Done, true)), unchanged);
        let parked = (Decision::Parked, Reason::ForAPerson);
        assert_eq!(at(1, older(Phase::Parked, false)), parked);
        let edited = (Decision::Changed, Reason::ContentChanged);
        assert_eq!(at(2, older(Phase::Done, true)), edited);
    }

    #[test]
    fn a_wait_written_by_a_clock_a_year_ahead_is_over() {
        let next = Some(now() + jiff::SignedDuration::from_hours(24 * 365));
        let known = waiting(next, "a");
        assert_eq!(decided(Some(known), "a"), (Decision::New, Reason::RetryDue));
    }

    /// A stored item in any phase, last seen with this text.
    fn any_known(seen_before: &'static str) -> impl Strategy<Value = KnownItem> {
        prop_oneof![
            Just(known(Phase::Pending, seen_before, None)),
            Just(known(Phase::Claimed, seen_before, None)),
            Just(known(Phase::Done, seen_before, None)),
            Just(known(Phase::Vanished, seen_before, None)),
            Just(parked(Reason::AttemptsExhausted, seen_before)),
            (-5_i64..5).prop_map(move |s| {
                waiting(Some(now() + jiff::SignedDuration::from_secs(s)), seen_before)
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_was_finished_with_this_text_is_never_work_again(
            known in prop_oneof![any_known("a"), any_known("b")], processed in "[ab]",
        ) {
            let known = KnownItem { processed_fingerprint: Some(new_form(&processed)), ..known };
            let (decision, _) = decided(Some(known), &processed);
            prop_assert!(!matches!(decision, Decision::New | Decision::Changed));
        }

        #[test]
        fn new_text_is_always_work_unless_it_is_in_flight(known in any_known("a")) {
            let known = KnownItem { processed_fingerprint: Some(new_form("b")), ..known };
            let phase = known.phase;
            let (decision, _) = decided(Some(known), "c");
            prop_assert_eq!(
                matches!(decision, Decision::New | Decision::Changed),
                phase != Phase::Claimed
            );
        }
    }
}
