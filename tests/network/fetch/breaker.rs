//! The breaker in front of the client: what reaches the tracker, and what survives a restart.

use std::sync::Arc;

use heartbeat::clock::Clock;
use heartbeat::event::{Event, Sink};
use heartbeat::fetch::{Source as _, close_breaker};
use heartbeat::model::{BreakerState, FailureClass as Class};
use heartbeat::simulate::ado::{Fault, SimulatorOptions};

use super::setup::{Setup, everything, ids, read_all};

const MINUTE: i64 = 60_000;

async fn with_manual_clock() -> Setup {
    let clock = Clock::manual("2026-11-16T12:00:00Z".parse().unwrap());
    Setup::new(SimulatorOptions { clock, ..SimulatorOptions::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_three_failing_ticks_nothing_is_sent_until_one_probe() {
    let setup = with_manual_clock().await;
    setup.simulator.set_faults([Fault::Error500.into()]);
    for tick in 1..=3 {
        // Each tick is a new process: only the memory is shared.
        let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
        assert_eq!(error.class, Class::Transient, "tick {tick}");
        setup.clock.advance_ms(MINUTE);
    }
    let sent = setup.simulator.requests();
    let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::BreakerOpen);
    let until = setup.clock.local_time("2026-11-16T12:07:00Z".parse().unwrap());
    assert!(error.message.contains(&until), "{error}");
    assert!(error.message.contains("heartbeat retry --source"), "{error}");
    assert_eq!(setup.simulator.requests(), sent, "no request while it is open");

    setup.clock.advance_ms(5 * MINUTE);
    let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::Transient);
    assert_eq!(setup.simulator.requests(), sent + 1, "one probe, without a second try");
    let state = setup.source().notebook().read().await.unwrap().breaker.state;
    assert_eq!(state.until(), Some("2026-11-16T12:18:00Z".parse().unwrap()), "ten minutes now");

    setup.simulator.set_faults([]);
    setup.clock.advance_ms(10 * MINUTE);
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    assert_eq!(ids(&pages).len(), 20);
    assert_eq!(setup.source().notebook().read().await.unwrap().breaker, Default::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_an_event() {
    let setup = with_manual_clock().await;
    setup.simulator.set_faults([Fault::Empty401.into()]);
    read_all(&setup.guarded(), everything()).await.unwrap_err();
    setup.simulator.set_faults([]);
    setup.clock.advance_ms(30 * MINUTE);
    read_all(&setup.guarded(), everything()).await.unwrap();
    let changes: Vec<(String, String, bool)> = setup
        .events
        .take()
        .into_iter()
        .filter_map(|event| match event {
            Event::BreakerChanged { from, to, until, .. } => Some((from, to, until.is_some())),
            _ => None,
        })
        .collect();
    let step = |from: &str, to: &str, holds| (from.to_owned(), to.to_owned(), holds);
    let expected = [
        step("closed", "open", true),
        step("open", "half_open", false),
        step("half_open", "closed", false),
    ];
    assert_eq!(changes, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_credential_or_configuration_is_tried_at_once_and_only_once() {
    let mut setup = with_manual_clock().await;
    setup.simulator.set_token(Some("the right one".into()));
    let with = |setup: &Setup, secret: &str| {
        let events = Arc::clone(&setup.events) as _;
        setup.source_with(secret).guarded(setup.clock.clone(), events)
    };
    for (secret, class, sent) in [
        ("expired", Class::Auth, 1),
        ("expired", Class::BreakerOpen, 1),
        ("mistyped", Class::Auth, 2),
        ("mistyped", Class::BreakerOpen, 2),
    ] {
        let error = read_all(&with(&setup, secret), everything()).await.unwrap_err();
        assert_eq!((error.class, setup.simulator.requests()), (class, sent), "{secret}: {error}");
    }
    setup.config.project = "Parzel".to_owned();
    let error = read_all(&with(&setup, "the right one"), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::Config, "{error}");
    setup.config.project = "Parcel".to_owned();
    let pages = read_all(&with(&setup, "the right one"), everything()).await.unwrap();
    assert_eq!(ids(&pages).len(), 20, "no minute has passed");
    let remembered = setup.source().notebook().read().await.unwrap();
    let text = serde_json::to_string(&remembered).unwrap();
    assert!(!text.contains("the right one") && !text.contains("mistyped"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_the_tracker_itself_is_waited_out_whatever_a_person_changes() {
    let mut setup = with_manual_clock().await;
    setup.simulator.set_faults([Fault::Stopped503.into()]);
    assert_eq!(read_all(&setup.guarded(), everything()).await.unwrap_err().class, Class::Down);
    let sent = setup.simulator.requests();
    setup.config.look_back += std::time::Duration::from_secs(1);
    let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
    assert_eq!((error.class, setup.simulator.requests()), (Class::BreakerOpen, sent), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_closes_it_by_hand() {
    let setup = with_manual_clock().await;
    setup.simulator.set_token(Some("the right one".into()));
    let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::Auth);
    setup.simulator.set_token(None);
    let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::BreakerOpen);
    let sink = Arc::clone(&setup.events) as Arc<dyn Sink>;
    let notebook = setup.source().notebook();
    close_breaker(notebook, setup.clock.clone(), sink).await.unwrap();
    assert_eq!(ids(&read_all(&setup.guarded(), everything()).await.unwrap()).len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_enough_counts_as_a_success_and_one_that_breaks_off_as_a_failure() {
    let mut setup = with_manual_clock().await;
    setup.config.page_size = 5;
    for fault in [Some(Fault::Error500), None, Some(Fault::Error500), Some(Fault::Error500)] {
        let source = setup.guarded();
        let mut pages = source.open(everything()).await.unwrap();
        pages.next().await.unwrap().unwrap();
        setup.simulator.set_faults(fault.map(Into::into));
        if fault.is_none() {
            pages.commit().await.unwrap();
        } else {
            // One more page may have been read ahead before the fault.
            while pages.next().await.is_ok_and(|page| page.is_some()) {}
        }
        setup.simulator.set_faults([]);
    }
    let breaker = setup.source().notebook().read().await.unwrap().breaker;
    assert_eq!((breaker.failures, breaker.state), (2, BreakerState::Closed));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_message_of_a_long_not_before_survives_a_restart() {
    let setup = with_manual_clock().await;
    setup.simulator.set_faults([Fault::Throttled429Long.into()]);
    read_all(&setup.guarded(), everything()).await.unwrap_err();
    setup.simulator.set_faults([]);
    let sent = setup.simulator.requests();
    let error = read_all(&setup.guarded(), everything()).await.unwrap_err();
    assert_eq!(error.not_before, Some("2026-11-16T12:02:00Z".parse().unwrap()));
    assert_eq!(setup.simulator.requests(), sent);
    setup.clock.advance_ms(2 * MINUTE);
    assert_eq!(ids(&read_all(&setup.guarded(), everything()).await.unwrap()).len(), 20);
}
