//! Checks the installed CLI: version, features, sandbox, credential.

use super::super::capability::{
    Findings, Problem, Question, missing, no_credential, version_in, version_problem,
};
use super::super::{Task, Trial};
use super::command::{CODEX_HOME, DISABLED, DISABLED_IN_TRIAGE, permissions};
use crate::model::Stage;
use crate::settings::{AgentKind, Config};

/// The version on which the behaviour was measured.
pub const MEASURED_VERSION: &str = "0.166.0";

const FLAGS: [&str; 8] = [
    "--json",
    "--ephemeral",
    "--ignore-user-config",
    "--ignore-rules",
    "--skip-git-repo-check",
    "--output-schema",
    "--disable",
    "--color",
];

/// Output of the sandboxed command if the sandbox works.
const SANDBOX_WORKS: &str = "sandboxed";

const NO_SANDBOX: &str = "its sandbox does not work here, so an analysis could not read any file";
const ALLOW_NAMESPACES: &str = "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, \
     kernel.apparmor_restrict_unprivileged_userns=0), or set analyze.agent to another agent";

/// Runs one command in the sandbox of deep analysis.
pub fn sandbox_trial(task: &Task) -> Trial {
    let otherwise = format!("Codex cannot start: {NO_SANDBOX}; {ALLOW_NAMESPACES}");
    Trial { question: in_sandbox(task), works: SANDBOX_WORKS, otherwise }
}

/// Without the user's settings, as in a session.
fn without_settings(question: Question, task: &Task) -> Question {
    let home = task.scratch.join(CODEX_HOME).into_os_string();
    Question { env: vec![("CODEX_HOME".into(), home)], ..question }
}

fn in_sandbox(task: &Task) -> Question {
    let mut sandbox = vec!["sandbox".to_owned(), "-P".to_owned(), "heartbeat".to_owned()];
    for setting in permissions(task) {
        sandbox.extend(["-c".to_owned(), setting]);
    }
    sandbox.extend(["--", "/bin/echo", SANDBOX_WORKS].map(str::to_owned));
    let words: Vec<&str> = sandbox.iter().map(String::as_str).collect();
    without_settings(Question::new(&words), task)
}

/// Version, flags, features, and one command in the sandbox of deep analysis.
pub fn questions(task: &Task) -> Vec<Question> {
    let asked = [&["--version"][..], &["exec", "--help"], &["features", "list"]].map(Question::new);
    let asked = asked.into_iter().map(|question| without_settings(question, task));
    asked.chain([in_sandbox(task)]).collect()
}

/// All problems found; empty if there are none.
pub fn problems(config: &Config, findings: Findings<'_>) -> Vec<Problem> {
    let said = findings.answer(0);
    let version = said.contains("codex").then(|| version_in(said)).flatten();
    let mut problems: Vec<Problem> =
        version_problem(AgentKind::Codex, said, version, MEASURED_VERSION).into_iter().collect();
    let update = format!("update it to {MEASURED_VERSION}, which heartbeat was tested with");
    let flags = missing(findings.answer(1), FLAGS);
    if !flags.is_empty() {
        problems
            .push(Problem::program(format!("this version lacks {}", flags.join(", ")), &*update));
    }
    // The CLI rejects the whole command line if it does not know a feature.
    let features = missing(findings.answer(2), DISABLED.into_iter().chain(DISABLED_IN_TRIAGE));
    if !features.is_empty() {
        let cause = format!("this version does not support the features {}", features.join(", "));
        problems.push(Problem::program(cause, update));
    }
    if config.agent_of(Stage::Deep) == AgentKind::Codex {
        problems.extend(sandbox(findings));
    }
    let variable = &config.codex.credential_env;
    if !variable.is_empty() && !findings.has_credential {
        problems.push(no_credential(AgentKind::Codex, variable));
    }
    problems
}

/// The sandbox fails closed: without user namespaces every command of a session fails, but the
/// session succeeds.
fn sandbox(findings: Findings<'_>) -> Option<Problem> {
    let works = findings.answer(3).lines().any(|line| line.trim() == SANDBOX_WORKS);
    let why = match findings.answers.get(3) {
        Some(Err(why)) => why.lines().last().unwrap_or_default().chars().take(200).collect(),
        _ => String::new(),
    };
    (!works).then(|| Problem::program(format!("{NO_SANDBOX}: {why}"), ALLOW_NAMESPACES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(answers: [&str; 4], credential: bool) -> Vec<Problem> {
        let config: Config = toml::from_str(crate::config::DEFAULT_TOML).unwrap();
        let config = Config {
            agent: crate::settings::AgentSettings { kind: AgentKind::Codex, ..config.agent },
            ..config
        };
        let answers = answers.map(|answer| match answer.strip_prefix("failed: ") {
            Some(why) => Err(why.to_owned()),
            None => Ok(answer.to_owned()),
        });
        problems(
            &config,
            Findings { answers: &answers, has_credential: credential, has_login: false },
        )
    }

    fn features() -> String {
        DISABLED
            .iter()
            .chain(&DISABLED_IN_TRIAGE)
            .map(|f| format!("{f}   stable  true\n"))
            .collect()
    }

    #[test]
    fn the_measured_version_with_a_sandbox_and_a_key_is_fine() {
        let help = FLAGS.join(" ");
        let answers = ["codex-cli 0.166.0\n", &help, &features(), "sandboxed\n"];
        assert_eq!(found(answers, true), []);
        let keyless = found(answers, false);
        assert!(
            matches!(&keyless[..], [one] if one.cause.contains("OPENAI_API_KEY")),
            "{keyless:?}"
        );
    }

    #[test]
    fn a_sandbox_that_fails_and_a_feature_that_went_are_fatal() {
        let help = FLAGS.join(" ");
        let no_sandbox =
            ["codex-cli 0.166.0", &*help, &features(), "failed: bwrap: no permissions"];
        let problems = found(no_sandbox, true);
        assert!(problems.len() == 1 && problems[0].fatal, "{problems:?}");
        assert!(problems[0].cause.contains("bwrap: no permissions"), "{problems:?}");
        let gone = features().replace("goals ", "objectives ");
        let problems = found(["codex-cli 0.170.0", &help, &gone, "sandboxed"], true);
        assert!(problems.len() == 1 && problems[0].cause.ends_with("goals"), "{problems:?}");
        let other = found(["GNU bash 5.2.1", &help, &features(), "sandboxed"], true);
        assert!(other[0].fatal && other[0].cause.contains("codex.command"), "{other:?}");
    }
}
