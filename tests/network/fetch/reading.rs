//! Successful reads: query, batches, pages, cursor.

use std::sync::Arc;

use heartbeat::fetch::Source;
use heartbeat::model::{Format, Links};
use heartbeat::simulate::ado::{FIRST_ID, SimulatorOptions};
use serde_json::{Value, json};

use super::canned::{self, Canned};
use super::setup::{Setup, everything, ids, read_all};

#[tokio::test(flavor = "multi_thread")]
async fn the_default_query_reads_the_open_items_once_and_in_the_order_of_their_change() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    let items: Vec<_> = pages.iter().flat_map(|page| &page.items).collect();
    // Of 24, three are closed and one is a feature.
    assert_eq!(items.len(), 20);
    assert!(items.is_sorted_by_key(|item| item.changed_at));
    assert!(items.iter().all(|item| item.state != "Closed" && item.rev == 1));
    assert_eq!(pages.last().unwrap().cursor, Some(items.last().unwrap().changed_at));
    assert_eq!(setup.simulator.requests(), 2, "one query and one batch");
    assert_eq!(setup.simulator.packed(), 2, "and both answers came packed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_is_decoded_with_all_that_the_tracker_knows_of_it() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    let item = |id: i64| {
        let mut items = pages.iter().flat_map(|page| &page.items);
        items.find(|item| item.id.0 == id).unwrap()
    };
    let bug = item(FIRST_ID + 1);
    assert_eq!(bug.key.as_str(), format!("ado/{}", bug.id));
    assert_eq!((bug.item_type.as_str(), bug.state.as_str()), ("Bug", "Active"));
    assert_eq!((bug.priority, bug.severity.as_deref()), (Some(1), Some("2 - High")));
    assert_eq!(bug.area_path.as_deref(), Some("Parcel\\Tracking\\API"));
    assert_eq!(bug.iteration_path.as_deref(), Some("Parcel\\Sprint 31"));
    assert_eq!(bug.assigned_to.as_deref(), Some("Tomasz Wrona"));
    assert_eq!(bug.tags, ["customer-reported", "regression", "tracking"]);
    assert_eq!(bug.parent.map(|id| id.0), Some(FIRST_ID));
    let address = format!("{}/Parcel/_workitems/edit/{}", setup.simulator.base_url(), bug.id);
    assert_eq!(bug.url, address);
    let names: Vec<_> = bug.texts.iter().map(|text| (text.name.as_str(), text.format)).collect();
    let html = Format::Html;
    assert_eq!(
        names,
        [("Microsoft.VSTS.TCM.ReproSteps", html), ("Microsoft.VSTS.TCM.SystemInfo", html)]
    );
    let story = item(FIRST_ID + 9);
    assert!(story.texts.iter().all(|text| text.format == Format::Markdown), "{story:?}");
    assert!(ids(&pages).contains(&story.id.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_counted_and_only_those_that_move_the_revision_are_seen_as_a_change() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let id = FIRST_ID + 1;
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    let link = |rel: &str| {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let address = format!("{}/_apis/wit/workitems/{id}", setup.simulator.base_url());
        let value = json!({ "rel": rel, "url": "https://example.com/x" });
        let patch = json!([{ "op": "add", "path": "/relations/-", "value": value }]);
        let request = client.patch(format!("{address}?api-version=7.1"));
        request.basic_auth("", Some("x")).json(&patch).send()
    };
    for (rel, rev) in [
        ("System.LinkTypes.Related", 1),
        ("System.LinkTypes.Duplicate-Forward", 1),
        ("Hyperlink", 2),
        ("AttachedFile", 3),
    ] {
        assert!(link(rel).await.unwrap().status().is_success(), "{rel}");
        assert_eq!(setup.simulator.revision(id), Some(rev), "{rel}");
    }
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    let bug = pages.iter().flat_map(|p| &p.items).find(|item| item.id.0 == id).unwrap();
    assert_eq!(bug.parent.map(|id| id.0), Some(FIRST_ID));
    assert_eq!(bug.links, Links { items: 2, development: 0, pages: 1, files: 1 });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_question_can_be_asked_about_single_items() {
    use heartbeat::model::ItemId;
    let mut setup = Setup::new(SimulatorOptions::default()).await;
    let (inside, outside) = (ItemId(FIRST_ID + 1), ItemId(FIRST_ID + 2));
    setup.config.where_clause = format!("[System.Id] <= {inside}");
    let asked = setup.source().still_matching(vec![inside, outside]).await.unwrap();
    assert_eq!(asked, Some(vec![inside]), "of no matter which date");
    assert_eq!(setup.simulator.requests(), 1);
    setup.config.saved_query = "Shared Queries/Heartbeat".to_owned();
    assert_eq!(
        setup.source().still_matching(vec![inside]).await.unwrap(),
        None,
        "it cannot be told"
    );
}

#[tokio::test]
async fn the_reader_is_two_pages_ahead_at_most_and_never_sends_two_requests_at_once() {
    let rows: Vec<_> = (1..=40).map(|id| json!({ "id": id })).collect();
    let rows = json!({ "asOf": "2026-11-16T12:00:00Z", "workItems": rows }).to_string();
    let canned = Canned::start(Arc::new(move |request| {
        if request.is("/wiql") {
            return canned::json(&rows);
        }
        let body: Value = serde_json::from_str(&request.body).unwrap();
        let ids = body["ids"].as_array().unwrap();
        let items: Vec<_> = ids.iter().map(|id| json!({ "id": id, "rev": 1 })).collect();
        canned::json(&json!({ "count": items.len(), "value": items }).to_string())
    }))
    .await;
    let mut setup = Setup::new(SimulatorOptions { items: 0, ..SimulatorOptions::default() }).await;
    setup.config.base_url.clone_from(&canned.base_url);
    setup.config.page_size = 2;
    let mut pages = setup.guarded().open(everything()).await.unwrap();
    let (mut taken, mut most_ahead) = (0, 0);
    while let Some(page) = pages.next().await.unwrap() {
        taken += 1;
        let first = 2 * taken - 1;
        assert_eq!(page.items.iter().map(|item| item.id.0).collect::<Vec<_>>(), [first, first + 1]);
        // The consumer is slow, so that the reader gets as far ahead as possible.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let asked = canned.requests.lock().unwrap().len() - 1;
        most_ahead = most_ahead.max(i64::try_from(asked).unwrap() - taken);
    }
    assert_eq!(taken, 20);
    assert!((1..=2).contains(&most_ahead), "{most_ahead}");
    assert_eq!(canned.most_at_once.lock().unwrap().1, 1);
}
