//! The cost and the result of a read.

use heartbeat::fetch::{DevelopmentLink, FetchError, FinishedRequest, PastText, Source};
use heartbeat::model::{FailureClass, Format, ItemId};
use simulators::github::{Fault, REPOSITORY, SimulatorOptions};

use super::setup::Setup;
use crate::fetch::setup::{everything, ids, read_all};

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_still_the_same_costs_nothing_of_the_limit() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    assert_eq!(setup.read(everything()).await.len(), 24);
    // The first read from the cursor gets the ETag.
    setup.read(setup.next_request().await).await;
    let used = setup.simulator.used();
    for _ in 0..5 {
        assert!(setup.read(setup.next_request().await).await.is_empty());
    }
    assert_eq!(setup.simulator.used(), used, "304 is free");
    let number = setup.simulator.add_issue(REPOSITORY, "New", "text", &["bug"]);
    assert!(setup.read(setup.next_request().await).await.contains(&number));
    assert!(setup.simulator.used() > used);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_condition_reads_the_list_again() {
    let mut setup = Setup::new(SimulatorOptions::default()).await;
    setup.config.where_clause = "label:enhancement".into();
    setup.read(everything()).await;
    let request = setup.next_request().await;
    setup.read(request.clone()).await;
    assert!(setup.read(request.clone()).await.is_empty(), "not modified");
    setup.config.where_clause = "label:bug".into();
    let found = setup.read(everything()).await;
    assert!(!found.is_empty());
    let error = |clause: &str| {
        setup.config.where_clause = clause.into();
        let connection = heartbeat::fetch::Connection::new(
            crate::fetch::setup::credential(),
            setup.clock.clone(),
            heartbeat::fetch::InMemory::shared(),
        );
        heartbeat::fetch::connect(&setup.config, connection).err().map(|e: FetchError| e.class)
    };
    let mut error = error;
    assert_eq!(error("[System.State] <> 'Closed'"), Some(FailureClass::BadQuery));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issue_is_decoded_with_all_that_the_service_knows_of_it() {
    let mut setup = Setup::of(24).await;
    setup.config.comments = 2;
    for text in ["first", "second", "third"] {
        setup.simulator.comment(REPOSITORY, 4, text);
    }
    let ours = "Found it.\n\n<!-- heartbeat ref 0123456789ab -->";
    setup.simulator.comment(REPOSITORY, 4, ours);
    let pages = read_all(&setup.source(), everything()).await.unwrap();
    let items: Vec<_> = pages.into_iter().flat_map(|page| page.items).collect();
    let item = items.iter().find(|item| item.id.0 == 4).unwrap();
    assert_eq!(item.title, "Webhook is delivered twice after a restart");
    assert_eq!(item.key.as_str(), "gh/4");
    assert_eq!(item.handle.as_deref(), Some("parcel/tracking#4"));
    assert_eq!(item.url, "https://github.com/parcel/tracking/issues/4");
    assert_eq!((item.priority, item.finished), (Some(1), Some(false)));
    let areas: Vec<&str> = item.areas().collect();
    assert_eq!(areas, ["parcel/tracking/webhooks", "parcel/tracking"]);
    assert_eq!(item.texts[0].format, Format::RawMarkdown);
    let comments: Vec<&str> = item.comments.iter().map(|comment| comment.raw.as_str()).collect();
    assert_eq!(comments, ["second", "third"], "the newest, and ours is none of them");
    assert!(items.iter().all(|item| !item.title.starts_with("Fix ")), "no pull requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn closings_are_seen_and_archived_repositories_are_read() {
    let setup = Setup::of(24).await;
    setup.read(everything()).await;
    setup.simulator.close(REPOSITORY, 3);
    setup.simulator.archive(REPOSITORY);
    let request = setup.next_request().await;
    let pages = read_all(&setup.source(), request).await.unwrap();
    let closed = pages.iter().flat_map(|page| &page.items).find(|item| item.id.0 == 3).unwrap();
    assert_eq!((closed.state.as_str(), closed.finished), ("closed", Some(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_issues_are_found_with_what_fixed_them_and_what_they_were_called_before() {
    let setup = Setup::of(24).await;
    let commit = "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d";
    let before = setup.clock.now().checked_sub(jiff::SignedDuration::from_mins(1)).unwrap();
    setup.simulator.fix(REPOSITORY, 4, commit, 11);
    let source = setup.source();
    let since = before.checked_sub(jiff::SignedDuration::from_hours(24 * 60)).unwrap();
    let request = FinishedRequest { since, states: vec![], watched_only: true };
    let found = source.finished(request).await.unwrap().unwrap();
    assert_eq!(found.iter().map(|item| item.id).collect::<Vec<_>>(), [ItemId(4)]);
    let links = source.development_links(vec![ItemId(4), ItemId(5)]).await.unwrap().unwrap();
    let expected = [DevelopmentLink::Commit(commit.into()), DevelopmentLink::PullRequest(11)];
    assert_eq!(links, expected.map(|link| (ItemId(4), link)));
    let past = source.as_of(vec![ItemId(4)], before).await.unwrap().unwrap();
    assert_eq!(past[0].item.title, "Webhook is delivered twice after a restart");
    assert_eq!(past[0].item.finished, Some(false));
    assert_eq!(past[0].text, PastText::Unknown, "its body may be younger than that");
    let untouched = source.as_of(vec![ItemId(5)], setup.clock.now()).await.unwrap().unwrap();
    assert_eq!(untouched[0].text, PastText::OfThatTime, "it has not changed since");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_is_on_its_way_at_a_time_also_for_two_sources_of_one_server() {
    let setup = Setup::of(300).await;
    let mut config = setup.config.clone();
    config.page_size = 20;
    let turns = heartbeat::fetch::Turns::default();
    let read = |name: &str| {
        let mut config = config.clone();
        config.name = name.into();
        let connection = heartbeat::fetch::Connection::new(
            crate::fetch::setup::credential(),
            setup.clock.clone(),
            heartbeat::fetch::InMemory::shared(),
        );
        let connection = heartbeat::fetch::Connection { turns: turns.clone(), ..connection };
        let source = heartbeat::fetch::connect(&config, connection).unwrap();
        async move { ids(&read_all(&source, everything()).await.unwrap()).len() }
    };
    let (one, two) = tokio::join!(tokio::spawn(read("one")), tokio::spawn(read("two")));
    assert_eq!((one.unwrap(), two.unwrap()), (300, 300));
    assert_eq!(setup.simulator.most_at_once(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_one_source_holds_for_the_other_of_the_same_server() {
    let setup = Setup::of(24).await;
    setup.simulator.set_faults([Fault::Secondary403Bare.into()]);
    let turns = heartbeat::fetch::Turns::default();
    let read = async |name: &str| {
        let mut config = setup.config.clone();
        config.name = name.into();
        let connection = heartbeat::fetch::Connection::new(
            crate::fetch::setup::credential(),
            setup.clock.clone(),
            heartbeat::fetch::InMemory::shared(),
        );
        let connection = heartbeat::fetch::Connection { turns: turns.clone(), ..connection };
        let source = heartbeat::fetch::connect(&config, connection).unwrap();
        read_all(&source, everything()).await.unwrap_err().class
    };
    assert_eq!(read("one").await, FailureClass::Throttled);
    let sent = setup.simulator.requests();
    assert_eq!(read("two").await, FailureClass::Throttled);
    assert_eq!(setup.simulator.requests(), sent, "the second one did not even ask");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_hears_about_account_repository_and_matches_or_what_is_wrong_with_each() {
    let options = SimulatorOptions { token: Some("good".into()), ..SimulatorOptions::default() };
    let mut setup = Setup::new(options).await;
    let probe = setup.source_with("good").probe().await;
    assert_eq!(probe.account.unwrap(), "heartbeat-bot");
    assert_eq!(probe.project.unwrap(), "parcel/tracking");
    assert_eq!(probe.matching.unwrap(), 24);
    let probe = setup.source_with("bad").probe().await;
    assert_eq!(probe.account.unwrap_err().class, FailureClass::Auth);
    setup.config.project = "parcel/nothing".into();
    let error = setup.source_with("good").probe().await.project.unwrap_err();
    assert_eq!(error.class, FailureClass::Config);
    assert!(error.message.contains("owner/repository"), "{error}");
}
