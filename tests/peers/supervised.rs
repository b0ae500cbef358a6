//! The real agent CLI under the real supervisor: what it starts, leaves behind or hangs on, and
//! that none of its processes stays.
//!
//! Needs the CLI at `$HEARTBEAT_REAL_CLAUDE`; prints a message and passes if it is missing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heartbeat::analyze;
use heartbeat::app::selftest::{Rig, limits};
use heartbeat::config::DEFAULT_TOML;
use heartbeat::model::{
    Background, FailureKind, Outcome, RunId, SessionEnd, SessionId, SessionRef, Stage, Usd,
};
use heartbeat::prompt::Prompts;
use heartbeat::session::agent::claude::Claude;
use heartbeat::session::agent::{Agent, Task};
use heartbeat::session::confinement::{Allowed, Confinement};
use heartbeat::session::{SessionLimits, SessionSpec, StopHandle, StopReason};
use heartbeat::settings::{AgentAuth, Config, Containment};
use serde_json::{Value, json};
use support::agent_items::{fence, item, verdict};
use support::answers;
use support::messages_api::{Fault, MessagesApi, Reply, Request};
use support::real_cli::installed;
use uuid::Uuid;

/// The provider failed; no item caused it.
const OUTAGE: Outcome = Outcome::AgentError { why: FailureKind::ApiError };

/// The agent's tools.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tools {
    /// As heartbeat starts it.
    Read,
    /// What the code base of the incident allowed: shell commands.
    Bash,
}

/// A supervisor, a repository and an agent that uses a loopback API.
struct Bench {
    folder: tempfile::TempDir,
    config: Config,
    claude: Claude,
    rig: Rig,
    stop: StopHandle,
    /// In the command line of everything that the agent's tools start.
    needle: String,
}

impl Bench {
    fn new(url: &str, change: impl Fn(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("total.rs"), "fn total() {}\n").unwrap();
        let mut config: Config = toml::from_str(DEFAULT_TOML).unwrap();
        config.agent.pass_env = vec!["ANTHROPIC_BASE_URL".to_owned()];
        config.agent.max_retries = 0;
        change(&mut config);
        let claude = Claude::new(&config, |name| match name {
            "ANTHROPIC_BASE_URL" => Some(url.into()),
            "ANTHROPIC_API_KEY" => Some("sk-ant-test".into()),
            "CLAUDE_CODE_OAUTH_TOKEN" => Some("sk-ant-oat01-test".into()),
            "PATH" => Some("/usr/bin:/bin".into()),
            _ => None,
        });
        let program = Path::new(env!("CARGO_BIN_EXE_heartbeat"));
        let rig = Rig::new(program, folder.path(), Containment::Auto).unwrap();
        // A unique sleep duration marks a process without using the supervisor's marks.
        let needle = format!("77777.{}", Uuid::now_v7().as_u128() % 1_000_000_000_000);
        Self { folder, config, claude, rig, stop: StopHandle::new(), needle }
    }

    fn spec(&self, tools: Tools, change: impl Fn(&mut SessionLimits)) -> SessionSpec {
        let session = SessionId(Uuid::now_v7());
        let scratch = self.folder.path().join(format!("scratch-{session}"));
        std::fs::create_dir(&scratch).unwrap();
        let (item, verdict) = (item(42, "Total is wrong", "By a cent."), verdict(42));
        let request = analyze::Request {
            item: &item,
            verdict: &verdict,
            background: &Background::default(),
            code_bases: &[],
            overview: "",
            context: "total.rs",
        };
        let prompts = Prompts::built_in(self.config.agent.auth).unwrap();
        let words = analyze::render(&prompts, request, &self.config.analyze, &fence()).unwrap();
        let task = Task {
            system_prompt: words.system,
            schema: words.schema,
            ..Task::silent(session, Stage::Deep, scratch.clone())
        };
        let command = self.claude.command(&task);
        for (path, content) in command.files {
            std::fs::write(path, content).unwrap();
        }
        let mut limits = SessionLimits {
            init: Duration::from_secs(20),
            hard: Duration::from_secs(60),
            max_line: 16 << 20,
            ..limits()
        };
        change(&mut limits);
        let env = command.env;
        let needs = Confinement::for_program(&installed().unwrap(), &env, &[]);
        let state = Path::new("/nonexistent");
        let folder = self.folder.path();
        let confinement = Some(needs.with(&scratch, folder, state, &Allowed::default()));
        SessionSpec {
            examiner: None,
            confinement,
            price: None,
            gateway: None,
            worst_case: heartbeat::model::Usd::ZERO,
            session: SessionRef {
                id: session,
                run: RunId(Uuid::now_v7()),
                stage: Stage::Deep,
                item: None,
                attempt: 1,
            },
            program: installed().unwrap(),
            args: with_tools(command.args, tools),
            env,
            cwd: self.folder.path().to_owned(),
            stdin: words.user.into_bytes(),
            scratch,
            limits,
            task: Box::new(task),
        }
    }

    async fn run(&self, tools: Tools, change: impl Fn(&mut SessionLimits)) -> SessionEnd {
        let spec = self.spec(tools, change);
        let scratch = spec.scratch.clone();
        let end = self.rig.supervisor.run(spec, &self.claude, self.stop.signal()).await.unwrap();
        assert_eq!(end.survivors, 0, "{end:?}");
        assert_eq!(processes_with(&self.needle), Vec::<PathBuf>::new(), "{end:?}");
        assert!(self.rig.ledger.rows().unwrap().is_empty(), "a row stayed open");
        assert!(!scratch.exists(), "the private folder stayed");
        end
    }
}

/// The adapter's arguments, or the same with a shell for the agent.
fn with_tools(args: Vec<OsString>, tools: Tools) -> Vec<OsString> {
    if tools == Tools::Read {
        return args;
    }
    let mut changed: Vec<OsString> =
        args.into_iter().filter(|word| word != "--restricted").collect();
    for word in changed.iter_mut().filter(|word| *word == "Read") {
        *word = "Bash".into();
    }
    changed.extend(["--allowedTools", "Bash"].map(OsString::from));
    changed
}

/// Processes whose command line contains the needle; the sleepers, not the shells that mention it.
fn processes_with(needle: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let mentions = |path: &PathBuf| {
        std::fs::read(path.join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(needle))
    };
    entries.filter(mentions).collect()
}

/// Waits until this many processes have the needle.
async fn wait_for_processes(needle: &str, count: usize) {
    let started = || async { (processes_with(needle).len() >= count).then_some(()) };
    support::until("the tools", started).await;
}

fn bash(command: &str) -> (&'static str, Value) {
    ("Bash", json!({ "command": command, "description": "as scripted" }))
}

/// In the shell's own group, in a separate session, daemonised, and in the foreground.
fn every_kind_of_child(needle: &str) -> String {
    format!(
        "sleep {needle}1 & setsid sleep {needle}2 & (setsid nohup sleep {needle}3 >/dev/null 2>&1 &) ; sleep {needle}4"
    )
}

fn finding() -> Reply {
    Reply::structured(answers::finding(&[]))
}

/// An API whose script needs the needle, which is made after it.
fn api(script: impl Fn(&Request, &str) -> Reply + Send + Sync + 'static) -> (MessagesApi, Shared) {
    let needle = Shared::default();
    let shared = needle.clone();
    let api = MessagesApi::start(move |request| script(request, &shared.lock().unwrap()));
    (api, needle)
}

type Shared = std::sync::Arc<std::sync::Mutex<String>>;

#[tokio::test]
async fn a_killed_session_leaves_none_of_the_children_that_its_tools_started() {
    let Some(_) = installed() else { return };
    let (api, needle) = api(|_, needle| Reply::Tools(vec![bash(&every_kind_of_child(needle))]));
    let bench = Bench::new(&api.url(), |_| {});
    needle.lock().unwrap().clone_from(&bench.needle);
    let kill = async {
        wait_for_processes(&bench.needle, 4).await;
        bench.stop.stop_now(StopReason::Operator);
    };
    let (end, ()) = tokio::join!(bench.run(Tools::Bash, |_| {}), kill);
    assert_eq!(end.outcome, Outcome::Cancelled { why: FailureKind::Operator });
    assert!(end.swept >= 4, "{end:?}");
}

#[tokio::test]
async fn a_session_that_ends_well_leaves_no_daemon_behind() {
    let Some(_) = installed() else { return };
    let (api, needle) = api(|request, needle| match request.number {
        0 => Reply::Tools(vec![bash(&format!(
            "(setsid nohup sleep {needle}1 >/dev/null 2>&1 &); (setsid nohup sleep {needle}2 >/dev/null 2>&1 &) ; echo started"
        ))]),
        _ => finding(),
    });
    let bench = Bench::new(&api.url(), |_| {});
    needle.lock().unwrap().clone_from(&bench.needle);
    let end = bench.run(Tools::Bash, |_| {}).await;
    assert_eq!(end.outcome, Outcome::Completed, "{end:?}");
    assert!(api.requests()[1].body["messages"].to_string().contains("started"));
    assert!(end.swept >= 2, "{end:?}");
    assert!(end.usage.cost > Some(heartbeat::model::Usd::ZERO));
}

#[tokio::test]
async fn a_storm_of_shell_commands_is_cut_by_the_process_cap() {
    let Some(_) = installed() else { return };
    let (api, needle) = api(|_, needle| {
        // The CLI runs read-only commands concurrently; these wait for a pipe forever.
        let one = format!("grep {needle} pipe | grep {needle} | grep {needle}");
        Reply::Tools((0..20).map(|_| bash(&one)).collect())
    });
    let bench = Bench::new(&api.url(), |_| {});
    let pipe = bench.folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    needle.lock().unwrap().clone_from(&bench.needle);
    let end = bench.run(Tools::Bash, |limits| limits.max_processes = 24).await;
    assert_eq!(end.outcome, Outcome::TooManyProcesses, "{end:?}");
}

#[tokio::test]
async fn an_agent_with_read_alone_starts_no_process_at_all() {
    let Some(_) = installed() else { return };
    let (api, needle) = api(|request, needle| match request.number {
        0 => Reply::Tools(vec![bash(&every_kind_of_child(needle))]),
        _ => finding(),
    });
    let bench = Bench::new(&api.url(), |_| {});
    needle.lock().unwrap().clone_from(&bench.needle);
    let end = bench.run(Tools::Read, |limits| limits.max_processes = 4).await;
    assert_eq!(end.outcome, Outcome::Completed, "{end:?}");
}

#[tokio::test]
async fn a_provider_that_hangs_is_to_blame_however_it_hangs() {
    let Some(_) = installed() else { return };
    for fault in
        [Fault::Hang, Fault::HangAfterHeaders, Fault::SilentMidStream, Fault::PingsMidStream]
    {
        let api = MessagesApi::start(move |_| Reply::Fault(fault));
        let bench = Bench::new(&api.url(), |_| {});
        let end = bench.run(Tools::Read, |limits| limits.stall = Duration::from_secs(3)).await;
        assert_eq!(end.outcome, OUTAGE, "{fault:?} {end:?}");
        assert!(
            end.usage.is_reported(),
            "an interrupted agent says what it spent: {fault:?} {end:?}"
        );
        assert_eq!(api.requests().len(), 1, "{fault:?}");
        let began = matches!(fault, Fault::SilentMidStream | Fault::PingsMidStream);
        assert_eq!(end.usage.input_tokens > 0, began, "what was seen counts: {fault:?} {end:?}");
    }
}

#[tokio::test]
async fn a_provider_that_hangs_ends_at_the_hard_limit_at_the_latest() {
    let Some(_) = installed() else { return };
    let api = MessagesApi::start(|_| Reply::Fault(Fault::HangAfterHeaders));
    let bench = Bench::new(&api.url(), |_| {});
    let end = bench.run(Tools::Read, |limits| limits.hard = Duration::from_secs(4)).await;
    assert_eq!(end.outcome, OUTAGE, "{end:?}");
    assert!(end.usage.cost == Some(Usd::ZERO), "{end:?}");
}

#[tokio::test]
async fn what_was_spent_before_the_provider_failed_is_known_when_we_end_the_session() {
    let Some(_) = installed() else { return };
    let failing: [fn() -> Reply; 2] =
        [|| Reply::status(529, "Overloaded"), || Reply::Fault(Fault::Hang)];
    for fails in failing {
        let api = MessagesApi::start(move |request| match request.number {
            0 => {
                let read = Reply::Tools(vec![("Read", json!({ "file_path": "total.rs" }))]);
                Reply::Billed(Box::new(read), 5_000, 100)
            }
            _ => fails(),
        });
        let bench = Bench::new(&api.url(), |config| config.agent.max_retries = 10);
        let end = bench.run(Tools::Read, |limits| limits.hard = Duration::from_secs(12)).await;
        assert_eq!(end.outcome, OUTAGE, "{end:?}");
        assert!(end.usage.is_reported() && end.usage.cost > Some(Usd::ZERO), "{end:?}");
        assert!(!end.outcome.counts_at_worst(&end.usage));
    }
}

#[tokio::test]
async fn reading_more_distinct_files_than_allowed_ends_the_session() {
    let Some(_) = installed() else { return };
    let api = MessagesApi::start(|_| {
        let read = |n: u32| ("Read", json!({ "file_path": format!("part{n}.rs") }));
        Reply::Tools((0..12).map(read).collect())
    });
    let bench = Bench::new(&api.url(), |config| config.analyze.max_turns = 50);
    for n in 0..12 {
        let path = bench.folder.path().join(format!("part{n}.rs"));
        std::fs::write(path, format!("fn part{n}() {{}}\n")).unwrap();
    }
    let end = bench.run(Tools::Read, |limits| limits.max_reads = Some(10)).await;
    assert_eq!(end.outcome, Outcome::TooManyReads, "{end:?}");
    assert!((11..=12).contains(&end.reads), "{end:?}");
}

#[tokio::test]
async fn a_reached_plan_limit_is_reported_with_its_reset() {
    let Some(_) = installed() else { return };
    let api = MessagesApi::start(|_| Reply::Status {
        status: 429,
        message: "limit",
        headers: [
            ("anthropic-ratelimit-unified-status", "rejected"),
            ("anthropic-ratelimit-unified-reset", "1999999999"),
            ("retry-after", "7200"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .to_vec(),
    });
    let bench = Bench::new(&api.url(), |config| {
        config.agent.auth = AgentAuth::Login;
        config.agent.credential_env = "CLAUDE_CODE_OAUTH_TOKEN".to_owned();
    });
    let end = bench.run(Tools::Read, |_| {}).await;
    assert_eq!(end.outcome, Outcome::ProviderLimit { why: FailureKind::UsageLimit }, "{end:?}");
    assert_eq!(end.suspended_until.map(jiff::Timestamp::as_second), Some(1_999_999_999));
}

/// Variables passed from a crash test to the process that it kills.
const CRASH_API: &str = "HEARTBEAT_TEST_CRASH_API";
const CRASH_NEEDLE: &str = "HEARTBEAT_TEST_CRASH_NEEDLE";

/// Not a test: the process that is killed while it supervises.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "how the crash test talks to it")]
async fn supervises_until_it_is_killed() {
    let Ok(url) = std::env::var(CRASH_API) else { return };
    let mut bench = Bench::new(&url, |config| config.agent.max_retries = 10);
    bench.needle = std::env::var(CRASH_NEEDLE).unwrap();
    bench.run(Tools::Bash, |_| {}).await;
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "starts a heartbeat of its own, to kill it")]
async fn when_heartbeat_is_killed_the_agent_and_its_tools_end_and_the_api_is_left_alone() {
    let Some(program) = installed() else { return };
    let needle = format!("77777.{}", Uuid::now_v7().as_u128() % 1_000_000_000_000);
    let scripted = needle.clone();
    // The tools keep running while the next request fails repeatedly: both have to end.
    let api = MessagesApi::start(move |request| match request.number {
        0 => Reply::Tools(vec![bash(&format!(
            "setsid sleep {scripted}1 & (setsid nohup sleep {scripted}2 >/dev/null 2>&1 &) ; echo ok"
        ))]),
        _ => Reply::status(529, "overloaded"),
    });
    let mut heartbeat = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "supervised::supervises_until_it_is_killed"])
        .env("HEARTBEAT_REAL_CLAUDE", program)
        .env(CRASH_API, api.url())
        .env(CRASH_NEEDLE, &needle)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Only this test's child has to make progress meanwhile.
    let arrived = api.wait_for(3);
    let tree = descendants(heartbeat.id());
    let before = processes_with(&needle).len();
    heartbeat.kill().unwrap();
    heartbeat.wait().unwrap();
    assert!(arrived, "the agent is retrying");
    assert!(before >= 2, "its tools are running");
    assert!(tree.len() >= 4, "keeper, agent and tools: {tree:?}");
    let gone = || processes_with(&needle).is_empty() && !tree.iter().any(|one| alive(*one));
    support::until("the end of every process", || async { gone().then_some(()) }).await;
}

/// Parent and start time of a process, if it exists.
fn stat(pid: u32) -> Option<(u32, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may contain anything; what follows does not.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}

/// All descendants of a process, each with its start time.
fn descendants(root: u32) -> Vec<(u32, u64)> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: Vec<(u32, u32, u64)> =
        pids.filter_map(|pid| stat(pid).map(|(parent, start)| (pid, parent, start))).collect();
    let mut tree = vec![root];
    let mut found = Vec::new();
    while let Some(parent) = tree.pop() {
        for (pid, _, start) in all.iter().filter(|(_, of, _)| *of == parent) {
            tree.push(*pid);
            found.push((*pid, *start));
        }
    }
    found
}

/// Whether this exact process still exists.
fn alive((pid, start): (u32, u64)) -> bool {
    stat(pid).is_some_and(|(_, now)| now == start)
}
