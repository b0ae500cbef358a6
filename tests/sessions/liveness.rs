//! Liveness events on a scaled clock: one interval represents fifteen seconds.

use std::path::Path;
use std::time::Duration;

use heartbeat::app::selftest::{Observed, Rig};
use heartbeat::event::{Event, LiveVerdict, Liveness};
use heartbeat::model::Outcome;
use heartbeat::session::{SessionSpec, StopHandle};
use heartbeat::settings::Containment;
use heartbeat::simulate::hostile::Misbehaviour;

/// Ten minutes are forty intervals.
const INTERVAL: Duration = Duration::from_millis(150);
const INTERVALS_IN_TEN_MINUTES: u32 = 40;

struct Watched {
    observed: Observed,
    beats: Vec<(Duration, Liveness)>,
    spawned: Duration,
}

async fn watch(misbehaviour: Misbehaviour, change: impl Fn(&mut SessionSpec)) -> Watched {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_heartbeat"));
    let rig = Rig::new(program, folder.path(), Containment::Subreaper).unwrap();
    let mut spec = rig.spec(misbehaviour, 3, 4);
    spec.limits.liveness = INTERVAL;
    spec.limits.stall = INTERVAL * 28;
    spec.limits.hard = INTERVAL * INTERVALS_IN_TEN_MINUTES;
    change(&mut spec);
    let observed = rig.observe(spec, &StopHandle::new()).await.unwrap();
    assert_eq!(observed.survivors, 0);
    let mut spawned = Duration::ZERO;
    let mut beats = Vec::new();
    for (at, event) in rig.events.timed() {
        match event {
            Event::SessionSpawned { .. } => spawned = at,
            Event::SessionLiveness { liveness, .. } => beats.push((at, liveness)),
            _ => {}
        }
    }
    Watched { observed, beats, spawned }
}

fn largest_gap(watched: &Watched) -> f64 {
    let mut last = watched.spawned;
    let mut largest = Duration::ZERO;
    for (at, _) in &watched.beats {
        largest = largest.max(*at - last);
        last = *at;
    }
    largest.as_secs_f64() / INTERVAL.as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_silent_minutes_have_no_gap() {
    let watched = watch(Misbehaviour::SilentSleeper, |spec| {
        // This tests silence, not the verdict on it.
        spec.limits.stall = Duration::from_secs(3_600);
    })
    .await;
    assert_eq!(watched.observed.end.outcome, Outcome::TimedOut);
    let gap = largest_gap(&watched);
    println!("{} signs of life, largest gap {gap:.2} intervals", watched.beats.len());
    assert!(gap <= 1.5, "a gap of {gap:.2} intervals");
    assert!(watched.beats.len() >= 38, "{}", watched.beats.len());
    let numbers: Vec<u64> = watched.beats.iter().map(|(_, beat)| beat.beat).collect();
    assert_eq!(numbers, (1..=u64::try_from(numbers.len()).unwrap()).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_and_a_stuck_tool_are_hung_within_three_intervals_of_the_stall_limit() {
    for misbehaviour in [Misbehaviour::PingOnly, Misbehaviour::StuckTool] {
        let watched = watch(misbehaviour, |spec| {
            spec.limits.stall = INTERVAL * 10;
            spec.limits.hard = Duration::from_secs(120);
        })
        .await;
        assert_eq!(watched.observed.end.outcome, Outcome::Stalled, "{misbehaviour:?}");
        let (_, hung) = watched.beats.last().unwrap();
        assert_eq!(hung.verdict, LiveVerdict::Hung);
        let intervals = hung.since_progress_ms as f64 / INTERVAL.as_millis() as f64;
        println!("{misbehaviour:?}: hung {intervals:.1} intervals after progress (limit 10)");
        assert!((12.0..=13.5).contains(&intervals), "{intervals}");
        assert!(hung.since_output_ms < hung.since_progress_ms / 2, "pings are output");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_silent_tool_lives_until_the_hard_limit() {
    let watched = watch(Misbehaviour::BusyQuiet, |spec| spec.limits.stall = INTERVAL * 4).await;
    assert_eq!(watched.observed.end.outcome, Outcome::TimedOut);
    let suspicious = |beat: &Liveness| matches!(beat.verdict, LiveVerdict::Hung);
    assert!(!watched.beats.iter().any(|(_, beat)| suspicious(beat)));
    let busy = watched.beats.iter().filter(|(_, b)| b.verdict == LiveVerdict::Working).count();
    assert!(busy * 10 >= watched.beats.len() * 8, "{busy} of {}", watched.beats.len());
}
