//! Checks the state: writable, of our schema version, not locked by a hung process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::{DoctorCheck, DoctorInput};
use crate::ports::{Ledger, LedgerRow};
use crate::process;
use crate::settings::FirstRun;
use crate::store::{FirstRunFact, HolderHealth, Journal, RunLock, Store, refuse_foreign};

const MOVE: &str = "choose a folder that this user can write, with --state-dir or [state] dir";

pub(super) async fn checks(input: &DoctorInput) -> Vec<DoctorCheck> {
    let folder = match &input.state {
        Ok(folder) => folder,
        Err(why) => return vec![DoctorCheck::failed("state", why, MOVE)],
    };
    if let Err(error) = refuse_foreign(folder) {
        return vec![DoctorCheck::failed("state", error.to_string(), MOVE)];
    }
    if let Err(error) = try_writing(folder) {
        let found = format!("cannot write {}: {error}", folder.display());
        return vec![DoctorCheck::failed("state", found, MOVE)];
    }
    match Store::open_for_reading(folder) {
        Err(error) => {
            let fix = "see the message above; nothing was changed";
            vec![DoctorCheck::failed("state", error.to_string(), fix)]
        }
        Ok(None) => {
            let found = format!("{} is ready; nothing has run on it yet", folder.display());
            let mut checks = vec![DoctorCheck::ok("state", found)];
            checks.extend(first_run(input, None));
            checks
        }
        Ok(Some(store)) => {
            let found = format!(
                "{} is writable, schema version {}",
                folder.display(),
                crate::store::SCHEMA_VERSION
            );
            let database = database(&store).await;
            let lock = lock(input, folder);
            let orphans = orphans(input, &store).await;
            let budget = budget(input, &store).await;
            let last_session = last_session(input, &store).await;
            let mut checks = vec![DoctorCheck::ok("state", found), database, lock];
            checks.extend([orphans, last_session, budget]);
            let mut came = Some(FirstRunFact::Over);
            for source in input.config.sources() {
                let known = store.sources().first_run(source.name.clone()).await.ok().flatten();
                came = came.and(known);
            }
            checks.extend(first_run(input, came));
            checks
        }
    }
}

/// Warns before the first scheduled run about its open decision.
fn first_run(input: &DoctorInput, came: Option<FirstRunFact>) -> Option<DoctorCheck> {
    let asks = input.config.schedule.first_run == FirstRun::Ask && came.is_none();
    asks.then(|| {
        let found =
            "the first scheduled run will abort: schedule.first_run does not say what to do with existing items";
        let fix = "set schedule.first_run to \"baseline\" (mark them as seen) or \"process\" \
                   (analyse them); `heartbeat --once` processes them";
        DoctorCheck::warning("first run", found, fix)
    })
}

/// Reads the whole database: damage shows only where it is read.
async fn database(store: &Store) -> DoctorCheck {
    match store.check_integrity().await {
        Ok(()) => DoctorCheck::ok("database", "no damage found"),
        Err(error) => {
            let fix = "see the message above; the findings may still be readable: heartbeat report";
            DoctorCheck::failed("database", error.to_string(), fix)
        }
    }
}

/// Tests by writing: permissions alone do not show full, read-only or unusual file systems. Test
/// files are removed.
fn try_writing(folder: &Path) -> io::Result<()> {
    let mut made: Vec<PathBuf> = Vec::new();
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    let tried = (|| {
        for path in missing.into_iter().rev() {
            std::fs::create_dir(path)?;
            made.push(path.to_path_buf());
        }
        let probe = folder.join(format!(".doctor-{}", std::process::id()));
        std::fs::write(&probe, b"probe")?;
        std::fs::remove_file(&probe)
    })();
    for path in made.into_iter().rev() {
        // Not empty any more: another process has begun to use it.
        drop(std::fs::remove_dir(path));
    }
    tried
}

fn lock(input: &DoctorInput, folder: &Path) -> DoctorCheck {
    match RunLock::look(folder, &input.clock) {
        Err(error) => DoctorCheck::failed("run lock", error.to_string(), MOVE),
        Ok(None) => DoctorCheck::ok("run lock", "free"),
        Ok(Some(held)) => {
            let (pid, purpose) = (held.holder.process.pid, &held.holder.purpose);
            match held.health {
                HolderHealth::Alive => {
                    DoctorCheck::ok("run lock", format!("held by process {pid} ({purpose}), alive"))
                }
                HolderHealth::Hung => DoctorCheck::failed(
                    "run lock",
                    format!("held by process {pid} ({purpose}), which sends no heartbeat"),
                    format!("end it with `kill -9 {pid}`; its sessions then end automatically"),
                ),
            }
        }
    }
}

/// Rows whose keeper is gone; the next run resolves them.
async fn orphans(input: &DoctorInput, store: &Store) -> DoctorCheck {
    let rows = match Journal::open(store.clone(), input.clock.clone(), None) {
        Ok(journal) => journal.open_rows().await.unwrap_or_default(),
        Err(error) => return DoctorCheck::failed("sessions", error.to_string(), MOVE),
    };
    describe_rows(&rows)
}

/// A row with a host has no process here: only its host and the server know whether it lives.
fn describe_rows(rows: &[LedgerRow]) -> DoctorCheck {
    let mut on_hosts: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut live, mut gone) = (0_usize, 0_usize);
    for row in rows {
        match row.host.as_deref() {
            Some(host) => *on_hosts.entry(host).or_default() += 1,
            None if process::is_same(&row.keeper) => live += 1,
            None => gone += 1,
        }
    }
    let waiting = on_hosts.remove("").unwrap_or_default();
    let mut found = Vec::new();
    if !on_hosts.is_empty() {
        let total: usize = on_hosts.values().sum();
        let named = on_hosts.iter().map(|(host, count)| format!("{host}: {count}"));
        let named: Vec<String> = named.collect();
        found.push(format!("{total} running on hosts ({})", named.join(", ")));
    }
    if waiting > 0 {
        found.push(format!("{waiting} waiting for a host"));
    }
    let none = if gone == 0 { ", none orphaned" } else { "" };
    if live > 0 || found.is_empty() {
        found.push(format!("{live} running{none}"));
    }
    if gone == 0 {
        return DoctorCheck::ok("sessions", found.join(", "));
    }
    found.push(format!("{gone} left by a heartbeat process that is gone"));
    let fix = "the next run ends them; `heartbeat --once` does it now";
    DoctorCheck::warning("sessions", found.join(", "), fix)
}

/// Problems that only a session can show, such as an unknown model.
async fn last_session(input: &DoctorInput, store: &Store) -> DoctorCheck {
    let providers = store.provider().all(input.config.agents()).await;
    match providers.map(|providers| providers.agent_fault()) {
        Err(error) => DoctorCheck::failed("last session", error.to_string(), MOVE),
        Ok(None) => {
            DoctorCheck::ok("last session", "reported no problem with the agent's settings")
        }
        Ok(Some(fault)) => {
            let (found, fix) = fault.split_once(": ").unwrap_or((&fault, &fault));
            DoctorCheck::failed("last session", found, format!("{fix}; the next run tries again"))
        }
    }
}

async fn budget(input: &DoctorInput, store: &Store) -> DoctorCheck {
    let zone = &input.config.schedule.timezone;
    let day = crate::schedule::day_in(zone, input.clock.now());
    let committed = match store.budget().on_day(day).await {
        Ok(spending) => spending.committed(),
        Err(error) => return DoctorCheck::failed("budget", error.to_string(), MOVE),
    };
    let config = &input.config;
    let left = config.budget.per_day.saturating_sub(committed);
    let found = format!("{left} of {} left today", config.budget.per_day);
    if left < config.triage.max_cost {
        let fix = format!("raise budget.per_day, or wait for the next day ({zone})");
        return DoctorCheck::warning("budget", format!("{found}: no session can start"), fix);
    }
    DoctorCheck::ok("budget", found)
}
