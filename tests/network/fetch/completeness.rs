//! No item missed, none duplicated: bulk edits, edits and deletes while reading, clocks that
//! differ.

use std::collections::BTreeSet;
use std::time::Duration;

use heartbeat::clock::Clock;
use heartbeat::fetch::{FetchRequest, Page, Source};
use heartbeat::model::ItemId;
use heartbeat::simulate::ado::SimulatorOptions;
use serde_json::json;

use super::setup::{Setup, everything, ids, read_all};

fn items(count: usize) -> SimulatorOptions {
    SimulatorOptions { items: count, ..SimulatorOptions::default() }
}

/// Reads `limit` pages, stores them, and stops, as a run with enough work does.
async fn read_some(setup: &Setup, limit: usize) -> Vec<Page> {
    let source = setup.guarded();
    let since = setup.source().notebook().read().await.unwrap().cursor;
    let request = FetchRequest { changed_since: since, also: vec![] };
    let mut pages = source.open(request).await.unwrap();
    let mut read = Vec::new();
    while read.len() < limit
        && let Some(page) = pages.next().await.unwrap()
    {
        read.push(page);
    }
    pages.commit().await.unwrap();
    read
}

fn assert_each_once(pages: &[Page]) -> BTreeSet<i64> {
    let all = ids(pages);
    let unique: BTreeSet<i64> = all.iter().copied().collect();
    assert_eq!(unique.len(), all.len(), "an id came twice in one run");
    unique
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_edit_of_500_items_with_one_date_is_read_whole_over_runs_that_stop_early() {
    let mut setup = Setup::new(items(700)).await;
    setup.config.page_size = 60;
    setup.config.where_clause = String::new();
    let all = setup.simulator.item_ids();
    let edited: Vec<i64> = all.iter().copied().take(500).collect();
    let at = "2026-11-10T10:10:10.07Z".parse().unwrap();
    setup.simulator.bulk_edit(&edited, at, &[("System.Tags", json!("bulk"))]);
    let mut seen = BTreeSet::new();
    // A cursor cannot separate pages of equal dates, so a run that never gets past the bulk edit
    // would start over; each run here reads a little further than the one before.
    for limit in [3, 5, 8, 13] {
        seen.extend(assert_each_once(&read_some(&setup, limit).await));
    }
    assert_eq!(seen, all.into_iter().collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_and_deletes_while_reading_are_neither_missed_nor_doubled() {
    let mut setup = Setup::new(items(300)).await;
    setup.config.page_size = 20;
    setup.config.where_clause = String::new();
    setup.config.look_back = Duration::from_secs(90 * 86_400);
    let all = setup.simulator.item_ids();
    let source = setup.guarded();
    let mut pages = source.open(everything()).await.unwrap();
    let mut read = vec![pages.next().await.unwrap().unwrap()];
    // Items of the first and of later pages move to the end of the order, and some are deleted.
    let first: Vec<i64> = ids(&read);
    let rest: Vec<i64> = all.iter().copied().filter(|id| !first.contains(id)).collect();
    let deleted: BTreeSet<i64> = rest.iter().copied().step_by(7).collect();
    let edited: BTreeSet<i64> = first
        .iter()
        .chain(rest.iter().step_by(5))
        .copied()
        .filter(|id| !deleted.contains(id))
        .collect();
    for id in &edited {
        setup.simulator.edit_item(*id, &[("System.Title", json!("edited while reading"))]).unwrap();
    }
    for id in &deleted {
        assert!(setup.simulator.delete_item(*id));
    }
    while let Some(page) = pages.next().await.unwrap() {
        read.push(page);
    }
    pages.commit().await.unwrap();
    let seen = assert_each_once(&read);
    let gone: BTreeSet<i64> =
        read.iter().flat_map(|page| &page.undelivered).map(|id| id.0).collect();
    assert!(gone.is_subset(&deleted));
    let together: BTreeSet<i64> = seen.union(&gone).copied().collect();
    assert_eq!(
        together,
        all.into_iter().collect(),
        "every row was delivered or reported as undelivered"
    );
    // Items edited after they were read come with the next run, from the cursor on.
    let next = read_some(&setup, usize::MAX).await;
    let newest: BTreeSet<(i64, i64)> = read
        .iter()
        .chain(&next)
        .flat_map(|page| &page.items)
        .map(|item| (item.id.0, item.rev))
        .collect();
    for id in &edited {
        let rev = setup.simulator.revision(*id).unwrap();
        assert!(newest.contains(&(*id, rev)), "revision {rev} of {id} was missed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_that_differ_by_minutes_lose_nothing() {
    for skew_minutes in [-11, -3, 4, 9] {
        let client = Clock::manual("2026-11-16T12:00:00Z".parse().unwrap());
        let server = Clock::manual("2026-11-16T12:00:00Z".parse().unwrap());
        server.advance_ms(skew_minutes * 60_000);
        let mut setup = Setup::new(SimulatorOptions { clock: server.clone(), ..items(24) }).await;
        setup.clock = client.clone();
        read_some(&setup, usize::MAX).await;
        for step in 0..6 {
            let id = setup.simulator.item_ids()[1 + step];
            let change = [("System.Title", json!(format!("edit {step}")))];
            let rev = setup.simulator.edit_item(id, &change).unwrap();
            let pages = read_some(&setup, usize::MAX).await;
            let found =
                pages.iter().flat_map(|page| &page.items).any(|i| i.id.0 == id && i.rev == rev);
            assert!(found, "skew {skew_minutes}: edit {step} was missed");
            client.advance_ms(30_000);
            server.advance_ms(30_000);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_rows_than_the_tracker_returns_are_read_in_halves() {
    let mut setup = Setup::new(SimulatorOptions { row_limit: 150, ..items(2000) }).await;
    setup.config.page_size = 200;
    setup.config.where_clause = String::new();
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    let seen = assert_each_once(&pages);
    assert_eq!(seen.len(), 2000);
    let changes: Vec<_> = pages.iter().flat_map(|page| &page.items).map(|i| i.changed_at).collect();
    assert!(changes.is_sorted());
    let wiql = setup.simulator.requests_of("wiql");
    assert!(wiql < 80, "{wiql} queries for at least 14 windows");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_items_than_one_answer_holds_are_read_on_from_the_cursor() {
    let mut setup = Setup::new(items(20_300)).await;
    setup.config.page_size = 200;
    setup.config.where_clause = String::new();
    setup.config.text_fields = vec![];
    setup.config.look_back = Duration::from_secs(90 * 86_400);
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    assert_eq!(assert_each_once(&pages).len(), 20_300);
    let changes: Vec<_> = pages.iter().flat_map(|page| &page.items).map(|i| i.changed_at).collect();
    assert!(changes.is_sorted());
    assert_eq!(setup.simulator.requests_of("wiql"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_rows_than_allowed_in_one_instant_are_read_by_id() {
    let mut setup = Setup::new(SimulatorOptions { row_limit: 150, ..items(700) }).await;
    setup.config.page_size = 50;
    setup.config.where_clause = String::new();
    let all = setup.simulator.item_ids();
    let at = "2026-11-10T10:10:10.07Z".parse().unwrap();
    setup.simulator.bulk_edit(&all[100..600], at, &[("System.Tags", json!("bulk"))]);
    let pages = read_all(&setup.guarded(), everything()).await.unwrap();
    assert_eq!(assert_each_once(&pages), all.into_iter().collect());
    // The cursor does not move within the instant and never passes a page that is still to come.
    let mut later: Option<jiff::Timestamp> = None;
    for page in pages.iter().rev() {
        if let (Some(cursor), Some(later)) = (page.cursor, later) {
            assert!(cursor <= later);
        }
        let earliest = page.items.iter().map(|item| item.changed_at).min();
        later = later.min(earliest).or(earliest);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn items_asked_for_by_id_come_first_once_and_whatever_their_state() {
    let setup = Setup::new(items(24)).await;
    let all = setup.simulator.item_ids();
    let closed = ItemId(all[23]);
    let open = ItemId(all[1]);
    let request = FetchRequest { changed_since: None, also: vec![closed, open, ItemId(1)] };
    let pages = read_all(&setup.guarded(), request).await.unwrap();
    assert_eq!(ids(&pages[..1]), [closed.0, open.0]);
    assert_eq!(pages.last().unwrap().vanished, [ItemId(1)], "after a second look");
    assert_eq!(pages[0].cursor, None);
    assert_eq!(assert_each_once(&pages).len(), 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_makes_the_tracker_fail_or_is_too_large_is_set_aside_and_the_rest_is_read() {
    let mut setup = Setup::new(items(120)).await;
    setup.config.where_clause = String::new();
    setup.config.max_body = 2 << 20;
    let all: BTreeSet<i64> = setup.simulator.item_ids().into_iter().collect();
    let numbers: Vec<i64> = all.iter().copied().collect();
    let (first, last, large) = (numbers[0], numbers[119], numbers[60]);
    for id in [first, last] {
        setup.simulator.edit_item(id, &[("System.Tags", json!("simulator:poison"))]);
    }
    let text = "much ".repeat(1 << 20);
    setup.simulator.edit_item(large, &[("System.Description", json!(text))]);
    let pages = read_some(&setup, usize::MAX).await;
    let aside: BTreeSet<i64> =
        pages.iter().flat_map(|page| &page.undelivered).map(|id| id.0).collect();
    assert_eq!(aside, BTreeSet::from([first, last, large]), "listed, so that they are seen");
    let read = assert_each_once(&pages);
    assert_eq!(read, all.difference(&aside).copied().collect());
    // A server that fails for everything is not asked for every item.
    for id in &numbers {
        setup.simulator.edit_item(*id, &[("System.Tags", json!("simulator:poison"))]);
    }
    let before = setup.simulator.requests_of("batch");
    let source = setup.source();
    let mut failing = source.open(everything()).await.unwrap();
    assert!(failing.next().await.is_err());
    assert!(setup.simulator.requests_of("batch") - before <= 24);
}
