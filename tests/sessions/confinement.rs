//! What an agent can reach outside of its own folder, and which processes are never killed. Each
//! attack succeeds on an unconfined agent, so that a refusal means something.

use std::collections::HashSet;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use heartbeat::app::selftest::{EventRecorder, FolderLedger, Rig};
use heartbeat::model::{ProcessIdentity, RunId, SessionEnd, SessionId, SessionRef, Stage};
use heartbeat::ports::LedgerRow;
use heartbeat::process;
use heartbeat::session::confinement::Strength;
use heartbeat::session::{StopHandle, mark, orphans};
use heartbeat::settings::Containment;
use heartbeat::simulate::hostile::calls::CALLS;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

const PROGRAM: &str = env!("CARGO_BIN_EXE_heartbeat");

/// Attacks are refused only where the kernel can; elsewhere there is nothing to test.
fn can_confine() -> bool {
    let full = Strength::of_this_machine() == Strength::Full;
    if !full {
        println!("skipped: this kernel cannot confine an agent fully");
    }
    full
}

async fn perform(rig: &Rig, attacks: &[String], confined: bool) -> SessionEnd {
    let mut spec = rig.attack(attacks);
    spec.limits.hard = Duration::from_secs(60);
    spec.limits.max_processes = 4_000;
    if confined {
        rig.confine(&mut spec);
    }
    let observed = rig.observe(spec, &StopHandle::new()).await.unwrap();
    assert_eq!(observed.survivors, 0);
    observed.end
}

fn results(end: &SessionEnd) -> Value {
    end.output.clone().unwrap_or_else(|| panic!("no report: {end:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_agent_reaches_nothing_but_its_own() {
    if !can_confine() {
        return;
    }
    for containment in [Containment::Auto, Containment::Subreaper] {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("token");
        std::fs::write(&secret, "a secret").unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = outside.path().join("socket");
        let _unix = UnixListener::bind(&socket).unwrap();
        let letters = outside.path().join("letters");
        let _datagrams = std::os::unix::net::UnixDatagram::bind(&letters).unwrap();
        let mut sleeper = sleeper(&[("TOKEN", "a secret".to_owned())]);
        let (other, port) = (sleeper.id(), tcp.local_addr().unwrap().port());
        let rig = Rig::new(Path::new(PROGRAM), folder.path(), containment).unwrap();
        let attacks = [
            format!("read:{}", secret.display()),
            format!("write:{}", secret.display()),
            format!("list:{}", outside.path().display()),
            format!("environment:{other}"),
            format!("memory:{other}"),
            "signal:parent".to_owned(),
            format!("connect:{port}"),
            format!("socket:{}", socket.display()),
            "remove-mark".to_owned(),
            format!("datagram:{}", letters.display()),
            "listen".to_owned(),
            format!("reschedule:{other}"),
            "create-setuid-program".to_owned(),
        ];
        let free = results(&perform(&rig, &attacks, false).await);
        // In its own namespace the agent sees no other process.
        let at_least = if containment == Containment::Auto { 10 } else { 13 };
        assert!(free["reached"].as_u64().unwrap() >= at_least, "{containment:?}: {free:#}");
        let confined = results(&perform(&rig, &attacks, true).await);
        assert_eq!(confined["reached"], 0, "{containment:?}: {confined:#}");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}

/// Landlock does not restrict permissions of files, and most calls of the filter are never made by
/// an agent: each is tried, and each works unconfined.
#[tokio::test(flavor = "multi_thread")]
async fn no_closed_call_is_open_and_no_permission_is_changed() {
    if !can_confine() {
        return;
    }
    for containment in [Containment::Auto, Containment::Subreaper] {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("id_ed25519");
        std::fs::write(&key, "a key").unwrap();
        let rig = Rig::new(Path::new(PROGRAM), folder.path(), containment).unwrap();
        let mut attacks: Vec<String> =
            CALLS.iter().map(|call| format!("call:{}", call.name)).collect();
        for path in [folder.path(), &key, Path::new(PROGRAM)] {
            attacks.push(format!("chmod:{}", path.display()));
        }
        let free = results(&perform(&rig, &attacks, false).await);
        // Some machines close a few of them to everybody.
        let open = free["reached"].as_u64().unwrap();
        assert!(open >= attacks.len() as u64 - 6, "{containment:?}: {free:#}");
        let confined = results(&perform(&rig, &attacks, true).await);
        assert_eq!(confined["reached"], 0, "{containment:?}: {confined:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_environment_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Command::new(PROGRAM)
        .args(["simulate", "ado", "--port", "0"])
        .env("HEARTBEAT_SECRET", "a secret")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Its first line comes after it has protected itself.
    let mut line = String::new();
    let out = daemon.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    let rig = Rig::new(Path::new(PROGRAM), folder.path(), Containment::Subreaper).unwrap();
    let attacks = [format!("environment:{}", daemon.id()), format!("memory:{}", daemon.id())];
    let report = results(&perform(&rig, &attacks, false).await);
    // Root may inspect every process; nobody else can, not even the same user.
    if !nix::unistd::getuid().is_root() {
        assert_eq!(report["reached"], 0, "{report:#}");
    }
    let status = std::fs::read_to_string(format!("/proc/{}/limits", daemon.id())).unwrap();
    let core = status.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert!(core.split_ascii_whitespace().any(|word| word == "1"), "{core}");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_meets_the_wall_of_its_user_namespace() {
    if nix::unistd::getuid().is_root() {
        println!("skipped: the kernel exempts root from this limit; the caps are sampled");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(Path::new(PROGRAM), folder.path(), Containment::Auto).unwrap();
    let mut spec = rig.attack(&["fork-bomb:4000".to_owned()]);
    spec.limits.max_processes = 24;
    spec.limits.hard = Duration::from_secs(60);
    let observed = rig.observe(spec, &StopHandle::new()).await.unwrap();
    assert_eq!(observed.survivors, 0);
    // Itself and its children; the limit is 192 tasks.
    assert!(observed.births <= 192, "{} processes were born", observed.births);
}

/// Memory that no process maps is not a part of its resident memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_memory_counts_as_memory() {
    for containment in [Containment::Auto, Containment::Subreaper] {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::new(Path::new(PROGRAM), folder.path(), containment).unwrap();
        let mut spec = rig.attack(&["fill-memory-file:200".to_owned()]);
        spec.limits.max_memory = 100 << 20;
        spec.limits.hard = Duration::from_secs(60);
        rig.confine(&mut spec);
        let observed = rig.observe(spec, &StopHandle::new()).await.unwrap();
        let outcome = observed.end.outcome;
        assert_eq!(outcome, heartbeat::model::Outcome::TooMuchMemory, "{containment:?}");
    }
}

/// A file that was removed while it is open is in no folder that could be measured.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_a_name_counts_as_disk() {
    for containment in [Containment::Auto, Containment::Subreaper] {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::new(Path::new(PROGRAM), folder.path(), containment).unwrap();
        let mut spec = rig.attack(&["fill-unlinked:1100".to_owned()]);
        spec.limits.hard = Duration::from_secs(60);
        rig.confine(&mut spec);
        let observed = rig.observe(spec, &StopHandle::new()).await.unwrap();
        let outcome = observed.end.outcome;
        assert_eq!(outcome, heartbeat::model::Outcome::TooMuchDisk, "{containment:?}");
    }
}

/// The kernel counts descriptors that are on their way for all processes of a user: beyond their
/// limit, usually 1,024, no other program of the user could pass one.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_leaves_descriptors_on_their_way_to_others() {
    for containment in [Containment::Auto, Containment::Subreaper] {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::new(Path::new(PROGRAM), folder.path(), containment).unwrap();
        let attack = ["pass-descriptors:1250".to_owned()];
        let free = results(&perform(&rig, &attack, false).await);
        assert_eq!(free["reached"], 1, "{free:#}");
        let confined = results(&perform(&rig, &attack, true).await);
        assert_eq!(confined["reached"], 0, "{containment:?}: {confined:#}");
    }
}

fn sleeper(env: &[(&str, String)]) -> Child {
    let mut command = Command::new("sleep");
    command.arg("300").env_clear().stdin(Stdio::null()).stdout(Stdio::null());
    command.envs(env.iter().map(|(name, value)| (name, value)));
    command.spawn().unwrap()
}

fn row_of_the_dead(tier: &str) -> LedgerRow {
    LedgerRow {
        session: SessionRef {
            id: SessionId(Uuid::now_v7()),
            run: RunId(Uuid::now_v7()),
            stage: Stage::Deep,
            item: None,
            attempt: 1,
        },
        keeper: ProcessIdentity {
            pid: 4_000_000,
            start_time: 1,
            pidfd_inode: Some(1),
            boot_id: process::boot_id(),
        },
        tier: tier.to_owned(),
        cgroup: None,
        scratch: "/nonexistent/heartbeat-test".into(),
        started_at: Timestamp::UNIX_EPOCH,
        deadline_at: Timestamp::UNIX_EPOCH,
        host: None,
        in_force: None,
    }
}

/// Every process of the same user can copy marks.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_a_forged_mark_is_not_killed() {
    for (tier, forges_limit) in
        [("subreaper", false), ("subreaper+landlock", true), ("pidns+landlock", true)]
    {
        let folder = tempfile::tempdir().unwrap();
        let ledger = FolderLedger::open(folder.path()).unwrap();
        let row = row_of_the_dead(tier);
        let id = row.session.id;
        ledger.insert(&row).unwrap();
        let mut stranger = sleeper(&[(mark::VARIABLE, id.to_string())]);
        if forges_limit {
            let value = mark::limit(id.0).to_string();
            let set = Command::new("prlimit")
                .args([format!("--pid={}", stranger.id()), format!("--rttime={value}:{value}")])
                .status();
            if !set.is_ok_and(|status| status.success()) {
                println!("skipped: no prlimit program");
            }
        }
        let none = HashSet::new();
        let events = EventRecorder::default();
        let within = Duration::from_secs(5);
        let resolved = orphans::resolve(&ledger, &events, &none, within).await.unwrap();
        assert_eq!(stranger.try_wait().unwrap(), None, "{tier}: a stranger was killed");
        assert_eq!(resolved.closed, [id], "{tier}: the row is not held up by a stranger");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}

/// The usual entry point of a container: a shell with children replaces itself with heartbeat.
#[test]
fn children_from_before_the_start_are_left_alone() {
    for tier in ["auto", "subreaper"] {
        let script = format!(
            "sleep 300 & echo $! >&3; exec {PROGRAM} selftest --tier {tier} --only kills-keeper \
             --only well-behaved >/dev/null"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let status = Command::new("bash")
            .args(["-c", &format!("exec 3>{}; {script}", file.display())])
            .env("TMPDIR", folder.path())
            .status()
            .unwrap();
        assert!(status.success(), "{tier}: {status}");
        let pid: u32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        let alive = process::stat(pid).is_some_and(|stat| !stat.is_dead());
        let number = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
        nix::sys::signal::kill(number, nix::sys::signal::Signal::SIGKILL).ok();
        assert!(alive, "{tier}: a child from before the start was killed");
    }
}
