//! Checks this machine: code base, containment, free resources, schedule, port, webhook, monitor.

use std::time::Duration;

use super::{DoctorCheck, DoctorInput};
use crate::context::{CodeCommit, CodeCopies, CodeError, Upstream, commit_of, has_files};
use crate::model::Stage;
use crate::outbound::ping::{Monitor, Signal};
use crate::report::moment::minute;
use crate::schedule::Schedule;
use crate::session::admission::{self, Limits};
use crate::session::confinement::Strength;
use crate::session::containment::{Tier, survey};
use crate::session::in_force::Walls;
use crate::session::keeper::launch::own_program;
use crate::settings::AgentKind;
use crate::settings::Containment;
use crate::web::facts::report_fault;

pub(super) async fn repository(input: &DoctorInput) -> DoctorCheck {
    let name = "repository";
    let configured = &input.config.repository.path;
    let path = if configured.as_os_str().is_empty() { &input.cwd } else { configured };
    let fix = "set repository.path to the folder of the code base that analyses read";
    if let Err(error) = std::fs::read_dir(path) {
        let found = format!("cannot read {}: {error}", path.display());
        return DoctorCheck::failed(name, found, fix);
    }
    for route in &input.config.repository.routes {
        for path in route.paths() {
            if let Err(error) = std::fs::read_dir(path) {
                let found = format!("cannot read {} (for {}): {error}", path.display(), route.area);
                return DoctorCheck::failed(name, found, "correct the path in repository.routes");
            }
        }
    }
    let (at, now) = (path.clone(), input.clock.now());
    let read = tokio::task::spawn_blocking(move || (commit_of(&at, "HEAD"), has_files(&at))).await;
    let (commit, has_files) = read.unwrap_or((None, false));
    if !has_files {
        let said = CodeError::Empty(path.clone()).to_string();
        let (found, fix) = said.split_once(": ").unwrap_or((&said, fix));
        return DoctorCheck::failed(name, found, fix);
    }
    let Some(commit) = commit else {
        return DoctorCheck::warning(
            name,
            format!("{} is readable, but has no git history that can be read", path.display()),
            "without git, ranking cannot use the commit history and nothing keeps the code up to \
             date; check that it is a repository with a commit, and that git is installed",
        );
    };
    freshness(input, path, &commit, now).await
}

/// How old the code is, and whether the remote answers, which a run asks for newer code.
async fn freshness(
    input: &DoctorInput,
    path: &std::path::Path,
    commit: &CodeCommit,
    now: jiff::Timestamp,
) -> DoctorCheck {
    let name = "repository";
    let days = now.duration_since(commit.at).as_hours() / 24;
    let here = format!("{} at {}, {days} days old", path.display(), short(&commit.id));
    let settings = &input.config.repository;
    let copies = CodeCopies::Existing(std::path::PathBuf::new());
    match Upstream::new(settings, &input.environment, copies).probe(path).await {
        Ok(Some(newest)) if newest == commit.id => {
            DoctorCheck::ok(name, format!("{here}, the newest commit of its remote"))
        }
        Ok(Some(newest)) => DoctorCheck::ok(
            name,
            format!("{here}; runs fetch and analyse {} of its remote", short(&newest)),
        ),
        Ok(None) if days > OLD_CODE_DAYS => DoctorCheck::warning(
            name,
            here,
            "analyses read code that nothing updates: set repository.fetch = true, or update the \
             clone before each run (a code base without a remote has nothing newer)",
        ),
        Ok(None) => DoctorCheck::ok(name, here),
        Err(why) => DoctorCheck::warning(
            name,
            format!("{here}; the newest commit cannot be fetched: {why}"),
            "runs continue with the code that is there; run `git ls-remote` there as the user of the \
             service and correct its key or credential helper, set repository.ref to a branch of \
             the remote, or set repository.fetch = false",
        ),
    }
}

/// Code older than this is worth a warning when nothing fetches newer code.
const OLD_CODE_DAYS: i64 = 14;

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// Found by testing.
pub(super) async fn containment(input: &DoctorInput) -> DoctorCheck {
    let name = "containment";
    let wanted = input.config.state.containment;
    let strength = Strength::of_this_machine();
    let tried = match own_program() {
        Ok(keeper) => survey(&keeper, wanted).await,
        Err(error) => Err(error),
    };
    let (tried, sampled) = match tried {
        Ok((tier, walls)) => (Ok(tier), sampled(walls)),
        Err(error) => (Err(error), String::new()),
    };
    match tried {
        Err(error) => DoctorCheck::failed(
            name,
            format!("cannot start a keeper: {error}"),
            "heartbeat starts its own executable for each session; check that it is allowed to",
        ),
        Ok(tier) if strength != Strength::Full => DoctorCheck::warning(
            name,
            format!("{tier}{strength}: {}; {}", tier.explanation(), strength.explanation()),
            "use a kernel with Landlock 6 or later (Linux 6.12), with landlock in the lsm= list; \
             state.containment = \"strict\" starts no session without it",
        ),
        Ok(tier) if !tier.has_namespace() && codex_analyses(input) => DoctorCheck::warning(
            name,
            format!(
                "{tier}{strength}: only Codex' own sandbox keeps its commands from files of this \
                 user, since its sandbox does not work under file rules and there is no namespace \
                 to restrict it by mounts"
            ),
            "allow user namespaces, or set analyze.agent to another agent",
        ),
        Ok(tier) if tier.has_namespace() => DoctorCheck::ok(
            name,
            format!(
                "{tier}{strength}: {}; {}{sampled}",
                tier.explanation(),
                strength.explanation()
            ),
        ),
        Ok(tier) if wanted == Containment::Subreaper => {
            DoctorCheck::ok(name, format!("{tier}{strength}, as set by state.containment{sampled}"))
        }
        Ok(tier) => {
            let found = format!("{tier}{strength}: {}", tier.explanation());
            DoctorCheck::warning(name, found, fix_for(tier))
        }
    }
}

/// What no kernel limit holds here.
fn sampled(walls: Walls) -> String {
    let parts = [(walls.tasks, "processes"), (walls.memory, "memory")];
    let parts: Vec<&str> =
        parts.into_iter().filter(|(limited, _)| !limited).map(|(_, name)| name).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(
            "; {} of a session are not limited by the kernel here, but counted every second",
            parts.join(" and ")
        ),
    }
}

fn codex_analyses(input: &DoctorInput) -> bool {
    input.config.agent_of(Stage::Deep) == AgentKind::Codex
}

const fn fix_for(tier: Tier) -> &'static str {
    match tier {
        Tier::Tracked => "run heartbeat on Linux for stronger containment",
        _ => {
            "allow namespaces for this user: sysctl user.max_user_namespaces=10000, \
             kernel.unprivileged_userns_clone=1 (Debian) or \
             kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), no RestrictNamespaces in \
             the unit; sessions are still cleaned up without them"
        }
    }
}

/// Whether a session would be admitted now.
pub(super) fn free_resources(input: &DoctorInput) -> DoctorCheck {
    let readings = admission::read_machine();
    let limits = Limits::from_config(&input.config.limits);
    match admission::decide(&readings, &limits) {
        Ok(()) => DoctorCheck::ok(
            "room",
            format!(
                "load {:.1} on {} cores, a session could start now",
                readings.load, readings.cores
            ),
        ),
        Err((_, why)) => DoctorCheck::warning(
            "room",
            format!("a session would wait now: {why}"),
            "wait, raise limits.max_load_per_core, or lower limits.min_free_memory",
        ),
    }
}

pub(super) fn schedule(input: &DoctorInput) -> DoctorCheck {
    let config = &input.config.schedule;
    match Schedule::parse(&config.cron, &config.timezone) {
        Err(error) => DoctorCheck::failed("schedule", error.to_string(), "correct [schedule]"),
        Ok(schedule) => {
            let next: Vec<String> =
                schedule.ticks_after(input.clock.now()).take(3).map(minute).collect();
            if next.is_empty() {
                let fix = "correct schedule.cron; `heartbeat schedule` shows what it means";
                return DoctorCheck::warning(
                    "schedule",
                    format!("{} never fires", config.cron),
                    fix,
                );
            }
            DoctorCheck::ok("schedule", format!("next: {}", next.join(", ")))
        }
    }
}

pub(super) async fn port(input: &DoctorInput) -> DoctorCheck {
    let (name, listen) = ("http", input.config.http.listen.as_str());
    if listen.is_empty() {
        return DoctorCheck::skipped(name, "off: http.listen is empty");
    }
    match tokio::net::TcpListener::bind(listen).await {
        Ok(_free) => DoctorCheck::ok(name, format!("{listen} is free")),
        Err(_) if is_heartbeat(listen).await => {
            DoctorCheck::ok(name, format!("a running heartbeat already listens on {listen}"))
        }
        Err(error) => DoctorCheck::failed(
            name,
            format!("{listen} is in use or not permitted: {error}"),
            "choose another port in http.listen, or stop the process that uses it (`ss -ltnp` \
             shows it)",
        ),
    }
}

/// Whether the process that listens there answers like heartbeat.
async fn is_heartbeat(listen: &str) -> bool {
    let ask = async {
        let client = reqwest::Client::builder().no_proxy().build().ok()?;
        let answer = client.get(format!("http://{listen}/livez")).send().await.ok()?;
        let body: serde_json::Value = answer.json().await.ok()?;
        body.get("seconds_since_turn").map(drop)
    };
    matches!(tokio::time::timeout(Duration::from_secs(5), ask).await, Ok(Some(())))
}

pub(super) fn reports(input: &DoctorInput) -> DoctorCheck {
    let (name, folder) = ("reports", &input.config.report.dir);
    if folder.as_os_str().is_empty() {
        return DoctorCheck::skipped(name, "off: report.dir is empty");
    }
    match report_fault(folder) {
        None => DoctorCheck::ok(name, format!("are written to {}", folder.display())),
        Some(fault) => {
            let fix = "create the folder, make it writable for the user of the service, or change \
                       report.dir";
            DoctorCheck::failed(name, fault, fix)
        }
    }
}

pub(super) fn webhook(input: &DoctorInput) -> DoctorCheck {
    let (name, report) = ("webhook", &input.config.report);
    if report.webhook_env.is_empty() {
        return DoctorCheck::skipped(name, "off: report.webhook_env is empty");
    }
    match input.environment.text(&report.webhook_env) {
        Some(address) if address.starts_with("https://") => {
            DoctorCheck::ok(name, format!("the variable {} holds a URL", report.webhook_env))
        }
        _ => DoctorCheck::warning(
            name,
            format!("the variable {} does not hold an https URL", report.webhook_env),
            "set it to the URL that Slack or the Teams workflow shows",
        ),
    }
}

/// Sends a ping that the monitor only records.
pub(super) async fn ping(input: &DoctorInput) -> DoctorCheck {
    let (name, variable) = ("ping", input.config.monitor.ping_env.as_str());
    let monitor = match Monitor::named(variable, &input.environment) {
        Ok(None) => return DoctorCheck::skipped(name, "off: monitor.ping_env is empty"),
        Ok(Some(monitor)) => monitor,
        Err(_) => {
            return DoctorCheck::failed(
                name,
                format!("the variable {variable} does not hold an https URL"),
                "set it to the ping URL that the monitor shows, where the service reads its \
                 variables",
            );
        }
    };
    match monitor.send(Signal::Log, None, "heartbeat doctor").await {
        // Healthchecks answers so, with status 200, when the address is wrong.
        Ok(said) if said.contains("not found") => DoctorCheck::failed(
            name,
            format!("the monitor knows no check with the address in {variable}"),
            "copy the ping URL of the check again",
        ),
        Ok(_) => DoctorCheck::ok(name, format!("the monitor named by {variable} answers")),
        Err(error) => DoctorCheck::warning(
            name,
            format!("a ping (URL/log) failed: {error}"),
            "check the URL and that this machine can reach it; a monitor that does not know /log \
             may still take the other pings",
        ),
    }
}
