//! The agent's command line program: there, new enough, and with a login that fits its mode.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Check, DoctorInput};
use crate::exec::{self, HelperCommand};
use crate::session::agent::claude::capability::{Findings, Problem, problems};
use crate::session::resolve_program;
use crate::settings::Environment;

const INSTALL: &str = "npm install -g @anthropic-ai/claude-code";

pub(super) async fn checks(patient: &DoctorInput) -> Vec<Check> {
    let command = &patient.config.agent.command;
    let program = resolve_program(&command[0], &patient.environment);
    if !program.is_absolute() || !program.is_file() {
        let found = format!("{:?} was not found", command[0]);
        let fix = format!(
            "install it ({INSTALL}), or set agent.command to its full path; a service has a \
             different PATH than a terminal"
        );
        let skipped = Check::skipped("agent login", "there is no agent");
        return vec![Check::failed("agent", found, fix), skipped];
    }
    let version = match ask(patient, &program, "--version").await {
        Ok(text) => text,
        Err(why) => {
            let fix = format!(
                "run `{} --version` by hand; reinstall it with {INSTALL}",
                program.display()
            );
            let skipped = Check::skipped("agent login", "the agent does not answer");
            return vec![Check::failed("agent", why, fix), skipped];
        }
    };
    let help = ask(patient, &program, "--help").await.unwrap_or_default();
    let login = login_file(&patient.environment);
    let findings = Findings {
        version: &version,
        help: &help,
        has_credential: has_credential(patient),
        has_login: login.as_deref().is_some_and(Path::is_file),
    };
    let (about_login, about_program): (Vec<Problem>, Vec<Problem>) =
        problems(&patient.config, findings).into_iter().partition(is_about_login);
    let said = version.lines().next().unwrap_or_default().trim();
    let here = format!("{} {said}", program.display());
    vec![
        judged("agent", here, about_program),
        judged("agent login", "found a credential of the right kind".into(), about_login),
    ]
}

const fn is_about_login(problem: &Problem) -> bool {
    matches!(
        problem,
        Problem::NoCredential { .. } | Problem::LoginTokenInKeyMode { .. } | Problem::NoLogin
    )
}

/// Every problem's words are its cause, a semicolon, and its remedy.
fn judged(name: &'static str, good: String, problems: Vec<Problem>) -> Check {
    let fatal = problems.iter().any(Problem::is_fatal);
    let words: Vec<(String, String)> = problems
        .iter()
        .map(|problem| {
            let text = problem.to_string();
            let parts = text.split_once("; ").unwrap_or((&text, "see the message"));
            (parts.0.to_owned(), parts.1.to_owned())
        })
        .collect();
    let join =
        |part: fn(&(String, String)) -> &str| words.iter().map(part).collect::<Vec<_>>().join("; ");
    match (words.is_empty(), fatal) {
        (true, _) => Check::ok(name, good),
        (false, true) => Check::failed(name, join(|w| &w.0), join(|w| &w.1)),
        (false, false) => Check::warning(name, join(|w| &w.0), join(|w| &w.1)),
    }
}

/// One of the program's answers, with the least of an environment.
async fn ask(patient: &DoctorInput, program: &Path, question: &str) -> Result<String, String> {
    let mut args: Vec<OsString> =
        patient.config.agent.command[1..].iter().map(OsString::from).collect();
    args.push(question.into());
    let mut env: Vec<(OsString, OsString)> = ["PATH", "HOME", "LANG"]
        .iter()
        .filter_map(|name| Some((name.into(), patient.environment.raw(name)?.into())))
        .collect();
    let quiet = ["DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING"];
    env.extend(quiet.iter().map(|name| (name.into(), "1".into())));
    let command = HelperCommand {
        program: program.into(),
        args,
        cwd: "/".into(),
        env,
        timeout: Duration::from_secs(30),
        max_output: 1 << 20,
    };
    let output = exec::run(&command).await.map_err(|error| error.to_string())?;
    let stdout = output.success(&command).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

fn has_credential(patient: &DoctorInput) -> bool {
    let variable = patient.config.agent.credential_env.as_str();
    patient.environment.raw(variable).is_some_and(|value| !value.is_empty())
}

/// Where the program keeps its login. On macOS that may be the keychain, which is not ours to open.
fn login_file(environment: &Environment) -> Option<PathBuf> {
    let folder = environment
        .raw("CLAUDE_CONFIG_DIR")
        .map(PathBuf::from)
        .or_else(|| Some(environment.home()?.join(".claude")))?;
    Some(folder.join(".credentials.json"))
}
