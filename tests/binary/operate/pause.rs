//! A paused schedule starts no run and stays paused across a restart.

use nix::sys::signal::Signal;
use tokio::process::Child;

use super::world::{World, finish, lines, signal};

/// A service whose schedule fires every second.
fn service(world: &World, log: &str) -> Child {
    let file = format!("log.file={}", world.path(log).display());
    let every_second = "schedule.cron=* * * * * *";
    world.start(&["--quiet", "--set", every_second, "--set", &file, "--set", "log.format=json"])
}

async fn stop(service: Child) {
    signal(&service, Signal::SIGTERM);
    finish(service).await;
}

/// Waits until the service has skipped a scheduled time.
async fn passes_over(world: &World, log: &str) {
    let file = world.path(log);
    let seen = || async {
        let lines = if file.exists() { lines(&file) } else { Vec::new() };
        let paused = "the schedule is paused; no run is started";
        lines.iter().any(|line| line["message"] == paused).then_some(())
    };
    support::until("a time passed over", seen).await;
}

#[tokio::test]
async fn a_paused_schedule_starts_nothing_until_it_is_resumed() {
    let world = World::new().await;
    let said = world.run(&["pause", "--note", "release week"]).await;
    assert!(said.code() == 0 && said.stdout.contains("heartbeat resume"), "{said:?}");
    let first = service(&world, "first.log");
    passes_over(&world, "first.log").await;
    stop(first).await;
    let again = world.run(&["pause"]).await;
    assert!(again.stdout.contains("has been paused since"), "{again:?}");
    let second = service(&world, "second.log");
    passes_over(&world, "second.log").await;
    let status = world.run(&["status"]).await.stdout;
    let row = status.lines().find(|line| line.starts_with("next run")).unwrap();
    assert!(row.contains("PAUSED since") && row.contains("(release week)"), "{row}");
    assert_eq!(world.run(&["runs", "--json"]).await.json().as_array().unwrap().len(), 0);
    assert!(world.run(&["resume"]).await.stdout.contains("active again"));
    let started = || async {
        let runs = world.run(&["runs", "--json"]).await.json();
        (!runs.as_array().unwrap().is_empty()).then_some(())
    };
    support::until("a run", started).await;
    stop(second).await;
    assert!(world.run(&["resume"]).await.stdout.contains("was not paused"));
    assert!(world.run(&["status", "--json"]).await.json()["paused"].is_null());
}
