//! The second half of the self-test: agents that attack other processes and files, and unrelated
//! processes that must not be killed. Each line says what was tried and what happened.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;

use crate::app::selftest::{EventRecorder, HostileAgent, Rig};
use crate::event::Event;
use crate::model::ProcessIdentity;
use crate::ports::LedgerRow;
use crate::process;
use crate::session::confinement::Strength;
use crate::session::{SessionSpec, StopHandle, mark, orphans};
use crate::simulate::hostile::Misbehaviour;
use crate::simulate::hostile::calls::CALLS;

#[derive(Debug, Clone, Serialize)]
pub struct AttackRow {
    pub attack: String,
    pub happened: String,
    /// The attack was blocked, or the unrelated process is alive.
    pub held: bool,
    /// Processes left, according to the observer.
    pub survivors: u32,
}

pub async fn run(rig: &Rig) -> io::Result<Vec<AttackRow>> {
    let mut rows = reach_out(rig).await?;
    rows.push(fork_bomb(rig).await?);
    rows.push(stopped_keeper(rig).await?);
    rows.push(stranger_child(rig).await?);
    rows.push(forged_mark(rig).await?);
    rows.push(super::connections::idle_connections(rig).await?);
    Ok(rows)
}

/// What a confined agent can reach of this process, this user and this machine.
async fn reach_out(rig: &Rig) -> io::Result<Vec<AttackRow>> {
    let secret = rig.folder.join("token");
    crate::private::write(&secret, b"not a real one")?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (own, port) = (std::process::id(), listener.local_addr()?.port());
    let tried = [
        ("read heartbeat's environment", format!("environment:{own}")),
        ("open heartbeat's memory", format!("memory:{own}")),
        ("read a token file", format!("read:{}", secret.display())),
        ("write a token file", format!("write:{}", secret.display())),
        ("list the state folder", format!("list:{}", rig.folder.display())),
        ("list the folder above it", format!("list:{}", above(&rig.folder).display())),
        ("list a home folder", format!("list:{}", home().display())),
        ("signal the keeper", "signal:parent".to_owned()),
        ("signal heartbeat", format!("signal:{own}")),
        ("remove the session's mark", "remove-mark:".to_owned()),
        ("connect to another port", format!("connect:{port}")),
        ("listen on a port", "listen:".to_owned()),
        ("change the scheduling of heartbeat", format!("reschedule:{own}")),
        ("create a set-user-id program", "create-setuid-program:".to_owned()),
        ("change the permissions of a token file", format!("chmod:{}", secret.display())),
        ("change the permissions of the state", format!("chmod:{}", rig.folder.display())),
    ];
    let mut tried: Vec<(String, String)> =
        tried.into_iter().map(|(name, attack)| (name.to_owned(), attack)).collect();
    let closed = CALLS
        .iter()
        .map(|call| (format!("system call: {}", call.name), format!("call:{}", call.name)));
    tried.extend(closed);
    let attacks: Vec<String> = tried.iter().map(|(_, attack)| attack.clone()).collect();
    // The positive control: the same attacks without confinement. What is refused there too says
    // nothing about the confinement.
    let mut spec = rig.attack(&attacks);
    let control = rig.observe(spec.clone(), &StopHandle::new()).await.map_err(io::Error::other)?;
    let control = control.end.output.unwrap_or_default();
    spec = rig.attack(&attacks);
    if Strength::of_this_machine() != Strength::Missing {
        rig.confine(&mut spec);
    }
    let observed = rig.observe(spec, &StopHandle::new()).await.map_err(io::Error::other)?;
    let report = observed.end.output.unwrap_or_default();
    let row = |(name, attack): &(String, String)| {
        let mut happened = report["results"][attack].as_str().unwrap_or("no report").to_owned();
        let held = EXPECTED.iter().any(|expected| happened.starts_with(expected));
        let unconfined = control["results"][attack].as_str().unwrap_or("no report");
        if held && EXPECTED.iter().any(|expected| unconfined.starts_with(expected)) {
            happened.push_str("; this machine refuses it without confinement too");
        }
        AttackRow { attack: name.clone(), held, happened, survivors: observed.survivors }
    };
    Ok(tried.iter().map(row).collect())
}

/// How a wall refuses: the filter and Landlock by permission, a call that the filter hides as
/// unknown, a process or a file that is not there in the session's namespace. Any other error means
/// that the attack itself went wrong.
const EXPECTED: [&str; 5] = [
    "refused: Operation not permitted",
    "refused: Permission denied",
    "refused: EPERM",
    "refused: Function not implemented",
    "refused: No such",
];

fn above(folder: &Path) -> &Path {
    folder.parent().unwrap_or(folder)
}

fn home() -> &'static Path {
    Path::new(if nix::unistd::getuid().is_root() { "/root" } else { "/home" })
}

/// Starts as many processes as possible, with a limit of 24.
async fn fork_bomb(rig: &Rig) -> io::Result<AttackRow> {
    const BORN_WITHOUT_A_WALL: u64 = 600;
    let mut spec = rig.attack(&[format!("fork-bomb:{BORN_WITHOUT_A_WALL}")]);
    spec.limits.max_processes = 24;
    let observed = rig.observe(spec, &StopHandle::new()).await.map_err(io::Error::other)?;
    let wall = match observed.births >= BORN_WITHOUT_A_WALL {
        true => "the kernel's limit does not apply here; counted every second",
        false => "stopped by the kernel's limit",
    };
    Ok(AttackRow {
        attack: "fork bomb at a cap of 24".to_owned(),
        happened: format!(
            "{} processes were started ({wall}), {}",
            observed.births, observed.end.outcome
        ),
        // Counted by sampling where the kernel limit does not apply to this user; ended in any
        // case.
        held: observed.survivors == 0,
        survivors: observed.survivors,
    })
}

/// The keeper is stopped and heartbeat is killed: its end of the socket closes.
async fn stopped_keeper(rig: &Rig) -> io::Result<AttackRow> {
    let spec = rig.spec(Misbehaviour::Mix, 7, 12);
    let mut stopped = Stopped(None);
    let (session, mut oracle) = (spec.session.id, rig.oracle(spec.session.id)?);
    let stop = StopHandle::new();
    let before = rig.events.events().len();
    let grown = async {
        let mut seen = before;
        loop {
            let events = rig.events.after(seen).await;
            seen += events.len();
            if events.iter().any(|event| matches!(event, Event::SessionProgressed { .. })) {
                let rows = rig.ledger.rows().unwrap_or_default();
                let row = rows.into_iter().find(|row| row.session.id == session);
                stopped.0 = row.map(|row| row.keeper);
                // Our own child and not reaped, so the pid is still its own.
                stopped.signal(Signal::SIGSTOP);
                return;
            }
        }
    };
    tokio::select! {
        _ = rig.supervisor.run(spec, &HostileAgent, stop.signal()) => {}
        // Dropping the session's future closes our end of the socket.
        () = grown => {}
    }
    let mut left = oracle.survivors();
    for _ in 0..100 {
        if left == 0 && !stopped.is_alive() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        left = oracle.survivors();
    }
    let keeper = if stopped.is_alive() { "still there" } else { "gone" };
    let within = Duration::from_secs(10);
    let none = HashSet::new();
    orphans::resolve(&*rig.ledger, &*rig.events, &none, within).await.map_err(io::Error::other)?;
    Ok(AttackRow {
        attack: "stop the keeper, kill heartbeat".to_owned(),
        happened: format!(
            "{left} of {} processes left before a restart, the keeper is {keeper}",
            oracle.births()
        ),
        held: left == 0 && !stopped.is_alive(),
        survivors: left,
    })
}

/// A stopped keeper. It is always continued: while stopped it reaps no children, and a session that
/// respawns would fill the process table.
struct Stopped(Option<ProcessIdentity>);

impl Stopped {
    fn is_alive(&self) -> bool {
        let stat = |keeper: &ProcessIdentity| process::stat(keeper.pid);
        self.0.as_ref().is_some_and(|keeper| {
            process::is_same(keeper) && stat(keeper).is_some_and(|stat| !stat.is_dead())
        })
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.0.as_ref().and_then(|keeper| i32::try_from(keeper.pid).ok())
            && self.is_alive()
        {
            kill(Pid::from_raw(pid), signal).ok();
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.signal(Signal::SIGCONT);
    }
}

/// A child that heartbeat did not start as a session, while a keeper is killed.
async fn stranger_child(rig: &Rig) -> io::Result<AttackRow> {
    let stranger = sleeper(&rig.program, &[])?;
    let spec: SessionSpec = rig.spec(Misbehaviour::KillsKeeper, 11, 12);
    let observed = rig.observe(spec, &StopHandle::new()).await.map_err(io::Error::other)?;
    Ok(left_alone("keeper lost: a child from before the start", stranger, observed.survivors))
}

/// A process of the same user that has the marker of a session whose keeper is dead.
async fn forged_mark(rig: &Rig) -> io::Result<AttackRow> {
    let row = LedgerRow {
        session: rig.spec(Misbehaviour::Sleeper, 1, 1).session,
        keeper: ProcessIdentity { start_time: 0, ..process::own_identity() },
        tier: "subreaper".to_owned(),
        cgroup: None,
        scratch: rig.folder.join("scratch-forged"),
        started_at: jiff::Timestamp::UNIX_EPOCH,
        deadline_at: jiff::Timestamp::UNIX_EPOCH,
        host: None,
    };
    rig.ledger.insert(&row)?;
    let mark = (mark::VARIABLE.into(), row.session.id.to_string().into());
    // Started by another process, so that it is not our child either.
    let stranger = sleeper(&rig.program, &[mark])?;
    let (none, events) = (HashSet::new(), EventRecorder::default());
    let within = Duration::from_secs(5);
    orphans::resolve(&*rig.ledger, &events, &none, within).await.map_err(io::Error::other)?;
    Ok(left_alone("restart: an unrelated process with a copied mark", stranger, 0))
}

#[expect(clippy::disallowed_methods, reason = "a stranger is started past the register on purpose")]
fn sleeper(program: &Path, env: &[(OsString, OsString)]) -> io::Result<Child> {
    Command::new(program)
        .args(["simulate", "agent", "--misbehave", "hang-before-init"])
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
}

fn left_alone(attack: &str, mut stranger: Child, survivors: u32) -> AttackRow {
    let alive = matches!(stranger.try_wait(), Ok(None));
    stranger.kill().ok();
    stranger.wait().ok();
    AttackRow {
        attack: attack.to_owned(),
        happened: if alive { "left alone" } else { "KILLED" }.to_owned(),
        held: alive,
        survivors,
    }
}
