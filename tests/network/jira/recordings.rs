//! Recorded responses of real servers, decoded without loss. Expectations are read from the JSON
//! here, without the client's types.

use std::sync::Arc;

use heartbeat::clean::clean_text;
use heartbeat::model::{Format, WorkItem};
use serde_json::{Value, json};
use simulators::jira::SimulatorOptions;

use super::setup::Setup;
use crate::fetch::canned::{Answer, Canned, json as answer_json};
use crate::fetch::setup::{everything, read_all};

fn recorded() -> Vec<Value> {
    serde_json::from_str(include_str!("../../data/jira/recorded.json")).unwrap()
}

/// Reads the issues of one response through the whole client, from a server that has nothing else.
async fn read(kind: &str, project: &str, issues: &str) -> Vec<WorkItem> {
    let info = json!({ "baseUrl": "https://jira.example", "deploymentType": kind }).to_string();
    let names = ["Highest", "High", "Major", "Medium", "Low"];
    let priorities = json!(names.map(|name| json!({ "name": name }))).to_string();
    let found = format!(
        "{{\"issues\": {issues}, \"isLast\": true, \"startAt\": 0, \"total\": 1, \"maxResults\": 50}}"
    );
    let answer: Answer = Arc::new(move |request| match () {
        () if request.is("serverInfo") => answer_json(&info),
        () if request.is("/priority") => answer_json(&priorities),
        () if request.is("/search") => answer_json(&found),
        () => answer_json("{}"),
    });
    let canned = Canned::start(answer).await;
    let mut setup = Setup::new(SimulatorOptions::default()).await;
    setup.config.base_url.clone_from(&canned.base_url);
    setup.config.project = project.to_owned();
    setup.config.comments = 5;
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    pages.into_iter().flat_map(|page| page.items).collect()
}

fn instant(value: &Value) -> Option<jiff::Timestamp> {
    let format = "%Y-%m-%dT%H:%M:%S%.f%z";
    Some(jiff::Timestamp::strptime(format, value.as_str()?).unwrap())
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect()
}

/// The words of a document in order, or the text of a string.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(words).collect(),
        Value::Object(node) => match node.get("text") {
            Some(text) => text.as_str().unwrap().to_owned(),
            None => node.get("content").map(words).unwrap_or_default(),
        },
        _ => String::new(),
    }
}

/// Compares the JSON with the client's item.
fn assert_nothing_lost(issue: &Value, item: &WorkItem, format: Format) {
    let fields = &issue["fields"];
    let key = issue["key"].as_str().unwrap();
    assert_eq!(issue["id"].as_str().unwrap(), item.id.to_string());
    assert_eq!(item.handle.as_deref(), Some(key));
    assert_eq!(item.url, format!("https://jira.example/browse/{key}"));
    assert_eq!(fields["summary"].as_str().unwrap_or_default(), item.title);
    assert_eq!(fields["status"]["name"], item.state);
    assert_eq!(fields["issuetype"]["name"], item.item_type);
    assert_eq!(instant(&fields["created"]), item.created_at, "{key}");
    assert_eq!(instant(&fields["updated"]), Some(item.changed_at), "{key}");
    match fields["status"]["statusCategory"]["key"].as_str() {
        Some(category) => assert_eq!(item.finished, Some(category == "done"), "{key}"),
        None => assert_eq!(item.finished, (!fields["resolution"].is_null()).then_some(true)),
    }
    assert_eq!(fields["assignee"]["displayName"].as_str(), item.assigned_to.as_deref());
    let project = fields["project"]["key"].as_str().unwrap();
    let mut areas: Vec<String> =
        names(&fields["components"]).iter().map(|name| format!("{project}/{name}")).collect();
    areas.push(project.to_owned());
    assert_eq!(item.areas().collect::<Vec<_>>(), areas);
    assert_eq!(names(&fields["fixVersions"]).first().copied(), item.iteration_path.as_deref());
    let labels: Vec<&str> =
        fields["labels"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(labels, item.tags);
    let count = |name: &str| fields[name].as_array().map_or(0, Vec::len) as u64;
    assert_eq!(item.links.items, count("issuelinks") + count("subtasks"), "{key}");
    assert_eq!(item.links.files, count("attachment"), "{key}");
    assert_eq!(item.priority.is_some(), fields["priority"]["name"].is_string(), "{key}");
    for name in ["description", "environment"] {
        let text = item.texts.iter().find(|text| text.name == name);
        let shown = text.map(|text| clean_text(&text.raw, text.format, &Default::default()).text);
        assert_eq!(shown.unwrap_or_default(), words(&fields[name]), "{key} {name}");
    }
    let comments = fields["comment"]["comments"].as_array().cloned().unwrap_or_default();
    assert_eq!(item.comments.len(), comments.len(), "{key}");
    for (entry, comment) in comments.iter().zip(&item.comments) {
        assert_eq!(entry["author"]["displayName"], comment.author);
        assert_eq!(instant(&entry["created"]), comment.at);
        assert_eq!(comment.format, format);
        let shown = clean_text(&comment.raw, comment.format, &Default::default()).text;
        assert_eq!(shown, words(&entry["body"]), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_issue_is_decoded_without_loss() {
    let mut issues = 0;
    for exchange in recorded() {
        let kind = exchange["kind"].as_str().unwrap();
        let format = if kind == "Cloud" { Format::Adf } else { Format::Wiki };
        for issue in exchange["issues"].as_array().unwrap() {
            let project = issue["fields"]["project"]["key"].as_str().unwrap();
            let items = read(kind, project, &json!([issue]).to_string()).await;
            assert_eq!(items.len(), 1, "{issue}");
            assert_nothing_lost(issue, &items[0], format);
            issues += 1;
        }
    }
    assert!(issues >= 9, "{issues} issues");
}

/// A document nested more than sixty thousand levels, and a truncated one, next to a good one.
#[tokio::test(flavor = "multi_thread")]
async fn a_megabyte_of_nesting_costs_nothing_but_itself() {
    let levels = 60_000;
    let open = r#"{"type":"blockquote","content":["#.repeat(levels);
    let deep = format!(
        r#"{{"type":"doc","version":1,"content":[{open}{{"type":"text","text":"bottom"}}{}]}}"#,
        "]}".repeat(levels)
    );
    assert!(deep.len() > 1 << 20);
    let lists = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let issue = |number: i64, description: &str| {
        format!(
            r#"{{"id":"{number}","key":"SHOP-{number}","fields":{{"summary":"s","updated":"2026-11-16T10:00:00.000+0000","description":{description}}}}}"#
        )
    };
    let issues = [issue(1, &deep), issue(2, &lists), issue(3, "\"words\"")].join(",");
    let items = read("Cloud", "SHOP", &format!("[{issues}]")).await;
    assert_eq!(items.iter().map(|item| item.id.0).collect::<Vec<_>>(), [1, 2, 3]);
    let shown: Vec<String> = items
        .iter()
        .map(|item| {
            let texts = item.texts.iter();
            let clean = |text: &heartbeat::model::TextField| {
                clean_text(&text.raw, text.format, &Default::default()).text
            };
            texts.map(clean).collect()
        })
        .collect();
    assert!(shown[0].contains("bottom") && shown[0].len() < 10_000, "{}", shown[0].len());
    assert!(shown[1].len() < 10_000, "{}", shown[1].len());
    assert_eq!(shown[2], "words");
}
