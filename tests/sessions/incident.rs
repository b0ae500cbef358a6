//! The incident, replayed: sixteen new items, agents that each start 23 searching children in
//! separate sessions, five ticks, and heartbeat killed three times in between.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use heartbeat::app::selftest::{FolderLedger, HostileAgent, Rig};
use heartbeat::event::Reason;
use heartbeat::ports::LedgerError;
use heartbeat::process;
use heartbeat::session::admission::{self, Limits};
use heartbeat::session::{StopHandle, become_outer_reaper, orphans};
use heartbeat::settings::Containment;
use heartbeat::simulate::hostile::Misbehaviour;
use heartbeat::simulate::hostile::oracle::Oracle;

const FOLDER: &str = "HEARTBEAT_TEST_FOLDER";
const TIER: &str = "HEARTBEAT_TEST_TIER";
const MAX_LOAD: &str = "HEARTBEAT_TEST_MAX_LOAD";
const ITEMS: usize = 16;
const MAX_SESSIONS: usize = 3;
const MAX_PROCESSES: u32 = 24;

/// Not a test: one tick of heartbeat.
#[test]
fn tick() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let tier = match std::env::var(TIER).unwrap().as_str() {
        "auto" => Containment::Auto,
        _ => Containment::Subreaper,
    };
    let max_load: f64 = std::env::var(MAX_LOAD).unwrap().parse().unwrap();
    become_outer_reaper().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run_tick(&folder, tier, max_load));
}

async fn run_tick(folder: &Path, tier: Containment, max_load: f64) {
    let rig = Rig::new(Path::new(env!("CARGO_BIN_EXE_heartbeat")), folder, tier).unwrap();
    let supervised = rig.supervisor.live_sessions();
    let grace = Duration::from_secs(10);
    orphans::resolve(&*rig.ledger, &*rig.events, &supervised, grace).await.unwrap();
    let waiting: Vec<usize> = (0..ITEMS).filter(|item| !done(folder, *item).exists()).collect();
    let queue = Mutex::new(waiting);
    // More workers than slots: the ledger must enforce the limit, not the loop.
    let hands = (0..5).map(|_| work(&rig, &queue, max_load));
    let [a, b, c, d, e] = <[_; 5]>::try_from(hands.collect::<Vec<_>>()).ok().unwrap();
    tokio::join!(a, b, c, d, e);
}

fn done(folder: &Path, item: usize) -> PathBuf {
    folder.join(format!("done-{item}"))
}

async fn work(rig: &Rig, queue: &Mutex<Vec<usize>>, max_load: f64) {
    loop {
        let Some(item) = queue.lock().unwrap().pop() else { return };
        let limits = Limits {
            max_live_sessions: 3,
            max_load_per_core: max_load,
            min_free_memory: 1,
            max_memory_pressure: 100.0,
            max_tree_processes: 3 * MAX_PROCESSES,
        };
        let readings = admission::read_machine();
        if let Err((reason, detail)) = admission::decide(&readings, &limits) {
            assert_eq!(reason, Reason::Load);
            std::fs::write(rig.folder.join(format!("deferred-{item}")), detail).unwrap();
            continue;
        }
        let mut spec = rig.spec(Misbehaviour::Searchers, 1, MAX_PROCESSES - 1);
        *spec.args.last_mut().unwrap() = rig.folder.join("canary").into_os_string();
        spec.limits.hard = Duration::from_secs(60);
        spec.limits.max_processes = MAX_PROCESSES;
        match rig.supervisor.run(spec, &HostileAgent, StopHandle::new().signal()).await {
            Ok(end) if end.outcome.is_success() => {
                std::fs::write(done(&rig.folder, item), "").unwrap();
            }
            Ok(end) => panic!("{end:?}"),
            Err(LedgerError::Full { .. }) => {
                queue.lock().unwrap().push(item);
                // Until it asks the ledger again.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

fn start_tick(folder: &Path, tier: &str, max_load: f64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "incident::tick"])
        .env(FOLDER, folder)
        .env(TIER, tier)
        .env(MAX_LOAD, max_load.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Maximum values ever seen.
#[derive(Default)]
struct Most {
    sessions: AtomicU32,
    processes: AtomicU32,
    samples: AtomicU32,
    over: AtomicBool,
    crowd: Mutex<Vec<String>>,
}

impl Most {
    fn look(&self, ledger: &FolderLedger) {
        // A row may be removed while the folder is read; then this sample is skipped.
        let Ok(rows) = ledger.rows() else { return };
        self.samples.fetch_add(1, Ordering::SeqCst);
        let sessions = u32::try_from(rows.len()).unwrap();
        self.sessions.fetch_max(sessions, Ordering::SeqCst);
        for row in rows {
            if !process::is_same(&row.keeper) {
                continue;
            }
            let members = process::descendants(row.keeper.pid);
            let alive = members.iter().filter(|one| !one.is_dead());
            let alive: Vec<String> = alive.filter_map(|one| command_of(one.pid)).collect();
            if alive.len() > MAX_PROCESSES as usize {
                self.crowd.lock().unwrap().clone_from(&alive);
            }
            let alive = u32::try_from(alive.len()).unwrap();
            self.processes.fetch_max(alive, Ordering::SeqCst);
        }
    }
}

/// The command line of a process of a session. `None` for one that has exited, and for the keeper's
/// own: the init of a namespace and the watcher are forks of the keeper.
fn command_of(pid: u32) -> Option<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    (!line.is_empty() && !line.contains("__keeper")).then_some(line)
}

fn replay(tier: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut oracle = Oracle::new(&folder.path().join("canary")).unwrap();
    let ledger = FolderLedger::open(&folder.path().join("ledger")).unwrap();
    let most = Most::default();
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !finished.load(Ordering::SeqCst) {
                most.look(&ledger);
                // Between two samples.
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        for (number, kill_after) in [Some(400), None, Some(700), Some(550), None].iter().enumerate()
        {
            // In the second tick the machine is loaded: everything is deferred with the reason.
            let max_load = if number == 1 { -1.0 } else { f64::INFINITY };
            let mut heartbeat = start_tick(folder.path(), tier, max_load);
            if let Some(milliseconds) = kill_after {
                let live = || {
                    ledger
                        .rows()
                        .is_ok_and(|rows| rows.iter().any(|row| process::is_same(&row.keeper)))
                };
                support::eventually("a session", live);
                // Any moment of its sessions.
                std::thread::sleep(Duration::from_millis(*milliseconds));
                heartbeat.kill().unwrap();
                heartbeat.wait().unwrap();
            } else {
                assert!(heartbeat.wait().unwrap().success());
            }
        }
        finished.store(true, Ordering::SeqCst);
    });
    let (sessions, processes) =
        (most.sessions.load(Ordering::SeqCst), most.processes.load(Ordering::SeqCst));
    let deferred = (0..ITEMS).filter(|n| folder.path().join(format!("deferred-{n}")).exists());
    let deferred = deferred.count();
    println!(
        "{tier}: at most {sessions} sessions and {processes} processes each in {} looks, \
         {deferred} items deferred by the load gate",
        most.samples.load(Ordering::SeqCst)
    );
    assert!(usize::try_from(sessions).unwrap() <= MAX_SESSIONS);
    assert!(processes <= MAX_PROCESSES, "{tier}: {processes} processes: {:?}", most.crowd.lock());
    assert!(processes > 12, "the agents were never seen at work");
    assert!(deferred > 0);
    assert!((0..ITEMS).all(|item| done(folder.path(), item).exists()), "an item is left");
    assert!(oracle.wait_for_silence(Duration::from_secs(1)), "{:?}", oracle.holders());
    assert!(ledger.rows().unwrap().is_empty());
    assert!(!most.over.load(Ordering::SeqCst));
}

#[test]
fn the_incident_cannot_happen_again() {
    if std::env::var_os(FOLDER).is_some() {
        return;
    }
    let start = Instant::now();
    replay("subreaper");
    replay("auto");
    println!("{:?}", start.elapsed());
}
