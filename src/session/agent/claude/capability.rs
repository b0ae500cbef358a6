//! Does the installed CLI fit: its version, its flags, its credential?
//!
//! Pure: `doctor` runs `--version` and `--help` and hands their output in.

use std::fmt;

use crate::settings::{AgentAuth, Config};

/// The version everything here was measured on.
pub const MEASURED_VERSION: &str = "2.1.325";

/// Flags that `--help` names. Some that work are hidden from it (`--max-turns`,
/// `--system-prompt-file`) and cannot be checked this way.
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

/// Variables whose value `--bare` takes for a credential.
const KEY_VARIABLES: [&str; 2] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"];

/// Something that will go wrong, with its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The output of `--version` is not that of the CLI.
    NotTheCli {
        /// What it said.
        said: String,
    },
    /// Older than what was measured.
    Older {
        /// The installed version.
        found: String,
    },
    /// Flags that heartbeat uses are not there.
    MissingFlags {
        /// Which.
        flags: Vec<&'static str>,
    },
    /// The credential's variable is not set.
    NoCredential {
        /// Which.
        variable: String,
    },
    /// A subscription's token does not work in the lean mode that `auth = "api-key"` uses.
    LoginTokenInKeyMode {
        /// Its variable.
        variable: String,
    },
    /// `auth = "login"`, and there is neither a token nor a login on disk.
    NoLogin,
}

impl Problem {
    /// Does it keep sessions from working, or is it only a reason for care?
    pub const fn is_fatal(&self) -> bool {
        !matches!(self, Self::Older { .. })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTheCli { said } => write!(
                f,
                "agent.command does not behave like the Claude Code CLI (it prints {said:?}); set \
                 it to the command that starts the CLI"
            ),
            Self::Older { found } => write!(
                f,
                "version {found} is older than {MEASURED_VERSION}, which heartbeat was tested \
                 with; update it with `claude update` or your package manager"
            ),
            Self::MissingFlags { flags } => write!(
                f,
                "this version lacks {}; update it to {MEASURED_VERSION} or later",
                flags.join(", ")
            ),
            Self::NoCredential { variable } => write!(
                f,
                "{variable} is not set; set it, name another variable in agent.credential_env, \
                 or use agent.auth = \"login\""
            ),
            Self::LoginTokenInKeyMode { variable } => write!(
                f,
                "{variable} holds a subscription's token, which does not work with \
                 agent.auth = \"api-key\"; set agent.auth = \"login\""
            ),
            Self::NoLogin => write!(
                f,
                "there is no login; run `claude login` as this user, or set \
                 CLAUDE_CODE_OAUTH_TOKEN (from `claude setup-token`) and name it in \
                 agent.credential_env"
            ),
        }
    }
}

/// What `doctor` has found out about the agent.
#[derive(Debug, Clone, Copy)]
pub struct Findings<'a> {
    /// Output of `--version`.
    pub version: &'a str,
    /// Output of `--help`.
    pub help: &'a str,
    /// Is the variable in `agent.credential_env` set?
    pub has_credential: bool,
    /// Is there a login on disk?
    pub has_login: bool,
}

/// Everything that does not fit; empty is good.
pub fn problems(config: &Config, findings: Findings<'_>) -> Vec<Problem> {
    // The scripted agent needs nothing.
    if findings.version.contains("heartbeat simulate agent") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    match version_of(findings.version) {
        None => {
            let said =
                findings.version.lines().next().unwrap_or_default().chars().take(80).collect();
            problems.push(Problem::NotTheCli { said });
        }
        Some(version) if numbers(version) < numbers(MEASURED_VERSION) => {
            problems.push(Problem::Older { found: version.to_owned() });
        }
        Some(_) => {}
    }
    let flags = missing_flags(config, findings.help);
    if !flags.is_empty() {
        problems.push(Problem::MissingFlags { flags });
    }
    problems.extend(credential(config, findings));
    problems
}

/// The version in the CLI's answer to `--version`.
pub fn version_of(output: &str) -> Option<&str> {
    let word = output.split_whitespace().next()?;
    let plain = word.split('.').count() == 3 && numbers(word).len() == 3;
    (plain && output.contains("Claude Code")).then_some(word)
}

fn numbers(version: &str) -> Vec<u64> {
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}

fn missing_flags(config: &Config, help: &str) -> Vec<&'static str> {
    let words: Vec<&str> = help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
    let bare = (config.agent.auth == AgentAuth::ApiKey).then_some("--bare");
    LISTED_FLAGS.into_iter().chain(bare).filter(|flag| !words.contains(flag)).collect()
}

fn credential(config: &Config, findings: Findings<'_>) -> Option<Problem> {
    let variable = config.agent.credential_env.clone();
    let is_key = KEY_VARIABLES.contains(&variable.as_str());
    match (config.agent.auth, findings.has_credential) {
        (AgentAuth::ApiKey, _) if variable == "CLAUDE_CODE_OAUTH_TOKEN" => {
            Some(Problem::LoginTokenInKeyMode { variable })
        }
        (AgentAuth::ApiKey, false) => Some(Problem::NoCredential { variable }),
        (AgentAuth::Login, has) if !findings.has_login && (is_key || !has) => {
            Some(Problem::NoLogin)
        }
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
        let findings = Findings { version, help, has_credential: credential, has_login: login };
        problems(config, findings)
    }

    #[test]
    fn the_measured_version_with_a_key_is_fine() {
        let config = config(AgentAuth::ApiKey, "ANTHROPIC_API_KEY");
        assert_eq!(found(&config, "2.1.325 (Claude Code)\n", &help(), true, false), []);
        assert_eq!(found(&config, "2.2.0 (Claude Code)\n", &help(), true, false), []);
    }

    #[test]
    fn another_program_and_an_older_version_are_told_apart() {
        let config = config(AgentAuth::ApiKey, "ANTHROPIC_API_KEY");
        let older = found(&config, "2.1.9 (Claude Code)", &help(), true, false);
        assert_eq!(older, [Problem::Older { found: "2.1.9".into() }]);
        assert!(!older[0].is_fatal());
        let other = found(&config, "GNU bash 5.2", &help(), true, false);
        assert_eq!(other, [Problem::NotTheCli { said: "GNU bash 5.2".into() }]);
    }

    #[test]
    fn flags_are_looked_for_as_whole_words() {
        let config = config(AgentAuth::ApiKey, "ANTHROPIC_API_KEY");
        let help = help().replace("--tools", "--toolset").replace("--bare", "--barefoot");
        let missing = Problem::MissingFlags { flags: vec!["--tools", "--bare"] };
        assert_eq!(found(&config, "2.1.325 (Claude Code)", &help, true, false), [missing]);
    }

    #[test]
    fn the_credential_has_to_fit_the_mode() {
        let version = "2.1.325 (Claude Code)";
        let key = config(AgentAuth::ApiKey, "ANTHROPIC_API_KEY");
        let no_key = Problem::NoCredential { variable: "ANTHROPIC_API_KEY".into() };
        assert_eq!(found(&key, version, &help(), false, true), [no_key]);
        let token = config(AgentAuth::ApiKey, "CLAUDE_CODE_OAUTH_TOKEN");
        assert!(matches!(
            found(&token, version, &help(), true, true)[..],
            [Problem::LoginTokenInKeyMode { .. }]
        ));
        let login = config(AgentAuth::Login, "ANTHROPIC_API_KEY");
        assert_eq!(found(&login, version, &help(), true, false), [Problem::NoLogin]);
        assert_eq!(found(&login, version, &help(), false, true), []);
        let login = config(AgentAuth::Login, "CLAUDE_CODE_OAUTH_TOKEN");
        assert_eq!(found(&login, version, &help(), true, false), []);
    }

    #[test]
    fn the_scripted_agent_needs_nothing() {
        let config = config(AgentAuth::ApiKey, "ANTHROPIC_API_KEY");
        assert_eq!(found(&config, "2.1.325 (heartbeat simulate agent)", "", false, false), []);
    }
}
