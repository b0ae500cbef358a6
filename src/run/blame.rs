//! Whose fault the end of a session was: the item's, or that of everything around it.
//!
//! An attempt counts only if the agent had a working program, provider and machine. Where the end
//! does not say so itself, other sessions of the same model decide, or one cheap probe with that
//! model. What every session would meet closes the model's gate: attempts are given back, nothing is
//! parked, and the next run tries one session first.

use super::launch::EndedSession;
use super::provider::{self, Canary};
use super::{RunContext, RunError, deep_result};
use crate::breaker::blame::{self, Suspect};
use crate::breaker::provider::{Fault, HoldKind, MAX_ALIKE, ProviderRecord, is_outage};
use crate::event::Reason;
use crate::model::{FailureKind, ItemKey, Outcome, SessionEnd, SessionId, Stage};
use crate::settings::{AgentKind, Config};
use crate::store::DeepResult;

/// What an end means for the items of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blame {
    /// The outcome decides.
    AsItSays,
    /// Every session would end like this: nothing counts, and no other one starts.
    Everybody(Reason),
    /// The provider, the machine or a crash of ours: it does not count, unless it keeps following
    /// this item while others go on.
    Excused(Reason),
}

/// What a session's end means beyond its output.
pub(super) struct Meaning {
    pub(super) blame: Blame,
    /// Set if no other session of this run can work either.
    pub(super) fault: Option<RunError>,
}

/// Records what a session's end shows about provider, program and machine; `status` reads it.
pub(super) async fn after_session(
    cx: &RunContext,
    stage: Stage,
    item: Option<&ItemKey>,
    end: &SessionEnd,
) -> Result<Meaning, RunError> {
    let advice = provider::setting_to_correct(&end.outcome, stage, &cx.config);
    if let Some(advice) = &advice {
        tracing::error!(%stage, %advice, stderr = %end.last_words(), "the agent is not usable");
    }
    let (agent_fault, works) = (advice.clone(), end.outcome.is_success());
    let (model, own) = (cx.config.model_of(stage).to_owned(), item.cloned());
    let answers_others = provider::note(cx, stage, item, end, move |record| {
        // Only a reply of the model proves that the agent works.
        if agent_fault.is_some() || works {
            record.agent_fault = agent_fault;
        }
        record.model(&model).answers_others(own.as_ref())
    });
    let answers_others = answers_others.await?;
    if let Some(advice) = advice {
        return Ok(Meaning { blame: Blame::AsItSays, fault: Some(RunError::AgentConfig(advice)) });
    }
    if let Outcome::SpawnFailed { .. } = end.outcome {
        let said = end.last_words();
        let why = if said.is_empty() { end.outcome.to_string() } else { said };
        return Ok(Meaning { blame: Blame::AsItSays, fault: Some(RunError::CannotStart(why)) });
    }
    let mut fault = None;
    let blame = match blame::suspect(&end.outcome, &end.usage) {
        Suspect::Nobody | Suspect::Item => Blame::AsItSays,
        Suspect::Machine => Blame::Excused(Reason::CutOff),
        Suspect::Provider if !is_outage(&end.outcome) => Blame::Excused(Reason::CutOff),
        Suspect::Provider if answers_others => Blame::Excused(Reason::ProviderDown),
        Suspect::Provider => Blame::AsItSays,
        Suspect::Program => match program_works(cx, stage, end).await? {
            Canary::Works if blame::may_be_the_machine(&end.outcome) => {
                Blame::Excused(Reason::CutOff)
            }
            Canary::Works => Blame::AsItSays,
            Canary::Unknown => Blame::Excused(Reason::CutOff),
            // The program waits for a provider that does not answer: it may even say nothing
            // before its time is up.
            Canary::Fails(kind, why) => {
                let broken = kind == HoldKind::Program;
                fault = broken.then_some(RunError::AgentBroken(why));
                Blame::Everybody(provider::reason_of(kind))
            }
        },
    };
    Ok(Meaning { blame, fault })
}

/// Whether the program works for others: by what they did since this session began, else by a
/// probe. One at a time, so that sessions which fail together are judged by one probe.
async fn program_works(
    cx: &RunContext,
    stage: Stage,
    end: &SessionEnd,
) -> Result<Canary, RunError> {
    let _one_at_a_time = cx.judging.lock().await;
    let started = cx.now().saturating_sub(end.duration).unwrap_or_default();
    let record = cx.store().provider().record(cx.config.agent_of(stage)).await?;
    if let Some(model) = record.models.get(cx.config.model_of(stage)) {
        if model.answered_since(started) {
            return Ok(Canary::Works);
        }
        if let (true, Some(why)) = (model.is_open(), &model.last_failure) {
            let kind = match model.fault {
                Fault::Provider => HoldKind::Outage,
                Fault::Program => HoldKind::Program,
            };
            return Ok(Canary::Fails(kind, why.clone()));
        }
    }
    provider::canary(cx, stage).await
}

/// The result of a deep session that others are to blame for, or that the item may be.
pub(super) async fn deep_result(
    cx: &RunContext,
    session: &EndedSession,
    as_it_says: impl AsyncFnOnce(SessionEnd) -> DeepResult,
) -> DeepResult {
    let outcome = session.end.outcome.clone();
    match session.blame {
        Blame::AsItSays => as_it_says(session.end.clone()).await,
        Blame::Everybody(reason) => DeepResult::NotCounted(outcome, reason),
        Blame::Excused(reason) => excused(cx, session.id, session.attempt, outcome, reason),
    }
}

/// Not counted, unless the item's sessions keep ending like this.
pub(super) fn excused(
    cx: &RunContext,
    session: SessionId,
    attempt: u32,
    outcome: Outcome,
    reason: Reason,
) -> DeepResult {
    let own = match outcome {
        Outcome::AgentError { why: FailureKind::ApiError } => {
            Outcome::AgentError { why: FailureKind::RequestFailed }
        }
        ref other => other.clone(),
    };
    let counted = Box::new(deep_result::failed(cx, session, own, attempt));
    DeepResult::Excused { outcome, reason, counted }
}

/// Several items in a row that failed alike stop their stage: their attempts are given back. `None`
/// if this end is not one of them.
pub(super) async fn failed_alike(
    cx: &RunContext,
    stage: Stage,
    item: &ItemKey,
    session: SessionId,
    result: &DeepResult,
    evidence: &str,
) -> Result<Option<RunError>, RunError> {
    let outcome = match result {
        DeepResult::TryAgain(outcome, _) | DeepResult::GiveUp(outcome) => outcome.clone(),
        DeepResult::Finished { .. } => {
            provider::succeeded(cx, stage).await?;
            reprieve(cx).await?;
            return Ok(None);
        }
        _ => return Ok(None),
    };
    if !blame::is_alike_for_all(&outcome) {
        return Ok(None);
    }
    let model = cx.config.model_of(stage).to_owned();
    let (same, end) = (outcome.clone(), (item.clone(), session));
    let why = alike_text(&outcome, stage, &cx.config, evidence);
    let told = why.clone();
    let update = move |record: &mut ProviderRecord| {
        let stopped = record.model(&model).failed_alike(stage, &same, end);
        if stopped.is_some() {
            record.agent_fault = Some(told);
        }
        stopped
    };
    let stopped = cx.journal.provider().update(cx.config.agent_of(stage), update).await?;
    let Some(sessions) = stopped else { return Ok(None) };
    cx.journal.results().give_attempts_back(sessions, Reason::FailsAlike).await?;
    Ok(Some(RunError::FailsAlike(stage, why)))
}

/// An analysis succeeded. Those that were parked before, by failures that every item may have had, get
/// one more attempt: with few items nobody could tell whose fault it was. If it fails as well, the
/// success is among the item's attempts, and it stays parked.
async fn reprieve(cx: &RunContext) -> Result<(), RunError> {
    let mut sessions = cx.journal.results().parked_without_a_success().await?;
    sessions.retain(|(_, outcome)| blame::is_alike_for_all(outcome));
    let sessions: Vec<SessionId> = sessions.into_iter().map(|(session, _)| session).collect();
    if sessions.is_empty() {
        return Ok(());
    }
    Ok(cx.journal.results().give_attempts_back(sessions, Reason::FailsAlike).await?)
}

/// Whether earlier items of this stage failed alike: one is tried before the others.
pub(super) async fn is_stopped(cx: &RunContext, stage: Stage) -> Result<bool, RunError> {
    let record = cx.store().provider().record(cx.config.agent_of(stage)).await?;
    let model = record.models.get(cx.config.model_of(stage));
    Ok(model.and_then(|model| model.alike.get(stage.into_str())).is_some_and(|one| one.stopped))
}

pub(super) fn alike_text(
    outcome: &Outcome,
    stage: Stage,
    config: &Config,
    evidence: &str,
) -> String {
    let own = config.agent_of(stage).section();
    let section = match stage {
        Stage::Triage | Stage::Locate => "triage",
        Stage::Deep => "analyze",
    };
    let said = if evidence.is_empty() { String::new() } else { format!(": {evidence}") };
    format!(
        "{MAX_ALIKE} {stage} sessions of different items ended alike ({outcome}){said}. Check \
         [{section}] model, your own prompt files and [{own}] command; `heartbeat doctor` checks \
         the agent"
    )
}

/// Why the agent's program does not work, and what to do.
pub(super) fn program_text(end: &SessionEnd, kind: AgentKind, config: &Config) -> String {
    let (command, own) = (config.command_of(kind).join(" "), kind.section());
    let said = end.last_words();
    let said = if said.is_empty() { String::new() } else { format!(". It said: {said}") };
    let install = format!("install a version that works, or correct [{own}] command");
    let (what, fix) = match &end.outcome {
        Outcome::InitTimeout => (
            "wrote nothing in time".to_owned(),
            "start it by hand to see what it waits for, or raise timeouts.init".to_owned(),
        ),
        Outcome::TimedOut | Outcome::Stalled => (
            "never asked the model".to_owned(),
            "start it by hand: it may wait for a login or a question".to_owned(),
        ),
        Outcome::BadOutput { .. } => {
            ("writes an output that heartbeat cannot read".to_owned(), install)
        }
        Outcome::Signal { signal: 9 } => (
            "was killed (signal 9), often for lack of memory".to_owned(),
            "free memory, or lower limits.max_live_sessions".to_owned(),
        ),
        outcome => (format!("ended with {outcome} before it asked the model"), install),
    };
    format!(
        "the agent {command:?} {what}{said}. {}; `heartbeat doctor` checks it",
        capitalised(&fix)
    )
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_program_is_named_with_its_words_and_a_fix() {
        let config: Config = toml::from_str(crate::config::DEFAULT_TOML).unwrap();
        let words = "node: /lib/libc.so.6: version `GLIBC_2.38' not found\u{1b}[0m";
        for (outcome, fix) in [
            (Outcome::ExitCode { code: 1 }, "[agent] command"),
            (Outcome::Signal { signal: 11 }, "[agent] command"),
            (Outcome::Signal { signal: 9 }, "memory"),
            (Outcome::InitTimeout, "timeouts.init"),
            (Outcome::TimedOut, "login"),
            (Outcome::BadOutput { why: FailureKind::NoJson }, "[agent] command"),
        ] {
            let end = SessionEnd { stderr_tail: words.into(), ..SessionEnd::empty(outcome) };
            let text = program_text(&end, AgentKind::Claude, &config);
            assert!(text.contains("GLIBC_2.38") && text.contains(fix), "{text}");
            assert!(text.contains("\"claude\"") && !text.contains('\u{1b}'), "{text}");
        }
    }
}
