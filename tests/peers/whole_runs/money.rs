//! Money with the real Claude CLI: bounded while it is spent, and an answer that is paid for counts.

use super::world::{World, asked_about, is_triage};
use support::answers::{finding, verdicts};
use support::messages_api::{Reply, Request};

fn deep(request: &Request, reply: Reply) -> Reply {
    match is_triage(request) {
        true => Reply::structured(verdicts(asked_about(request), 1)),
        false => reply,
    }
}

/// The CLI itself would throw the answer away, and it would be bought again.
#[tokio::test(flavor = "multi_thread")]
async fn a_complete_answer_counts_whatever_it_costs_and_long_ones_are_not_asked_for() {
    let world = World::new(|request| {
        let answer = Reply::structured(finding(&["src/total.rs"]));
        deep(request, Reply::Billed(Box::new(answer), 10, 300_000))
    });
    let Some(world) = world.await else { return };
    let said = world.once().await;
    assert_eq!(
        world.figure("SELECT count(*) FROM findings"),
        1,
        "{:#}\n{}",
        said.json,
        said.stderr
    );
    assert_eq!(world.api.requests().len(), 2, "triage and one analysis");
    let limit = world.api.requests()[1].body["max_tokens"].as_u64().unwrap();
    assert!(limit <= 100_000, "what the budget can pay, not 128,000: {limit}");
    let booked = world.figure("SELECT max(spent) FROM budget");
    println!("an answer of 300,000 tokens: booked {booked} millionths, limit {limit}");
    assert!(booked >= 3_000_000, "what was served: {booked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_loops_ends_at_its_budget() {
    let world = World::new(|request| {
        let tool = Reply::Tools(vec![("Read", serde_json::json!({ "file_path": "src/total.rs" }))]);
        deep(request, Reply::Billed(Box::new(tool), 50_000, 0))
    });
    let Some(world) = world.await else { return };
    let said = world.once().await;
    let booked = world.figure("SELECT max(spent) FROM budget");
    let calls = world.api.requests().len() - 1;
    println!("a loop of 50,000 tokens each: {calls} calls, booked {booked} millionths, cap 500000");
    assert!(booked <= 600_000, "at most one call more: {booked}\n{}", said.stderr);
    let ends = "SELECT count(*) FROM sessions WHERE outcome LIKE '%budget_reached%'";
    assert_eq!(world.figure(ends), 1, "{:#}\n{}", said.json, said.stderr);
}
