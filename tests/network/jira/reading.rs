//! Decoding of issues: texts in both formats, comments, display.

use heartbeat::clean::{Budget, clean_item};
use heartbeat::fetch::FetchRequest;
use heartbeat::model::{FailureClass as Class, Format, ItemId, WorkItem};
use serde_json::json;
use simulators::jira::{FIRST_ID, Simulator, SimulatorOptions};

use super::setup::Setup;
use crate::fetch::setup::{everything, ids, read_all};

async fn item(setup: &Setup, id: i64) -> WorkItem {
    let now = Some(setup.clock.now());
    let request = FetchRequest { changed_since: now, also: vec![ItemId(id)] };
    let pages = read_all(&setup.source(), request).await.unwrap();
    let mut found = pages.into_iter().flat_map(|page| page.items);
    found.find(|item| item.id.0 == id).unwrap()
}

/// The text in a prompt, without the empty lines between blocks.
fn shown(item: WorkItem) -> String {
    let cleaned = clean_item(item, &Budget::per_item(8000, 800));
    let lines = cleaned.fields.iter().flat_map(|field| field.full.lines());
    lines.filter(|line| !line.trim().is_empty()).map(|line| format!("{line}\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issue_reads_the_same_from_cloud_and_from_a_server() {
    let mut texts = Vec::new();
    for options in Setup::both(SimulatorOptions::default()) {
        let is_cloud = options.is_cloud;
        let setup = Setup::new(options).await;
        let item = item(&setup, FIRST_ID).await;
        assert_eq!(item.handle.as_deref(), Some("PARCEL-1"));
        assert_eq!(item.url, format!("{}/browse/PARCEL-1", setup.simulator.base_url()));
        assert_eq!((item.priority, item.finished), (Some(1), Some(false)));
        assert_eq!(item.areas().collect::<Vec<_>>(), ["PARCEL/Tracking", "PARCEL"]);
        assert_eq!(item.rev, setup.simulator.revision(FIRST_ID).unwrap());
        let format = if is_cloud { Format::Adf } else { Format::Wiki };
        assert_eq!(item.texts[0].format, format);
        texts.push(shown(item));
        for id in FIRST_ID + 1..FIRST_ID + 8 {
            let text = shown(self::item(&setup, id).await);
            assert!(!text.contains("{code") && !text.contains("\"type\""), "{text}");
        }
    }
    assert_eq!(texts[0], texts[1]);
    assert!(texts[0].contains("```\nTypeError") || texts[0].contains("TypeError"), "{}", texts[0]);
    assert!(texts[0].contains("1. Create a shipment"), "{}", texts[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn comments_are_read_newest_last_and_ours_are_left_out() {
    for options in Setup::both(SimulatorOptions::default()) {
        let mut setup = Setup::new(options).await;
        setup.config.comments = 3;
        for number in 1..=40 {
            setup.simulator.comment(FIRST_ID, "Ann Lee", &format!("note {number}"));
        }
        setup.simulator.comment(
            FIRST_ID,
            "Parcel Build Service",
            "Found.\n\n_heartbeat ref 0123456789ab_",
        );
        let item = item(&setup, FIRST_ID).await;
        assert_eq!(item.comments.len(), 3);
        let words: Vec<String> = item
            .comments
            .iter()
            .map(|comment| {
                heartbeat::clean::clean_text(&comment.raw, comment.format, &Default::default()).text
            })
            .collect();
        assert_eq!(words, ["note 38", "note 39", "note 40"]);
        assert_eq!(item.comments[0].author, "Ann Lee");
        assert_eq!(
            setup.simulator.requests_of("comments"),
            1,
            "beside the twenty that an issue holds"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_nobody_expects_do_no_harm() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let unknown = json!({ "type": "doc", "version": 9, "content": [
        { "type": "hologram", "content": [{ "type": "text", "text": "kept" }] }] });
    setup.simulator.describe(FIRST_ID, &unknown);
    setup.simulator.describe(FIRST_ID + 1, &json!([1, { "a": null }]));
    setup.simulator.describe(FIRST_ID + 2, &json!("plain words"));
    let text = shown(item(&setup, FIRST_ID).await);
    for part in ["unknown version 9", "unknown element hologram", "kept"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    shown(item(&setup, FIRST_ID + 1).await);
    assert_eq!(shown(item(&setup, FIRST_ID + 2).await), "plain words\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_names_account_project_and_number() {
    for options in Setup::both(SimulatorOptions::default()) {
        let kind = if options.is_cloud { "Cloud" } else { "Data Center" };
        let mut setup = Setup::new(options).await;
        let probe = setup.source().probe().await;
        assert_eq!(probe.account.unwrap(), format!("Parcel Build Service (Jira {kind})"));
        assert_eq!(probe.project.unwrap(), "Parcel Tracking");
        let matching = ids(&read_all(&setup.source(), everything()).await.unwrap()).len();
        assert_eq!(probe.matching.unwrap(), matching);
        setup.config.project = "NOWHERE".to_owned();
        let probe = setup.source().probe().await;
        assert_eq!(probe.project.unwrap_err().class, Class::Config);
        let error = probe.matching.unwrap_err();
        assert_eq!(error.class, Class::Config, "{error}");
        assert!(error.message.contains("NOWHERE"), "{error}");
        setup.config.project = "PARCEL".to_owned();
        setup.config.where_clause = "sevrity = 1".to_owned();
        let error = setup.source().probe().await.matching.unwrap_err();
        assert_eq!(error.class, Class::BadQuery, "{error}");
        assert!(error.message.contains("Field 'sevrity' does not exist"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_go_as_basic_with_a_user_and_as_bearer_without() {
    let options =
        SimulatorOptions { token: Some("right-secret".to_owned()), ..SimulatorOptions::default() };
    let mut setup = Setup::new(options).await;
    for user in ["bot@contoso.example", ""] {
        setup.config.user = user.to_owned();
        let source = setup.source_with("right-secret");
        source.check().await.unwrap();
        let error = setup.source_with("wrong-secret").check().await.unwrap_err();
        assert_eq!(error.class, Class::Auth);
        assert!(!error.message.contains("wrong-secret"));
    }
    // Another credential is tried at once, although the breaker is open.
    for (secret, class) in [("a", Class::Auth), ("a", Class::BreakerOpen), ("b", Class::Auth)] {
        let events = std::sync::Arc::clone(&setup.events) as _;
        let guarded = setup.source_with(secret).guarded(setup.clock.clone(), events);
        assert_eq!(guarded.check().await.unwrap_err().class, class, "{secret}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn which_jira_it_is_is_asked_once_and_remembered() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    read_all(&setup.source(), everything()).await.unwrap();
    read_all(&setup.source(), everything()).await.unwrap();
    assert_eq!(setup.simulator.requests_of("serverinfo"), 1);
    assert_eq!(setup.simulator.requests_of("priority"), 2, "once for each process");
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_that_cannot_work_are_refused_before_anything_is_sent() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    for wrong in ["status = Open ORDER BY rank", "a = 1) OR (project = OPS"] {
        let config =
            heartbeat::settings::Source { where_clause: wrong.to_owned(), ..setup.config.clone() };
        let credential = crate::fetch::setup::credential();
        let memory = std::sync::Arc::clone(&setup.memory) as _;
        let connection = heartbeat::fetch::Connection::new(credential, setup.clock.clone(), memory);
        let error = heartbeat::fetch::connect(&config, connection).err().unwrap();
        assert_eq!(error.class, Class::Config);
        assert!(error.message.contains("source.where"), "{error}");
    }
    assert_eq!(setup.simulator.requests(), 0);
    // A saved filter replaces a condition.
    let mut setup = setup;
    setup.config.where_clause = String::new();
    setup.config.saved_query = "10100".to_owned();
    let found = ids(&read_all(&setup.source(), everything()).await.unwrap());
    assert!(!found.is_empty() && found.len() < 24);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simulator_can_be_steered_over_http() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let control = format!("http://{}/_simulator", simulator.address());
    let wrong = http.post(format!("{control}/faults")).body("\"sneeze\"").send().await.unwrap();
    assert_eq!(wrong.status(), 400);
    assert!(wrong.text().await.unwrap().contains("anonymous200"));
    let right = http.post(format!("{control}/faults")).body("\"error500@search*2\"").send().await;
    assert_eq!(right.unwrap().status(), 200);
    let body = json!({ "summary": "From outside" }).to_string();
    let made = http.post(format!("{control}/issues")).body(body).send().await.unwrap();
    let made: serde_json::Value = serde_json::from_str(&made.text().await.unwrap()).unwrap();
    assert!(simulator.ids().contains(&made["id"].as_i64().unwrap()));
}
