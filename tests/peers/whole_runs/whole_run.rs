//! A complete run: sixteen items, one request about all of them, three analyses, no process left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::world::{World, asked_about, is_triage};
use support::answers::{finding, verdicts};
use support::messages_api::{Reply, Request};

const ITEMS: usize = 16;
const DEEP: usize = 3;

/// Reads one file, then answers.
fn deep_reply(request: &Request) -> Reply {
    let has_read = request.body["messages"].to_string().contains("tool_result");
    match has_read {
        false => Reply::Tools(vec![("Read", json!({ "file_path": "src/total.rs" }))]),
        true => Reply::structured(finding(&["src/total.rs", "src/invented.rs"])),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_items_are_one_triage_request_and_three_bounded_analyses() {
    let triages = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&triages);
    let world = World::new(move |request| match is_triage(request) {
        true => {
            counted.fetch_add(1, Ordering::SeqCst);
            Reply::structured(verdicts(asked_about(request), DEEP))
        }
        false => deep_reply(request),
    });
    let Some(world) = world.await else { return };
    keep(&world, ITEMS).await;

    let said = world.once().await;
    let (report, summary) = (&said.json, &said.json["summary"]);
    assert_eq!(said.code, Some(0), "{report:#}\n{}", said.stderr);
    assert_eq!(triages.load(Ordering::SeqCst), 1, "all items in one request");
    assert_eq!(summary["triaged"], ITEMS, "{report:#}");
    assert_eq!(summary["analysed"], DEEP, "{report:#}");
    assert_eq!(summary["sessions"], DEEP + 1);
    assert_eq!(summary["failed_sessions"], 0);
    assert!(world.api.most_in_flight() <= DEEP, "{} at once", world.api.most_in_flight());
    // One for triage and two for each analysis, which is asked about the invented file once more, with
    // another look.
    assert_eq!(world.api.requests().len(), 4 * DEEP + 1);
    assert_eq!(report["findings"].as_array().unwrap().len(), DEEP);
    assert_eq!(world.figure("SELECT count(*) FROM findings"), DEEP as i64);
    let text = report["findings"].to_string();
    assert!(text.contains("\"exists\":true") && !text.contains("\"exists\":false"), "{text}");
    let struck = ["src/invented.rs", "the analysed commit has no such file"];
    assert!(struck.iter().all(|words| text.contains(words)), "{text}");
    // The run's cost is the sum of what each session reported.
    let each =
        "SELECT sum(CAST(round(json_extract(usage, '$.cost') * 1e6) AS INTEGER)) FROM sessions";
    let cost = (summary["cost"].as_f64().unwrap() * 1e6).round();
    assert!(cost > 0.0);
    assert_eq!(cost, world.figure(each) as f64);
    assert_eq!(world.processes(), Vec::<std::path::PathBuf>::new(), "something stayed alive");
    let left = std::fs::read_dir(world.state().join("scratch")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "private folders are removed");
    for request in world.api.requests() {
        assert!(!request.body.to_string().contains("of-the-tracker"));
    }

    // Nothing changed, so no request is made.
    let before = world.api.requests().len();
    let said = world.once().await;
    assert_eq!(said.code, Some(0), "{:#}\n{}", said.json, said.stderr);
    assert_eq!(world.api.requests().len(), before);
}

/// Deletes items of the tracker until a run would see exactly this many.
pub async fn keep(world: &World, count: usize) {
    let plan = world.run(&["--dry-run", "--json"]).await;
    let decisions = plan.json["decisions"].as_array().unwrap();
    let ids: Vec<i64> = decisions
        .iter()
        .filter_map(|decision| decision["item"].as_str()?.rsplit('/').next()?.parse().ok())
        .collect();
    assert!(ids.len() > count, "{}", plan.stderr);
    for id in &ids[count..] {
        assert!(world.simulator.delete_item(*id));
    }
}
