//! Checks the agents' command line programs: installed, recent enough, able to sandbox themselves
//! where required, and with a suitable login.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DoctorCheck, DoctorInput};
use crate::gateway::prices::listed;
use crate::model::{SessionId, Stage};
use crate::session::agent::capability::{About, Findings, Problem, install, problems, questions};
use crate::session::agent::{Task, kept_folder, of_kind as of_kind_of_agent};
use crate::session::brief::Briefly;
use crate::session::configured::Configured;
use crate::session::keeper::launch::own_program;
use crate::session::resolve_program;
use crate::session::trial::Bench;
use crate::settings::{AgentAuth, AgentKind, CopilotProvider, Environment};

pub(super) async fn checks(input: &DoctorInput) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    for kind in input.config.agents() {
        checks.extend(of_kind(input, kind).await);
    }
    checks.extend(prices(input));
    checks
}

async fn of_kind(input: &DoctorInput, kind: AgentKind) -> Vec<DoctorCheck> {
    let command = input.config.command_of(kind);
    let (section, install) = (kind.section(), install(kind));
    let program = resolve_program(&command[0], &input.environment);
    if !program.is_absolute() || !program.is_file() {
        let found = format!("{:?} was not found", command[0]);
        let fix = format!(
            "install it ({install}), or set {section}.command to its full path; a service has a \
             different PATH than a terminal"
        );
        let skipped = DoctorCheck::skipped("agent login", "there is no agent");
        return vec![DoctorCheck::failed("agent", found, fix), skipped];
    }
    let answers = ask_all(input, kind).await;
    if let Some(Err(why)) = answers.first() {
        let fix =
            format!("run `{} --version` by hand; reinstall it with {install}", program.display());
        let skipped = DoctorCheck::skipped("agent login", "the agent does not answer");
        return vec![DoctorCheck::failed("agent", why, fix), skipped];
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
        judged("agent login", way_to_the_provider(input, kind).into(), &about_login),
    ]
}

/// Who holds the credential: heartbeat's gateway, or the agent itself.
fn way_to_the_provider(input: &DoctorInput, kind: AgentKind) -> &'static str {
    let lookup = |name: &str| input.environment.raw(name).map(std::ffi::OsStr::to_owned);
    match of_kind_of_agent(kind, &input.config, Path::new(""), lookup).provider() {
        Some(_) => {
            "found a credential of the right kind; sessions reach the provider through heartbeat's \
             gateway and do not hold it"
        }
        None => {
            "found a credential of the right kind; sessions hold it themselves and connect to the \
             provider without heartbeat's gateway"
        }
    }
}

/// Runs the program like a session, confined, and returns its answers. Copilot first unpacks itself
/// into the folder that its sessions use, so that the first one does not have to wait for it.
async fn ask_all(input: &DoctorInput, kind: AgentKind) -> Vec<Result<String, String>> {
    let spare = std::env::temp_dir().join(format!("heartbeat-doctor-{}", uuid::Uuid::now_v7()));
    // A folder used for something else is not touched.
    let ours = |state: &&PathBuf| state.is_dir() && crate::store::refuse_foreign(state).is_ok();
    let state = input.state.as_ref().ok().filter(ours).unwrap_or(&spare).clone();
    let keeper = match own_program() {
        Ok(keeper) => keeper,
        Err(error) => return vec![Err(error.to_string())],
    };
    let config = Arc::new(input.config.clone());
    let configured = Configured::new(kind, config, &input.environment, &state);
    let containment = input.config.state.containment;
    let briefly = Briefly { keeper, containment };
    let bench = Bench { configured: &configured, briefly, folder: spare.clone() };
    bench.unpack().await;
    // Codex has its sandbox in an analysis only.
    let stage = if kind == AgentKind::Codex { Stage::Deep } else { Stage::Triage };
    let kept = kept_folder(&state);
    let nobody = Task::silent(SessionId(uuid::Uuid::nil()), stage, PathBuf::new());
    let mut answers = Vec::new();
    for number in 0..questions(kind, &nobody, &kept).len() {
        let answer =
            bench.ask(stage, |task| questions(kind, task, &kept).swap_remove(number)).await;
        answers.push(answer.map_err(|error| error.to_string()));
    }
    // Only what was made here.
    drop(crate::private::remove_folder(&spare));
    answers
}

fn judged(name: &'static str, good: String, problems: &[Problem]) -> DoctorCheck {
    let join =
        |part: fn(&Problem) -> &str| problems.iter().map(part).collect::<Vec<_>>().join("; ");
    let (causes, fixes) = (join(|problem| &problem.cause), join(|problem| &problem.fix));
    match (problems.is_empty(), problems.iter().any(|problem| problem.fatal)) {
        (true, _) => DoctorCheck::ok(name, good),
        (false, true) => DoctorCheck::failed(name, causes, fixes),
        (false, false) => DoctorCheck::warning(name, causes, fixes),
    }
}

/// Without a price, a model counts as the dearest known one, and without a gateway every session as
/// its worst case.
fn prices(input: &DoctorInput) -> Option<DoctorCheck> {
    let config = &input.config;
    let unpriced: Vec<&str> = [Stage::Triage, Stage::Deep]
        .into_iter()
        // Claude's short names stand for models of the list.
        .filter(|stage| {
            config.agent_of(*stage) != AgentKind::Claude
                || config.agent.auth == AgentAuth::ApiKey
                    && config.model_of(*stage).starts_with("claude-")
        })
        .filter(|stage| {
            // The list has the providers' own prices, not those of a subscription.
            let by_github = config.agent_of(*stage) == AgentKind::Copilot
                && config.copilot.provider == CopilotProvider::Github;
            let model = config.model_of(*stage);
            !config.agent.price.contains_key(model) && (by_github || listed(model).is_none())
        })
        .map(|stage| config.model_of(stage))
        .collect();
    (!unpriced.is_empty()).then(|| {
        DoctorCheck::warning(
            "agent prices",
            format!(
                "no price for {}: it counts as the dearest model known, or each session at its \
                 max_cost, since this agent reports no cost",
                unpriced.join(", ")
            ),
            "add the provider's price to [agent.price]",
        )
    })
}

/// Where Claude stores its login. On macOS that may be the keychain, which we do not open.
fn login_file(environment: &Environment) -> Option<PathBuf> {
    let folder = environment
        .raw("CLAUDE_CONFIG_DIR")
        .map(PathBuf::from)
        .or_else(|| Some(environment.home()?.join(".claude")))?;
    Some(folder.join(".credentials.json"))
}
