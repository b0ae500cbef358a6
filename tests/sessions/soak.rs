//! Many random hostile sessions in one process: nothing left, no growth.
//!
//! Forty sessions by default, a thousand with `HEARTBEAT_TEST_FULL=1`.

use std::path::Path;
use std::time::{Duration, Instant};

use heartbeat::app::selftest::Rig;
use heartbeat::process;
use heartbeat::session::{StopHandle, StopReason};
use heartbeat::settings::Containment;
use heartbeat::simulate::hostile::Misbehaviour;

const KINDS: [Misbehaviour; 8] = [
    Misbehaviour::Mix,
    Misbehaviour::ExitsLeavingChildren,
    Misbehaviour::Mix,
    Misbehaviour::IgnoresTerm,
    Misbehaviour::Mix,
    Misbehaviour::KillsKeeper,
    Misbehaviour::Mix,
    Misbehaviour::StopsKeeper,
];

/// Open descriptors and resident memory in pages of this process.
fn size() -> (usize, u64) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    (descriptors, process::stat(std::process::id()).unwrap().resident_pages)
}

#[test]
fn random_hostile_sessions_leave_nothing_and_grow_nothing() {
    if !support::ran_alone("soak::random_hostile_sessions_leave_nothing_and_grow_nothing") {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(leave_nothing_and_grow_nothing());
    }
}

async fn leave_nothing_and_grow_nothing() {
    let sessions = if std::env::var_os("HEARTBEAT_TEST_FULL").is_some() { 1_000 } else { 40 };
    // This process has one test, so every unregistered child is an escaped process.
    heartbeat::session::become_outer_reaper().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_heartbeat"));
    let rigs = [Containment::Auto, Containment::Subreaper].map(|tier| {
        let place = folder.path().join(format!("{tier:?}"));
        std::fs::create_dir(&place).unwrap();
        Rig::new(program, &place, tier).unwrap()
    });
    let start = Instant::now();
    let (mut births, mut sizes, mut sweeps) = (0, Vec::new(), Vec::new());
    for number in 0..sessions {
        let rig = &rigs[number % 2];
        let kind = KINDS[(number / 2) % KINDS.len()];
        let seed = u64::try_from(number).unwrap() * 7_919 + 17;
        let mut spec = rig.spec(kind, seed, 14 + u32::try_from(number % 20).unwrap());
        spec.limits.hard = Duration::from_secs(30);
        spec.limits.grace = Duration::from_millis(20);
        let session = spec.session.id;
        let stop = StopHandle::new();
        let mut oracle = rig.oracle(session).unwrap();
        let agent = heartbeat::app::selftest::HostileAgent;
        let run = rig.supervisor.run(spec, &agent, stop.signal());
        let ask = async {
            // Random moments: some while the tree is still growing.
            tokio::time::sleep(Duration::from_millis(8 + seed % 60)).await;
            stop.stop(StopReason::Operator);
            Instant::now()
        };
        let (end, asked) = tokio::join!(run, ask);
        let end = end.unwrap();
        sweeps.push(asked.elapsed());
        if asked.elapsed() > Duration::from_secs(2) {
            println!("slow: {number} {kind:?} seed {seed} {:?} {end:?}", asked.elapsed());
        }
        births += oracle.births();
        assert_eq!(oracle.survivors(), 0, "session {number}, {kind:?}, seed {seed}: {end:?}");
        assert_eq!(end.survivors, 0);
        if number % 10 == 9 {
            sizes.push(size());
        }
    }
    support::eventually("no zombie stays", || {
        heartbeat::session::collect_dead_children();
        process::descendants(std::process::id()).is_empty()
    });
    sweeps.sort();
    println!(
        "{sessions} sessions, {births} processes, 0 survivors, {:?}; end p50 {:?}, max {:?}; \
         first and last (fds, pages): {:?} {:?}",
        start.elapsed(),
        sweeps[sweeps.len() / 2],
        sweeps[sweeps.len() - 1],
        sizes[0],
        sizes[sizes.len() - 1]
    );
    let (first, last) = (sizes[sizes.len() / 4], sizes[sizes.len() - 1]);
    assert!(last.0 <= first.0 + 2, "descriptors grew from {} to {}", first.0, last.0);
    assert!(last.1 <= first.1 * 5 / 4 + 512, "memory grew from {} to {} pages", first.1, last.1);
}
