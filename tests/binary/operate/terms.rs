//! `retry ITEM --terms`: a user names search terms.

use super::world::World;

#[tokio::test]
async fn an_item_retried_with_terms_goes_to_analysis_with_them() {
    let world = World::new().await;
    assert_eq!(world.run(&["--once", "--quiet"]).await.code(), 0);
    let events = world.events();
    let settled = |event: &&serde_json::Value| event["event"] == "item_settled";
    let item = events.iter().find(settled).expect("an item without analysis")["item"].clone();
    let id = item.as_str().unwrap().strip_prefix("ado/").unwrap();
    let said = world.run(&["retry", id, "--terms", "fn total,Total sum,12", "--json"]).await;
    assert_eq!(said.code(), 0, "{}", said.stderr);
    assert_eq!(said.json()["terms"], serde_json::json!(["fn total", "Total sum"]));
    let story = world.run(&["show", id, "--json"]).await.json();
    assert_eq!(story["item"]["phase"], "pending", "{story:#}");
    let planned =
        world.run(&["--dry-run", "--json", "--set", "limits.max_deep_per_run=100"]).await.json();
    let prompts = planned["prompts"].as_array().unwrap();
    let deep = prompts.iter().find(|prompt| prompt["item"] == item).expect("its analysis");
    let words = deep["user"].as_str().unwrap();
    assert!(words.contains("\nsearched for: fn total, Total sum\n"), "{words}");
    assert!(words.contains("- total.rs ["), "the terms reach the ranking: {words}");
    let triage = prompts.iter().find(|prompt| prompt["stage"] == "triage");
    let tag = format!(" item=\"{id}\"");
    let asked = triage.is_some_and(|triage| triage["user"].as_str().unwrap().contains(&tag));
    assert!(!asked, "whoever names terms has judged it");
}
