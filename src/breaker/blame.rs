//! Whose fault the end of a session may be. Pure: the run supplies the evidence.
//!
//! An end by itself rarely proves anything: a program that exits at once, an answer that never
//! comes or a process that the machine killed can follow from the item's text or from something
//! that every session would meet. So an end names a [`Suspect`], and what other sessions did
//! meanwhile, or one probe, decides.

use crate::model::{FailureKind, Outcome, Usage};

/// Whom an end points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspect {
    /// The end says who caused it, and it was not the item.
    Nobody,
    /// The provider failed on a request.
    Provider,
    /// The agent's program ended, or never began to work.
    Program,
    /// The machine, a host or our own crash ended it.
    Machine,
    /// The item, or the analysis of it.
    Item,
}

/// The signal of the kernel's memory killer, and of people.
const KILLED: i32 = 9;

pub fn suspect(outcome: &Outcome, usage: &Usage) -> Suspect {
    use FailureKind::{
        ApiError, InvalidRequest, KeeperFailed, NoJson, NoResult, NotSent, RunDeadline,
    };
    let answered = usage.tokens() > 0;
    match outcome {
        Outcome::AgentError { why: ApiError } => Suspect::Provider,
        // A request that the provider had accepted before, on an earlier turn.
        Outcome::AgentError { why: InvalidRequest } if answered => Suspect::Provider,
        // No agent can reach its keeper: something else on this machine ended it.
        Outcome::Orphaned | Outcome::AgentError { why: KeeperFailed } => Suspect::Machine,
        Outcome::Signal { signal: KILLED } if answered => Suspect::Machine,
        Outcome::ExitCode { .. }
        | Outcome::Signal { .. }
        | Outcome::InitTimeout
        | Outcome::BadOutput { why: NoJson | NoResult | NotSent } => Suspect::Program,
        // It waits for something that is not the model, such as a login.
        Outcome::TimedOut | Outcome::Stalled if !answered => Suspect::Program,
        Outcome::Cancelled { why: RunDeadline } => Suspect::Item,
        Outcome::Completed
        | Outcome::ProviderLimit { .. }
        | Outcome::Cancelled { .. }
        | Outcome::SpawnFailed { .. } => Suspect::Nobody,
        outcome if outcome.is_configuration() => Suspect::Nobody,
        _ => Suspect::Item,
    }
}

/// Whether the machine rather than the program explains an end whose program works otherwise.
pub const fn may_be_the_machine(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Signal { signal: KILLED } | Outcome::InitTimeout)
}

/// Ends that a wrong setting, prompt or program version gives to every item alike. Several of one
/// kind in a row are not the items'. A limit that was used up (time, money, turns) is not among
/// them: it depends on the work.
pub const fn is_alike_for_all(outcome: &Outcome) -> bool {
    use FailureKind::{InvalidRequest, SchemaExhausted};
    matches!(
        outcome,
        Outcome::BadOutput { .. }
            | Outcome::ExitCode { .. }
            | Outcome::Signal { .. }
            | Outcome::InitTimeout
            | Outcome::AgentError { why: SchemaExhausted | InvalidRequest }
    )
}

/// Ends that follow from what one request says: the same request ends like this again.
pub const fn is_about_the_request(outcome: &Outcome) -> bool {
    use FailureKind::{InvalidRequest, Refused};
    matches!(outcome, Outcome::AgentError { why: InvalidRequest | Refused })
}

/// Ends of a batch that one of its members can cause.
pub fn can_be_one_of_many(outcome: &Outcome) -> bool {
    !matches!(
        outcome,
        Outcome::Completed
            | Outcome::ProviderLimit { .. }
            | Outcome::Cancelled { .. }
            | Outcome::SpawnFailed { .. }
            | Outcome::Orphaned
            | Outcome::Unkillable
    ) && !outcome.is_configuration()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_without_a_token_never_points_to_the_item_alone() {
        let none = Usage::default();
        for outcome in [
            Outcome::ExitCode { code: 1 },
            Outcome::Signal { signal: 11 },
            Outcome::Signal { signal: 9 },
            Outcome::InitTimeout,
            Outcome::TimedOut,
            Outcome::Stalled,
            Outcome::BadOutput { why: FailureKind::NoJson },
            Outcome::BadOutput { why: FailureKind::NoResult },
        ] {
            assert_eq!(suspect(&outcome, &none), Suspect::Program, "{outcome}");
        }
        let keeper = Outcome::AgentError { why: FailureKind::KeeperFailed };
        assert_eq!(suspect(&keeper, &none), Suspect::Machine);
        assert_eq!(suspect(&Outcome::Orphaned, &none), Suspect::Machine);
    }

    #[test]
    fn work_that_used_up_its_limits_is_the_items() {
        let some = Usage { output_tokens: 1, ..Usage::default() };
        for outcome in [Outcome::TimedOut, Outcome::Stalled, Outcome::BudgetReached] {
            assert_eq!(suspect(&outcome, &some), Suspect::Item, "{outcome}");
            assert!(!is_alike_for_all(&outcome), "{outcome}");
        }
        let refused = Outcome::AgentError { why: FailureKind::InvalidRequest };
        assert_eq!(suspect(&refused, &some), Suspect::Provider, "on a later turn");
        assert_eq!(suspect(&refused, &Usage::default()), Suspect::Item);
    }
}
