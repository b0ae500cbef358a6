//! Durations as figures; asserted as bounds relative to the lease, the heartbeat and the time on
//! the same machine without a fleet.

use std::time::{Duration, SystemTime};

use heartbeat::model::Outcome;
use heartbeat::session::StopHandle;
use support::conformance::{Play, Subject};

use crate::both::{coordinator, here};
use crate::world::World;

const ROUNDS: usize = 40;

/// From the call to the agent's first line, and from its last line to the known end.
async fn measure(subject: &Subject) -> (Vec<Duration>, Vec<Duration>) {
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = since_epoch();
        let (id, end) = subject.perform(Play::Answer(0), &StopHandle::new()).await;
        let ended = since_epoch();
        assert_eq!(end.unwrap().outcome, Outcome::Completed);
        let (id, log) = (id.to_string(), subject.agent.log());
        let at = |word: &str| {
            let line = log.iter().find(|line| line[0] == word && line[1] == id).unwrap();
            Duration::from_secs_f64(line[3].parse().unwrap())
        };
        starts.push(at("start").saturating_sub(began));
        ends.push(ended.saturating_sub(at("end")));
    }
    starts.sort();
    ends.sort();
    (starts, ends)
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

fn share(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

/// Sessions of this machine and of a fleet in the same minute: the difference is the cost of a
/// fleet.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_starts_a_session_half_a_second_later_at_most() {
    let Some(world) = World::new(24) else { return };
    let _worker = world.ready_worker("w0", 4);
    let (local, _) = here(&world, "here", |_| {}).await;
    let fleet = coordinator(&world, |_| {}).await;
    let ((own_start, own_end), (start, end)) = (measure(&local).await, measure(&fleet).await);
    println!(
        "start here p50 {:?} p95 {:?}, on a host p50 {:?} p95 {:?}; end here p50 {:?}, on a host p50 {:?} p95 {:?}",
        share(&own_start, 50),
        share(&own_start, 95),
        share(&start, 50),
        share(&start, 95),
        share(&own_end, 50),
        share(&end, 50),
        share(&end, 95),
    );
    let half = Duration::from_millis(500);
    assert!(share(&start, 95) <= share(&own_start, 95) + half, "{start:?} {own_start:?}");
    assert!(share(&end, 95) <= share(&own_end, 95) + half, "{end:?} {own_end:?}");
}
