//! Nothing is missed and nothing is duplicated, whatever happens between two pages.

use std::collections::BTreeSet;

use heartbeat::clock::Clock;
use heartbeat::fetch::{Page, Source};
use simulators::github::{LIBRARY, REPOSITORY, SimulatorOptions};

use super::setup::{Setup, also};
use crate::fetch::setup::{everything, ids, read_all};

/// Reads and runs an action after each page.
async fn read_while(setup: &Setup, mut happens: impl FnMut(usize)) -> Vec<Page> {
    let source = setup.source();
    let mut pages = source.open(everything()).await.unwrap();
    let mut all = Vec::new();
    while let Some(page) = pages.next().await.unwrap() {
        all.push(page);
        happens(all.len());
    }
    pages.commit().await.unwrap();
    all
}

fn each_once(numbers: &[i64]) -> BTreeSet<i64> {
    let set: BTreeSet<i64> = numbers.iter().copied().collect();
    assert_eq!(set.len(), numbers.len(), "nothing comes twice: {numbers:?}");
    set
}

async fn paged(items: usize, counts_pages: bool) -> Setup {
    let options =
        SimulatorOptions { items, counts_pages, limit: None, ..SimulatorOptions::default() };
    let mut setup = Setup::new(options).await;
    setup.config.page_size = 7;
    setup
}

#[tokio::test(flavor = "multi_thread")]
async fn issues_that_are_edited_while_we_read_push_nothing_past_us() {
    for counts_pages in [false, true] {
        let setup = paged(90, counts_pages).await;
        let numbers = setup.simulator.numbers(REPOSITORY);
        let pages = read_while(&setup, |page| {
            // Rows of read pages and of pages to come move to the end.
            for at in [page - 1, page * 5, 40 + page, 89 - page] {
                setup.simulator.edit(REPOSITORY, numbers[at % numbers.len()], "edited meanwhile");
            }
        })
        .await;
        let mut found = each_once(&ids(&pages));
        // Items edited after we began come with the next run, read before or not.
        let edited = setup.read_later().await;
        assert!(edited.contains(&numbers[0]), "{edited:?}");
        found.extend(edited);
        assert_eq!(found, numbers.iter().copied().collect());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_with_more_issues_than_a_page_is_read_completely() {
    for counts_pages in [false, true] {
        let setup = paged(120, counts_pages).await;
        let numbers = setup.simulator.numbers(REPOSITORY);
        let at = setup.clock.now().checked_sub(jiff::SignedDuration::from_hours(2)).unwrap();
        let at = jiff::Timestamp::from_second(at.as_second()).unwrap();
        setup.simulator.touch_all(REPOSITORY, &numbers[10..100], at);
        let mut edits = 30..60;
        let pages = read_while(&setup, |_| {
            // Each edit takes a row out of the crowded second and moves the others up.
            if let Some(at) = edits.next() {
                setup.simulator.edit(REPOSITORY, numbers[at], "edited meanwhile");
            }
        })
        .await;
        let found = each_once(&ids(&pages));
        let missing: Vec<&i64> = numbers.iter().filter(|number| !found.contains(number)).collect();
        // A row that left the second meanwhile changed after we began: the next run gets it.
        let next: BTreeSet<i64> = setup.read_later().await.into_iter().collect();
        assert!(missing.iter().all(|number| next.contains(number)), "{missing:?} are lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn issues_that_go_away_while_we_read_take_nobody_with_them() {
    let setup = paged(60, true).await;
    let numbers = setup.simulator.numbers(REPOSITORY);
    let mut gone = BTreeSet::new();
    let pages = read_while(&setup, |page| {
        let at = [page * 3, page * 3 + 1, page * 3 + 2].map(|at| numbers[at % numbers.len()]);
        setup.simulator.delete(REPOSITORY, at[0]);
        setup.simulator.transfer(REPOSITORY, at[1], LIBRARY);
        setup.simulator.make_discussion(REPOSITORY, at[2]);
        gone.extend(at);
    })
    .await;
    let found = each_once(&ids(&pages));
    let expected: BTreeSet<i64> = numbers.iter().copied().filter(|n| !gone.contains(n)).collect();
    assert!(found.is_superset(&expected), "{:?}", expected.difference(&found));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_became_of_single_issues_is_reported() {
    let setup = Setup::of(24).await;
    let simulator = &setup.simulator;
    setup.read(everything()).await;
    simulator.delete(REPOSITORY, 2);
    simulator.transfer(REPOSITORY, 3, LIBRARY).unwrap();
    simulator.make_discussion(REPOSITORY, 4);
    let pull_request = 11;
    let request = also(&[1, 2, 3, 4, 5, pull_request, 99_999, 30_000_001]);
    let pages = read_all(&setup.source(), request).await.unwrap();
    let vanished: Vec<i64> = pages.iter().flat_map(|page| &page.vanished).map(|id| id.0).collect();
    assert_eq!(vanished, [2, 3, 4, pull_request, 99_999, 30_000_001]);
    let found = ids(&pages);
    assert!(found.contains(&1) && found.contains(&5), "{found:?}");
    let states = setup.source().current_states(also(&[1, 2, 3]).also).await.unwrap().unwrap();
    assert_eq!(states.len(), 1, "{states:?}");
    assert_eq!(states[0].finished, Some(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_is_renamed_while_we_read_stays_the_same_one() {
    let setup = paged(60, false).await;
    let pages = read_while(&setup, |page| {
        if page == 2 {
            setup.simulator.rename(REPOSITORY, "parcel/track-and-trace");
        }
    })
    .await;
    assert_eq!(each_once(&ids(&pages)).len(), 60);
    // Single issues are found under the new name, and are not mistaken for transferred ones.
    let pages = read_all(&setup.source(), also(&[1, 2])).await.unwrap();
    assert!(pages.iter().all(|page| page.vanished.is_empty()), "{pages:?}");
    // With the new name in the configuration they keep their numbers.
    let mut setup = setup;
    setup.config.project = "parcel/track-and-trace".into();
    setup.simulator.add_issue("parcel/track-and-trace", "One more", "", &[]);
    let next = setup.read_later().await;
    assert_eq!(next.iter().max(), Some(&67), "no new place was given: {next:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_repositories_of_an_owner_are_read_and_one_that_fails_stops_no_other() {
    let mut setup = paged(20, false).await;
    setup.config.project = "parcel".into();
    let first = each_once(&setup.read(everything()).await);
    assert_eq!(first.len(), 21, "twenty and one: {first:?}");
    assert!(first.contains(&10_000_001), "the other repository has numbers of its own");
    // An issue transferred between the two disappears here and appears there.
    let moved = setup.simulator.transfer(REPOSITORY, 5, LIBRARY).unwrap();
    let next = setup.read_later().await;
    assert!(next.contains(&(10_000_000 + moved)), "{next:?}");
    // Issues are disabled in one of them, after the list of repositories was made.
    setup.config.project = format!("{REPOSITORY}, {LIBRARY}");
    setup.simulator.disable_issues(REPOSITORY);
    setup.simulator.add_issue(LIBRARY, "Still read", "", &[]);
    let next = setup.read_later().await;
    assert!(next.contains(&(10_000_001 + moved)), "{next:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_changes_all_the_time_has_an_end() {
    let setup = paged(40, false).await;
    let pages = read_while(&setup, |page| {
        for at in 0..7 {
            let title = format!("Report {page}.{at}");
            setup.simulator.add_issue(REPOSITORY, &title, "", &[]);
        }
    })
    .await;
    assert!(pages.len() < 40, "{} pages", pages.len());
    let all = setup.simulator.numbers(REPOSITORY);
    let mut found = each_once(&ids(&pages));
    found.extend(setup.read_later().await);
    assert_eq!(found, all.into_iter().collect(), "the next run has the rest");
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_that_differ_by_minutes_lose_nothing() {
    for skew_minutes in [-11, -3, 4, 9] {
        let client = Clock::manual("2026-11-16T12:00:00Z".parse().unwrap());
        let server = Clock::manual("2026-11-16T12:00:00Z".parse().unwrap());
        server.advance_ms(skew_minutes * 60_000);
        let options = SimulatorOptions {
            items: 24,
            limit: None,
            clock: server.clone(),
            ..SimulatorOptions::default()
        };
        let mut setup = Setup::new(options).await;
        setup.clock = client.clone();
        setup.read(everything()).await;
        for number in 1..=6 {
            setup.simulator.edit(REPOSITORY, number, "edited meanwhile");
            // A run leaves the second in which it begins to the next one.
            client.advance_ms(30_000);
            server.advance_ms(30_000);
            let found = setup.read(setup.next_request().await).await;
            assert!(found.contains(&number), "skew {skew_minutes}: edit of {number} was missed");
        }
    }
}
