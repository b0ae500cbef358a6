//! The last part of the self-test: agents that exceed a limit or attack their keeper, and unrelated
//! processes that must not be killed. Each line says what was tried and what happened.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;

use crate::app::selftest::{EventRecorder, HostileAgent, Rig};
use crate::event::Event;
use crate::model::{Outcome, ProcessIdentity};
use crate::ports::LedgerRow;
use crate::process;
use crate::session::in_force::Walls;
use crate::session::{SessionSpec, StopHandle, mark, orphans};
use crate::simulate::hostile::Misbehaviour;

#[derive(Debug, Clone, Serialize)]
pub struct AttackRow {
    pub attack: String,
    pub happened: String,
    /// The attack was blocked, or the unrelated process is alive.
    pub held: bool,
    /// Processes left, according to the observer.
    pub survivors: u32,
}

pub(super) const FORK_BOMB: &str = "fork bomb at a cap of 24";
pub(super) const MUCH_MEMORY: &str = "200 MB in memory at a cap of 100";

pub(super) async fn run(rig: &Rig, walls: Walls) -> io::Result<Vec<AttackRow>> {
    let mut rows = vec![fork_bomb(rig, walls.tasks).await?];
    rows.push(much_memory(rig, walls.memory).await?);
    rows.push(stopped_keeper(rig).await?);
    rows.push(stranger_child(rig).await?);
    rows.push(forged_mark(rig).await?);
    rows.push(super::connections::idle_connections(rig).await?);
    Ok(rows)
}

/// Starts as many processes as possible, with a limit of 24.
async fn fork_bomb(rig: &Rig, limits_tasks: bool) -> io::Result<AttackRow> {
    const BORN_WITHOUT_A_WALL: u64 = 600;
    let mut spec = rig.attack(&[format!("fork-bomb:{BORN_WITHOUT_A_WALL}")]);
    spec.limits.max_processes = 24;
    let observed = rig.observe(spec, &StopHandle::new()).await.map_err(io::Error::other)?;
    let is_bounded = observed.births < BORN_WITHOUT_A_WALL;
    let wall = match (limits_tasks, is_bounded) {
        (true, true) => "stopped by the kernel's limit",
        (true, false) => "the kernel's limit does NOT hold",
        (false, _) => "not limited by the kernel here; counted every second",
    };
    Ok(AttackRow {
        attack: FORK_BOMB.to_owned(),
        happened: format!(
            "{} processes were started ({wall}), {}",
            observed.births, observed.end.outcome
        ),
        held: observed.survivors == 0 && (is_bounded || !limits_tasks),
        survivors: observed.survivors,
    })
}

/// Fills a file in memory, which no process maps.
async fn much_memory(rig: &Rig, is_limited: bool) -> io::Result<AttackRow> {
    let mut spec = rig.attack(&["fill-memory-file:200".to_owned()]);
    spec.limits.max_memory = 100 << 20;
    let observed = rig.observe(spec, &StopHandle::new()).await.map_err(io::Error::other)?;
    let outcome = &observed.end.outcome;
    let how = match is_limited {
        true => "limited by the kernel",
        false => "not limited by the kernel here; counted every second",
    };
    Ok(AttackRow {
        attack: MUCH_MEMORY.to_owned(),
        happened: format!("{outcome} ({how})"),
        held: observed.survivors == 0 && *outcome != Outcome::Completed,
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
        in_force: None,
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
