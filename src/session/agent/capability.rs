//! Checks the installed CLI: version, flags, login. Pure: `doctor` runs the program and passes in
//! its output.

use std::ffi::OsString;
use std::path::Path;

use super::{Task, claude, codex, copilot};
use crate::settings::{AgentKind, Config};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    Program,
    Login,
}

/// A problem of the installation, with its fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub about: About,
    /// Whether sessions fail; otherwise it is a warning.
    pub fatal: bool,
    pub cause: String,
    pub fix: String,
}

impl Problem {
    /// A fatal problem with the program.
    pub fn program(cause: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { about: About::Program, fatal: true, cause: cause.into(), fix: fix.into() }
    }

    /// A warning.
    pub fn warning(cause: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { fatal: false, ..Self::program(cause, fix) }
    }

    /// A fatal problem with the credential.
    pub fn login(cause: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { about: About::Login, ..Self::program(cause, fix) }
    }
}

/// An invocation of the program that `doctor` makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub args: Vec<OsString>,
    /// In addition to `PATH`, `HOME` and `LANG`.
    pub env: Vec<(OsString, OsString)>,
}

impl Question {
    pub fn new(words: &[&str]) -> Self {
        Self { args: words.iter().map(OsString::from).collect(), env: Vec::new() }
    }
}

/// What `doctor` found out about an agent.
#[derive(Debug, Clone, Copy)]
pub struct Findings<'a> {
    /// The program's output for each question, or the error.
    pub answers: &'a [Result<String, String>],
    /// Whether the credential's variable is set.
    pub has_credential: bool,
    /// Whether there is a login on disk.
    pub has_login: bool,
}

impl Findings<'_> {
    /// The output for a question; empty if it failed.
    pub fn answer(&self, number: usize) -> &str {
        self.answers.get(number).and_then(|answer| answer.as_deref().ok()).unwrap_or_default()
    }
}

/// Invocations to make; the first one prints the version.
pub fn questions(kind: AgentKind, task: &Task, kept: &Path) -> Vec<Question> {
    match kind {
        AgentKind::Claude => claude::capability::questions(),
        AgentKind::Codex => codex::capability::questions(task),
        AgentKind::Copilot => copilot::capability::questions(kept),
    }
}

/// All problems found; empty if there are none.
pub fn problems(kind: AgentKind, config: &Config, findings: Findings<'_>) -> Vec<Problem> {
    // The scripted agent has no requirements.
    if findings.answer(0).contains("heartbeat simulate agent") {
        return Vec::new();
    }
    match kind {
        AgentKind::Claude => claude::capability::problems(config, findings),
        AgentKind::Codex => codex::capability::problems(config, findings),
        AgentKind::Copilot => copilot::capability::problems(config, findings),
    }
}

/// The command that installs it.
pub const fn install(kind: AgentKind) -> &'static str {
    match kind {
        AgentKind::Claude => "npm install -g @anthropic-ai/claude-code",
        AgentKind::Codex => "npm install -g @openai/codex",
        AgentKind::Copilot => "npm install -g @github/copilot",
    }
}

/// Checks the version: whether it is this CLI, and whether it is too old.
pub fn version_problem(
    kind: AgentKind,
    said: &str,
    found: Option<&str>,
    measured: &str,
) -> Option<Problem> {
    let title = kind.title();
    let Some(found) = found else {
        let said: String = said.lines().next().unwrap_or_default().chars().take(80).collect();
        return Some(Problem::program(
            format!(
                "{}.command does not behave like the {title} CLI (it prints {said:?})",
                kind.section()
            ),
            "set it to the command that starts the CLI",
        ));
    };
    (numbers(found) < numbers(measured)).then(|| {
        Problem::warning(
            format!("version {found} is older than {measured}, which heartbeat was tested with"),
            format!("update it with your package manager ({})", install(kind)),
        )
    })
}

pub fn no_credential(kind: AgentKind, variable: &str) -> Problem {
    Problem::login(
        format!("{variable} is not set"),
        format!("set it, or name another variable in {}.credential_env", kind.section()),
    )
}

/// The first word that is a version of three numbers.
pub fn version_in(text: &str) -> Option<&str> {
    let plain = |word: &&str| word.split('.').count() == 3 && numbers(word).len() == 3;
    text.split_whitespace().map(|word| word.trim_end_matches('.')).find(plain)
}

fn numbers(version: &str) -> Vec<u64> {
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}

/// Words of `wanted` that are not in the text as whole words.
pub fn missing<'a>(text: &str, wanted: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let of_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let words: Vec<&str> = text.split(|c: char| !of_word(c)).collect();
    wanted.into_iter().filter(|word| !words.contains(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripted_agent_needs_nothing() {
        let config: Config = toml::from_str(crate::config::DEFAULT_TOML).unwrap();
        let answers = [Ok("2.1.325 (heartbeat simulate agent)".to_owned())];
        let findings = Findings { answers: &answers, has_credential: false, has_login: false };
        for kind in AgentKind::ALL {
            assert_eq!(problems(kind, &config, findings), []);
        }
    }
}
