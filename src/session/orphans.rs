//! Resolves rows of earlier heartbeat processes: their trees are verified gone, or killed, before
//! anything new starts.
//!
//! A row is resolved in this order: another boot (nothing can be left); a keeper whose heartbeat is
//! alive (not an orphan); the keeper itself, if it is verifiably the same process; the recorded
//! control group; then every process that is proven to belong to the session ([`super::evidence`]),
//! until two scans in a row find none. Nothing is killed by its name, by a pid alone or by a mark
//! alone.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::evidence::{Evidence, Proof, warn_of_unproven};
use super::keeper::launch::{open_keeper, owner_is_alive};
use super::{children, keeper, supervisor};
use crate::event::{Event, Sink};
use crate::model::{Outcome, SessionEnd, SessionId};
use crate::ports::{Ledger, LedgerError, LedgerRow};
use crate::process::{self, Pidfd};

/// Consecutive scans that must find nothing.
const CLEAN_SCANS: u32 = 2;
/// Duration of each [`MarkedScan::chase`].
const CHASE: Duration = Duration::from_millis(25);

/// Result for one or several sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ended {
    pub killed: u32,
    /// Processes still alive.
    pub left: u32,
    /// Processes with an unproven mark; left alone.
    pub unproven: Vec<u32>,
}

/// What happened to the open rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resolved {
    /// Closed: verified empty.
    pub closed: Vec<SessionId>,
    /// Left open: a process cannot be killed.
    pub stuck: Vec<SessionId>,
    /// Left alone: their heartbeat is alive.
    pub alive: Vec<SessionId>,
}

/// Resolves every open row that this process does not supervise.
///
/// `within` is the limit for all rows together; unresolved rows stay open and count as live.
pub async fn resolve(
    ledger: &dyn Ledger,
    events: &dyn Sink,
    supervised: &HashSet<SessionId>,
    within: Duration,
) -> Result<Resolved, LedgerError> {
    let until = Instant::now() + within;
    let mut resolved = Resolved::default();
    let mut orphaned = Vec::new();
    let boot = process::boot_id();
    for row in ledger.open_rows().await? {
        // A session on another host has no process here; its boot id differs, which would close its
        // row.
        if supervised.contains(&row.session.id) || row.host.is_some() {
            continue;
        }
        if row.keeper.boot_id == boot && is_supervised_elsewhere(&row) {
            resolved.alive.push(row.session.id);
        } else {
            orphaned.push(row);
        }
    }
    let alive: Vec<_> = resolved.alive.iter().map(|session| session.0).collect();
    keeper::remove_empty_groups(&alive);
    if orphaned.is_empty() {
        return Ok(resolved);
    }
    let killed = end_all(&orphaned, &boot, until).await;
    for (row, ended) in orphaned.into_iter().zip(killed) {
        conclude(ledger, events, row, ended, &mut resolved).await?;
    }
    Ok(resolved)
}

/// What proves that a process belongs to the row's session.
pub(super) fn evidence_of(row: &LedgerRow) -> Evidence {
    Evidence::new(row.session.id.0, &row.keeper, &row.tier)
}

fn is_alive(row: &LedgerRow) -> bool {
    open_keeper(&row.keeper, row.session.id.0).is_some()
}

fn is_supervised_elsewhere(row: &LedgerRow) -> bool {
    is_alive(row) && owner_is_alive(row.keeper.pid)
}

/// Ends the trees of these rows concurrently; returns the result of each.
async fn end_all(rows: &[LedgerRow], boot: &str, until: Instant) -> Vec<Ended> {
    let of_this_boot = |row: &&LedgerRow| row.keeper.boot_id == boot;
    for row in rows.iter().filter(of_this_boot) {
        // Its heartbeat is gone, so it is already ending; this makes sure.
        request_end(row).ok();
    }
    for row in rows.iter().filter(of_this_boot) {
        await_keeper(row, until).await;
        if let Some(group) = &row.cgroup {
            keeper::kill_group(group);
            // Refused while it has members; the scans below decide whether the row closes.
            std::fs::remove_dir(group).ok();
        }
    }
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(200));
    let evidence: Vec<Evidence> = rows.iter().filter(of_this_boot).map(evidence_of).collect();
    children::catch_escapees(&evidence, &HashSet::new(), left).await;
    let scan = scan_marked(evidence, left).await;
    warn_of_unproven(&scan.unproven());
    rows.iter().map(|row| scan.ended(row.session.id)).collect()
}

async fn await_keeper(row: &LedgerRow, until: Instant) {
    // Keepers get half of the time, the scans the rest.
    let half = Instant::now() + until.saturating_duration_since(Instant::now()) / 2;
    while is_alive(row) {
        if Instant::now() >= half {
            if let Some(pidfd) = open_keeper(&row.keeper, row.session.id.0) {
                pidfd.signal(Signal::SIGKILL).ok();
            }
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn conclude(
    ledger: &dyn Ledger,
    events: &dyn Sink,
    row: LedgerRow,
    ended: Ended,
    resolved: &mut Resolved,
) -> Result<(), LedgerError> {
    let session = row.session.id;
    if ended.left > 0 || is_alive(&row) {
        let detail = format!("{} processes of an earlier heartbeat process", ended.left.max(1));
        events.emit(Event::Unkillable { session, detail });
        resolved.stuck.push(session);
        return Ok(());
    }
    // The row may come from another machine's state: only a folder named after the session is ours.
    let name = row.scratch.file_name().unwrap_or_default();
    if name.to_string_lossy().contains(&session.to_string()) {
        supervisor::remove_folder(&row.scratch).await;
    }
    ledger.close(session, SessionEnd::empty(Outcome::Orphaned)).await?;
    events.emit(Event::OrphanResolved { session, killed: ended.killed });
    resolved.closed.push(session);
    Ok(())
}

/// Kills every process that is proven to belong to these sessions, until two scans find none.
pub async fn end_marked(sessions: Vec<Evidence>, within: Duration) -> Ended {
    let scan = scan_marked(sessions, within).await;
    let unproven = scan.unproven();
    scan.ended.iter().fold(Ended { unproven, ..Ended::default() }, |all, one| Ended {
        killed: all.killed + one.killed,
        left: all.left + one.left,
        ..all
    })
}

/// On its own thread, since [`MarkedScan::chase`] needs microseconds.
async fn scan_marked(sessions: Vec<Evidence>, within: Duration) -> MarkedScan {
    let fallback = MarkedScan::new(sessions.clone()).failed();
    let scanned = tokio::task::spawn_blocking(move || {
        let mut scan = MarkedScan::new(sessions);
        scan.run(within);
        scan
    });
    scanned.await.unwrap_or(fallback)
}

/// Repeated scans for the marks of some sessions.
struct MarkedScan {
    sessions: Vec<Evidence>,
    ended: Vec<Ended>,
    signalled: HashSet<(u32, u64)>,
    unproven: BTreeSet<u32>,
}

impl MarkedScan {
    fn new(sessions: Vec<Evidence>) -> Self {
        let ended = vec![Ended::default(); sessions.len()];
        Self { sessions, ended, signalled: HashSet::new(), unproven: BTreeSet::new() }
    }

    /// A scan that could not run proves nothing.
    fn failed(mut self) -> Self {
        for ended in &mut self.ended {
            ended.left = 1;
        }
        self
    }

    fn ended(&self, session: SessionId) -> Ended {
        let index = self.sessions.iter().position(|one| one.session == session.0);
        index.map_or_else(Ended::default, |index| self.ended[index].clone())
    }

    fn unproven(&self) -> Vec<u32> {
        self.unproven.iter().copied().collect()
    }

    fn run(&mut self, within: Duration) {
        if self.sessions.is_empty() {
            return;
        }
        let until = Instant::now() + within;
        let mut clean = 0;
        while clean < CLEAN_SCANS {
            let found = self.scan_once() + self.chase();
            clean = if found == 0 { clean + 1 } else { 0 };
            if Instant::now() >= until {
                return;
            }
        }
    }

    /// Scans the newest pids repeatedly for a moment.
    ///
    /// A full scan misses a process that lives for a millisecond and forks a successor. Pids are
    /// assigned in order, so the successor has one of the newest.
    fn chase(&mut self) -> u32 {
        let until = Instant::now() + CHASE;
        let mut found = 0;
        let Some(mut from) = process::newest() else { return 0 };
        while Instant::now() < until {
            let newest = process::newest().unwrap_or(from);
            for pid in from.min(newest).saturating_sub(2)..=newest.saturating_add(1) {
                if let Some(index) = self.belongs_to(pid) {
                    found += 1;
                    self.end(pid, index);
                }
            }
            from = newest;
            std::thread::sleep(Duration::from_micros(100));
        }
        found
    }

    /// One pass over all processes; returns how many belong to a session.
    fn scan_once(&mut self) -> u32 {
        let own = std::process::id();
        let mut found = 0;
        for ended in &mut self.ended {
            ended.left = 0;
        }
        for pid in process::all().into_iter().filter(|pid| *pid != own) {
            let Some(index) = self.belongs_to(pid) else { continue };
            found += 1;
            self.ended[index].left += 1;
            self.end(pid, index);
        }
        found
    }

    /// The session that a live process is proven to belong to.
    fn belongs_to(&mut self, pid: u32) -> Option<usize> {
        let judged =
            self.sessions.iter().enumerate().find_map(|(at, one)| Some((at, one.judge(pid)?)));
        match judged? {
            (index, Proof::Proven) => Some(index),
            (_, Proof::Unproven) => {
                self.unproven.insert(pid);
                None
            }
        }
    }

    /// Opens a handle, checks the proof again by pid, and only then signals through the handle: if
    /// the pid had been reused in between, the proof would fail.
    fn end(&mut self, pid: u32, index: usize) {
        let Ok(pidfd) = Pidfd::open(pid) else { return };
        if self.belongs_to(pid) != Some(index) {
            return;
        }
        let Some(stat) = process::stat(pid) else { return };
        if pidfd.signal(Signal::SIGKILL).is_ok() && self.signalled.insert((pid, stat.start_time)) {
            self.ended[index].killed += 1;
        }
    }
}

/// Asks a row's keeper to end its session with a grace period and to sweep. False if the keeper is
/// not alive or on another host. The keeper is verified by start time, boot, handle and command
/// line.
///
/// For callers that do not supervise it: a restarted heartbeat, the dashboard, `heartbeat kill`.
pub fn request_end(row: &LedgerRow) -> std::io::Result<bool> {
    let Some(keeper) = open_keeper(&row.keeper, row.session.id.0) else { return Ok(false) };
    keeper.signal(Signal::SIGTERM)?;
    // It may be stopped.
    keeper.signal(Signal::SIGCONT).ok();
    Ok(true)
}
