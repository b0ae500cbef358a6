//! One session as a pure state machine: state × input → effects.
//!
//! The machine decides *what* happens, `live` carries out every effect: a row is committed, closed
//! or kept open only on an effect. Every pair of state and input is listed; an impossible one is an
//! error value and never a silent step. Inputs that can come late (a line that was already in the
//! pipe when the stop began) are legal and change nothing.

use crate::model::{FailureKind, Outcome};

/// Why we end a session. The first cause counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// No first line in time.
    InitTimeout,
    /// The hard limit was reached.
    HardLimit,
    /// No progress, idle tools, no new process.
    Stalled,
    /// The result is complete, but the process has not exited.
    FinishedNotExiting,
    /// On request.
    Cancelled(FailureKind),
    /// More live processes than allowed.
    TooManyProcesses,
    TooMuchMemory,
    /// More bytes or files in its folder than allowed.
    TooMuchDisk,
    /// Read many more files than allowed.
    TooManyReads,
    /// More turns of the model than allowed.
    TooManyTurns,
    /// More tool calls than allowed.
    TooManyToolCalls,
    /// A line beyond the limit, or too much output in total.
    OutputFlood,
    /// The keeper was killed or stopped.
    KeeperLost,
}

impl Cause {
    /// The resulting outcome; `None` if the agent's result decides.
    pub const fn outcome(self) -> Option<Outcome> {
        Some(match self {
            Self::InitTimeout => Outcome::InitTimeout,
            Self::HardLimit => Outcome::TimedOut,
            Self::Stalled => Outcome::Stalled,
            Self::FinishedNotExiting => return None,
            Self::Cancelled(why) => Outcome::Cancelled { why },
            Self::TooManyProcesses => Outcome::TooManyProcesses,
            Self::TooMuchMemory => Outcome::TooMuchMemory,
            Self::TooMuchDisk => Outcome::TooMuchDisk,
            Self::TooManyReads => Outcome::TooManyReads,
            Self::TooManyTurns => Outcome::AgentError { why: FailureKind::MaxTurns },
            Self::TooManyToolCalls => Outcome::AgentError { why: FailureKind::MaxToolCalls },
            Self::OutputFlood => Outcome::OutputFlood,
            Self::KeeperLost => Outcome::AgentError { why: FailureKind::KeeperFailed },
        })
    }

    /// Whether a result that arrived before the stop still counts.
    pub const fn leaves_result_valid(self) -> bool {
        matches!(
            self,
            Self::FinishedNotExiting | Self::HardLimit | Self::Stalled | Self::Cancelled(_)
        )
    }

    /// Who requested it, if it was requested.
    pub const fn who_asked(self) -> Option<FailureKind> {
        match self {
            Self::Cancelled(why) => Some(why),
            _ => None,
        }
    }

    /// Name in the event.
    pub fn name(self) -> String {
        self.outcome().map_or_else(
            || "finished_not_exiting".to_owned(),
            |outcome| outcome.into_str().to_owned(),
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// The keeper is ready, the row is not committed.
    Prepared,
    /// The keeper was told to start the agent.
    Launching,
    /// The agent runs and has written nothing.
    Starting,
    /// The agent has written its first line.
    Running,
    /// The result line was read.
    Draining,
    Stopping {
        cause: Cause,
        /// The result line was read before the stop.
        had_result: bool,
    },
    /// The agent's process exited; its keeper sweeps.
    Sweeping {
        /// Why we ended it; `None` if it exited on its own.
        cause: Option<Cause>,
        /// The result line was read before the stop.
        had_result: bool,
    },
    /// The keeper is gone; heartbeat sweeps.
    Catching {
        cause: Cause,
        /// The result line was read before the stop.
        had_result: bool,
    },
    Ended(End),
}

/// How it ended, before the agent's result is classified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The row was refused; nothing was started.
    Refused,
    /// The agent could not be started.
    NotStarted(FailureKind),
    /// The agent exited on its own.
    Left,
    /// We ended it; a result from before counts if `had_result`.
    Ended {
        cause: Cause,
        /// See [`Cause::leaves_result_valid`].
        had_result: bool,
    },
    /// A process is still alive.
    Unkillable,
}

/// What can happen to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// The row is durable.
    RowCommitted,
    RowRefused,
    /// The agent runs.
    Started,
    /// The agent could not be started.
    NotStarted(FailureKind),
    /// The first decoded line.
    Initialised,
    /// The result line.
    ResultSeen,
    /// Request to end with a grace period.
    Stop(Cause),
    /// Request to end at once.
    Kill(Cause),
    /// The keeper ends the session on its own.
    KeeperStops(Cause),
    /// The agent's process exited.
    Exited,
    /// The keeper certified that no process is left.
    Swept,
    /// The keeper reported a process that cannot be killed.
    Unkillable,
    /// The keeper is gone without a certificate.
    KeeperGone,
    /// Our own sweep found no more processes.
    Caught,
    /// Our own sweep could not kill every process.
    NotCaught,
    /// The keeper neither certified nor reported in time: it is stopped or stuck itself.
    CertificateOverdue,
}

/// What the supervisor has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Tell the keeper to start the agent.
    SendGo,
    /// Make the keeper end it with a grace period.
    SendStop,
    /// Make the keeper end it at once.
    SendKill,
    /// Emit the event that we are ending it.
    AnnounceStop(Cause),
    /// Start the wait between result and sweep.
    StartDrain,
    /// Kill the keeper; we inherit its processes.
    KillKeeper,
    /// Sweep the inherited processes.
    CatchEscapees,
    /// Certified empty: close the row.
    CloseRow,
    /// Not empty: keep the row open and report it.
    KeepRow,
}

/// A pair of state and input that cannot happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{input:?} cannot happen in {state:?}")]
pub struct Illegal {
    pub state: State,
    pub input: Input,
}

type Step = Result<(State, Vec<Effect>), Illegal>;

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
        // Late lines, a second request, and a start or its failure that crossed our stop.
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
        // The keeper has already begun.
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

    /// Applies inputs, ignores illegal ones, and returns every step taken.
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
