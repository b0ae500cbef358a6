//! A provider that refuses work: no request before its stated reset, no attempt is counted, and
//! afterwards the work is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use jiff::Timestamp;
use serde_json::Value;

use super::world::{World, asked_about, attempts, body, is_triage, page};
use support::answers::{finding, verdicts};
use support::messages_api::Reply;

/// The provider's refusal of an exhausted plan.
fn used_up(reset: i64) -> Reply {
    Reply::Status {
        status: 429,
        message: "limit",
        headers: [
            ("anthropic-ratelimit-unified-status", "rejected".to_owned()),
            ("anthropic-ratelimit-unified-reset", reset.to_string()),
            ("retry-after", "7200".to_owned()),
        ]
        .to_vec(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reached_plan_limit_suspends_the_work_without_costing_attempts() {
    let Some(world) = World::new(|_| used_up(1_999_999_999)).await else { return };
    world.configure_login("");
    let said = world.once().await;
    assert_eq!(attempts(&said.json), [0], "{:#}\n{}", said.json, said.stderr);
    assert_eq!(world.api.requests().len(), 1);

    let said = world.once().await;
    assert_eq!(said.code, Some(75), "{:#}\n{}", said.json, said.stderr);
    assert_eq!(attempts(&said.json), [0], "no item pays for it");
    assert_eq!(said.json["summary"]["sessions"], 0);
    assert_eq!(world.api.requests().len(), 1, "nothing is asked before the reset");
}

/// Seconds from the refusal to its reset: enough for several ticks of the schedule in between.
const RESET_IN: i64 = 8;
const DEEP: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn the_service_waits_for_the_stated_reset_and_then_does_the_work() {
    let reset = Arc::new(AtomicI64::new(0));
    let too_early = Arc::new(AtomicUsize::new(0));
    let (reset_at, early) = (Arc::clone(&reset), Arc::clone(&too_early));
    let world = World::new(move |request| {
        let now = Timestamp::now().as_second();
        let first =
            reset_at.compare_exchange(0, now + RESET_IN, Ordering::SeqCst, Ordering::SeqCst);
        match first {
            Ok(_) => used_up(now + RESET_IN),
            Err(until) => {
                early.fetch_add(usize::from(now < until), Ordering::SeqCst);
                match is_triage(request) {
                    true => Reply::structured(verdicts(asked_about(request), DEEP)),
                    false => Reply::structured(finding(&["src/total.rs"])),
                }
            }
        }
    });
    let Some(world) = world.await else { return };
    world.configure_login("");
    let (mut service, address) = world.serve();

    let health = support::until("the suspension in the service's health", || async {
        let health = page(format!("{address}/health")).await?;
        code_of(&health, "provider_suspended").then_some(health)
    });
    let health = health.await;
    let status = world.status().await;
    assert!(Timestamp::now().as_second() < reset.load(Ordering::SeqCst), "looked in time");
    assert_eq!(health["status"], "blocked", "{health:#}");
    let until: Timestamp = status["provider_suspended"][0].as_str().unwrap().parse().unwrap();
    assert_eq!(until.as_second(), reset.load(Ordering::SeqCst), "{status:#}");
    assert_eq!(attempts(&status), [0], "{status:#}");
    let metrics = body(format!("{address}/metrics")).await.unwrap();
    assert!(metrics.contains("heartbeat_provider_suspended 1"), "{metrics}");

    let findings = || world.figure("SELECT count(*) FROM findings");
    support::until("the findings", || async { (findings() == DEEP as i64).then_some(()) }).await;
    assert_eq!(too_early.load(Ordering::SeqCst), 0, "asked before the reset");
    let refused = world.figure(
        "SELECT count(*) FROM events WHERE event = 'admission_refused'
         AND json_extract(body, '$.reason') = 'provider_limit'",
    );
    assert!(refused >= 1, "runs in between were told why they start nothing");
    // The refused session, triage, and the analyses.
    assert_eq!(world.api.requests().len(), 2 + DEEP);
    assert_eq!(world.figure("SELECT count(*) FROM heartbeat_state WHERE phase = 'waiting'"), 0);
    let status = world.status().await;
    assert_eq!(status["provider_suspended"], Value::Null, "{status:#}");
    support::until("the end of the suspension in the service's health", || async {
        let health = page(format!("{address}/health")).await?;
        (!code_of(&health, "provider_suspended")).then_some(())
    })
    .await;
    world.stop(&mut service).await;
    assert_eq!(world.processes(), Vec::<std::path::PathBuf>::new());
}

fn code_of(health: &Value, code: &str) -> bool {
    health["reasons"].as_array().is_some_and(|all| all.iter().any(|one| one["code"] == code))
}
