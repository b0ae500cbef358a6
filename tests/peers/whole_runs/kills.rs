//! The real CLI, and heartbeat killed at random moments: nothing is lost, nobody is blamed, and hardly
//! any money is booked by assumption.
//!
//! Twenty kills by default, two hundred with `HEARTBEAT_TEST_FULL=1`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use heartbeat::simulate::SeededRng;
use serde_json::json;
use tokio::process::Child;

use super::whole_run::keep;
use super::world::{World, asked_about, is_triage};
use support::answers::{finding, verdicts};
use support::eventually;
use support::messages_api::{Reply, Request};

/// Kills of one state, before the next one begins.
const KILLS_PER_STATE: usize = 20;
const ITEMS: usize = 12;
/// Each answer: tokens in and out, and prices per million of the two models that are asked.
const TOKENS: (u64, u64) = (20_000, 2_000);
const PRICES: [(&str, u64, u64); 2] = [("haiku", 1, 5), ("sonnet", 3, 15)];

/// What the provider bills for one answer, in millionths of a dollar.
fn price(request: &Request) -> i64 {
    let known = PRICES.iter().find(|(name, ..)| request.model().contains(name));
    let (_, input, output) = known.unwrap();
    i64::try_from(input * TOKENS.0 + output * TOKENS.1).unwrap()
}

fn answer(request: &Request) -> Reply {
    let has_read = request.body["messages"].to_string().contains("tool_result");
    let reply = match (is_triage(request), has_read) {
        (true, _) if asked_about(request).is_empty() => Reply::structured(json!({ "ok": true })),
        (true, _) => Reply::structured(verdicts(asked_about(request), ITEMS / 2)),
        (false, false) => Reply::Tools(vec![("Read", json!({ "file_path": "src/total.rs" }))]),
        (false, true) => Reply::structured(finding(&["src/total.rs"])),
    };
    Reply::Billed(Box::new(reply), TOKENS.0, TOKENS.1)
}

/// A clock that advances with the work: calls of the provider, and events of the newest run.
fn progress(world: &World, calls: &AtomicUsize) -> usize {
    let events = "SELECT count(*) FROM events
                  WHERE run = (SELECT run FROM runs ORDER BY started_at DESC LIMIT 1)";
    let database = world.state().join("heartbeat.db");
    let count = rusqlite::Connection::open(database)
        .and_then(|open| open.query_row(events, [], |row| row.get::<_, i64>(0)));
    calls.load(Ordering::SeqCst) * 3 + usize::try_from(count.unwrap_or(0)).unwrap()
}

/// Waits for the moment; false if the run ended before it.
fn reached(world: &World, calls: &AtomicUsize, run: &mut Child, moment: usize) -> bool {
    let mut ended = false;
    let wait = || {
        eventually("the moment to kill it", || {
            ended = run.try_wait().unwrap().is_some();
            ended || progress(world, calls) >= moment
        });
    };
    tokio::task::block_in_place(wait);
    !ended
}

/// Runs and kills until this state had its kills, or all its work is done.
async fn kill_often(
    world: &World,
    calls: &AtomicUsize,
    random: &mut SeededRng,
    most: usize,
) -> usize {
    let mut kills = 0;
    let unfinished = "SELECT count(*) FROM heartbeat_state WHERE phase <> 'done'";
    while kills < most {
        let mut command = world.command(&["--once", "--set", "dedupe.retry_delay=0s"]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let before = calls.load(Ordering::SeqCst) * 3;
        let mut run = command.spawn().unwrap();
        let moment = before + 1 + random.roll(90);
        if reached(world, calls, &mut run, moment) {
            run.start_kill().unwrap();
            kills += 1;
        }
        run.wait().await.unwrap();
        if world.state().join("heartbeat.db").exists() && world.figure(unfinished) == 0 {
            // New texts: everything is work again.
            let ids = world.simulator.item_ids();
            for id in ids {
                let text = json!(format!("It fails again, in round {kills} of item {id}."));
                world.simulator.edit_item(id, &[("System.Description", text)]);
            }
        }
    }
    kills
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_again_and_again_with_the_real_cli_nothing_is_lost_and_hardly_anything_assumed() {
    let full = std::env::var_os("HEARTBEAT_TEST_FULL").is_some();
    let seed = std::env::var("HEARTBEAT_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(7);
    eprintln!("HEARTBEAT_TEST_SEED={seed}");
    let (mut random, all) = (SeededRng::new(seed), if full { 200 } else { 20 });
    let (mut kills, mut sums) = (0, [0; 4]);
    while kills < all {
        let served = Arc::new((AtomicI64::new(0), AtomicUsize::new(0)));
        let counted = Arc::clone(&served);
        let world = World::new(move |request| {
            counted.0.fetch_add(price(request), Ordering::SeqCst);
            counted.1.fetch_add(1, Ordering::SeqCst);
            answer(request)
        });
        let Some(world) = world.await else { return };
        keep(&world, ITEMS).await;
        kills += kill_often(&world, &served.1, &mut random, KILLS_PER_STATE.min(all - kills)).await;
        finish(&world).await;
        let served = served.0.load(Ordering::SeqCst);
        let booked = world.figure("SELECT sum(spent) FROM budget");
        let assumed = world.figure("SELECT coalesce(sum(iif(assumed, spent, 0)), 0) FROM budget");
        let orphaned =
            world.figure("SELECT count(*) FROM sessions WHERE outcome LIKE '%orphaned%'");
        for (sum, figure) in sums.iter_mut().zip([served, booked, assumed, orphaned]) {
            *sum += figure;
        }
        eprintln!(
            "{kills} kills: served, booked, assumed (micro-dollars), sessions cut off: {sums:?}"
        );
    }
    let [served, booked, assumed, _] = sums;
    assert!(assumed * 20 <= served, "assumed {assumed} of {served} served");
    assert!(booked <= served + served / 20, "booked {booked} of {served} served");
}

/// Runs until nothing is left to do, then looks.
async fn finish(world: &World) {
    let open = "SELECT count(*) FROM heartbeat_state WHERE phase NOT IN ('done', 'parked')";
    for _ in 0..8 {
        world.run(&["--once", "--set", "dedupe.retry_delay=0s"]).await;
        if world.figure(open) == 0 {
            break;
        }
    }
    let count = |sql: &str| world.figure(&format!("SELECT count(*) FROM {sql}"));
    assert_eq!(count("heartbeat_state WHERE phase = 'parked'"), 0, "parked");
    assert_eq!(count("heartbeat_state WHERE phase = 'done'"), ITEMS as i64, "lost");
    assert_eq!(count("heartbeat_active_sessions"), 0);
    assert_eq!(count("budget WHERE spent IS NULL"), 0);
    let twice = "(SELECT 1 FROM findings GROUP BY key, fingerprint HAVING count(*) > 1)";
    assert_eq!(count(twice), 0, "paid for twice");
    assert_eq!(world.processes(), Vec::<std::path::PathBuf>::new());
    let scratch = std::fs::read_dir(world.state().join("scratch")).map_or(0, Iterator::count);
    assert_eq!(scratch, 0, "private folders are removed");
}
