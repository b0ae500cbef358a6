//! Checks the installed CLI: version, flags, credential.

use std::path::Path;

use super::super::capability::{
    Findings, Problem, Question, missing, no_credential, version_in, version_problem,
};
use super::command::cache;
use crate::settings::{AgentKind, Config, CopilotProvider};

/// The version on which the behaviour was measured.
pub const MEASURED_VERSION: &str = "1.0.102";

const FLAGS: [&str; 14] = [
    "--available-tools",
    "--disable-builtin-mcps",
    "--disable-client-telemetry",
    "--disallow-temp-dir",
    "--log-level",
    "--no-ask-user",
    "--no-auto-update",
    "--no-color",
    "--no-custom-instructions",
    "--no-remote",
    "--output-format",
    "--session-id",
    "--stream",
    "--usage-output-file",
];

/// Version and flags, with the cache of its sessions.
pub fn questions(kept: &Path) -> Vec<Question> {
    let cache = cache(kept);
    vec![warming(&cache, "--version"), warming(&cache, "--help")]
}

/// A question to the program with its cache, into which it unpacks itself if it is empty.
pub fn warming(cache: &Path, word: &str) -> Question {
    let env = vec![
        ("XDG_CACHE_HOME".into(), cache.as_os_str().to_owned()),
        ("COPILOT_AUTO_UPDATE".into(), "false".into()),
    ];
    Question { env, ..Question::new(&[word]) }
}

/// All problems found; empty if there are none.
pub fn problems(config: &Config, findings: Findings<'_>) -> Vec<Problem> {
    let said = findings.answer(0);
    let version = said.contains("Copilot CLI").then(|| version_in(said)).flatten();
    let mut problems: Vec<Problem> =
        version_problem(AgentKind::Copilot, said, version, MEASURED_VERSION).into_iter().collect();
    let flags = missing(findings.answer(1), FLAGS);
    if !flags.is_empty() {
        problems.push(Problem::program(
            format!("this version lacks {}", flags.join(", ")),
            format!("update it to {MEASURED_VERSION} or later"),
        ));
    }
    let copilot = &config.copilot;
    let by_subscription = copilot.provider == CopilotProvider::Github;
    if !findings.has_credential && (by_subscription || !copilot.credential_env.is_empty()) {
        problems.push(no_credential(AgentKind::Copilot, &copilot.credential_env));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_version_is_fine_and_a_lost_flag_is_not() {
        let config: Config = toml::from_str(crate::config::DEFAULT_TOML).unwrap();
        let version = "GitHub Copilot CLI 1.0.102.\nRun 'copilot update' to check for updates.";
        let found = |version: &str, help: String, has_credential| {
            let answers = [Ok(version.to_owned()), Ok(help)];
            problems(&config, Findings { answers: &answers, has_credential, has_login: false })
        };
        assert_eq!(found(version, FLAGS.join("\n"), true), []);
        let unsafe_now = found(version, FLAGS.join("\n").replace("--available-tools", ""), true);
        assert!(unsafe_now[0].fatal && unsafe_now[0].cause.contains("--available-tools"));
        let older = found("GitHub Copilot CLI 0.9.1.", FLAGS.join("\n"), true);
        assert!(older.len() == 1 && !older[0].fatal, "{older:?}");
        assert!(found(version, FLAGS.join("\n"), false)[0].fatal);
    }
}
