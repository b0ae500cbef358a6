//! Every failure: its class, the reaction, the effect on the breaker, the exit code, and a helpful
//! message.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use heartbeat::app::exit::Code;
use heartbeat::model::{BreakerState, FailureClass as Class};
use heartbeat::run::RunError;
use heartbeat::simulate::fault::InjectedFault as _;
use serde_json::{Value, json};
use simulators::jira::{ActiveFault, Fault, SimulatorOptions};

use super::setup::Setup;
use crate::fetch::canned::{Answer, Canned, json as answer_json, with_headers};
use crate::fetch::setup::{everything, ids, read_all};

/// Effect of a fault on a tick.
struct Expected {
    fault: Fault,
    class: Class,
    /// Searches that reach the tracker: one, or three where a retry may help.
    searches: u64,
    breaker: Breaker,
    exit_code: u8,
    message: &'static str,
}

#[derive(Debug, PartialEq, Eq)]
enum Breaker {
    Opens,
    Counts,
}

const fn expect(
    fault: Fault,
    class: Class,
    searches: u64,
    breaker: Breaker,
    exit_code: u8,
    message: &'static str,
) -> Expected {
    Expected { fault, class, searches, breaker, exit_code, message }
}

const TABLE: [Expected; 27] = [
    expect(Fault::Denied401, Class::Auth, 1, Breaker::Opens, 77, "a constant of the test"),
    expect(Fault::Scope401, Class::Denied, 1, Breaker::Opens, 77, "scope does not match"),
    expect(Fault::Anonymous200, Class::Auth, 1, Breaker::Opens, 77, "AUTHENTICATED_FAILED"),
    expect(Fault::Html200, Class::Auth, 1, Breaker::Opens, 77, "a page titled Log in - Jira"),
    expect(Fault::Redirect302, Class::Auth, 1, Breaker::Opens, 77, "source.user"),
    expect(Fault::Captcha403, Class::Auth, 1, Breaker::Opens, 77, "CAPTCHA"),
    expect(Fault::Denied403, Class::Denied, 1, Breaker::Opens, 77, "Browse Projects"),
    // Once unchanged, once with a quoted date, in case that was refused.
    expect(Fault::Query400, Class::BadQuery, 2, Breaker::Opens, 78, "source.where"),
    expect(Fault::Project400, Class::BadQuery, 2, Breaker::Opens, 78, "field 'project'"),
    expect(Fault::Token400, Class::BadQuery, 2, Breaker::Opens, 78, "nextPageToken"),
    expect(Fault::NotFound404, Class::Config, 1, Breaker::Opens, 78, "source.base_url"),
    expect(Fault::Removed410, Class::Config, 1, Breaker::Opens, 78, "CHANGE-2046"),
    expect(Fault::Throttled429, Class::Throttled, 3, Breaker::Counts, 69, "retry after 1 s"),
    expect(Fault::Throttled429Long, Class::Throttled, 1, Breaker::Counts, 69, "after 1847 s"),
    expect(Fault::Throttled429Reset, Class::Throttled, 1, Breaker::Counts, 69, "retry after 1"),
    expect(Fault::Throttled429Html, Class::Throttled, 1, Breaker::Counts, 69, "retry after 60 s"),
    // Once more without fields, in case one item is the cause.
    expect(Fault::Error500, Class::Transient, 4, Breaker::Counts, 69, "HTTP 500"),
    expect(Fault::Gateway502, Class::Transient, 3, Breaker::Counts, 69, "502 Bad Gateway"),
    expect(Fault::Unavailable503, Class::Transient, 3, Breaker::Counts, 69, "starting up"),
    expect(Fault::WrongShape, Class::Transient, 1, Breaker::Counts, 69, "returned no rows"),
    expect(Fault::NotJson, Class::Transient, 1, Breaker::Counts, 69, "not the search"),
    expect(Fault::Text200, Class::Config, 1, Breaker::Opens, 78, "It works!"),
    expect(Fault::Warning200, Class::BadQuery, 1, Breaker::Opens, 78, "rewrites the query"),
    expect(Fault::OtherProject, Class::BadQuery, 1, Breaker::Opens, 78, "OPS-9"),
    expect(Fault::Truncated, Class::Transient, 3, Breaker::Counts, 69, "in the middle"),
    expect(Fault::Reset, Class::Transient, 3, Breaker::Counts, 69, "127.0.0.1"),
    expect(Fault::LostAnswer, Class::Transient, 3, Breaker::Counts, 69, "127.0.0.1"),
];

/// Faults after which a tick succeeds, or which have separate tests below.
const OTHERS: [Fault; 4] = [Fault::RetryAfterZero, Fault::SameToken, Fault::NoNumbers, Fault::Hang];

fn only_on(fault: Fault, kind: &str) -> ActiveFault {
    ActiveFault { on: Some(kind.to_owned()), ..fault.into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_has_its_class_action_breaker_effect_exit_code_and_message() {
    for options in Setup::both(SimulatorOptions::default()) {
        for expected in &TABLE {
            let name = format!("{} (cloud: {})", expected.fault.name(), options.is_cloud);
            let setup = Setup::new(options.clone()).await;
            setup.simulator.set_faults([only_on(expected.fault, "search")]);
            let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
            assert_eq!(error.class, expected.class, "{name}: {error}");
            assert!(error.message.contains(expected.message), "{name}: {error}");
            let code = Code::of_run(RunError::from(error.clone()).outcome()).number();
            assert_eq!(code, expected.exit_code, "{name}");
            let searches = setup.simulator.requests_of("search");
            assert_eq!(searches, expected.searches, "{name}: {searches} searches");
            let breaker = setup.source().notebook().read().await.unwrap().breaker;
            let effect = match &breaker.state {
                BreakerState::Open { .. } => Breaker::Opens,
                _ => Breaker::Counts,
            };
            assert_eq!(effect, expected.breaker, "{name}: {breaker:?}");
            assert_eq!(setup.simulator.most_at_once(), 1, "{name}");
        }
    }
    let told = TABLE.iter().map(|row| row.fault).chain(OTHERS).map(Fault::name);
    let all: BTreeSet<String> = Fault::ALL.iter().map(|fault| fault.name()).collect();
    assert_eq!(told.collect::<BTreeSet<_>>(), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tracker_that_hangs_is_given_up_after_the_timeout() {
    let mut setup = Setup::new(SimulatorOptions::default()).await;
    setup.config.request_timeout = Duration::from_millis(150);
    setup.simulator.set_faults([only_on(Fault::Hang, "search")]);
    let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::Transient);
    assert!(error.message.contains("source.request_timeout"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn zero_seconds_on_a_good_answer_cost_nothing() {
    let options = SimulatorOptions { is_cloud: false, items: 300, ..SimulatorOptions::default() };
    let setup = Setup::new(options).await;
    setup.simulator.set_faults([Fault::RetryAfterZero.into()]);
    assert!(ids(&read_all(&setup.guarded(), everything()).await.unwrap()).len() > 200);
    let remembered = setup.source().notebook().read().await.unwrap();
    assert_eq!(remembered.not_before, None);
    assert_eq!(remembered.rate_limit.unwrap().remaining, Some(90));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_numbers_is_asked_in_the_zone_of_the_account() {
    for zone in ["Pacific/Kiritimati", "America/St_Johns", "UTC"] {
        let options = SimulatorOptions { zone: zone.to_owned(), ..SimulatorOptions::default() };
        let setup = Setup::new(options).await;
        let expected: BTreeSet<i64> =
            ids(&read_all(&setup.source(), everything()).await.unwrap()).into_iter().collect();
        let id = setup.simulator.ids()[3];
        setup.simulator.set_faults([only_on(Fault::NoNumbers, "search")]);
        let source = setup.source();
        let pages = read_all(&source, everything()).await.unwrap();
        assert_eq!(ids(&pages).into_iter().collect::<BTreeSet<_>>(), expected, "{zone}");
        setup.simulator.edit(id, "edited in another zone");
        let pages = setup.read_some(usize::MAX).await;
        assert!(ids(&pages).contains(&id), "{zone}: the edit was missed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_token_that_never_changes_ends_the_read_and_keeps_what_was_read() {
    let setup = Setup::new(SimulatorOptions { items: 500, ..SimulatorOptions::default() }).await;
    let all = setup.simulator.ids();
    setup.simulator.touch_all(&all, "2026-11-10T10:10:10Z".parse().unwrap());
    setup.simulator.set_faults([only_on(Fault::SameToken, "search")]);
    let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::Transient);
    assert!(error.message.contains("same page for every request"), "{error}");
    assert!(setup.simulator.requests_of("search") < 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_ends_between_two_pages_is_reported_and_nothing_counts_as_gone() {
    for lets_anonymous_read in [true, false] {
        let options = SimulatorOptions {
            items: 300,
            token: Some("not-a-secret".to_owned()),
            lets_anonymous_read,
            ..SimulatorOptions::default()
        };
        for options in Setup::both(options) {
            let mut setup = Setup::new(options).await;
            setup.config.page_size = 20;
            let source = setup.guarded();
            let mut pages = heartbeat::fetch::Source::open(&source, everything()).await.unwrap();
            let first = pages.next().await.unwrap().unwrap();
            assert!(!first.items.is_empty());
            setup.simulator.set_token(Some("another-secret".to_owned()));
            let error = loop {
                match pages.next().await {
                    Ok(Some(page)) => assert!(page.vanished.is_empty()),
                    Ok(None) => panic!("the end was reached without a credential"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.class, Class::Auth, "{error}");
            // Items requested by number do not vanish either.
            let known = heartbeat::model::ItemId(setup.simulator.ids()[0]);
            let states =
                heartbeat::fetch::Source::current_states(&setup.source(), vec![known]).await;
            assert_eq!(states.unwrap_err().class, Class::Auth);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn passing_faults_lose_no_item() {
    for fault in [Fault::Error500, Fault::Gateway502, Fault::Truncated, Fault::Reset] {
        for options in Setup::both(SimulatorOptions::default()) {
            let mut setup = Setup::new(options).await;
            setup.config.page_size = 7;
            setup.config.where_clause = String::new();
            setup
                .simulator
                .set_faults([ActiveFault { times: Some(1), ..only_on(fault, "search") }]);
            let pages = read_all(&setup.guarded(), everything()).await.unwrap();
            assert_eq!(ids(&pages).len(), 24, "{}", fault.name());
            let breaker = setup.source().notebook().read().await.unwrap().breaker;
            assert_eq!(breaker, Default::default(), "{}", fault.name());
        }
    }
}

/// One issue makes the server fail, whatever else is asked for with it; the rows of the search are
/// then listed without their fields and read in parts.
#[tokio::test(flavor = "multi_thread")]
async fn an_issue_that_makes_the_server_fail_is_set_aside_and_the_rest_is_read() {
    let row = |id: u32, whole: bool| {
        let summary = if whole { json!("x") } else { json!(null) };
        let updated = format!("2026-11-16T12:0{id}:00.000+0000");
        json!({ "id": id.to_string(), "key": format!("SHOP-{id}"),
            "fields": { "summary": summary, "updated": updated } })
    };
    let failed = || with_headers("500 Internal Server Error", "", b"{}");
    let answer: Answer = Arc::new(move |request| {
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let is_whole = body["fields"].as_array().is_some_and(|fields| fields.len() > 1);
        match () {
            () if request.is("serverInfo") => answer_json(r#"{"deploymentType": "Cloud"}"#),
            () if request.is("/priority") => answer_json("[]"),
            () if request.is("/search") && is_whole => failed(),
            () if request.is("/search") => {
                let rows: Vec<Value> = (1..=5).map(|id| row(id, false)).collect();
                answer_json(&json!({ "issues": rows, "isLast": true }).to_string())
            }
            () if request.is("/bulkfetch") => {
                let ids = body["issueIdsOrKeys"].as_array().unwrap().iter();
                let ids: Vec<u32> = ids.map(|id| id.as_str().unwrap().parse().unwrap()).collect();
                if ids.contains(&4) {
                    return failed();
                }
                let rows: Vec<Value> = ids.into_iter().map(|id| row(id, true)).collect();
                answer_json(&json!({ "issues": rows }).to_string())
            }
            () => answer_json("{}"),
        }
    });
    let canned = Canned::start(answer).await;
    let mut setup = Setup::new(SimulatorOptions::default()).await;
    setup.config.base_url.clone_from(&canned.base_url);
    setup.config.project = "SHOP".to_owned();
    let pages = read_all(&setup.source(), everything()).await.unwrap();
    assert_eq!(ids(&pages), [1, 2, 3, 5]);
    assert_eq!(pages[0].undelivered, [heartbeat::model::ItemId(4)]);
    let last = "2026-11-16T12:05:00Z".parse().unwrap();
    assert_eq!(pages[0].cursor, Some(last), "it passes what is stored as undelivered");
}
