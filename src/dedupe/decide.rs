//! One item and what is known of it → a decision with its reason.

use jiff::Timestamp;

use crate::event::{Decision, Reason};
use crate::model::Verdict;

/// What a run sees of an item.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Of what would reach the prompt.
    pub fingerprint: &'a str,
    /// Its workflow state is one in which items are finished.
    pub terminal: bool,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// What.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// Triage's answer from an earlier run, if it still applies: the item is not asked about again.
    pub verdict: Option<Verdict>,
}

/// What the state says about an item, in the words of this room.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Where it stands.
    pub standing: Standing,
    /// Of what it was last seen with.
    pub fingerprint: String,
    /// Of what was last finished.
    pub processed_fingerprint: Option<String>,
    /// Triage's answer for `fingerprint`.
    pub verdict: Option<Verdict>,
}

/// Where an item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// In line.
    Pending,
    /// A session for it runs.
    Claimed,
    /// Finished.
    Done,
    /// Not before this time.
    Waiting(Option<Timestamp>),
    /// Left to people, for this reason.
    Parked(Reason),
    /// Gone.
    Vanished,
}

/// Decides. Total: every combination has an answer.
pub fn decide(seen: Seen<'_>, known: Option<&Known>, now: Timestamp) -> Decided {
    let plain = |decision, reason| Decided { decision, reason, verdict: None };
    let Some(known) = known else {
        return if seen.terminal {
            plain(Decision::Unchanged, Reason::OutOfQuery)
        } else {
            plain(Decision::New, Reason::FirstSeen)
        };
    };
    if known.standing == Standing::Claimed {
        return plain(Decision::Deferred, Reason::InFlight);
    }
    if seen.terminal {
        return plain(Decision::Unchanged, Reason::OutOfQuery);
    }
    let same_as_seen = known.fingerprint == seen.fingerprint;
    let same_as_finished = known.processed_fingerprint.as_deref() == Some(seen.fingerprint);
    let work =
        if known.processed_fingerprint.is_none() { Decision::New } else { Decision::Changed };
    let again = |reason| Decided { decision: work, reason, verdict: known.verdict.clone() };
    match known.standing {
        Standing::Vanished if same_as_finished => {
            plain(Decision::Unchanged, Reason::SameFingerprint)
        }
        Standing::Vanished => plain(work, Reason::ContentChanged),
        // An edit that was undone before its turn came: nothing is left to do.
        _ if same_as_finished => plain(Decision::Unchanged, undone_reason(known)),
        _ if !same_as_seen => plain(work, Reason::ContentChanged),
        Standing::Pending => again(Reason::CarriedOver),
        Standing::Waiting(Some(next)) if next > now => plain(Decision::Waiting, Reason::Backoff),
        Standing::Waiting(_) => again(Reason::RetryDue),
        Standing::Parked(reason) => plain(Decision::Parked, reason),
        Standing::Done | Standing::Claimed => plain(work, Reason::ContentChanged),
    }
}

/// `SameFingerprint` needs no write; a row that stands elsewhere must be brought back to done.
fn undone_reason(known: &Known) -> Reason {
    if known.standing == Standing::Done
        && known.processed_fingerprint.as_ref() == Some(&known.fingerprint)
    {
        Reason::SameFingerprint
    } else {
        Reason::ContentChanged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn now() -> Timestamp {
        "2026-11-16T08:00:00Z".parse().unwrap()
    }

    fn known(standing: Standing, fingerprint: &str, processed: Option<&str>) -> Known {
        Known {
            standing,
            fingerprint: fingerprint.into(),
            processed_fingerprint: processed.map(Into::into),
            verdict: None,
        }
    }

    fn decided(known: Option<Known>, fingerprint: &str) -> (Decision, Reason) {
        let decided = decide(Seen { fingerprint, terminal: false }, known.as_ref(), now());
        (decided.decision, decided.reason)
    }

    #[test]
    fn every_standing_has_its_answer() {
        use Decision as D;
        use Reason as R;
        let later = Some(now() + jiff::SignedDuration::from_secs(1));
        let cases = [
            (None, "a", D::New, R::FirstSeen),
            (Some(known(Standing::Done, "a", Some("a"))), "a", D::Unchanged, R::SameFingerprint),
            (Some(known(Standing::Done, "a", Some("a"))), "b", D::Changed, R::ContentChanged),
            (Some(known(Standing::Pending, "a", None)), "a", D::New, R::CarriedOver),
            (Some(known(Standing::Pending, "a", None)), "b", D::New, R::ContentChanged),
            (Some(known(Standing::Pending, "b", Some("a"))), "b", D::Changed, R::CarriedOver),
            (Some(known(Standing::Pending, "b", Some("a"))), "a", D::Unchanged, R::ContentChanged),
            (Some(known(Standing::Waiting(later), "a", None)), "a", D::Waiting, R::Backoff),
            (Some(known(Standing::Waiting(later), "a", None)), "b", D::New, R::ContentChanged),
            (Some(known(Standing::Waiting(Some(now())), "a", None)), "a", D::New, R::RetryDue),
            (
                Some(known(Standing::Parked(R::ForAPerson), "a", None)),
                "a",
                D::Parked,
                R::ForAPerson,
            ),
            (
                Some(known(Standing::Parked(R::AttemptsExhausted), "a", None)),
                "b",
                D::New,
                R::ContentChanged,
            ),
            (Some(known(Standing::Claimed, "a", None)), "b", D::Deferred, R::InFlight),
            (
                Some(known(Standing::Vanished, "a", Some("a"))),
                "a",
                D::Unchanged,
                R::SameFingerprint,
            ),
            (Some(known(Standing::Vanished, "a", None)), "a", D::New, R::ContentChanged),
        ];
        for (known, fingerprint, decision, reason) in cases {
            assert_eq!(decided(known.clone(), fingerprint), (decision, reason), "{known:?}");
        }
    }

    #[test]
    fn an_item_that_reached_a_terminal_state_is_left_alone() {
        let seen = Seen { fingerprint: "b", terminal: true };
        let known = known(Standing::Pending, "a", None);
        assert_eq!(decide(seen, Some(&known), now()).reason, Reason::OutOfQuery);
        assert_eq!(decide(seen, None, now()).decision, Decision::Unchanged);
    }

    fn standing() -> impl Strategy<Value = Standing> {
        prop_oneof![
            Just(Standing::Pending),
            Just(Standing::Claimed),
            Just(Standing::Done),
            Just(Standing::Vanished),
            Just(Standing::Parked(Reason::AttemptsExhausted)),
            (-5_i64..5)
                .prop_map(|s| Standing::Waiting(Some(now() + jiff::SignedDuration::from_secs(s)))),
        ]
    }

    proptest! {
        #[test]
        fn what_was_finished_with_this_text_is_never_work_again(
            standing in standing(), seen_before in "[ab]", processed in "[ab]",
        ) {
            let known = known(standing, &seen_before, Some(&processed));
            let (decision, _) = decided(Some(known), &processed);
            prop_assert!(!matches!(decision, Decision::New | Decision::Changed));
        }

        #[test]
        fn new_text_is_always_work_unless_it_is_in_flight(standing in standing()) {
            let known = known(standing, "a", Some("b"));
            let (decision, _) = decided(Some(known), "c");
            prop_assert_eq!(
                matches!(decision, Decision::New | Decision::Changed),
                standing != Standing::Claimed
            );
        }
    }
}
