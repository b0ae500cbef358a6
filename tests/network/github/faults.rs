//! Every failure: its class, the reaction, the effect on the breaker, the exit code, and a helpful
//! message.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use heartbeat::app::exit::Code;
use heartbeat::model::{BreakerState, FailureClass as Class};
use heartbeat::run::RunError;
use heartbeat::simulate::fault::InjectedFault as _;
use serde_json::json;
use simulators::github::{ActiveFault, Fault, SimulatorOptions};

use super::setup::{Setup, also};
use crate::fetch::canned::{Answer, Canned, json as answer_json, with_headers};
use crate::fetch::setup::{everything, ids, read_all};

/// Fault, class, requests for the list, breaker, exit code, a part of the message.
type Row = (Fault, Class, u64, Breaker, u8, &'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaker {
    Opens,
    Counts,
    Untouched,
}

use Breaker::{Counts, Opens, Untouched};

const TABLE: [Row; 22] = [
    (Fault::Bad401, Class::Auth, 1, Opens, 77, "make a new token"),
    (Fault::Denied403, Class::Denied, 1, Opens, 77, "needs issues=read"),
    (Fault::Sso403, Class::Denied, 1, Opens, 77, "single sign-on"),
    (Fault::Limit403, Class::Throttled, 1, Counts, 69, "all tokens of one account share it"),
    (Fault::Limit429, Class::Throttled, 3, Counts, 69, "rate limit is used up"),
    (Fault::Secondary403, Class::Throttled, 3, Counts, 69, "secondary rate limit"),
    (Fault::Secondary403Bare, Class::Throttled, 1, Counts, 69, "retry after 60 s"),
    (Fault::Abuse429, Class::Throttled, 3, Counts, 69, "abuse detection"),
    (Fault::NotFound404, Class::Config, 1, Opens, 78, "looks as if it did not exist"),
    (Fault::Disabled410, Class::Config, 1, Opens, 78, "switched off"),
    (Fault::Blocked451, Class::Denied, 1, Opens, 77, "blocked"),
    (Fault::Invalid422, Class::BadQuery, 1, Opens, 78, "since invalid"),
    (Fault::Version400, Class::Version, 1, Untouched, 78, "source.api_version"),
    (Fault::Error500, Class::Transient, 3, Counts, 69, "Server Error"),
    // Requests ever shorter pages.
    (Fault::Unicorn502, Class::Transient, 12, Counts, 69, "Unicorn"),
    (Fault::Unavailable503, Class::Transient, 3, Counts, 69, "Service unavailable"),
    (Fault::HtmlAsJson, Class::Transient, 1, Counts, 69, "JSON that is not the issues of"),
    (Fault::Html200, Class::Config, 1, Opens, 78, "https://HOST/api/v3"),
    (Fault::WrongShape, Class::Transient, 1, Counts, 69, "JSON that is not the issues of"),
    (Fault::Elsewhere301, Class::Config, 1, Opens, 78, "attacker.example"),
    (Fault::Truncated, Class::Transient, 3, Counts, 69, "closed the connection in the middle"),
    (Fault::Reset, Class::Transient, 3, Counts, 69, "127.0.0.1"),
];

/// Faults with separate tests.
const ELSEWHERE: [Fault; 4] = [Fault::Circle301, Fault::LostAnswer, Fault::NoLabels, Fault::Hang];

fn only_on(fault: Fault, kind: &str) -> ActiveFault {
    ActiveFault { on: Some(kind.to_owned()), ..fault.into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_has_its_class_action_breaker_effect_exit_code_and_message() {
    for (fault, class, requests, breaker, exit_code, message) in TABLE {
        let name = fault.name();
        let setup = Setup::of(24).await;
        setup.simulator.set_faults([only_on(fault, "issues")]);
        let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
        assert_eq!(error.class, class, "{name}: {error}");
        assert!(error.message.contains(message), "{name}: {error}");
        assert_eq!(
            Code::of_run(RunError::from(error.clone()).outcome()).number(),
            exit_code,
            "{name}"
        );
        assert_eq!(setup.simulator.requests_of("issues"), requests, "{name}: {error}");
        let remembered = setup.remembered().await;
        let effect = match (&remembered.breaker.state, remembered.breaker.failures) {
            (BreakerState::Open { .. }, _) => Opens,
            (_, 1) => Counts,
            _ => Untouched,
        };
        assert_eq!(effect, breaker, "{name}: {remembered:?}");
        if class == Class::Throttled {
            assert!(remembered.not_before.is_some(), "{name}: the next run waits as well");
        }
    }
    let told = TABLE.iter().map(|row| row.0).chain(ELSEWHERE).map(Fault::name);
    let all: BTreeSet<String> = Fault::ALL.iter().map(|fault| fault.name()).collect();
    assert_eq!(told.collect::<BTreeSet<_>>(), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_up_limit_keeps_the_source_quiet_until_it_is_renewed() {
    let setup = Setup::of(24).await;
    setup
        .simulator
        .set_faults([ActiveFault { times: Some(1), ..only_on(Fault::Limit403, "issues") }]);
    read_all(&setup.guarded(), everything()).await.unwrap_err();
    let until = setup.remembered().await.not_before.unwrap();
    let wait = until.duration_since(setup.clock.now()).as_secs();
    assert!((1700..=1800).contains(&wait), "{wait} s");
    let sent = setup.simulator.requests();
    let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
    assert_eq!((error.class, error.not_before), (Class::BreakerOpen, Some(until)));
    assert_eq!(setup.simulator.requests(), sent, "nothing was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_hangs_or_redirects_in_circles_is_given_up() {
    let mut setup = Setup::of(24).await;
    setup.config.request_timeout = Duration::from_millis(150);
    setup.simulator.set_faults([only_on(Fault::Hang, "issues")]);
    let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::Transient);
    assert!(error.message.contains("source.request_timeout"), "{error}");
    let setup = Setup::of(24).await;
    setup.simulator.set_faults([only_on(Fault::Circle301, "issues")]);
    let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::Config);
    assert!(error.message.contains("in a loop"), "{error}");
    assert_eq!(setup.simulator.requests_of("issues"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn passing_faults_between_pages_lose_no_issue() {
    for fault in [
        Fault::Error500,
        Fault::Unicorn502,
        Fault::Unavailable503,
        Fault::Truncated,
        Fault::Reset,
        Fault::Secondary403,
        Fault::Limit429,
    ] {
        let mut setup = Setup::of(60).await;
        setup.config.page_size = 9;
        let source = setup.guarded();
        let mut pages = heartbeat::fetch::Source::open(&source, everything()).await.unwrap();
        let mut all = vec![pages.next().await.unwrap().unwrap()];
        setup.simulator.set_faults([ActiveFault { times: Some(1), ..only_on(fault, "issues") }]);
        while let Some(page) = pages.next().await.unwrap() {
            all.push(page);
        }
        assert_eq!(ids(&all).len(), 60, "{}", fault.name());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_ends_between_two_pages_stops_at_the_first_refusal() {
    let options = SimulatorOptions {
        items: 60,
        token: Some("ghp_not_a_secret".into()),
        ..SimulatorOptions::default()
    };
    let mut setup = Setup::new(options).await;
    setup.config.page_size = 9;
    let source = setup.guarded();
    let mut pages = heartbeat::fetch::Source::open(&source, everything()).await.unwrap();
    let first = pages.next().await.unwrap().unwrap();
    setup.simulator.set_token(Some("another".into()));
    let error = loop {
        match pages.next().await {
            Ok(page) => assert!(page.is_some(), "it ends with an error"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.class, Class::Auth);
    let sent = setup.simulator.requests();
    // The breaker is open: a good token is not locked out by a bad one.
    read_all(&setup.guarded(), everything()).await.unwrap_err();
    assert_eq!(setup.simulator.requests(), sent);
    assert!(!first.items.is_empty());
    // Fixed: everything is read, whatever was read before.
    setup.config.look_back *= 2;
    setup.simulator.set_token(Some("ghp_not_a_secret".into()));
    assert_eq!(ids(&read_all(&setup.guarded(), everything()).await.unwrap()).len(), 60);
}

/// One issue makes the service fail; the others that were asked for by number are read without it.
#[tokio::test(flavor = "multi_thread")]
async fn an_issue_that_makes_the_service_fail_is_set_aside_and_the_rest_is_read() {
    let answer: Answer = Arc::new(|request| {
        let number = (1..=3).find(|number| request.is(&format!("/issues/{number} ")));
        match number {
            Some(2) => with_headers("500 Internal Server Error", "", b"{}"),
            Some(number) => {
                let issue =
                    json!({ "number": number, "title": "x", "state": "open", "labels": [] });
                answer_json(&issue.to_string())
            }
            None if request.is("/issues?") => answer_json("[]"),
            None => answer_json(r#"{"id": 1, "full_name": "contoso/shop"}"#),
        }
    });
    let canned = Canned::start(answer).await;
    let mut setup = Setup::of(0).await;
    setup.config.base_url.clone_from(&canned.base_url);
    setup.config.project = "contoso/shop".into();
    let pages = read_all(&setup.source(), also(&[1, 2, 3])).await.unwrap();
    assert_eq!(ids(&pages), [1, 3]);
    assert_eq!(pages[0].undelivered, [heartbeat::model::ItemId(2)]);
    // If nothing can be read, it is the service.
    let error = read_all(&setup.source(), also(&[2])).await.unwrap_err();
    assert_eq!(error.class, Class::Transient, "{error}");
}
