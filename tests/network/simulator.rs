//! The rules of the simulated tracker; `tests/peers/sdk.rs` verifies it with a third-party client.

use heartbeat::simulate::ado::{ActiveFault, Fault, Simulator, SimulatorOptions};
use serde_json::{Value, json};

const TOKEN: &str = "a-token-of-the-test";

fn client() -> reqwest::Client {
    // A second test finds a provider installed, which serves as well.
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    let redirects = reqwest::redirect::Policy::none();
    reqwest::Client::builder().no_proxy().redirect(redirects).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_and_options_are_taken_in_every_spelling() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let base = simulator.base_url();
    let client = client();
    let query = json!({ "query": "SELECT [System.Id] FROM WorkItems WHERE [System.Id] > 0" });
    for path in [
        "Parcel/_apis/wit/wiql?$top=3&api-version=7.1",
        "parcel/Any%20Team/_apis/WIT/WiQL?%24top=3&api-version=7.1-preview.2",
        "_apis/wit/wiql?$top=3&api-version=5.0",
        "6f1c2a52-0f1e-4a37-9a55-3b0d5f8f2c11/_apis/wit/wiql?$top=3&api-version=7.0",
    ] {
        let request = client.post(format!("{base}/{path}")).basic_auth("any user", Some("any"));
        let answer = request.header("X-TFS-Session", "abc").json(&query).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(answer.headers()["x-tfs-session"], "abc");
        let kind = answer.headers()["content-type"].to_str().unwrap();
        assert!(kind.starts_with("application/json; charset=utf-8; api-version="), "{kind}");
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["workItems"].as_array().unwrap().len(), 3, "{path}");
    }
    let header = client
        .post(format!("{base}/Parcel/_apis/wit/workItemsBatch"))
        .bearer_auth("any")
        .header("Accept", "application/json;api-version=7.1-preview.1")
        .json(&json!({ "ids": [1, 4102], "errorPolicy": 2, "fields": ["System.Title"] }));
    let body: Value = header.send().await.unwrap().json().await.unwrap();
    assert_eq!(body["count"], 2);
    assert_eq!(body["value"][0], Value::Null);
    assert_eq!(body["value"][1]["fields"].as_object().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_answered_as_the_service_does() {
    let options = SimulatorOptions { token: Some(TOKEN.into()), ..SimulatorOptions::default() };
    let simulator = Simulator::start(options).await.unwrap();
    let base = simulator.base_url();
    let client = client();
    let send = async |path: &str, body: Value, token: &str| {
        let request = client.post(format!("{base}/{path}")).basic_auth("", Some(token));
        let answer = request.json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let batch = "_apis/wit/workitemsbatch?api-version=7.1";
    let both = json!({ "ids": [4102], "fields": ["System.Id"], "$expand": "none" });
    let field = json!({ "ids": [4102], "fields": ["Custom.Nothing"] });
    let query = json!({ "query": "SELECT [System.Id] FROM WorkItems WHERE [System.Stat] = 'x'" });
    let syntax = json!({ "query": "SELECT [System.Id] FROM" });
    let wiql = "Parcel/_apis/wit/wiql?api-version=7.1";
    for (path, body, status, part) in [
        (batch, both, 400, "expand parameter can not be used"),
        (batch, field, 400, "TF51535"),
        ("_apis/wit/workitemsbatch", json!({ "ids": [1] }), 400, "VssVersionNotSpecifiedException"),
        (
            "_apis/wit/workitemsbatch?api-version=9.0",
            json!({}),
            400,
            "VssVersionOutOfRangeException",
        ),
        (wiql, query, 400, "TF51005"),
        (wiql, syntax, 400, "TF51006"),
        ("Nowhere/_apis/wit/wiql?api-version=7.1", json!({}), 404, "TF200016"),
        ("_apis/wit/nothing?api-version=7.1", json!({}), 404, "The controller for path"),
    ] {
        let (got, text) = send(path, body, TOKEN).await;
        assert_eq!(got, status, "{path}: {text}");
        assert!(text.contains(part), "{path}: {text}");
    }
    let (status, text) = send(batch, json!({ "ids": [1] }), "wrong").await;
    assert_eq!(status, 203, "a sign-in page unless it is suppressed");
    assert!(text.contains("Sign In"));
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_thousand_items_are_served_and_the_first_24_stay_the_same() {
    let simulator =
        Simulator::start(SimulatorOptions { items: 50_000, ..SimulatorOptions::default() })
            .await
            .unwrap();
    assert_eq!(simulator.item_ids().len(), 50_000);
    let small = Simulator::start(SimulatorOptions::default()).await.unwrap();
    for id in small.item_ids() {
        assert_eq!(simulator.field(id, "System.Title"), small.field(id, "System.Title"));
    }
}

#[test]
fn faults_are_written_as_name_kind_and_times() {
    let fault: ActiveFault = "throttled429@wiql*2".parse().unwrap();
    assert_eq!((fault.fault, fault.times), (Fault::Throttled429, Some(2)));
    assert_eq!(fault.on.as_deref(), Some("wiql"));
    assert_eq!("hang".parse::<ActiveFault>().unwrap(), Fault::Hang.into());
    assert!("cough".parse::<ActiveFault>().unwrap_err().contains("html203"));
    assert!("hang*x".parse::<ActiveFault>().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_mean_what_they_mean_to_the_service() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let url = format!("{}/Parcel/_apis/wit/wiql?api-version=7.1", simulator.base_url());
    let client = client();
    for (condition, expected) in [
        ("[System.Tags] CONTAINS 'rates'", 5),
        ("[System.AreaPath] UNDER 'Parcel\\Tracking'", 7),
        ("[System.State] NOT IN ('Closed', 'active')", 10),
        // AND has higher precedence than OR.
        (
            "[System.WorkItemType] = 'Feature' OR [System.WorkItemType] = 'Task' AND \
             [System.State] = 'Closed'",
            2,
        ),
        ("NOT ([Microsoft.VSTS.Common.Priority] <= 2)", 6),
        ("[System.Title] = 'it''s'", 0),
        ("[System.AssignedTo] = 'Mira Lindqvist'", 4),
        ("[System.AssignedTo] = ''", 7),
        ("[System.AssignedTo] <> 'Mira Lindqvist'", 20),
        ("[System.Parent] = 4101", 4),
        ("[System.ChangedDate] >= @today - 400 AND [System.ChangedDate] < '2999-01-01'", 24),
    ] {
        let query = format!("SELECT [System.Id] FROM WorkItems WHERE {condition}");
        let request = client.post(&url).basic_auth("", Some("x")).json(&json!({ "query": query }));
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        let rows = answer["workItems"].as_array().map(Vec::len);
        assert_eq!(rows, Some(expected), "{condition}: {answer}");
    }
}
