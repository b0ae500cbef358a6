//! A session that could not work because of a setting: which one, and what to do about it.
//!
//! Every other session would end the same way, so the run ends too. Nothing counts against the
//! items, and the next run tries again: whoever corrects the setting has nothing else to do.

use super::{Job, Run, RunError};
use crate::event::Reason;
use crate::model::{FailureKind, Outcome, SessionEnd, Stage};
use crate::report::lines::word;
use crate::settings::{AgentAuth, Config};

impl Run {
    /// Remembers what a session has shown about the agent's configuration.
    pub(super) async fn note_agent(&self, job: &Job, end: &SessionEnd) -> Result<(), RunError> {
        let fault = setting_to_correct(&end.outcome, job.stage, &self.config);
        match &fault {
            Some(fault) => {
                let said = end.stderr_tail.trim().lines().next_back().unwrap_or_default();
                tracing::error!(stage = %job.stage, %fault, said, "the agent cannot be used");
                // The first to find it is the one to tell.
                if self.agent_fault.set(fault.clone()).is_ok() {
                    self.refuse(job.item.clone(), Reason::AgentConfig, fault.clone());
                }
            }
            // Only an answer of the model shows that the agent works.
            None if !end.outcome.is_success() => return Ok(()),
            None => {}
        }
        Ok(self.journal.provider().note_agent_fault(fault).await?)
    }

    /// The end of the run, if a session has shown that no session can work.
    pub(super) fn agent_is_usable(&self) -> Result<(), RunError> {
        match self.agent_fault.get() {
            Some(fault) => Err(RunError::AgentConfig(fault.clone())),
            None => Ok(()),
        }
    }
}

/// The setting behind an outcome, in a sentence for whoever has to correct it.
fn setting_to_correct(outcome: &Outcome, stage: Stage, config: &Config) -> Option<String> {
    let (section, model, fallback) = match stage {
        Stage::Triage => ("triage", &config.triage.model, ""),
        Stage::Deep => ("analyze", &config.analyze.model, config.analyze.fallback_model.as_str()),
    };
    let why = match outcome {
        outcome if !outcome.is_configuration() => return None,
        Outcome::AgentError { why } | Outcome::SpawnFailed { why } => *why,
        _ => return None,
    };
    let command = config.agent.command.join(" ");
    Some(match why {
        FailureKind::ModelNotFound => {
            let second = if fallback.is_empty() { "" } else { " or fallback_model" };
            format!("the provider has no model {model:?}: correct [{section}] model{second}")
        }
        FailureKind::BadSetting => format!(
            "the provider rejects a setting of every {stage} request: correct [{section}] model and \
             its settings, or the extra arguments in [agent] command"
        ),
        FailureKind::CommandLine => format!(
            "{command:?} rejects its command line: correct the extra arguments in [agent] command, \
             or install a newer agent; `heartbeat doctor` checks it"
        ),
        _ => format!(
            "cannot start {command:?} ({}): correct [agent] command; `heartbeat doctor` checks it",
            word(&why)
        ),
    })
}

/// Why the provider refuses work; with the setting to look at, where it is one.
pub(super) fn provider_reason(why: FailureKind, config: &Config) -> String {
    match (why, config.agent.auth) {
        (FailureKind::Authentication, AgentAuth::ApiKey) => {
            format!("authentication: correct the key in {}", config.agent.credential_env)
        }
        (FailureKind::Authentication, AgentAuth::Login) => {
            "authentication: log the agent in again, or correct [agent] credential_env".to_owned()
        }
        _ => word(&why),
    }
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
            (spawn(FailureKind::CommandLine), Stage::Deep, ["claude", "[agent] command"]),
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
