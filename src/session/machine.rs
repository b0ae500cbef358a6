//! The life of one session as a pure machine: state × input → effects.
//!
//! The machine decides *what* happens, the supervisor does it: every effect is carried out by
//! `live`, and a row is committed, closed or kept open only on its word. Every pair of state and input is
//! written down; one that cannot happen is an error value and never a silent step. Inputs that come
//! late by nature (a line that was already in the pipe when the stop began) are legal and change
//! nothing.

use crate::model::{FailureKind, Outcome};

/// Why we end a session. The first cause stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// No first line in time.
    InitTimeout,
    /// The hard limit.
    HardLimit,
    /// No progress, tools idle, no new process.
    Stalled,
    /// The result is there, the process is not gone.
    FinishedNotExiting,
    /// Somebody asked for it.
    Cancelled(FailureKind),
    /// More live processes than allowed.
    TooManyProcesses,
    /// More memory than allowed.
    TooMuchMemory,
    /// Read many more files than it was told to.
    TooManyReads,
    /// More turns of the model than allowed.
    TooManyTurns,
    /// More tool calls than allowed.
    TooManyToolCalls,
    /// A line beyond the limit, or too much output in all.
    OutputFlood,
    /// The keeper was killed or stopped by somebody.
    KeeperLost,
}

impl Cause {
    /// The outcome it leads to; none if the agent's own result decides.
    pub const fn outcome(self) -> Option<Outcome> {
        Some(match self {
            Self::InitTimeout => Outcome::InitTimeout,
            Self::HardLimit => Outcome::TimedOut,
            Self::Stalled => Outcome::Stalled,
            Self::FinishedNotExiting => return None,
            Self::Cancelled(why) => Outcome::Cancelled { why },
            Self::TooManyProcesses => Outcome::TooManyProcesses,
            Self::TooMuchMemory => Outcome::TooMuchMemory,
            Self::TooManyReads => Outcome::TooManyReads,
            Self::TooManyTurns => Outcome::AgentError { why: FailureKind::MaxTurns },
            Self::TooManyToolCalls => Outcome::AgentError { why: FailureKind::MaxToolCalls },
            Self::OutputFlood => Outcome::OutputFlood,
            Self::KeeperLost => Outcome::AgentError { why: FailureKind::KeeperFailed },
        })
    }

    /// Does a result that arrived before the stop still count?
    pub const fn leaves_result_valid(self) -> bool {
        matches!(
            self,
            Self::FinishedNotExiting | Self::HardLimit | Self::Stalled | Self::Cancelled(_)
        )
    }

    /// Who asked for it, where somebody did.
    pub const fn who_asked(self) -> Option<FailureKind> {
        match self {
            Self::Cancelled(why) => Some(why),
            _ => None,
        }
    }

    /// The name in the event.
    pub fn name(self) -> String {
        self.outcome().map_or_else(
            || "finished_not_exiting".to_owned(),
            |outcome| outcome.into_str().to_owned(),
        )
    }
}

/// Where a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Its keeper is ready, its row is not committed.
    Prepared,
    /// The keeper was told to start the agent.
    Launching,
    /// The agent runs and has said nothing.
    Starting,
    /// The agent has written its first line.
    Running,
    /// The result line is there.
    Draining,
    /// We are ending it.
    Stopping {
        /// Why.
        cause: Cause,
        /// The result line was there before.
        had_result: bool,
    },
    /// The agent's process ended; its keeper sweeps.
    Sweeping {
        /// Why we ended it; none if it left by itself.
        cause: Option<Cause>,
        /// The result line was there before we stopped it.
        had_result: bool,
    },
    /// The keeper is gone; heartbeat sweeps by itself.
    Catching {
        /// Why.
        cause: Cause,
        /// The result line was there before.
        had_result: bool,
    },
    /// Over.
    Ended(End),
}

/// How it ended, before the agent's own words are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The row was refused; nothing was started.
    Refused,
    /// The agent could not be started.
    NotStarted(FailureKind),
    /// The agent left by itself.
    Left,
    /// We ended it; a result that was there before counts if `had_result`.
    Ended {
        /// Why.
        cause: Cause,
        /// See [`Cause::leaves_result_valid`].
        had_result: bool,
    },
    /// Something of it is still alive.
    Unkillable,
}

/// What can happen to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// The row is durable.
    RowCommitted,
    /// The row was refused.
    RowRefused,
    /// The agent runs.
    Started,
    /// The agent could not be started.
    NotStarted(FailureKind),
    /// Its first decoded line.
    Initialised,
    /// Its result line.
    ResultSeen,
    /// We want it to end, with grace.
    Stop(Cause),
    /// We want it to end at once.
    Kill(Cause),
    /// Its keeper ends it by itself.
    KeeperStops(Cause),
    /// Its process ended.
    Exited,
    /// The keeper's certificate.
    Swept,
    /// The keeper's alarm.
    Unkillable,
    /// The keeper is gone without a certificate.
    KeeperGone,
    /// Our own sweep found nothing more.
    Caught,
    /// Our own sweep could not end everything.
    NotCaught,
    /// The keeper neither certified nor raised its alarm in time: it is stopped or stuck itself.
    CertificateOverdue,
}

/// What the supervisor has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Tell the keeper to start the agent.
    SendGo,
    /// Ask the keeper to end it with grace.
    SendStop,
    /// Ask the keeper to end it at once.
    SendKill,
    /// Say that we are ending it.
    AnnounceStop(Cause),
    /// Begin the short time between result and sweep.
    StartDrain,
    /// End the keeper itself; what it kept falls to us.
    KillKeeper,
    /// Sweep what fell to us.
    CatchEscapees,
    /// Certified empty: close the row.
    CloseRow,
    /// Not empty: keep the row open and raise the alarm.
    KeepRow,
}

/// A pair that cannot happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{input:?} cannot happen in {state:?}")]
pub struct Illegal {
    /// The state.
    pub state: State,
    /// The input.
    pub input: Input,
}

type Step = Result<(State, Vec<Effect>), Illegal>;

/// One step.
pub fn step(state: State, input: Input) -> Step {
    match state {
        State::Prepared => prepared(input),
        State::Launching => launching(input),
        State::Starting | State::Running | State::Draining => alive(state, input),
        State::Stopping { cause, had_result } => stopping(cause, had_result, input),
        State::Sweeping { cause, had_result } => sweeping(cause, had_result, input),
        State::Catching { cause, had_result } => catching(cause, had_result, input),
        State::Ended(_) => Err(Illegal { state, input }),
    }
}

fn prepared(input: Input) -> Step {
    match input {
        Input::RowCommitted => Ok((State::Launching, vec![Effect::SendGo])),
        Input::RowRefused | Input::KeeperGone => Ok((State::Ended(End::Refused), vec![])),
        _ => Err(Illegal { state: State::Prepared, input }),
    }
}

fn launching(input: Input) -> Step {
    match input {
        Input::Started => Ok((State::Starting, vec![])),
        Input::NotStarted(why) => Ok((State::Ended(End::NotStarted(why)), vec![Effect::CloseRow])),
        Input::Stop(cause) | Input::Kill(cause) => Ok(end(cause, false, input)),
        Input::KeeperGone => Ok(lose(Cause::KeeperLost, false)),
        _ => Err(Illegal { state: State::Launching, input }),
    }
}

fn alive(state: State, input: Input) -> Step {
    let had_result = state == State::Draining;
    match input {
        Input::Initialised => {
            Ok((if state == State::Starting { State::Running } else { state }, vec![]))
        }
        Input::ResultSeen if had_result => Ok((state, vec![])),
        Input::ResultSeen => Ok((State::Draining, vec![Effect::StartDrain])),
        Input::Stop(cause) | Input::Kill(cause) | Input::KeeperStops(cause) => {
            Ok(end(cause, had_result, input))
        }
        Input::Exited => Ok((State::Sweeping { cause: None, had_result }, vec![])),
        Input::KeeperGone => Ok(lose(Cause::KeeperLost, had_result)),
        // A namespace that ended as a whole is certified without an exit of the agent.
        Input::Swept => Ok(certified(Some(Cause::KeeperLost), had_result)),
        Input::Unkillable => Ok(alarmed()),
        _ => Err(Illegal { state, input }),
    }
}

fn stopping(cause: Cause, had_result: bool, input: Input) -> Step {
    let state = State::Stopping { cause, had_result };
    match input {
        // Late lines, a second wish, and a start or its failure that crossed our stop.
        Input::Initialised
        | Input::ResultSeen
        | Input::Stop(_)
        | Input::KeeperStops(_)
        | Input::Started
        | Input::NotStarted(_) => Ok((state, vec![])),
        Input::Kill(_) => Ok((state, vec![Effect::SendKill])),
        Input::Exited => Ok((State::Sweeping { cause: Some(cause), had_result }, vec![])),
        Input::Swept => Ok(certified(Some(cause), had_result)),
        Input::Unkillable => Ok(alarmed()),
        Input::KeeperGone => Ok(lose(cause, had_result)),
        Input::CertificateOverdue => Ok((state, vec![Effect::KillKeeper])),
        _ => Err(Illegal { state, input }),
    }
}

fn sweeping(cause: Option<Cause>, had_result: bool, input: Input) -> Step {
    let state = State::Sweeping { cause, had_result };
    match input {
        Input::Initialised | Input::ResultSeen | Input::Stop(_) | Input::KeeperStops(_) => {
            Ok((state, vec![]))
        }
        Input::Kill(_) => Ok((state, vec![Effect::SendKill])),
        Input::Swept => Ok(certified(cause, had_result)),
        Input::Unkillable => Ok(alarmed()),
        Input::KeeperGone => Ok(lose(cause.unwrap_or(Cause::KeeperLost), had_result)),
        Input::CertificateOverdue => Ok((state, vec![Effect::KillKeeper])),
        _ => Err(Illegal { state, input }),
    }
}

fn catching(cause: Cause, had_result: bool, input: Input) -> Step {
    let state = State::Catching { cause, had_result };
    match input {
        Input::Initialised | Input::ResultSeen | Input::Stop(_) | Input::Kill(_) => {
            Ok((state, vec![]))
        }
        Input::Caught => Ok(certified(Some(cause), had_result)),
        Input::NotCaught => Ok(alarmed()),
        _ => Err(Illegal { state, input }),
    }
}

fn end(cause: Cause, had_result: bool, input: Input) -> (State, Vec<Effect>) {
    let mut effects = vec![Effect::AnnounceStop(cause)];
    match input {
        Input::Kill(_) => effects.push(Effect::SendKill),
        // The keeper has begun by itself.
        Input::KeeperStops(_) => {}
        _ => effects.push(Effect::SendStop),
    }
    (State::Stopping { cause, had_result }, effects)
}

fn lose(cause: Cause, had_result: bool) -> (State, Vec<Effect>) {
    (State::Catching { cause, had_result }, vec![Effect::CatchEscapees])
}

fn certified(cause: Option<Cause>, had_result: bool) -> (State, Vec<Effect>) {
    let end = cause.map_or(End::Left, |cause| End::Ended { cause, had_result });
    (State::Ended(end), vec![Effect::CloseRow])
}

fn alarmed() -> (State, Vec<Effect>) {
    (State::Ended(End::Unkillable), vec![Effect::KeepRow])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn causes() -> impl Strategy<Value = Cause> {
        prop_oneof![
            Just(Cause::InitTimeout),
            Just(Cause::HardLimit),
            Just(Cause::Stalled),
            Just(Cause::FinishedNotExiting),
            Just(Cause::Cancelled(FailureKind::Shutdown)),
            Just(Cause::TooManyProcesses),
            Just(Cause::OutputFlood),
        ]
    }

    fn inputs() -> impl Strategy<Value = Input> {
        prop_oneof![
            Just(Input::RowCommitted),
            Just(Input::RowRefused),
            Just(Input::Started),
            Just(Input::NotStarted(FailureKind::NotFound)),
            Just(Input::Initialised),
            Just(Input::ResultSeen),
            causes().prop_map(Input::Stop),
            causes().prop_map(Input::Kill),
            causes().prop_map(Input::KeeperStops),
            Just(Input::Exited),
            Just(Input::Swept),
            Just(Input::Unkillable),
            Just(Input::KeeperGone),
            Just(Input::Caught),
            Just(Input::NotCaught),
            Just(Input::CertificateOverdue),
        ]
    }

    /// Applies inputs, ignoring illegal ones, and gives back every step taken.
    fn walk(sequence: &[Input]) -> Vec<(State, Input, State, Vec<Effect>)> {
        let mut state = State::Prepared;
        let mut taken = Vec::new();
        for input in sequence {
            if let Ok((next, effects)) = step(state, *input) {
                taken.push((state, *input, next, effects));
                state = next;
            }
        }
        taken
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        #[test]
        fn the_agent_is_started_once_and_only_after_its_row_is_committed(
            sequence in prop::collection::vec(inputs(), 0..25)
        ) {
            let taken = walk(&sequence);
            let starts: Vec<_> =
                taken.iter().filter(|t| t.3.contains(&Effect::SendGo)).map(|t| t.1).collect();
            prop_assert!(starts.len() <= 1);
            prop_assert!(starts.iter().all(|input| *input == Input::RowCommitted));
        }

        #[test]
        fn a_row_closes_only_with_a_certificate_and_ends_are_final(
            sequence in prop::collection::vec(inputs(), 0..25)
        ) {
            let taken = walk(&sequence);
            for (_, input, next, effects) in &taken {
                if effects.contains(&Effect::CloseRow) {
                    prop_assert!(matches!(
                        input, Input::Swept | Input::Caught | Input::NotStarted(_)
                    ));
                    prop_assert!(matches!(next, State::Ended(_)));
                }
                if *next == State::Ended(End::Unkillable) {
                    prop_assert!(effects.contains(&Effect::KeepRow));
                }
            }
            let ends = taken.iter().filter(|t| matches!(t.2, State::Ended(_))).count();
            prop_assert!(ends <= 1, "ended {ends} times");
        }

        #[test]
        fn a_committed_row_is_closed_or_kept_exactly_once_and_a_refused_one_never(
            sequence in prop::collection::vec(inputs(), 0..25)
        ) {
            let taken = walk(&sequence);
            let committed = taken.iter().any(|t| t.1 == Input::RowCommitted);
            let ended = taken.last().is_some_and(|t| matches!(t.2, State::Ended(_)));
            let effects = || taken.iter().flat_map(|t| t.3.iter());
            let decided =
                effects().filter(|e| matches!(e, Effect::CloseRow | Effect::KeepRow)).count();
            prop_assert_eq!(decided, usize::from(committed && ended));
            let killed_early = taken.iter().any(|t| {
                t.3.contains(&Effect::KillKeeper)
                    && !matches!(t.0, State::Stopping { .. } | State::Sweeping { .. })
            });
            prop_assert!(!killed_early);
        }

        #[test]
        fn the_first_cause_stands_and_is_announced_once(
            sequence in prop::collection::vec(inputs(), 0..25)
        ) {
            let taken = walk(&sequence);
            let announced: Vec<Cause> = taken
                .iter()
                .flat_map(|t| t.3.iter())
                .filter_map(|effect| match effect {
                    Effect::AnnounceStop(cause) => Some(*cause),
                    _ => None,
                })
                .collect();
            prop_assert!(announced.len() <= 1);
            if let (Some(first), Some(last)) = (announced.first(), taken.last())
                && let State::Ended(End::Ended { cause, .. }) = last.2
            {
                prop_assert_eq!(cause, *first);
            }
        }

        #[test]
        fn from_every_reachable_state_a_lost_keeper_leads_to_an_end(
            sequence in prop::collection::vec(inputs(), 0..25)
        ) {
            let state = walk(&sequence).last().map_or(State::Prepared, |t| t.2);
            let ended = match state {
                State::Ended(_) => true,
                State::Catching { .. } => {
                    matches!(step(state, Input::Caught), Ok((State::Ended(_), _)))
                }
                _ => match step(state, Input::KeeperGone) {
                    Ok((State::Ended(_), _)) => true,
                    Ok((next, _)) => matches!(step(next, Input::Caught), Ok((State::Ended(_), _))),
                    Err(_) => false,
                },
            };
            prop_assert!(ended, "stuck in {state:?}");
        }
    }

    #[test]
    fn nothing_happens_after_the_end() {
        let ended = State::Ended(End::Left);
        assert!(step(ended, Input::Swept).is_err());
        assert!(step(State::Prepared, Input::Started).is_err());
        assert!(step(State::Prepared, Input::Swept).is_err());
    }
}
