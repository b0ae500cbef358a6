//! The agents' command line programs: there, new enough, able to confine themselves where they must,
//! and with a login that fits.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Check, DoctorInput};
use crate::exec::{self, HelperCommand};
use crate::model::Stage;
use crate::session::agent::capability::{
    About, Findings, Problem, Question, install, problems, questions,
};
use crate::session::agent::kept_folder;
use crate::session::resolve_program;
use crate::settings::{AgentKind, Environment};

pub(super) async fn checks(patient: &DoctorInput) -> Vec<Check> {
    let mut checks = Vec::new();
    for kind in patient.config.agents() {
        checks.extend(of_kind(patient, kind).await);
    }
    checks.extend(prices(patient));
    checks
}

async fn of_kind(patient: &DoctorInput, kind: AgentKind) -> Vec<Check> {
    let command = patient.config.command_of(kind);
    let (section, install) = (kind.section(), install(kind));
    let program = resolve_program(&command[0], &patient.environment);
    if !program.is_absolute() || !program.is_file() {
        let found = format!("{:?} was not found", command[0]);
        let fix = format!(
            "install it ({install}), or set {section}.command to its full path; a service has a \
             different PATH than a terminal"
        );
        let skipped = Check::skipped("agent login", "there is no agent");
        return vec![Check::failed("agent", found, fix), skipped];
    }
    // Claude needs none, and nothing is made that is not needed.
    let folder = match kind {
        AgentKind::Claude => PathBuf::new(),
        AgentKind::Codex | AgentKind::Copilot => unpacking_folder(patient),
    };
    let mut answers = Vec::new();
    for question in questions(kind, &program, &folder) {
        answers.push(ask(patient, kind, &program, question).await);
    }
    if let Some(Err(why)) = answers.first() {
        let fix =
            format!("run `{} --version` by hand; reinstall it with {install}", program.display());
        let skipped = Check::skipped("agent login", "the agent does not answer");
        return vec![Check::failed("agent", why, fix), skipped];
    }
    let variable = patient.config.credential_env_of(kind);
    let findings = Findings {
        answers: &answers,
        has_credential: patient.environment.raw(variable).is_some_and(|value| !value.is_empty()),
        has_login: login_file(&patient.environment).as_deref().is_some_and(Path::is_file),
    };
    let (about_login, about_program): (Vec<Problem>, Vec<Problem>) =
        problems(kind, &patient.config, findings)
            .into_iter()
            .partition(|problem| problem.about == About::Login);
    let said = findings.answer(0).lines().next().unwrap_or_default().trim();
    let here = format!("{} {said}", program.display());
    vec![
        judged("agent", here, &about_program),
        judged("agent login", "found a credential of the right kind".into(), &about_login),
    ]
}

/// Where Copilot unpacks itself: the folder that its sessions use, so that the first of them does not
/// have to. A folder that serves something else is left alone.
fn unpacking_folder(patient: &DoctorInput) -> PathBuf {
    let ours = |state: &&PathBuf| crate::store::refuse_foreign(state).is_ok();
    let kept = patient.state.as_ref().ok().filter(ours).map(|state| kept_folder(state));
    let spare = std::env::temp_dir().join(format!("heartbeat-doctor-{}", std::process::id()));
    let made = kept.into_iter().chain([spare.clone()]);
    made.into_iter().find(|kept| crate::private::create_folder(kept).is_ok()).unwrap_or(spare)
}

fn judged(name: &'static str, good: String, problems: &[Problem]) -> Check {
    let join =
        |part: fn(&Problem) -> &str| problems.iter().map(part).collect::<Vec<_>>().join("; ");
    let (causes, fixes) = (join(|problem| &problem.cause), join(|problem| &problem.fix));
    match (problems.is_empty(), problems.iter().any(|problem| problem.fatal)) {
        (true, _) => Check::ok(name, good),
        (false, true) => Check::failed(name, causes, fixes),
        (false, false) => Check::warning(name, causes, fixes),
    }
}

/// Without a price, every session of an agent that reports no cost is booked at its worst case.
fn prices(patient: &DoctorInput) -> Option<Check> {
    let config = &patient.config;
    let unpriced: Vec<&str> = [Stage::Triage, Stage::Deep]
        .into_iter()
        .filter(|stage| config.agent_of(*stage) != AgentKind::Claude)
        .map(|stage| config.model_of(stage))
        .filter(|model| !config.agent.price.contains_key(*model))
        .collect();
    (!unpriced.is_empty()).then(|| {
        Check::warning(
            "agent prices",
            format!(
                "no price for {}: every session is booked with its max_cost, since this agent \
                 reports none",
                unpriced.join(", ")
            ),
            "write the provider's price below [agent.price]",
        )
    })
}

/// One of the program's answers, with the least of an environment.
async fn ask(
    patient: &DoctorInput,
    kind: AgentKind,
    program: &Path,
    question: Question,
) -> Result<String, String> {
    let command = patient.config.command_of(kind);
    let mut args: Vec<OsString> = command[1..].iter().map(OsString::from).collect();
    args.extend(question.args);
    let mut env: Vec<(OsString, OsString)> = ["PATH", "HOME", "LANG"]
        .iter()
        .filter_map(|name| Some((name.into(), patient.environment.raw(name)?.into())))
        .collect();
    env.extend(question.env);
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

/// Where Claude keeps its login. On macOS that may be the keychain, which is not ours to open.
fn login_file(environment: &Environment) -> Option<PathBuf> {
    let folder = environment
        .raw("CLAUDE_CONFIG_DIR")
        .map(PathBuf::from)
        .or_else(|| Some(environment.home()?.join(".claude")))?;
    Some(folder.join(".credentials.json"))
}
