//! Reads a credential from the configured place when it is needed.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;

use crate::exec::{self, ExecError, HelperCommand};
use crate::settings::{AgentKind, Config, Environment, Source, credential_in};

/// A credential is one line; a much longer file or output is something else.
const MAX_CREDENTIAL_BYTES: usize = 64 * 1024;

/// Long enough for a cloud CLI to log in again.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// No message contains what was found.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error(
        "no credential: source.token_env, source.token_file and source.token_command are all \
         empty; set one of them"
    )]
    NotConfigured,
    /// The only configured place is a variable that is not set.
    #[error(
        "no credential: {key} names the variable {variable}, which is not set; set it, or point \
         source.token_file or source.token_command at the token"
    )]
    Unset { key: &'static str, variable: String },
    #[error("no credential: {place} is empty; put the token there")]
    Empty { place: String },
    #[error(
        "no credential: {place} contains whitespace or unexpected characters; it must hold only \
         the token"
    )]
    NotAToken { place: String },
    #[error(
        "no credential: cannot read source.token_file {} ({source}); check the path and that \
         heartbeat's user may read it", file.display()
    )]
    Unreadable { file: PathBuf, source: io::Error },
    /// The file is readable by others.
    #[error(
        "no credential: source.token_file {0} can be read by others (mode {mode:03o}), so it is \
         not used; run `chmod 600 {0}`", file.display()
    )]
    Exposed { file: PathBuf, mode: u32 },
    /// The command returned no token.
    #[error("no credential: source.token_command: {0}; run it by hand to see why")]
    Command(#[from] ExecError),
}

/// The tracker's credential: from the variable if it is set, otherwise the file if configured,
/// otherwise the command.
pub async fn source_credential(
    source: &Source,
    config: &Config,
    environment: &Environment,
) -> Result<SecretString, CredentialError> {
    let has_file = !source.token_file.as_os_str().is_empty();
    let has_command = !source.token_command.is_empty();
    let variable = source.token_env.as_str();
    if !variable.is_empty() {
        match environment.raw(variable) {
            Some(value) if !value.is_empty() => {
                return token(value.as_encoded_bytes(), || format!("the variable {variable}"));
            }
            // The variable has a default name, so an unset variable does not override a file or a
            // command.
            _ if has_file || has_command => {}
            Some(_) => {
                return Err(CredentialError::Empty { place: format!("the variable {variable}") });
            }
            None => {
                let key = "source.token_env";
                return Err(CredentialError::Unset { key, variable: variable.into() });
            }
        }
    }
    if has_file {
        return from_file(&source.token_file);
    }
    if has_command {
        return from_command(source, config, environment).await;
    }
    Err(CredentialError::NotConfigured)
}

/// The token of the HTTP interface; `None` if no variable is configured.
pub fn http_token(
    config: &Config,
    environment: &Environment,
) -> Result<Option<SecretString>, CredentialError> {
    secret_in(&config.http.token_env, "http.token_env", environment)
}

/// The secret that trackers prove their events with; `None` if no variable is configured.
pub fn hooks_secret(
    config: &Config,
    environment: &Environment,
) -> Result<Option<SecretString>, CredentialError> {
    secret_in(&config.http.hooks_env, "http.hooks_env", environment)
}

fn secret_in(
    variable: &str,
    key: &'static str,
    environment: &Environment,
) -> Result<Option<SecretString>, CredentialError> {
    if variable.is_empty() {
        return Ok(None);
    }
    match environment.raw(variable) {
        Some(value) => {
            token(value.as_encoded_bytes(), || format!("the variable {variable}")).map(Some)
        }
        None => Err(CredentialError::Unset { key, variable: variable.into() }),
    }
}

fn from_file(path: &Path) -> Result<SecretString, CredentialError> {
    let unreadable = |source| CredentialError::Unreadable { file: path.to_path_buf(), source };
    // Checked before it is opened: opening a pipe would block until it has a writer.
    let kind = std::fs::metadata(path).map_err(unreadable)?;
    if !kind.is_file() {
        return Err(unreadable(io::Error::other("it is not a regular file")));
    }
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let opened = file.metadata().map_err(unreadable)?;
    let mode = opened.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(CredentialError::Exposed { file: path.to_path_buf(), mode });
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_CREDENTIAL_BYTES).unwrap_or(u64::MAX);
    file.take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
    token(&bytes, || path.display().to_string())
}

async fn from_command(
    source: &Source,
    config: &Config,
    environment: &Environment,
) -> Result<SecretString, CredentialError> {
    let Some((program, args)) = source.token_command.split_first() else {
        return Err(CredentialError::NotConfigured);
    };
    let command = HelperCommand {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        cwd: environment.home().unwrap_or_else(|| "/".into()),
        env: command_environment(config, environment),
        timeout: COMMAND_TIMEOUT,
        max_output: MAX_CREDENTIAL_BYTES,
    };
    let stdout = exec::run(&command).await?.success(&command).map_err(without_secrets)?;
    token(&stdout, || "the output of source.token_command".to_owned())
}

/// Hides the output of a failed command: it may contain the token.
fn without_secrets(error: ExecError) -> ExecError {
    match error {
        ExecError::Failed { program, status, stderr } if credential_in(stderr.raw()).is_some() => {
            let stderr = "its output looks like a credential and is not shown".into();
            ExecError::Failed { program, status, stderr }
        }
        other => other,
    }
}

/// The user's environment without heartbeat's variables and the agent's credential: the command may
/// need anything else.
fn command_environment(config: &Config, environment: &Environment) -> Vec<(OsString, OsString)> {
    let withheld = |name: &str| {
        name.starts_with("HEARTBEAT_")
            || AgentKind::ALL.iter().any(|kind| name == config.credential_env_of(*kind))
            || name == config.http.token_env
    };
    environment
        .iter()
        .filter(|(name, _)| !withheld(name))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// Parses a token: one word, without the trailing newline that editors and commands add.
fn token(bytes: &[u8], place: impl Fn() -> String) -> Result<SecretString, CredentialError> {
    let text = bytes.trim_ascii();
    if text.is_empty() {
        return Err(CredentialError::Empty { place: place() });
    }
    match std::str::from_utf8(text) {
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(text.into()),
        _ => Err(CredentialError::NotAToken { place: place() }),
    }
}
