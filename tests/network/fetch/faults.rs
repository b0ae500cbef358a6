//! Every failure: its class, the reaction, the effect on the breaker, the exit code, and a helpful
//! message.

use std::collections::BTreeSet;
use std::time::Duration;

use heartbeat::app::exit::Code;
use heartbeat::fetch::Source;
use heartbeat::model::{BreakerState, FailureClass as Class};
use heartbeat::run::RunError;
use heartbeat::simulate::ado::{ActiveFault, Fault, SimulatorOptions};
use heartbeat::simulate::fault::InjectedFault as _;

use super::setup::{Setup, everything, ids, read_all};

/// Effect of a fault on a tick.
struct Expected {
    fault: Fault,
    class: Class,
    /// Requests that reach the tracker: one, or three where a retry may help.
    requests: u64,
    breaker: Breaker,
    exit_code: u8,
    message: &'static str,
}

#[derive(Debug, PartialEq, Eq)]
enum Breaker {
    Opens,
    Counts,
    Untouched,
}

const fn expect(
    fault: Fault,
    class: Class,
    requests: u64,
    breaker: Breaker,
    exit_code: u8,
    message: &'static str,
) -> Expected {
    Expected { fault, class, requests, breaker, exit_code, message }
}

const TABLE: [Expected; 28] = [
    expect(Fault::Html203, Class::Auth, 1, Breaker::Opens, 77, "a constant of the test"),
    expect(Fault::Html200, Class::Auth, 1, Breaker::Opens, 77, "titled Azure DevOps Services"),
    expect(Fault::Redirect302, Class::Auth, 1, Breaker::Opens, 77, "redirected (https://sps"),
    expect(Fault::Empty401, Class::Auth, 1, Breaker::Opens, 77, "renew it with scope vso.work"),
    expect(Fault::Denied401, Class::Auth, 1, Breaker::Opens, 77, "TF400813"),
    expect(Fault::Denied403, Class::Denied, 1, Breaker::Opens, 77, "grant read access"),
    expect(Fault::Project404, Class::Config, 1, Breaker::Opens, 78, "source.project"),
    expect(Fault::Controller404, Class::Config, 1, Breaker::Opens, 78, "source.base_url"),
    expect(Fault::Text200, Class::Config, 1, Breaker::Opens, 78, "It works!"),
    expect(Fault::Gone404, Class::Gone, 1, Breaker::Untouched, 69, "TF401232"),
    expect(Fault::Throttled429, Class::Throttled, 3, Breaker::Counts, 69, "retry after 1 s"),
    expect(Fault::Throttled429Long, Class::Throttled, 1, Breaker::Counts, 69, "after 120 s"),
    expect(Fault::Throttled429Bare, Class::Throttled, 1, Breaker::Counts, 69, "slow down"),
    expect(Fault::Bom503, Class::Transient, 3, Breaker::Counts, 69, "service is unavailable"),
    expect(Fault::Stopped503, Class::Down, 1, Breaker::Opens, 69, "TF24668"),
    expect(Fault::Error500, Class::Transient, 3, Breaker::Counts, 69, "HTTP 500"),
    expect(Fault::Gateway502, Class::Transient, 3, Breaker::Counts, 69, "502 Bad Gateway"),
    // Split into ever smaller parts, until nothing is left to split.
    expect(Fault::TooMany400, Class::TooMany, 37, Breaker::Untouched, 69, "VS402337"),
    // A smaller request, twice.
    expect(Fault::TooSlow400, Class::TooSlow, 3, Breaker::Counts, 69, "VS402335"),
    expect(Fault::Timeout408, Class::TooSlow, 3, Breaker::Counts, 69, "HTTP 408"),
    expect(Fault::Team500, Class::BadQuery, 1, Breaker::Opens, 78, "source.team"),
    expect(Fault::Query400, Class::BadQuery, 1, Breaker::Opens, 78, "source.where"),
    // The query, the request for versions, and the query again.
    expect(Fault::Version400, Class::Version, 3, Breaker::Untouched, 78, "source.api_version"),
    expect(Fault::Conflict412, Class::Conflict, 1, Breaker::Untouched, 69, "VS403351"),
    expect(Fault::WrongShape, Class::Transient, 1, Breaker::Counts, 69, "returned no rows"),
    expect(Fault::NotJson, Class::Transient, 1, Breaker::Counts, 69, "not the rows of a query"),
    expect(
        Fault::Truncated,
        Class::Transient,
        3,
        Breaker::Counts,
        69,
        "closed the connection in the middle",
    ),
    expect(Fault::Reset, Class::Transient, 3, Breaker::Counts, 69, "127.0.0.1"),
];

/// Faults after which a tick succeeds; they have separate tests below.
const HARMLESS: [Fault; 3] = [Fault::Delayed200, Fault::Nulls, Fault::Slow];

fn only_on(fault: Fault, kind: &str) -> ActiveFault {
    ActiveFault { on: Some(kind.to_owned()), ..fault.into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_has_its_class_action_breaker_effect_exit_code_and_message() {
    for expected in &TABLE {
        let name = expected.fault.name();
        let setup = Setup::new(SimulatorOptions::default()).await;
        setup.simulator.set_faults([only_on(expected.fault, "wiql")]);
        let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
        assert_eq!(error.class, expected.class, "{name}: {error}");
        assert!(error.message.contains(expected.message), "{name}: {error}");
        let code = Code::of_run(RunError::from(error.clone()).outcome()).number();
        assert_eq!(code, expected.exit_code, "{name}");
        let tolerance = if expected.fault == Fault::TooMany400 { 3 } else { 0 };
        let requests = setup.simulator.requests();
        assert!(requests.abs_diff(expected.requests) <= tolerance, "{name}: {requests} requests");
        let breaker = setup.source().notebook().read().await.unwrap().breaker;
        let effect = match (&breaker.state, breaker.failures) {
            (BreakerState::Open { .. }, _) => Breaker::Opens,
            (_, 1) => Breaker::Counts,
            _ => Breaker::Untouched,
        };
        assert_eq!(effect, expected.breaker, "{name}: {breaker:?}");
    }
    let told: BTreeSet<String> = TABLE.iter().map(|row| row.fault.name()).collect();
    let harmless = HARMLESS.iter().chain([&Fault::Hang]).map(|fault| fault.name());
    let all: BTreeSet<String> = Fault::ALL.iter().map(|fault| fault.name()).collect();
    assert_eq!(told.into_iter().chain(harmless).collect::<BTreeSet<_>>(), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tracker_that_hangs_is_given_up_after_the_timeout() {
    let mut setup = Setup::new(SimulatorOptions::default()).await;
    setup.config.request_timeout = Duration::from_millis(150);
    setup.simulator.set_faults([Fault::Hang.into()]);
    let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::Transient);
    assert!(error.message.contains("source.request_timeout"), "{error}");
    assert_eq!(setup.simulator.requests(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_faults_on_a_batch_lose_no_item() {
    let passing = [
        Fault::Bom503,
        Fault::Error500,
        Fault::Gateway502,
        Fault::Truncated,
        Fault::Reset,
        Fault::Throttled429,
        Fault::Delayed200,
        Fault::Slow,
    ];
    for fault in passing {
        let mut setup = Setup::new(SimulatorOptions::default()).await;
        setup.config.page_size = 7;
        setup.simulator.set_faults([ActiveFault { times: Some(1), ..only_on(fault, "batch") }]);
        let pages = read_all(&setup.guarded(), everything()).await.unwrap();
        assert_eq!(ids(&pages).len(), 20, "{}", fault.name());
        let breaker = setup.source().notebook().read().await.unwrap().breaker;
        assert_eq!(breaker, Default::default(), "{}", fault.name());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_answer_is_used_and_nothing_is_sent_before_the_stated_time() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    setup
        .simulator
        .set_faults([ActiveFault { times: Some(1), ..only_on(Fault::Delayed200, "batch") }]);
    let before = setup.clock.now();
    let source = setup.guarded();
    assert_eq!(ids(&read_all(&source, everything()).await.unwrap()).len(), 20);
    let remembered = setup.source().notebook().read().await.unwrap();
    let limit = remembered.rate_limit.unwrap();
    assert_eq!((limit.limit, limit.remaining, limit.delay_ms), (Some(200), Some(0), Some(1500)));
    assert_eq!(limit.resource.as_deref(), Some("Concurrency/VSID"));
    assert!(limit.is_low(setup.clock.now()));
    let not_before = remembered.not_before.unwrap();
    assert!(not_before > before);
    // Another process with the same memory respects it too.
    let sent = setup.simulator.requests();
    match setup.guarded().open(everything()).await {
        Err(error) => {
            assert_eq!(error.class, Class::BreakerOpen);
            assert_eq!(error.not_before, Some(not_before));
            assert!(error.message.contains(&setup.clock.local_time(not_before)), "{error}");
        }
        // The second was over before the test came here.
        Ok(_) => assert!(setup.clock.now() >= not_before),
    }
    assert_eq!(setup.simulator.requests(), sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn null_entries_are_asked_for_again_and_reported_as_undelivered() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    setup.simulator.set_faults([only_on(Fault::Nulls, "batch")]);
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    assert_eq!(ids(&pages).len(), 15, "half of them, and half of the rest");
    assert_eq!(pages.iter().map(|page| page.undelivered.len()).sum::<usize>(), 10);
    assert!(pages.iter().all(|page| page.vanished.is_empty()), "the query named them");
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_set_and_counted_over_http_too() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let control = format!("http://{}/_simulator", setup.simulator.address());
    // The client under test installs the TLS provider.
    let _source = setup.source();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let body = r#"{"fault":"html203","on":"wiql","times":1}"#;
    let answer = http.post(format!("{control}/faults")).body(body).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let error = read_all(&setup.source(), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::Auth);
    assert_eq!(ids(&read_all(&setup.source(), everything()).await.unwrap()).len(), 20);
    let requests = http.get(format!("{control}/requests")).send().await.unwrap();
    let requests: serde_json::Value = requests.json().await.unwrap();
    assert_eq!(requests["by_kind"]["wiql"], 2);
    let wrong = http.post(format!("{control}/faults")).body("\"sneeze\"").send().await.unwrap();
    assert_eq!(wrong.status(), 400);
    assert!(wrong.text().await.unwrap().contains("html203"));
}
