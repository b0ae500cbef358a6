//! Everything that can be wrong with a configuration; each message has cause and fix.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Where a value came from. The variants are in order of precedence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum Origin {
    /// The embedded default file.
    Default,
    File {
        file: PathBuf,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
    },
    Environment {
        variable: String,
    },
    Flag {
        /// As on the command line, such as `--max-sessions`.
        flag: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("built-in default"),
            Self::File { file, line, column } => {
                write!(f, "{}:{line}:{column}", file.display())
            }
            Self::Environment { variable } => write!(f, "environment variable {variable}"),
            Self::Flag { flag } => write!(f, "flag {flag}"),
        }
    }
}

/// The most similar known name, if one is similar enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion(pub Option<String>);

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => write!(f, "; did you mean `{name}`?"),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A requested file does not exist.
    #[error(
        "{}: no such file (named by {asked_by}); create it with `heartbeat init`, or name \
         another", file.display()
    )]
    FileMissing { file: PathBuf, asked_by: &'static str },
    /// The file exists but cannot be read.
    #[error("{}: cannot read the file ({reason}); {fix}", file.display())]
    FileUnreadable { file: PathBuf, reason: String, fix: &'static str },
    /// A file that was found, not named, and that somebody else could have written.
    #[error(
        "{}: not used, because {reason}, and a configuration names commands that heartbeat runs; \
         {fix}, or run `heartbeat trust {}` if you have read it", file.display(), file.display()
    )]
    Foreign { file: PathBuf, reason: String, fix: String },
    #[error("{place}: invalid TOML: {reason}")]
    Malformed { place: Origin, reason: String },
    #[error("{place}: unknown section `[{section}]`{suggestion}")]
    UnknownSection { place: Origin, section: String, suggestion: Suggestion },
    #[error("{place}: unknown key `{key}`{suggestion}")]
    UnknownKey { place: Origin, key: String, suggestion: Suggestion },
    /// A key whose name suggests that its value is a secret.
    #[error(
        "{place}: `{key}` looks like a secret, and this file must not contain secrets; name where \
         it is stored instead: token_env (a variable's name), token_file or token_command"
    )]
    SecretKey { place: Origin, key: String },
    /// A value where a section is expected.
    #[error("{place}: `{section}` is a section; write `[{section}]` and its keys below it")]
    NotASection { place: Origin, section: String },
    /// A value where a list is expected.
    #[error(
        "{place}: `{list}` is a list; write `[[{list}]]` and its keys below it, once for each entry"
    )]
    NotAList { place: Origin, list: String },
    /// An unknown variable with our prefix.
    #[error(
        "environment variable {variable}: unknown setting (the form is HEARTBEAT_SECTION__KEY, \
         with two underscores after the section){suggestion}"
    )]
    UnknownVariable { variable: String, suggestion: Suggestion },
    /// A value of the wrong type, format or size.
    #[error("{place}: {key} = {value} is not allowed: {allowed}")]
    WrongValue { place: Origin, key: String, value: String, allowed: String },
    #[error("{place}: {key} = {value} conflicts with {others}: {reason}")]
    Contradiction { place: Origin, key: String, value: String, others: String, reason: String },
    /// A credential in the file. The value is not repeated.
    #[error(
        "{place}: this looks like {kind}, and this file must not contain secrets; remove it (and \
         revoke it if the file was shared), and name where it is stored instead: token_env (a \
         variable's name), token_file or token_command"
    )]
    Secret { place: Origin, kind: &'static str },
    /// A value that a run requires.
    #[error("{key} is empty, but a run needs it: {reason}")]
    Needed { key: String, reason: &'static str },
}

impl Problem {
    /// Sort key: line and column in the file; problems outside the file come last.
    pub(super) fn reading_order(&self) -> (usize, usize) {
        match self {
            Self::Malformed { place, .. }
            | Self::UnknownSection { place, .. }
            | Self::UnknownKey { place, .. }
            | Self::SecretKey { place, .. }
            | Self::NotASection { place, .. }
            | Self::NotAList { place, .. }
            | Self::WrongValue { place, .. }
            | Self::Contradiction { place, .. }
            | Self::Secret { place, .. } => match place {
                Origin::File { line, column, .. } => (*line, *column),
                _ => (usize::MAX, 0),
            },
            Self::FileMissing { .. }
            | Self::FileUnreadable { .. }
            | Self::Foreign { .. }
            | Self::UnknownVariable { .. }
            | Self::Needed { .. } => (usize::MAX, 0),
        }
    }
}

/// All problems of a configuration, not only the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub problems: Vec<Problem>,
}

impl ConfigError {
    pub(super) fn check(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}
