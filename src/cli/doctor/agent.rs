//! Checks the agents' command line programs: installed, recent enough, able to sandbox themselves
//! where required, and with a suitable login.

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

pub(super) async fn checks(input: &DoctorInput) -> Vec<Check> {
    let mut checks = Vec::new();
    for kind in input.config.agents() {
        checks.extend(of_kind(input, kind).await);
    }
    checks.extend(prices(input));
    checks
}

async fn of_kind(input: &DoctorInput, kind: AgentKind) -> Vec<Check> {
    let command = input.config.command_of(kind);
    let (section, install) = (kind.section(), install(kind));
    let program = resolve_program(&command[0], &input.environment);
    if !program.is_absolute() || !program.is_file() {
        let found = format!("{:?} was not found", command[0]);
        let fix = format!(
            "install it ({install}), or set {section}.command to its full path; a service has a \
             different PATH than a terminal"
        );
        let skipped = Check::skipped("agent login", "there is no agent");
        return vec![Check::failed("agent", found, fix), skipped];
    }
    // Claude does not need one.
    let folder = match kind {
        AgentKind::Claude => PathBuf::new(),
        AgentKind::Codex | AgentKind::Copilot => unpacking_folder(input),
    };
    let mut answers = Vec::new();
    for question in questions(kind, &program, &folder) {
        answers.push(ask(input, kind, &program, question).await);
    }
    if let Some(Err(why)) = answers.first() {
        let fix =
            format!("run `{} --version` by hand; reinstall it with {install}", program.display());
        let skipped = Check::skipped("agent login", "the agent does not answer");
        return vec![Check::failed("agent", why, fix), skipped];
    }
    let variable = input.config.credential_env_of(kind);
    let findings = Findings {
        answers: &answers,
        has_credential: input.environment.raw(variable).is_some_and(|value| !value.is_empty()),
        has_login: login_file(&input.environment).as_deref().is_some_and(Path::is_file),
    };
    let (about_login, about_program): (Vec<Problem>, Vec<Problem>) =
        problems(kind, &input.config, findings)
            .into_iter()
            .partition(|problem| problem.about == About::Login);
    let said = findings.answer(0).lines().next().unwrap_or_default().trim();
    let here = format!("{} {said}", program.display());
    vec![
        judged("agent", here, &about_program),
        judged("agent login", "found a credential of the right kind".into(), &about_login),
    ]
}

/// Where Copilot unpacks itself: the folder that its sessions use, so that the first session does
/// not have to. A folder used for something else is not touched.
fn unpacking_folder(input: &DoctorInput) -> PathBuf {
    let ours = |state: &&PathBuf| crate::store::refuse_foreign(state).is_ok();
    let kept = input.state.as_ref().ok().filter(ours).map(|state| kept_folder(state));
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

/// Without a price, every session of an agent that reports no cost is charged at its worst case.
fn prices(input: &DoctorInput) -> Option<Check> {
    let config = &input.config;
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
                "no price for {}: budgets count every session at its max_cost, since this agent \
                 reports no cost",
                unpriced.join(", ")
            ),
            "add the provider's price to [agent.price]",
        )
    })
}

/// Runs the program with a minimal environment and returns its answer.
async fn ask(
    input: &DoctorInput,
    kind: AgentKind,
    program: &Path,
    question: Question,
) -> Result<String, String> {
    let command = input.config.command_of(kind);
    let mut args: Vec<OsString> = command[1..].iter().map(OsString::from).collect();
    args.extend(question.args);
    let mut env: Vec<(OsString, OsString)> = ["PATH", "HOME", "LANG"]
        .iter()
        .filter_map(|name| Some((name.into(), input.environment.raw(name)?.into())))
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

/// Where Claude stores its login. On macOS that may be the keychain, which we do not open.
fn login_file(environment: &Environment) -> Option<PathBuf> {
    let folder = environment
        .raw("CLAUDE_CONFIG_DIR")
        .map(PathBuf::from)
        .or_else(|| Some(environment.home()?.join(".claude")))?;
    Some(folder.join(".credentials.json"))
}
