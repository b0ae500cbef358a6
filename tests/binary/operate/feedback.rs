//! User ratings of findings.

use super::world::World;

#[tokio::test]
async fn feedback_on_a_finding_is_stored_shown_and_counted() {
    let world = World::new().await;
    let once = world.run(&["--once", "--quiet", "--json"]).await.json();
    let key = once["findings"][0]["key"].as_str().unwrap().to_owned();
    assert_eq!(once["findings"][0]["feedback"], serde_json::Value::Null);

    let said = world.run(&["feedback", &key, "useful"]).await;
    assert_eq!(said.code(), 0, "{}", said.stderr);
    let said =
        world.run(&["feedback", &key, "wrong", "--note", "It is the cache.", "--json"]).await;
    assert_eq!(said.json()["feedback"], "wrong", "the last word counts");

    let shown = world.run(&["show", &key]).await.stdout;
    assert!(shown.contains("feedback: wrong: It is the cache."), "{shown}");
    let report = world.run(&["report", "--json"]).await.json();
    // What is answered is no longer the first to be read.
    let rows = report["findings"].as_array().unwrap();
    let rated = rows.iter().find(|row| row["key"] == key.as_str()).unwrap();
    let feedback = &rated["feedback"];
    assert_eq!(feedback["opinion"], "wrong");
    assert_eq!(feedback["note"], "It is the cache.");
    assert!(rated["cost"].as_f64().unwrap() > 0.0, "{report:#}");
    for form in ["md", "html"] {
        let text = world.run(&["report", "--format", form]).await.stdout;
        assert!(text.contains("It is the cache."), "{text}");
    }
}

#[tokio::test]
async fn feedback_needs_a_finding_and_one_of_three_words() {
    let world = World::new().await;
    world.run(&["--once", "--quiet"]).await;
    let none = world.run(&["feedback", "99999", "useful"]).await;
    assert_eq!(none.code(), 1);
    assert!(none.stderr.contains("has no finding"), "{}", none.stderr);
    let odd = world.run(&["feedback", "99999", "lovely"]).await;
    assert_eq!(odd.code(), 2);
    assert!(odd.stderr.contains("useful, wrong, done"), "{}", odd.stderr);
}
