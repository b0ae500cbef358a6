//! Responses that no sane tracker gives: nothing panics, nothing is lost, the message says what
//! happened.

use std::sync::Arc;

use heartbeat::fetch::{FetchError, Page};
use heartbeat::model::FailureClass as Class;
use heartbeat::simulate::ado::SimulatorOptions;

use super::canned::{Answer, Canned, gzip, json, with_headers};
use super::setup::{Setup, everything, read_all};

const ROWS: &str = r#"{"queryType":"flat","asOf":"2026-11-16T12:00:00Z",
    "workItems":[{"id":1},{"id":2},{"id":3}]}"#;

/// Reads from a server that answers queries with three rows and batches with `batch`.
async fn read_batch(
    batch: impl Fn() -> Vec<u8> + Send + Sync + 'static,
) -> Result<Vec<Page>, FetchError> {
    let answer: Answer =
        Arc::new(move |request| if request.is("/wiql") { json(ROWS) } else { batch() });
    read_from(answer).await.1
}

async fn read_from(answer: Answer) -> (Canned, Result<Vec<Page>, FetchError>) {
    let canned = Canned::start(answer).await;
    let result = read_within(&canned, 64 << 20).await;
    (canned, result)
}

/// Reads with a size limit of responses.
async fn read_within(canned: &Canned, max_body: u64) -> Result<Vec<Page>, FetchError> {
    let mut setup = Setup::new(SimulatorOptions { items: 0, ..SimulatorOptions::default() }).await;
    setup.config.base_url.clone_from(&canned.base_url);
    setup.config.max_body = max_body;
    read_all(&setup.guarded(), everything()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_twice_in_one_answer_is_one_item_and_one_that_was_not_asked_for_is_none() {
    let body = r#"{"count":4,"value":[{"id":1,"rev":5,"fields":{"System.Title":"a"}},
        {"id":1,"rev":5,"fields":{"System.Title":"a"}},{"id":99,"rev":1},null,{"id":3,"rev":2}]}"#;
    let pages = read_batch(|| json(body)).await.unwrap();
    let found: Vec<(i64, i64)> = pages[0].items.iter().map(|item| (item.id.0, item.rev)).collect();
    assert_eq!(found, [(1, 5), (3, 2)]);
    assert_eq!(pages[0].undelivered.iter().map(|id| id.0).collect::<Vec<_>>(), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nul_and_half_surrogates_cost_a_character_and_not_the_page() {
    let body = r#"{"count":3,"value":[{"id":1,"rev":1,"fields":{"System.Title":"a\u0000b",
        "System.Description":"x\ud800y\u0000z"}},{"id":2,"rev":1},{"id":3,"rev":1}]}"#;
    let pages = read_batch(|| json(body)).await.unwrap();
    assert_eq!(pages[0].items.len(), 3);
    assert_eq!(pages[0].items[0].title, "a\u{FFFD}b");
    assert_eq!(pages[0].items[0].texts[0].raw, "x\u{FFFD}y\0z");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_of_a_megabyte_and_a_body_of_five_are_read_plain_and_compressed() {
    let long = "<p>ä</p>".repeat(125_000);
    let title = "🎁".repeat(255);
    let item = |id: i64| {
        format!(
            r#"{{"id":{id},"rev":1,"fields":{{"System.Title":"{title}","System.Description":"{long}",
               "Microsoft.VSTS.TCM.ReproSteps":"{long}"}}}}"#
        )
    };
    let body = format!(r#"{{"count":3,"value":[{},{},{}]}}"#, item(1), item(2), item(3));
    assert!(body.len() > 5 << 20);
    let plain = body.clone();
    let pages = read_batch(move || json(&plain)).await.unwrap();
    assert_eq!(pages[0].items.len(), 3);
    assert_eq!(pages[0].items[2].texts[1].raw.len(), long.len());
    assert_eq!(pages[0].items[0].title, title);
    let compressed = gzip(body.as_bytes());
    let headers = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    let again = read_batch(move || with_headers("200 OK", headers, &compressed)).await.unwrap();
    let texts = |pages: &[Page]| -> Vec<_> {
        pages[0].items.iter().map(|item| item.texts.clone()).collect()
    };
    assert!(texts(&again) == texts(&pages), "the same, compressed or not");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_longer_than_allowed_is_asked_for_in_parts_and_the_limit_counts_unpacked_bytes() {
    let answer: Answer = Arc::new(|request| {
        if request.is("/wiql") {
            return json(ROWS);
        }
        let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
        let ids = body["ids"].as_array().unwrap().clone();
        let text = "x".repeat(40_000);
        let items: Vec<String> = ids
            .iter()
            .map(|id| {
                format!(r#"{{"id":{id},"rev":1,"fields":{{"System.Description":"{text}"}}}}"#)
            })
            .collect();
        let body = format!(r#"{{"count":{},"value":[{}]}}"#, items.len(), items.join(","));
        let headers = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
        with_headers("200 OK", headers, &gzip(body.as_bytes()))
    });
    let canned = Canned::start(answer).await;
    let pages = read_within(&canned, 100_000).await.unwrap();
    let found: Vec<i64> = pages[0].items.iter().map(|item| item.id.0).collect();
    assert_eq!(found, [1, 2, 3]);
    // Items that are too large by themselves are named; the others would be read.
    let pages = read_within(&canned, 10_000).await.unwrap();
    assert_eq!(pages[0].undelivered, [1, 2, 3].map(heartbeat::model::ItemId));
    assert_eq!(canned.most_at_once.lock().unwrap().1, 1, "one request at a time");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_swells_when_it_is_unpacked_is_given_up_at_the_limit() {
    let bomb = gzip(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 100_000, "what comes over the wire is harmless: {}", bomb.len());
    let sent = Arc::new(bomb);
    for path in ["/wiql", "/workitemsbatch"] {
        let bomb = Arc::clone(&sent);
        let answer: Answer = Arc::new(move |request| {
            if !request.is(path) {
                return json(r#"{"asOf":"2026-11-16T12:00:00Z","workItems":[{"id":1}]}"#);
            }
            let headers = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
            with_headers("200 OK", headers, &bomb)
        });
        let canned = Canned::start(answer).await;
        let read = read_within(&canned, 100_000).await;
        match path {
            "/wiql" => {
                let error = read.unwrap_err();
                assert!(error.message.contains("source.max_body (100000 bytes)"), "{error}");
            }
            // The item is to blame, not the source.
            _ => assert_eq!(read.unwrap()[0].undelivered, [heartbeat::model::ItemId(1)]),
        }
        let asked = canned.requests.lock().unwrap().iter().filter(|one| one.is(path)).count();
        assert!(asked < 60, "{path}: {asked} requests");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_wrong_with_an_answer_its_activity_is_reported() {
    let head = "content-type: application/json\r\nactivityid: 7c0ffee\r\n";
    let broken_off = [
        b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\nconnection: close\r\n",
        head.as_bytes(),
        b"\r\n{",
    ]
    .concat();
    for (what, answer) in [
        ("too long", with_headers("200 OK", head, &vec![b' '; 100_001])),
        ("without rows", with_headers("200 OK", head, b"{}")),
        ("no JSON", with_headers("200 OK", head, b"{")),
        ("refused", with_headers("400 Bad Request", head, b"")),
        ("broken off", broken_off),
    ] {
        let hang_up = what == "broken off";
        let canned = Canned::start(Arc::new(move |_| answer.clone())).await;
        if hang_up {
            canned.hang_up();
        }
        let error = read_within(&canned, 100_000).await.unwrap_err();
        assert!(error.message.contains("ActivityId 7c0ffee"), "{what}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_of_another_shape_says_what_it_was() {
    for body in
        ["[]", "{}", "null", "\"x\"", r#"{"value":{"id":1}}"#, r#"{"value":[{"id":"one"}]}"#, ""]
    {
        let error = read_batch(move || json(body)).await.unwrap_err();
        assert_eq!(error.class, Class::Transient, "{body}");
        assert!(error.message.contains("not work items"), "{body}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_not_followed_and_no_credential_goes_elsewhere() {
    let other = Canned::start(Arc::new(|_| json("{}"))).await;
    let location = format!("location: {}/_signin?token=abc\r\n", other.base_url);
    let answer: Answer = Arc::new(move |_| with_headers("307 Temporary Redirect", &location, b""));
    let (canned, result) = read_from(answer).await;
    let error = result.unwrap_err();
    assert_eq!(error.class, Class::Auth);
    assert!(!error.message.contains("token=abc"), "{error}");
    assert!(other.requests.lock().unwrap().is_empty());
    let seen = canned.requests.lock().unwrap();
    let head = seen[0].head.to_lowercase();
    for header in [
        "x-tfs-fedauthredirect: suppress",
        "accept: application/json",
        "accept-encoding: gzip",
        "authorization: basic om5vdc1hlxnly3jlda==",
        "user-agent: heartbeat/",
    ] {
        assert!(head.contains(header), "{header} in {head}");
    }
    assert!(
        seen[0]
            .is("POST /org/Parcel/_apis/wit/wiql?timePrecision=true&%24top=19999&api-version=7.1 ")
    );
}
