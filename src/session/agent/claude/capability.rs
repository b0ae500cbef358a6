//! Checks the installed CLI: version, flags, credential.

use super::super::capability::{Findings, Problem, Question, missing, version_in, version_problem};
use crate::settings::{AgentAuth, AgentKind, Config};

/// The version on which the behaviour was measured.
pub const MEASURED_VERSION: &str = "2.1.325";

/// Flags listed by `--help`. Hidden ones (`--max-turns`, `--system-prompt-file`) cannot be checked
/// this way.
const LISTED_FLAGS: [&str; 15] = [
    "--disable-slash-commands",
    "--effort",
    "--fallback-model",
    "--include-partial-messages",
    "--json-schema",
    "--max-budget-usd",
    "--no-session-persistence",
    "--output-format",
    "--permission-mode",
    "--permission-prompts",
    "--restricted",
    "--session-id",
    "--setting-sources",
    "--strict-mcp-config",
    "--tools",
];

/// Variables that `--bare` accepts as a credential.
const KEY_VARIABLES: [&str; 2] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"];

pub fn questions() -> Vec<Question> {
    let quiet = ["DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING"];
    let env: Vec<_> = quiet.iter().map(|name| (name.into(), "1".into())).collect();
    ["--version", "--help"]
        .map(|word| Question { env: env.clone(), ..Question::new(&[word]) })
        .into()
}

/// All problems found; empty if there are none.
pub fn problems(config: &Config, findings: Findings<'_>) -> Vec<Problem> {
    let said = findings.answer(0);
    let version = version_problem(AgentKind::Claude, said, version_of(said), MEASURED_VERSION);
    let mut problems: Vec<Problem> = version.into_iter().collect();
    let bare = (config.agent.auth == AgentAuth::ApiKey).then_some("--bare");
    let flags = missing(findings.answer(1), LISTED_FLAGS.into_iter().chain(bare));
    if !flags.is_empty() {
        problems.push(Problem::program(
            format!("this version lacks {}", flags.join(", ")),
            format!("update it to {MEASURED_VERSION} or later"),
        ));
    }
    problems.extend(credential(config, findings));
    problems
}

/// The version in the CLI's answer to `--version`.
pub fn version_of(output: &str) -> Option<&str> {
    output.contains("Claude Code").then(|| version_in(output)).flatten()
}

fn credential(config: &Config, findings: Findings<'_>) -> Option<Problem> {
    let variable = config.agent.credential_env.as_str();
    let is_key = KEY_VARIABLES.contains(&variable);
    match (config.agent.auth, findings.has_credential) {
        (AgentAuth::ApiKey, _) if variable == "CLAUDE_CODE_OAUTH_TOKEN" => Some(Problem::login(
            format!(
                "{variable} holds a subscription's token, which does not work with \
                 agent.auth = \"api-key\""
            ),
            "set agent.auth = \"login\"",
        )),
        (AgentAuth::ApiKey, false) => Some(Problem::login(
            format!("{variable} is not set"),
            "set it, name another variable in agent.credential_env, or use agent.auth = \"login\"",
        )),
        (AgentAuth::Login, has) if !findings.has_login && (is_key || !has) => Some(Problem::login(
            "there is no login",
            "run `claude login` as this user, or set CLAUDE_CODE_OAUTH_TOKEN (from `claude \
             setup-token`) and name it in agent.credential_env",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(auth: AgentAuth, variable: &str) -> Config {
        let mut config: Config = toml::from_str(crate::config::DEFAULT_TOML).unwrap();
        config.agent.auth = auth;
        config.agent.credential_env = variable.to_owned();
        config
    }

    fn help() -> String {
        format!("  {}  text\n  --bare  lean", LISTED_FLAGS.join(" <x>  text\n  -q, "))
    }

    fn found(
        config: &Config,
        version: &str,
        help: &str,
        credential: bool,
        login: bool,
    ) -> Vec<Problem> {
        let answers = [Ok(version.to_owned()), Ok(help.to_owned())];
        problems(
            config,
            Findings { answers: &answers, has_credential: credential, has_login: login },
        )
    }

    #[test]
    fn the_measured_version_with_a_key_is_fine() {
        let config = config(AgentAuth::ApiKey, "ANTHROPIC_API_KEY");
        assert_eq!(found(&config, "2.1.325 (Claude Code)\n", &help(), true, false), []);
        assert_eq!(found(&config, "2.2.0 (Claude Code)\n", &help(), true, false), []);
    }

    #[test]
    fn another_program_and_an_older_version_are_distinguished() {
        let config = config(AgentAuth::ApiKey, "ANTHROPIC_API_KEY");
        let older = found(&config, "2.1.9 (Claude Code)", &help(), true, false);
        assert!(
            older.len() == 1 && !older[0].fatal && older[0].cause.contains("2.1.9"),
            "{older:?}"
        );
        let other = found(&config, "GNU bash 5.2", &help(), true, false);
        assert!(other.len() == 1 && other[0].cause.contains("GNU bash 5.2"), "{other:?}");
    }

    #[test]
    fn flags_are_looked_for_as_whole_words() {
        let config = config(AgentAuth::ApiKey, "ANTHROPIC_API_KEY");
        let help = help().replace("--tools", "--toolset").replace("--bare", "--barefoot");
        let lost = found(&config, "2.1.325 (Claude Code)", &help, true, false);
        assert!(lost.len() == 1 && lost[0].cause.ends_with("--tools, --bare"), "{lost:?}");
    }

    #[test]
    fn the_credential_has_to_fit_the_mode() {
        let version = "2.1.325 (Claude Code)";
        let key = config(AgentAuth::ApiKey, "ANTHROPIC_API_KEY");
        let causes = |config: &Config, credential, login| {
            let problems = found(config, version, &help(), credential, login);
            problems.into_iter().map(|problem| problem.cause).collect::<Vec<_>>()
        };
        assert_eq!(causes(&key, false, true), ["ANTHROPIC_API_KEY is not set"]);
        let token = config(AgentAuth::ApiKey, "CLAUDE_CODE_OAUTH_TOKEN");
        assert!(causes(&token, true, true)[0].contains("a subscription's token"));
        let login = config(AgentAuth::Login, "ANTHROPIC_API_KEY");
        assert_eq!(causes(&login, true, false), ["there is no login"]);
        assert_eq!(found(&login, version, &help(), false, true), []);
        let login = config(AgentAuth::Login, "CLAUDE_CODE_OAUTH_TOKEN");
        assert_eq!(found(&login, version, &help(), true, false), []);
    }
}
