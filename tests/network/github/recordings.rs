//! Recorded responses of the real service, decoded without loss. Expectations are read from the
//! JSON here, without the client's types.

use std::sync::Arc;

use heartbeat::fetch::{FetchError, Page};
use heartbeat::model::{FailureClass, Format, WorkItem};
use serde_json::{Value, json};

use super::setup::Setup;
use crate::fetch::canned::{Answer, Canned, json as answer_json, with_headers};
use crate::fetch::setup::{everything, read_all};

fn recorded() -> Vec<Value> {
    serde_json::from_str(include_str!("../../data/github/recorded.json")).unwrap()
}

/// All issues anywhere in a body.
fn issues_in(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Object(object)
            if object.contains_key("labels_url")
                && object.get("number").is_some_and(Value::is_i64) =>
        {
            found.push(value.clone());
        }
        Value::Object(object) => object.values().for_each(|value| issues_in(value, found)),
        Value::Array(list) => list.iter().for_each(|value| issues_in(value, found)),
        _ => {}
    }
}

async fn read_with(answer: Answer) -> Result<Vec<Page>, FetchError> {
    let canned = Canned::start(answer).await;
    let mut setup = Setup::of(0).await;
    setup.config.base_url.clone_from(&canned.base_url);
    setup.config.project = "contoso/shop".into();
    read_all(&setup.guarded(), everything()).await
}

/// Compares the JSON with the client's item.
fn assert_nothing_lost(json: &Value, item: &WorkItem) {
    let text = |name: &str| json[name].as_str().map(str::to_owned);
    let instant = |name: &str| text(name).map(|at| at.parse::<jiff::Timestamp>().unwrap());
    assert_eq!(json["number"], item.id.0);
    assert_eq!(text("title").unwrap_or_default(), item.title);
    assert_eq!(text("state").unwrap_or_default(), item.state);
    assert_eq!(item.finished, Some(json["state"] == "closed"));
    assert_eq!(instant("created_at"), item.created_at);
    assert_eq!(instant("updated_at"), Some(item.changed_at));
    assert_eq!(text("html_url").as_deref(), Some(item.url.as_str()));
    let labels = json["labels"].as_array().unwrap().iter();
    let labels: Vec<&str> = labels.filter_map(|label| label["name"].as_str()).collect();
    assert_eq!(labels, item.tags);
    let assigned = json["assignees"][0]["login"].as_str();
    assert_eq!(assigned, item.assigned_to.as_deref());
    assert_eq!(json["milestone"]["title"].as_str(), item.iteration_path.as_deref());
    let body = text("body").filter(|body| !body.trim().is_empty());
    assert_eq!(body.as_deref(), item.texts.first().map(|text| text.raw.as_str()));
    assert!(item.texts.iter().all(|text| text.format == Format::RawMarkdown));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_issue_is_decoded_without_loss() {
    let mut issues = Vec::new();
    for exchange in recorded() {
        issues_in(&exchange["body"], &mut issues);
    }
    assert!(issues.len() >= 15, "{} issues", issues.len());
    for issue in issues {
        let list = json!([issue]).to_string();
        let repository = json!({ "id": 1000, "full_name": "contoso/shop" }).to_string();
        let answer: Answer = Arc::new(move |request| {
            answer_json(if request.is("/issues") { &list } else { &repository })
        });
        let pages = read_with(answer).await.unwrap();
        let items: Vec<_> = pages.into_iter().flat_map(|page| page.items).collect();
        assert_eq!(items.len(), 1, "{issue}");
        assert_nothing_lost(&issue, &items[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_redirects_and_refusals_mean_what_they_meant() {
    // The repository was renamed: its list moves to an address with its number.
    let exchange = |scenario: &str, status: i64| {
        let fits = |e: &Value| e["scenario"] == scenario && e["status"] == status;
        recorded().into_iter().find(fits).unwrap()
    };
    let moved = exchange("rename-repository", 301);
    let issues = exchange("paginate-issues", 200)["body"].to_string();
    let known = json!({ "id": 1000, "full_name": "contoso/shop" }).to_string();
    let body = moved["body"].to_string();
    let answer: Answer = Arc::new(move |request| match () {
        () if request.is("/repositories/1000/issues") => answer_json(&issues),
        () if request.is("/issues") => {
            let to = "content-type: application/json; charset=utf-8\r\nlocation: /org/repositories/1000/issues\r\n";
            with_headers("301 Moved Permanently", to, body.as_bytes())
        }
        () => answer_json(&known),
    });
    let pages = read_with(answer).await.unwrap();
    assert_eq!(pages.iter().map(|page| page.items.len()).sum::<usize>(), 3);
    let refused = exchange("errors", 422)["body"].to_string();
    let answer: Answer = Arc::new(move |_| {
        let head = "content-type: application/json; charset=utf-8\r\n";
        with_headers("422 Unprocessable Entity", head, refused.as_bytes())
    });
    let error = read_with(answer).await.unwrap_err();
    assert_eq!(error.class, FailureClass::BadQuery);
    assert!(error.message.contains("Label color invalid"), "{error}");
}
