//! Sessions from beginning to end with the real keeper, one misbehaviour at a time.

use std::path::Path;
use std::time::Duration;

use heartbeat::app::selftest::{Observed, Rig};
use heartbeat::event::Event;
use heartbeat::model::{FailureKind, Outcome};
use heartbeat::ports::LedgerError;
use heartbeat::session::{SessionSpec, StopHandle, StopReason};
use heartbeat::settings::Containment;
use heartbeat::simulate::hostile::Misbehaviour;

const TIERS: [Containment; 2] = [Containment::Auto, Containment::Subreaper];

fn rig(containment: Containment) -> (tempfile::TempDir, Rig) {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_heartbeat"));
    let rig = Rig::new(program, folder.path(), containment).unwrap();
    (folder, rig)
}

/// Runs one misbehaviour in every tier, with changed limits, and checks what must always hold.
async fn run(
    misbehaviour: Misbehaviour,
    count: u32,
    change: impl Fn(&mut SessionSpec),
) -> Vec<Observed> {
    let mut all = Vec::new();
    for tier in TIERS {
        let (_folder, rig) = rig(tier);
        let mut spec = rig.spec(misbehaviour, 7, count);
        change(&mut spec);
        let scratch = spec.scratch.clone();
        let observed = rig.observe(spec, &StopHandle::new()).await.unwrap();
        assert_eq!(observed.survivors, 0, "{misbehaviour:?} in {tier:?}: {observed:?}");
        assert_eq!(observed.end.survivors, 0);
        assert!(rig.ledger.rows().unwrap().is_empty(), "a row stayed open");
        assert!(!scratch.exists(), "the private folder stayed");
        let events = rig.events.events();
        let ends = events.iter().filter(|e| matches!(e, Event::SessionEnded { .. })).count();
        assert_eq!(ends, 1);
        all.push(observed);
    }
    all
}

async fn outcome(misbehaviour: Misbehaviour, change: impl Fn(&mut SessionSpec)) -> Outcome {
    let observed = run(misbehaviour, 12, change).await;
    let first = observed[0].end.outcome.clone();
    assert!(observed.iter().all(|one| one.end.outcome == first), "{observed:?}");
    first
}

#[tokio::test]
async fn a_well_behaved_agent_completes_and_its_output_arrives() {
    let all = run(Misbehaviour::WellBehaved, 0, |_| {}).await;
    for observed in all {
        assert_eq!(observed.end.outcome, Outcome::Completed, "{observed:?}");
        assert_eq!(observed.end.output, Some(serde_json::json!({"done": true})));
        assert_eq!(observed.births, 1);
    }
}

#[tokio::test]
async fn silence_before_the_first_line_ends_at_the_init_limit() {
    let outcome = outcome(Misbehaviour::HangBeforeInit, |spec| {
        spec.limits.init = Duration::from_millis(300);
    });
    assert_eq!(outcome.await, Outcome::InitTimeout);
}

#[tokio::test]
async fn a_sleeper_ends_at_the_hard_limit() {
    let outcome = outcome(Misbehaviour::SilentSleeper, |spec| {
        spec.limits.hard = Duration::from_millis(500);
    });
    assert_eq!(outcome.await, Outcome::TimedOut);
}

#[tokio::test]
async fn a_result_without_an_exit_counts_after_the_drain() {
    let outcome = outcome(Misbehaviour::ResultThenHang, |_| {}).await;
    assert_eq!(outcome, Outcome::Completed);
}

#[tokio::test]
async fn children_of_every_shape_are_gone_after_a_timeout() {
    for misbehaviour in [
        Misbehaviour::IgnoresTerm,
        Misbehaviour::OwnSessions,
        Misbehaviour::Daemons,
        Misbehaviour::ScrubbedDaemons,
        Misbehaviour::StoppedChildren,
        Misbehaviour::NestedSubreaper,
        Misbehaviour::Respawner,
        Misbehaviour::Hoppers,
        Misbehaviour::Mix,
    ] {
        let outcome = outcome(misbehaviour, |spec| {
            spec.limits.hard = Duration::from_millis(600);
            spec.limits.grace = Duration::from_millis(100);
        });
        assert_eq!(outcome.await, Outcome::TimedOut, "{misbehaviour:?}");
    }
}

#[tokio::test]
async fn two_hundred_children_are_too_many() {
    let outcome = outcome(Misbehaviour::ManyChildren, |spec| spec.limits.max_processes = 24).await;
    assert_eq!(outcome, Outcome::TooManyProcesses);
}

#[tokio::test]
async fn too_much_memory_is_noticed() {
    let outcome = outcome(Misbehaviour::MemoryHog, |spec| spec.limits.max_memory = 128 << 20).await;
    assert_eq!(outcome, Outcome::TooMuchMemory);
}

#[tokio::test]
async fn an_exit_that_leaves_children_is_swept_and_not_delayed() {
    for observed in run(Misbehaviour::ExitsLeavingChildren, 31, |_| {}).await {
        assert_eq!(observed.end.outcome, Outcome::Completed, "{observed:?}");
        assert!(observed.births >= 31);
        assert!(observed.end.swept >= 20, "{observed:?}");
        // The hard limit: the result did not have to wait for it.
        assert!(observed.end.duration < Duration::from_secs(2), "{observed:?}");
    }
}

#[tokio::test]
async fn bad_output_is_a_typed_outcome() {
    let no_json = Outcome::BadOutput { why: FailureKind::NoJson };
    assert_eq!(outcome(Misbehaviour::BadJson, |_| {}).await, no_json);
    assert_eq!(outcome(Misbehaviour::InvalidUtf8, |_| {}).await, no_json);
    assert_eq!(outcome(Misbehaviour::HugeLine, |_| {}).await, Outcome::OutputFlood);
    assert_eq!(outcome(Misbehaviour::DiesAtOnce, |_| {}).await, Outcome::ExitCode { code: 3 });
    assert_eq!(outcome(Misbehaviour::ForksAndExits, |_| {}).await, no_json);
}

#[tokio::test]
async fn a_flood_of_lines_is_bounded() {
    let outcome = outcome(Misbehaviour::OutputFlood, |spec| {
        spec.limits.hard = Duration::from_secs(60);
    });
    assert_eq!(outcome.await, Outcome::OutputFlood);
}

#[tokio::test]
async fn closed_output_does_not_end_the_watch() {
    let outcome = outcome(Misbehaviour::ClosesOutput, |spec| {
        spec.limits.hard = Duration::from_millis(500);
    });
    assert_eq!(outcome.await, Outcome::TimedOut);
}

#[tokio::test]
async fn programs_that_cannot_start_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("no-shebang");
    std::fs::write(&script, "echo hello\n").unwrap();
    let set_mode = |mode| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for (program, mode, why) in [
        (folder.path().join("missing"), 0o644, FailureKind::NotFound),
        (script.clone(), 0o644, FailureKind::NotExecutable),
        (script.clone(), 0o755, FailureKind::ExecFailed),
    ] {
        set_mode(mode);
        let found = outcome(Misbehaviour::WellBehaved, |spec| spec.program = program.clone()).await;
        assert_eq!(found, Outcome::SpawnFailed { why });
    }
}

#[tokio::test]
async fn a_stop_is_graceful_once_and_immediate_twice() {
    for tier in TIERS {
        let (_folder, rig) = rig(tier);
        let mut spec = rig.spec(Misbehaviour::IgnoresTerm, 1, 3);
        spec.limits.hard = Duration::from_secs(60);
        spec.limits.grace = Duration::from_secs(30);
        let stop = StopHandle::new();
        let asking = async {
            rig.events.saw(1, |event| matches!(event, Event::SessionProgressed { .. })).await;
            stop.stop(StopReason::Shutdown);
            rig.events.saw(1, |event| matches!(event, Event::SessionStopping { .. })).await;
            stop.stop_now(StopReason::Shutdown);
        };
        let (observed, ()) = tokio::join!(rig.observe(spec, &stop), asking);
        let observed = observed.unwrap();
        let why = FailureKind::Shutdown;
        assert_eq!(observed.end.outcome, Outcome::Cancelled { why }, "{tier:?}");
        assert_eq!(observed.survivors, 0);
        assert!(observed.end.duration < Duration::from_secs(15), "{observed:?}");
    }
}

#[tokio::test]
async fn a_full_ledger_refuses_and_nothing_was_started() {
    for tier in TIERS {
        let (_folder, rig) = rig(tier);
        let stop = StopHandle::new();
        let mut running = Vec::new();
        for _ in 0..3 {
            let mut spec = rig.spec(Misbehaviour::SilentSleeper, 1, 0);
            spec.limits.hard = Duration::from_secs(60);
            running.push(rig.observe(spec, &stop));
        }
        let fourth = async {
            rig.events.saw(3, |event| matches!(event, Event::SessionRegistered { .. })).await;
            assert_eq!(rig.ledger.rows().unwrap().len(), 3);
            let refused = rig.observe(rig.spec(Misbehaviour::WellBehaved, 1, 0), &stop).await;
            stop.stop_now(StopReason::Operator);
            refused
        };
        let [first, second, third] = <[_; 3]>::try_from(running).ok().unwrap();
        let (fourth, a, b, c) = tokio::join!(fourth, first, second, third);
        let full = fourth.unwrap_err();
        assert!(matches!(full, LedgerError::Full { live: 3, max: 3 }), "{full:?}");
        for observed in [a, b, c] {
            assert_eq!(observed.unwrap().survivors, 0);
        }
    }
}
