//! Liveness events on a scaled clock: one interval represents fifteen seconds.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
    machine: Metronome,
}

/// A thread that does nothing but wait for the next interval, beside the session: what it misses,
/// the machine was too busy for, and no timer could have kept.
#[derive(Debug, Clone, Copy, Default)]
struct Metronome {
    /// In intervals.
    largest_gap: f64,
    /// Intervals that passed without a beat of its own.
    missed: u32,
}

fn whole_intervals(time: Duration) -> u32 {
    u32::try_from(time.as_millis() / INTERVAL.as_millis()).unwrap()
}

impl Metronome {
    /// Beats until `done`.
    fn until(done: &AtomicBool) -> Self {
        let (began, mut last) = (Instant::now(), Instant::now());
        let (mut beats, mut largest) = (0_u32, Duration::ZERO);
        while !done.load(Ordering::Relaxed) {
            // Like a timer that skips what it missed.
            let next = INTERVAL * (whole_intervals(began.elapsed()) + 1);
            std::thread::sleep(next.saturating_sub(began.elapsed()));
            let now = Instant::now();
            largest = largest.max(now - last);
            last = now;
            beats += 1;
        }
        let whole = whole_intervals(began.elapsed());
        let largest_gap = largest.div_duration_f64(INTERVAL);
        Self { largest_gap, missed: whole.saturating_sub(beats) }
    }
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
    let done = Arc::new(AtomicBool::new(false));
    let metronome = std::thread::spawn({
        let done = Arc::clone(&done);
        move || Metronome::until(&done)
    });
    let observed = rig.observe(spec, &StopHandle::new()).await.unwrap();
    done.store(true, Ordering::Relaxed);
    let machine = metronome.join().unwrap();
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
    Watched { observed, beats, spawned, machine }
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
    let (gap, machine) = (largest_gap(&watched), watched.machine);
    println!("{} signs of life, largest gap {gap:.2} intervals; {machine:?}", watched.beats.len());
    // The session's own delay, on top of twice that of the machine: its timer and its events pass
    // two threads.
    let late = 2.0 * (machine.largest_gap - 1.0).max(0.0);
    assert!(gap <= 1.5 + late, "a gap of {gap:.2} intervals; {machine:?}");
    let least = 38_usize.saturating_sub(2 * machine.missed as usize);
    assert!(watched.beats.len() >= least, "{}; {machine:?}", watched.beats.len());
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
