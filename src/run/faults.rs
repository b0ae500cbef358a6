//! Sessions that failed because of a setting or the machine, and what to do about it.
//!
//! Every other session would end the same way, so the run ends too. The attempt is not counted, and
//! the next run tries again: whoever corrects the setting has nothing else to do.

use crate::model::text::in_words;
use crate::model::{FailureKind, Outcome, SessionEnd, Stage};
use crate::settings::{AgentAuth, AgentKind, Config};

/// Of an agent's standard error, in characters.
const LONGEST_LINE: usize = 400;

/// The last line of the agent's standard error.
pub(super) fn last_line(end: &SessionEnd) -> String {
    end.stderr_tail.last_line(LONGEST_LINE)
}

/// Names the setting that has to be corrected.
pub(super) fn setting_to_correct(
    outcome: &Outcome,
    stage: Stage,
    config: &Config,
) -> Option<String> {
    let kind = config.agent_of(stage);
    let (section, model, fallback) = match stage {
        Stage::Triage => ("triage", &config.triage.model, ""),
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
             or install a newer agent; `heartbeat doctor` checks it"
        ),
        _ => format!(
            "cannot start {command:?} ({}): correct [{own}] command; `heartbeat doctor` checks it",
            in_words(why)
        ),
    })
}

/// Why the provider refuses work, with the setting to look at.
pub(super) fn provider_reason(why: FailureKind, agent: AgentKind, config: &Config) -> String {
    if why != FailureKind::Authentication {
        return in_words(why);
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
