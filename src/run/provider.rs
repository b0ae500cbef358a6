//! The gate of the model providers: no session starts while its agent's provider is down, rejects
//! the credential or has stated a limit, or while the agent's program does not work. After a hold,
//! one cheap probe session with the same model tests whether it answers. Each kind of agent has its
//! own provider and each model its own breaker, independent of the others.
//!
//! Every session's end is evidence about provider and agent (see `blame`). If a setting or the
//! machine made it fail, every other session would end the same way, so the run ends too: the
//! attempt is not counted, and the next run tries again. After the setting is corrected, no further
//! action is needed.

use std::sync::Arc;

use jiff::SignedDuration;

use super::blame::program_text;
use super::launch::claim_for;
use super::{RunContext, RunError};
use crate::breaker::blame::{Suspect, suspect};
use crate::breaker::provider::{
    Hold, HoldKind, ProviderAdmission, ProviderRecord, Report, Request,
};
use crate::dedupe::Queues;
use crate::event::Reason;
use crate::model::text::in_words;
use crate::model::{FailureKind, ItemKey, Outcome, SessionEnd, Stage, Usd};
use crate::ports::LedgerError;
use crate::prompt::Rendered;
use crate::session::{Job, StopHandle};
use crate::settings::{AgentAuth, AgentKind, Config, TriageSettings};
use crate::store::{Claim, StoreError, fault};

/// A run asks no provider whether it can be reached if it answered a session this recently.
const RECENT_ANSWER: SignedDuration = SignedDuration::from_mins(15);
/// Maximum cost of a probe.
const PROBE_COST: Usd = Usd::from_micros(50_000);

pub(super) enum ProviderGate {
    Open,
    /// Another process is probing; worth waiting for.
    Busy(String),
    Closed(Reason, String),
}

/// Checks the gate, and probes the provider if a probe is due.
pub(super) async fn admit(cx: &RunContext, stage: Stage) -> Result<ProviderGate, RunError> {
    let (agent, model) = (cx.config.agent_of(stage), cx.config.model_of(stage).to_owned());
    let secrets = Arc::clone(&cx.edges.secrets);
    let held = cx.store().provider().record(agent).await?.hold_of(&model, cx.now()).is_some();
    let (now, by_hand) = (cx.now(), held && cx.waives_hold(agent, &model));
    let ask = move |record: &mut ProviderRecord| {
        let key = record.fingerprint_key.as_deref();
        let credential = key.and_then(|key| secrets.agent_fingerprint(agent, key));
        record.admit(Request { now, credential: credential.as_deref(), model: &model, by_hand })
    };
    match cx.journal.provider().update(agent, ask).await? {
        ProviderAdmission::Go => Ok(ProviderGate::Open),
        ProviderAdmission::Refused(hold) => Ok(closed(cx, &hold)),
        ProviderAdmission::Probe => probe(cx, stage).await,
    }
}

/// Before anything is paid for: the code base has files, and each provider with pending work can be
/// reached or, if it failed before, answers a probe. Sessions then do not wait for each other.
pub(super) async fn preflight(cx: &RunContext, queues: &Queues) -> Result<(), RunError> {
    let idle = queues.untriaged.is_empty() && queues.triaged.is_empty();
    if idle || cx.stop.requested() {
        return Ok(());
    }
    if let Err(unusable) = cx.edges.code.usable().await {
        let fault = RunError::NoCodeBase(unusable);
        cx.refuse_for(None, &fault);
        return Err(fault);
    }
    if cx.edges.gate.admit().await.is_err() {
        return Ok(());
    }
    let mut asked = None;
    for (stage, waiting) in [(Stage::Triage, &queues.untriaged), (Stage::Deep, &queues.triaged)] {
        let used = Some((cx.config.agent_of(stage), cx.config.model_of(stage)));
        if !waiting.is_empty() && asked != used {
            // The start of a session checks again and reports the reason.
            if matches!(admit(cx, stage).await?, ProviderGate::Open) {
                greet(cx, stage).await?;
            }
            asked = used;
        }
    }
    Ok(())
}

/// Closes the gate of a provider that cannot be reached, unless a session had an answer of late.
async fn greet(cx: &RunContext, stage: Stage) -> Result<(), RunError> {
    let record = cx.store().provider().record(cx.config.agent_of(stage)).await?;
    let age = record.last_answer.map(|at| cx.now().duration_since(at));
    if age.is_none_or(|age| age.is_negative() || age > RECENT_ANSWER) {
        unreachable(cx, stage).await?;
    }
    Ok(())
}

/// The hold of a provider to which there is no way; `None` if there is one, or only a session can
/// tell.
async fn unreachable(cx: &RunContext, stage: Stage) -> Result<Option<Hold>, RunError> {
    let (agent, model) = (cx.config.agent_of(stage), cx.config.model_of(stage).to_owned());
    let Some(why) = cx.edges.sessions.unreachable(agent).await else { return Ok(None) };
    // Asked just now: a person gains nothing by a second time.
    cx.waives_hold(agent, &model);
    let now = cx.now();
    let change = move |record: &mut ProviderRecord| {
        record.model(&model).unreachable(why, now);
        record.hold_of(&model, now)
    };
    Ok(cx.journal.provider().update(agent, change).await?)
}

fn closed(cx: &RunContext, hold: &Hold) -> ProviderGate {
    let (until, why) = (cx.journal.clock().local_time(hold.until), &hold.reason);
    let detail = match hold.kind {
        HoldKind::Probing => {
            return ProviderGate::Busy(format!("the provider is being probed: {why}"));
        }
        HoldKind::Outage => format!("the provider is down: {why}; next attempt at {until}"),
        HoldKind::Limit => format!("the provider is suspended until {until}: {why}"),
        HoldKind::Program => format!("{why}; next attempt at {until}"),
        HoldKind::Credential => {
            format!("the provider refuses the credential: {why}; next attempt at {until}")
        }
    };
    ProviderGate::Closed(reason_of(hold.kind), detail)
}

/// Why items wait during such a hold.
pub(super) const fn reason_of(kind: HoldKind) -> Reason {
    match kind {
        HoldKind::Probing | HoldKind::Outage => Reason::ProviderDown,
        HoldKind::Limit => Reason::ProviderLimit,
        HoldKind::Program => Reason::AgentBroken,
        HoldKind::Credential => Reason::ProviderCredential,
    }
}

/// Settings of a probe: the model of its stage.
fn probe_settings(config: &Config, stage: Stage) -> TriageSettings {
    let own = TriageSettings {
        agent: Some(config.agent_of(stage)),
        max_cost: PROBE_COST,
        ..config.triage.clone()
    };
    match stage {
        Stage::Triage | Stage::Locate => own,
        Stage::Deep => TriageSettings {
            model: config.model_of(stage).to_owned(),
            effort: config.analyze.effort.clone(),
            ..own
        },
    }
}

/// What one cheap session shows about agent and model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Canary {
    Works,
    /// With why, and what to do.
    Fails(HoldKind, String),
    /// It could not run.
    Unknown,
}

/// Runs one minimal session, whatever the state of the gate is.
pub(super) async fn canary(cx: &RunContext, stage: Stage) -> Result<Canary, RunError> {
    let began = cx.now();
    if cx.stop.reason().is_some() {
        return Ok(Canary::Unknown);
    }
    probe(cx, stage).await?;
    let record = cx.store().provider().record(cx.config.agent_of(stage)).await?;
    let model = record.models.get(cx.config.model_of(stage)).cloned().unwrap_or_default();
    let answered = model.last_answer.is_some_and(|at| at >= began);
    Ok(match record.hold_of(cx.config.model_of(stage), cx.now()) {
        Some(hold) => Canary::Fails(hold.kind, hold.reason),
        None if answered && !model.is_open() => Canary::Works,
        None => Canary::Unknown,
    })
}

/// Runs one minimal session, if there is a way to the provider.
async fn probe(cx: &RunContext, stage: Stage) -> Result<ProviderGate, RunError> {
    let agent = cx.config.agent_of(stage);
    if let Some(hold) = unreachable(cx, stage).await? {
        return Ok(closed(cx, &hold));
    }
    let claim = Claim { worst_case: PROBE_COST, ..claim_for(cx, Stage::Triage, Vec::new()) };
    let abandon = async |gate| {
        let now = cx.now();
        cx.journal.provider().update(agent, move |record| record.abandon_probe(now)).await?;
        Ok(gate)
    };
    if let Err(refusal) = cx.journal.claims().take(claim.clone()).await? {
        return abandon(ProviderGate::Closed(Reason::Budget, refusal.to_string())).await;
    }
    let job = probe_job(cx, stage, &claim);
    fault::point();
    let performed = cx.edges.sessions.perform(job, cx.stop.signal().and(&StopHandle::new())).await;
    fault::point();
    match performed {
        Ok(end) => {
            let (now, model) = (cx.now(), cx.config.model_of(stage).to_owned());
            let broken = suspect(&end.outcome, &end.usage) == Suspect::Program;
            let why = broken.then(|| program_text(&end, agent, &cx.config));
            let works = end.outcome.is_success();
            let hold = note(cx, stage, None, &end, move |record| {
                if let Some(why) = why {
                    record.agent_fault = Some(why.clone());
                    record.model(&model).program_failed(why, now);
                } else if works {
                    record.agent_fault = None;
                }
                // A probe that we ended shows nothing.
                record.abandon_probe(now);
                record.hold_of(&model, now)
            });
            let hold = hold.await?;
            cx.journal.results().apply_triage(Some(claim.session), Vec::new()).await?;
            Ok(hold.map_or(ProviderGate::Open, |hold| closed(cx, &hold)))
        }
        Err(full @ (LedgerError::Full { .. } | LedgerError::MachineFull { .. })) => {
            cx.journal.claims().give_back(claim).await?;
            abandon(ProviderGate::Busy(full.to_string())).await
        }
        Err(LedgerError::NotStarted(reason, detail)) => {
            cx.journal.claims().give_back(claim).await?;
            abandon(ProviderGate::Closed(reason, detail)).await
        }
        Err(LedgerError::LeftRunning) => {
            let detail = "a probe is still running on another host".to_owned();
            abandon(ProviderGate::Busy(detail)).await
        }
        Err(error) => Err(StoreError::Ledger(error).into()),
    }
}

fn probe_job(cx: &RunContext, stage: Stage, claim: &Claim) -> Job {
    Job {
        session: claim.session_ref(1),
        prompt: probe_prompt(),
        repository: None,
        beside: Vec::new(),
        triage: Some(probe_settings(&cx.config, stage)),
        analyze: None,
        attached: None,
        examiner: None,
    }
}

fn probe_prompt() -> Rendered {
    Rendered {
        system: "You check that this connection works. Answer with the object {\"ok\": true} and \
                 nothing else."
            .to_owned(),
        user: "Does the connection work?".to_owned(),
        schema: serde_json::json!({
            "type": "object",
            "properties": { "ok": { "type": "boolean" } },
            "required": ["ok"],
            "additionalProperties": false,
        }),
    }
}

/// A session of this stage delivered its result: earlier ones that failed alike mean nothing more.
pub(super) async fn succeeded(cx: &RunContext, stage: Stage) -> Result<(), RunError> {
    let model = cx.config.model_of(stage).to_owned();
    let forget = move |record: &mut ProviderRecord| {
        record.model(&model).alike.remove(stage.into_str());
    };
    Ok(cx.journal.provider().update(cx.config.agent_of(stage), forget).await?)
}

/// Records what a session's end shows about the provider and runs `also` in the same transaction.
pub(super) async fn note<T: Send + 'static>(
    cx: &RunContext,
    stage: Stage,
    item: Option<&ItemKey>,
    end: &SessionEnd,
    also: impl FnOnce(&mut ProviderRecord) -> T + Send + 'static,
) -> Result<T, RunError> {
    let (agent, model) = (cx.config.agent_of(stage), cx.config.model_of(stage).to_owned());
    let (outcome, until, now) = (end.outcome.clone(), end.suspended_until, cx.now());
    let item = item.cloned();
    let said = end.last_words();
    let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
    let reason = match &outcome {
        Outcome::ProviderLimit { why } => {
            format!("{}{said}", provider_reason(*why, agent, &cx.config))
        }
        outcome => format!("{outcome}{said}"),
    };
    let secrets = Arc::clone(&cx.edges.secrets);
    let change = move |record: &mut ProviderRecord| {
        let mut refused = None;
        if let Outcome::ProviderLimit { .. } = outcome {
            let fresh = || uuid::Uuid::now_v7().to_string();
            let key = record.fingerprint_key.get_or_insert_with(fresh);
            refused = secrets.agent_fingerprint(agent, key);
        }
        let credential = refused.as_deref();
        let (outcome, model, item) = (&outcome, model.as_str(), item.as_ref());
        record.note(Report { outcome, until, now, credential, reason, model, item });
        also(record)
    };
    Ok(cx.journal.provider().update(agent, change).await?)
}

/// Fails the run if work was refused because of the credential.
pub(super) async fn ensure_credential(cx: &RunContext) -> Result<(), RunError> {
    let providers = cx.store().provider().all(cx.config.agents()).await?;
    let hold = providers.holds(cx.now()).find(|hold| hold.kind == HoldKind::Credential);
    match hold.filter(|_| cx.journal.view().work > 0) {
        Some(hold) => Err(RunError::AgentCredential(hold.reason)),
        None => Ok(()),
    }
}

pub(super) fn setting_to_correct(
    outcome: &Outcome,
    stage: Stage,
    config: &Config,
) -> Option<String> {
    let kind = config.agent_of(stage);
    let (section, model, fallback) = match stage {
        Stage::Triage | Stage::Locate => ("triage", &config.triage.model, ""),
        Stage::Deep if kind != AgentKind::Claude => ("analyze", &config.analyze.model, ""),
        Stage::Deep => ("analyze", &config.analyze.model, config.analyze.fallback_model.as_str()),
    };
    let why = match outcome {
        outcome if !outcome.is_configuration() => return None,
        Outcome::AgentError { why } | Outcome::SpawnFailed { why } => *why,
        _ => return None,
    };
    let (command, own) = (config.command_of(kind).join(" "), kind.section());
    Some(match why {
        FailureKind::ModelNotFound => {
            let second = if fallback.is_empty() { "" } else { " or fallback_model" };
            format!("the provider has no model {model:?}: correct [{section}] model{second}")
        }
        FailureKind::BadSetting => format!(
            "the provider rejects a setting of every {stage} request: correct [{section}] model and \
             its settings, or the extra arguments in [{own}] command"
        ),
        FailureKind::CommandLine => format!(
            "{command:?} rejects its command line: correct the extra arguments in [{own}] command, \
             or install a newer agent. If it is a script that starts another program, name that \
             program's folder in agent.read_paths: sessions can read nothing else. `heartbeat \
             doctor` checks it"
        ),
        _ => format!(
            "cannot start {command:?} ({}): correct [{own}] command; `heartbeat doctor` checks it",
            in_words(why)
        ),
    })
}

/// Why the provider refuses work, with the setting to check.
fn provider_reason(why: FailureKind, agent: AgentKind, config: &Config) -> String {
    match why {
        FailureKind::Authentication => {}
        FailureKind::Billing => {
            return format!(
                "{}: the account has no credit; add credit at the provider, or use another key",
                in_words(why)
            );
        }
        _ => return in_words(why),
    }
    let fix = match (agent, config.agent.auth) {
        (AgentKind::Claude, AgentAuth::Login) => {
            "log the agent in again, or correct [agent] credential_env".to_owned()
        }
        _ => format!("correct the key in {}", config.credential_env_of(agent)),
    };
    format!("authentication: {fix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_of_the_configuration_names_its_setting() {
        let mut config: Config = toml::from_str(crate::config::DEFAULT_TOML).unwrap();
        config.triage.model = "no-such-model".into();
        let error = |why| Outcome::AgentError { why };
        let spawn = |why| Outcome::SpawnFailed { why };
        for (outcome, stage, parts) in [
            (error(FailureKind::ModelNotFound), Stage::Triage, ["no-such-model", "[triage] model"]),
            (error(FailureKind::ModelNotFound), Stage::Deep, ["sonnet", "fallback_model"]),
            (error(FailureKind::BadSetting), Stage::Deep, ["[analyze] model", "[agent] command"]),
            (spawn(FailureKind::CommandLine), Stage::Deep, ["agent.read_paths", "[agent] command"]),
            (spawn(FailureKind::NotFound), Stage::Triage, ["not found", "[agent] command"]),
        ] {
            assert!(outcome.is_configuration());
            let advice = setting_to_correct(&outcome, stage, &config).unwrap();
            assert!(parts.iter().all(|part| advice.contains(part)), "{advice}");
        }
        for outcome in [Outcome::Completed, error(FailureKind::InvalidRequest), Outcome::TimedOut] {
            assert_eq!(setting_to_correct(&outcome, Stage::Deep, &config), None);
        }
    }
}
