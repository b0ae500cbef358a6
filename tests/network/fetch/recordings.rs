//! Recorded responses of the real service and the examples of its specification, decoded without
//! loss. Expectations are read from the JSON here, without the client's types.

use std::collections::BTreeMap;
use std::sync::Arc;

use heartbeat::fetch::{FetchError, Page};
use heartbeat::model::{FailureClass as Class, Format, WorkItem};
use heartbeat::simulate::ado::SimulatorOptions;
use serde_json::{Value, json};

use super::canned::{Answer, Canned, json as answer_json, with_headers};
use super::setup::{Setup, everything, read_all};

fn recorded() -> Vec<Value> {
    serde_json::from_str(include_str!("../../data/ado/recorded.json")).unwrap()
}

fn examples() -> Vec<Value> {
    serde_json::from_str(include_str!("../../data/ado/examples.json")).unwrap()
}

/// All work items anywhere in a body.
fn items_in(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Object(object)
            if object.get("fields").is_some_and(Value::is_object)
                && object.get("id").is_some_and(Value::is_i64)
                && object.contains_key("rev") =>
        {
            found.push(value.clone());
        }
        Value::Object(object) => object.values().for_each(|value| items_in(value, found)),
        Value::Array(list) => list.iter().for_each(|value| items_in(value, found)),
        _ => {}
    }
}

async fn read_with(answer: Answer) -> (Canned, Result<Vec<Page>, FetchError>) {
    let canned = Canned::start(answer).await;
    let mut setup = Setup::new(SimulatorOptions { items: 0, ..SimulatorOptions::default() }).await;
    setup.config.base_url.clone_from(&canned.base_url);
    setup.config.page_size = 200;
    let result = read_all(&setup.guarded(), everything()).await;
    (canned, result)
}

/// Compares the JSON with the client's item.
fn assert_nothing_lost(json: &Value, item: &WorkItem) {
    let fields = &json["fields"];
    let text = |name: &str| fields[name].as_str().map(str::to_owned);
    let instant = |name: &str| text(name).map(|at| at.parse::<jiff::Timestamp>().unwrap());
    assert_eq!(json["id"], item.id.0);
    assert_eq!(json["rev"], item.rev);
    assert_eq!(text("System.Title").unwrap_or_default(), item.title);
    assert_eq!(text("System.WorkItemType").unwrap_or_default(), item.item_type);
    assert_eq!(text("System.State").unwrap_or_default(), item.state);
    assert_eq!(text("System.AreaPath"), item.area_path);
    assert_eq!(text("System.IterationPath"), item.iteration_path);
    assert_eq!(instant("System.CreatedDate"), item.created_at);
    if let Some(changed) = instant("System.ChangedDate") {
        assert_eq!(changed, item.changed_at);
    }
    assert_eq!(fields["Microsoft.VSTS.Common.Priority"].as_i64(), item.priority);
    assert_eq!(text("Microsoft.VSTS.Common.Severity"), item.severity);
    assert_eq!(text("System.Tags").unwrap_or_default(), item.tags.join("; "));
    assert_eq!(fields["System.Parent"].as_i64(), item.parent.map(|id| id.0));
    let assigned = &fields["System.AssignedTo"];
    let name = assigned["displayName"].as_str().map(str::to_owned).or_else(|| {
        assigned.as_str().map(|text| text.split(" <").next().unwrap_or(text).to_owned())
    });
    assert_eq!(name, item.assigned_to);
    let texts: BTreeMap<&str, &str> =
        item.texts.iter().map(|text| (text.name.as_str(), text.raw.as_str())).collect();
    for name in [
        "System.Description",
        "Microsoft.VSTS.TCM.ReproSteps",
        "Microsoft.VSTS.Common.AcceptanceCriteria",
    ] {
        let expected = fields[name].as_str().filter(|text| !text.trim().is_empty());
        assert_eq!(expected, texts.get(name).copied(), "{name}");
        let markdown = json["multilineFieldsFormat"][name] == "markdown";
        if let Some(text) = item.texts.iter().find(|text| text.name == name) {
            assert_eq!(text.format == Format::Markdown, markdown, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_and_specified_work_item_is_decoded_without_loss() {
    let mut all = Vec::new();
    for entry in recorded() {
        let body: Value = serde_json::from_str(entry["body"].as_str().unwrap()).unwrap_or_default();
        items_in(&body, &mut all);
    }
    let from_the_wire = all.len();
    for example in examples() {
        items_in(&example["body"], &mut all);
    }
    assert!(from_the_wire >= 20 && all.len() >= 70, "{from_the_wire} of {}", all.len());
    for value in all {
        let rows = json!({ "asOf": "2099-01-01T00:00:00Z", "workItems": [{ "id": value["id"] }] });
        let batch = json!({ "count": 1, "value": [value] });
        let answer: Answer = Arc::new(move |request| {
            answer_json(&if request.is("/wiql") { rows.to_string() } else { batch.to_string() })
        });
        let (_canned, pages) = read_with(answer).await;
        let pages = pages.unwrap();
        assert_nothing_lost(&value, &pages[0].items[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_queries_of_all_kinds_give_all_their_ids() {
    let mut bodies: Vec<Value> =
        examples().into_iter().map(|example| example["body"].clone()).collect();
    bodies.extend(
        recorded()
            .iter()
            .filter_map(|entry| serde_json::from_str(entry["body"].as_str().unwrap()).ok()),
    );
    bodies.retain(|body| body.get("queryType").is_some());
    assert!(bodies.len() >= 5, "{}", bodies.len());
    for body in bodies {
        let mut expected: Vec<i64> = Vec::new();
        let ends = |row: &Value| {
            [row["id"].as_i64(), row["source"]["id"].as_i64(), row["target"]["id"].as_i64()]
        };
        for list in ["workItems", "workItemRelations"] {
            let rows = body[list].as_array().into_iter().flatten();
            expected.extend(rows.flat_map(ends).flatten());
        }
        expected.sort_unstable();
        expected.dedup();
        let text = body.to_string();
        let answer: Answer = Arc::new(move |request| {
            if request.is("/wiql") {
                return answer_json(&text);
            }
            let asked: Value = serde_json::from_str(&request.body).unwrap();
            answer_json(
                &json!({ "value": asked["ids"].as_array().unwrap().iter()
                .map(|id| json!({ "id": id, "rev": 1 })).collect::<Vec<_>>() })
                .to_string(),
            )
        });
        let (_canned, pages) = read_with(answer).await;
        let mut found = super::setup::ids(&pages.unwrap());
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_refusals_have_their_class() {
    let mut classes: BTreeMap<String, Class> = BTreeMap::new();
    for entry in recorded().into_iter().filter(|entry| entry["status"].as_u64() >= Some(300)) {
        let mut headers = String::new();
        for (name, value) in entry["headers"].as_object().unwrap() {
            headers.push_str(&format!("{name}: {}\r\n", value.as_str().unwrap()));
        }
        let status = format!("{} Recorded", entry["status"]);
        let body = entry["body"].as_str().unwrap().to_owned();
        let bytes = with_headers(&status, &headers, body.as_bytes());
        let (_canned, result) = read_with(Arc::new(move |_| bytes.clone())).await;
        let error = result.unwrap_err();
        if let Some(activity) = entry["headers"]["activityid"].as_str() {
            assert!(error.message.contains(activity), "{error}");
        }
        classes.insert(
            format!("{} {}", entry["status"], entry["method"].as_str().unwrap()),
            error.class,
        );
    }
    let expected = [
        ("401 DELETE", Class::Auth),
        ("401 GET", Class::Auth),
        ("401 PATCH", Class::Auth),
        ("404 DELETE", Class::Config),
        ("404 POST", Class::Config),
        ("503 OPTIONS", Class::Down),
    ];
    for (what, class) in &classes {
        assert!(expected.contains(&(what.as_str(), *class)), "{what}: {class:?}");
    }
    assert!(classes.len() >= 4, "{classes:?}");
}
