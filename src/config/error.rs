//! Everything that can be wrong with a configuration, each as a paragraph with cause and fix.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Where a value came from. The order of the variants is the order of precedence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum Origin {
    /// The embedded default file.
    Default,
    /// The user's file.
    File {
        /// Which file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        variable: String,
    },
    /// A flag on the command line.
    Flag {
        /// As the user writes it, such as `--max-sessions`.
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

/// The name nearest to what was written, if one is near.
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

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A file that was asked for does not exist.
    #[error(
        "{}: no such file (named by {asked_by}); create it with `heartbeat init`, or name \
         another", file.display()
    )]
    FileMissing { file: PathBuf, asked_by: &'static str },
    /// A file is there and cannot be read.
    #[error("{}: cannot read the file ({reason}); {fix}", file.display())]
    FileUnreadable { file: PathBuf, reason: String, fix: &'static str },
    /// A file is no TOML.
    #[error("{place}: invalid TOML: {reason}")]
    Malformed { place: Origin, reason: String },
    /// A section there is not.
    #[error("{place}: unknown section `[{section}]`{suggestion}")]
    UnknownSection { place: Origin, section: String, suggestion: Suggestion },
    /// A key there is not.
    #[error("{place}: unknown key `{key}`{suggestion}")]
    UnknownKey { place: Origin, key: String, suggestion: Suggestion },
    /// A key named as if a secret were written there.
    #[error(
        "{place}: `{key}` looks like a secret, and this file must not contain secrets; name where \
         it is stored instead: token_env (a variable's name), token_file or token_command"
    )]
    SecretKey { place: Origin, key: String },
    /// A section that is something else.
    #[error("{place}: `{section}` is a section; write `[{section}]` and its keys below it")]
    NotASection { place: Origin, section: String },
    /// A list that is something else.
    #[error(
        "{place}: `{list}` is a list; write `[[{list}]]` and its keys below it, once for each entry"
    )]
    NotAList { place: Origin, list: String },
    /// A variable of ours that means nothing.
    #[error(
        "environment variable {variable}: unknown setting (the form is HEARTBEAT_SECTION__KEY, \
         with two underscores after the section){suggestion}"
    )]
    UnknownVariable { variable: String, suggestion: Suggestion },
    /// A value of the wrong type, form or size.
    #[error("{place}: {key} = {value} is not allowed: {allowed}")]
    WrongValue { place: Origin, key: String, value: String, allowed: String },
    /// Two values that do not fit together.
    #[error("{place}: {key} = {value} conflicts with {others}: {reason}")]
    Contradiction { place: Origin, key: String, value: String, others: String, reason: String },
    /// A credential where none belongs. The value is not repeated.
    #[error(
        "{place}: this looks like {kind}, and this file must not contain secrets; remove it (and revoke it if the file was shared), and name where it is stored instead: token_env (a \
         variable's name), token_file or token_command"
    )]
    Secret { place: Origin, kind: &'static str },
    /// A value that a run cannot do without.
    #[error("{key} is empty, but a run needs it: {reason}")]
    Needed { key: String, reason: &'static str },
}

impl Problem {
    /// Line and column in the file; what is wrong elsewhere comes after.
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
            | Self::UnknownVariable { .. }
            | Self::Needed { .. } => (usize::MAX, 0),
        }
    }
}

/// What is wrong with a configuration: all of it, not only the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    /// The exit code of a program that stops for this: `EX_CONFIG`.
    pub const EXIT_CODE: u8 = 78;

    /// `Ok` if there is nothing wrong.
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
