//! No item missed, none duplicated: bulk edits, edits, moves and deletes while reading, a delayed
//! index, clocks that differ.

use std::collections::BTreeSet;
use std::time::Duration;

use heartbeat::clock::Clock;
use heartbeat::fetch::{FetchRequest, Page, Source as _};
use heartbeat::model::ItemId;
use jiff::SignedDuration;
use simulators::jira::SimulatorOptions;

use super::setup::Setup;
use crate::fetch::setup::{everything, ids, read_all};

async fn wide(options: SimulatorOptions) -> Setup {
    let mut setup = Setup::new(options).await;
    setup.config.where_clause = String::new();
    setup.config.look_back = Duration::from_secs(90 * 86_400);
    setup
}

fn items(count: usize) -> SimulatorOptions {
    SimulatorOptions { items: count, ..SimulatorOptions::default() }
}

fn assert_each_once(pages: &[Page]) -> BTreeSet<i64> {
    let all = ids(pages);
    let unique: BTreeSet<i64> = all.iter().copied().collect();
    assert_eq!(all.len(), unique.len(), "an item was delivered twice");
    unique
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_comes_once_and_in_order_whatever_the_page() {
    for options in Setup::both(items(700)) {
        // The server returns fewer rows than requested, which is not the end.
        for (page_size, most_rows) in [(100, 100), (100, 37), (13, 100), (1, 3)] {
            let count = if page_size == 1 { 60 } else { 700 };
            let options = SimulatorOptions { most_rows, items: count, ..options.clone() };
            let mut setup = wide(options).await;
            setup.config.page_size = page_size;
            let pages = read_all(&setup.guarded(), everything()).await.unwrap();
            assert_eq!(assert_each_once(&pages), setup.simulator.ids().into_iter().collect());
            let changes: Vec<_> =
                pages.iter().flat_map(|page| &page.items).map(|item| item.changed_at).collect();
            assert!(changes.is_sorted());
            assert_eq!(setup.simulator.most_at_once(), 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_stops_early_goes_on_from_its_cursor() {
    for options in Setup::both(items(300)) {
        let mut setup = wide(options).await;
        setup.config.page_size = 20;
        let mut seen = BTreeSet::new();
        for _ in 0..40 {
            seen.extend(assert_each_once(&setup.read_some(2).await));
        }
        assert_eq!(seen, setup.simulator.ids().into_iter().collect());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_moves_and_deletes_while_reading_are_neither_missed_nor_doubled() {
    for options in Setup::both(items(300)) {
        let mut setup = wide(options).await;
        setup.config.page_size = 20;
        let all = setup.simulator.ids();
        let source = setup.guarded();
        let mut pages = source.open(everything()).await.unwrap();
        let mut read = vec![pages.next().await.unwrap().unwrap()];
        // Items of the first and of later pages move to the end of the order, some are deleted, and
        // some move to another project.
        let first: Vec<i64> = ids(&read);
        let rest: Vec<i64> = all.iter().copied().filter(|id| !first.contains(id)).collect();
        let deleted: BTreeSet<i64> = rest.iter().copied().step_by(7).collect();
        let moved: BTreeSet<i64> =
            rest.iter().copied().skip(3).step_by(11).filter(|id| !deleted.contains(id)).collect();
        let gone: BTreeSet<i64> = deleted.union(&moved).copied().collect();
        let edited: BTreeSet<i64> = first
            .iter()
            .chain(rest.iter().step_by(5))
            .copied()
            .filter(|id| !gone.contains(id))
            .collect();
        edited.iter().for_each(|id| assert!(setup.simulator.edit(*id, "edited while reading")));
        deleted.iter().for_each(|id| assert!(setup.simulator.delete(*id)));
        moved.iter().for_each(|id| assert!(setup.simulator.move_away(*id)));
        while let Some(page) = pages.next().await.unwrap() {
            read.push(page);
        }
        pages.commit().await.unwrap();
        let seen = assert_each_once(&read);
        let missed: BTreeSet<i64> = all.iter().copied().filter(|id| !seen.contains(id)).collect();
        assert!(missed.is_subset(&gone), "{missed:?} were missed");
        // Items edited after they were read come with the next run, from the cursor on.
        let next = setup.read_some(usize::MAX).await;
        let newest: BTreeSet<(i64, i64)> = read
            .iter()
            .chain(&next)
            .flat_map(|page| &page.items)
            .map(|item| (item.id.0, item.rev))
            .collect();
        for id in &edited {
            let rev = setup.simulator.revision(*id).unwrap();
            assert!(newest.contains(&(*id, rev)), "the edit of {id} was missed");
        }
        // Deleted items are reported when requested; moved ones keep their number.
        let also: Vec<ItemId> = gone.iter().copied().map(ItemId).collect();
        let now = Some(setup.clock.now());
        let pages = read_all(&setup.guarded(), FetchRequest { changed_since: now, also }).await;
        let pages = pages.unwrap();
        let vanished: BTreeSet<i64> =
            pages.iter().flat_map(|page| &page.vanished).map(|id| id.0).collect();
        assert_eq!(vanished, deleted);
        assert!(moved.iter().all(|id| ids(&pages).contains(id)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_a_page_in_one_minute_is_read_to_its_end() {
    for options in Setup::both(items(700)) {
        let mut setup = wide(options).await;
        setup.config.page_size = 50;
        let all = setup.simulator.ids();
        let at = setup.clock.now() - SignedDuration::from_hours(30);
        setup.simulator.touch_all(&all[100..600], at);
        let source = setup.guarded();
        let mut pages = source.open(everything()).await.unwrap();
        let mut read = Vec::new();
        while let Some(page) = pages.next().await.unwrap() {
            // Rows of the crowded minute leave it while it is being read.
            if read.len() == 5 {
                all[100..600].iter().step_by(9).for_each(|id| {
                    setup.simulator.edit(*id, "leaves the minute");
                });
            }
            read.push(page);
        }
        pages.commit().await.unwrap();
        assert_eq!(assert_each_once(&read), all.into_iter().collect());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_index_shows_late_is_found_later() {
    let clock = Clock::manual("2026-11-16T12:00:00Z".parse().unwrap());
    let lag = SignedDuration::from_mins(9);
    let options = SimulatorOptions { clock: clock.clone(), index_lag: lag, ..items(24) };
    let setup = wide(options).await;
    setup.read_some(usize::MAX).await;
    let mut seen: BTreeSet<(i64, i64)> = BTreeSet::new();
    let mut edits = BTreeSet::new();
    for step in 0..30 {
        let id = setup.simulator.ids()[step % 20];
        setup.simulator.edit(id, &format!("edit {step}"));
        if step >= 10 {
            edits.insert((id, setup.simulator.revision(id).unwrap()));
        }
        clock.advance_ms(90_000);
        let pages = setup.read_some(usize::MAX).await;
        seen.extend(pages.iter().flat_map(|page| &page.items).map(|item| (item.id.0, item.rev)));
    }
    clock.advance_ms(15 * 60_000);
    let pages = setup.read_some(usize::MAX).await;
    seen.extend(pages.iter().flat_map(|page| &page.items).map(|item| (item.id.0, item.rev)));
    let missed: Vec<_> = edits.difference(&seen).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn once_a_day_a_whole_day_is_read_again() {
    let clock = Clock::manual("2026-11-16T12:00:00Z".parse().unwrap());
    let setup = wide(SimulatorOptions { clock: clock.clone(), ..items(24) }).await;
    setup.read_some(usize::MAX).await;
    // Far back, as in a rebuilt index: no run from the cursor on would see it.
    let id = setup.simulator.ids()[4];
    let quiet = setup.read_some(usize::MAX).await;
    assert!(!ids(&quiet).contains(&id));
    clock.advance_ms(20 * 3_600_000);
    setup.simulator.touch_all(&[setup.simulator.ids()[2]], clock.now());
    setup.read_some(usize::MAX).await;
    setup.simulator.touch_all(&[id], clock.now() - SignedDuration::from_hours(10));
    assert!(!ids(&setup.read_some(usize::MAX).await).contains(&id));
    clock.advance_ms(5 * 3_600_000);
    assert!(ids(&setup.read_some(usize::MAX).await).contains(&id), "the daily sweep finds it");
    assert!(!ids(&setup.read_some(usize::MAX).await).contains(&id), "and only once a day");
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_and_zones_that_differ_lose_nothing() {
    for (skew_minutes, zone) in [(-11, "Asia/Kathmandu"), (-3, "UTC"), (4, "America/St_Johns")] {
        for is_cloud in [true, false] {
            let client = Clock::manual("2026-11-16T12:00:00Z".parse().unwrap());
            let server = Clock::manual("2026-11-16T12:00:00Z".parse().unwrap());
            server.advance_ms(skew_minutes * 60_000);
            let options = SimulatorOptions {
                clock: server.clone(),
                is_cloud,
                zone: zone.to_owned(),
                ..items(24)
            };
            let mut setup = wide(options).await;
            setup.clock = client.clone();
            setup.read_some(usize::MAX).await;
            for step in 0..6 {
                let id = setup.simulator.ids()[1 + step];
                setup.simulator.edit(id, &format!("edit {step}"));
                let rev = setup.simulator.revision(id).unwrap();
                let pages = setup.read_some(usize::MAX).await;
                let mut found = pages.iter().flat_map(|page| &page.items);
                assert!(
                    found.any(|item| item.id.0 == id && item.rev == rev),
                    "skew {skew_minutes}: edit {step} was missed"
                );
                client.advance_ms(30_000);
                server.advance_ms(30_000);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_is_renamed_while_reading_is_read_on() {
    for options in Setup::both(items(200)) {
        let mut setup = wide(options).await;
        setup.config.page_size = 20;
        let source = setup.guarded();
        let mut pages = source.open(everything()).await.unwrap();
        let mut read = vec![pages.next().await.unwrap().unwrap()];
        setup.simulator.rename_project("TRACK");
        while let Some(page) = pages.next().await.unwrap() {
            read.push(page);
        }
        assert_eq!(assert_each_once(&read), setup.simulator.ids().into_iter().collect());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn items_asked_for_by_number_come_first_once_and_whatever_their_state() {
    for options in Setup::both(items(24)) {
        let setup = Setup::new(options).await;
        let all = setup.simulator.ids();
        let done = ItemId(all[4]);
        let request =
            FetchRequest { changed_since: None, also: vec![done, ItemId(all[0]), ItemId(7)] };
        let pages = read_all(&setup.guarded(), request).await.unwrap();
        assert_eq!(ids(&pages[..1]), [done.0, all[0]]);
        assert_eq!((pages[0].vanished.as_slice(), pages[0].cursor), ([ItemId(7)].as_slice(), None));
        assert_each_once(&pages);
        let matching = setup.source().still_matching(vec![done, ItemId(all[0]), ItemId(7)]).await;
        let matching = matching.unwrap().unwrap();
        assert_eq!(matching, [ItemId(all[0])], "the condition leaves out what is done");
        let states = setup.source().current_states(vec![done, ItemId(all[0])]).await;
        let states = states.unwrap().unwrap();
        let finished: BTreeSet<(i64, Option<bool>)> =
            states.iter().map(|state| (state.id.0, state.finished)).collect();
        assert_eq!(finished, BTreeSet::from([(done.0, Some(true)), (all[0], Some(false))]));
        assert!(setup.source().notebook().read().await.unwrap().cursor.is_some());
    }
}
