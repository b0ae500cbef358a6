//! Checks the machine once before an agent's first session: an agent whose own sandbox does not
//! work runs and costs money, but reads nothing.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::agent::Trial;
use crate::exec::{self, ExecError, HelperCommand};
use crate::model::{FailureKind, Outcome, SessionEnd, Untrusted};

const TIMEOUT: Duration = Duration::from_secs(30);

/// How a session would end because the agent cannot work here; `None`: it can. `words` are the
/// configured command's own arguments, `home` is a folder for the agent alone.
pub(super) async fn failed(
    trial: Trial,
    program: &Path,
    words: &[String],
    path: Option<OsString>,
    home: &Path,
) -> Option<SessionEnd> {
    let mut args: Vec<OsString> = words.iter().map(OsString::from).collect();
    args.extend(trial.question.args);
    let mut env = trial.question.env;
    env.extend(path.map(|path| ("PATH".into(), path)));
    env.push(("HOME".into(), home.as_os_str().to_owned()));
    let command = HelperCommand {
        program: program.into(),
        args,
        cwd: "/".into(),
        env,
        timeout: TIMEOUT,
        max_output: 1 << 16,
    };
    let why = match exec::run(&command).await.and_then(|output| output.success(&command)) {
        Ok(said) if wrote(&said, trial.works) => return None,
        // The session reports a missing program.
        Err(ExecError::Spawn { .. }) => return None,
        Ok(_) => "unexpected output".to_owned(),
        Err(error) => error.to_string(),
    };
    let outcome = Outcome::SpawnFailed { why: FailureKind::SandboxFailed };
    let stderr_tail = Untrusted::new(format!("{} ({why})", trial.otherwise));
    Some(SessionEnd { stderr_tail, ..SessionEnd::empty(outcome) })
}

fn wrote(said: &[u8], works: &str) -> bool {
    String::from_utf8_lossy(said).lines().any(|line| line.trim() == works)
}
