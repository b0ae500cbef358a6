//! Planning against a long memory: 50,000 fetched items over 200,000 known rows, beside a
//! hand-written SQL `EXCEPT` on the same file in the same run.
//!
//! `cargo bench --bench state`; `-- --quick` takes a tenth of everything.

#![expect(clippy::print_stdout, reason = "a benchmark tells its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run ends")]

use std::time::{Duration, Instant};

use heartbeat::clock::Clock;
use heartbeat::dedupe::{self, Planned, Seen, Write};
use heartbeat::event::{Decision, Reason};
use heartbeat::model::{ItemId, ItemKey};
use heartbeat::store::{Journal, PageRecord, Store};
use jiff::Timestamp;
use rusqlite::{Connection, params};

const PAGE: usize = 200;
const ROUNDS: usize = 5;

fn key(id: usize) -> ItemKey {
    ItemKey::new("ado", ItemId(i64::try_from(id).unwrap()))
}

fn fingerprint(id: usize, version: u32) -> String {
    // In the present form: of an older one only the revision would be compared.
    format!("2:{id:056x}{version:08x}")
}

fn fill(database: &std::path::Path, rows: usize) {
    let mut connection = Connection::open(database).unwrap();
    let transaction = connection.transaction().unwrap();
    {
        let mut insert = transaction
            .prepare(
                "INSERT INTO heartbeat_state (key, item_id, title, item_type, url, priority,
                     revision, last_changed, fingerprint, processed_fingerprint, last_processed,
                     phase, reason, first_seen, last_seen)
                 VALUES (?1, ?2, ?3, 'Bug', 'https://example.test/item', 2, 1, 1, ?4, ?4, 1,
                     'done', 'same_fingerprint', 1, 1)",
            )
            .unwrap();
        for id in 0..rows {
            let title = format!("An item with a title of the usual length, number {id}");
            let text = fingerprint(id, 1);
            let number = i64::try_from(id).unwrap();
            insert.execute(params![key(id).to_string(), number, title, text]).unwrap();
        }
    }
    transaction.commit().unwrap();
}

/// As the source delivers it: key and what would reach the prompt. Every fiftieth item changed.
fn fetched(count: usize, rows: usize) -> Vec<(ItemKey, String)> {
    let version = |position: usize| if position.is_multiple_of(50) { 2 } else { 1 };
    (0..count)
        .map(|position| (position * rows / count, version(position)))
        .map(|(id, version)| (key(id), fingerprint(id, version)))
        .collect()
}

fn planned(
    key: &ItemKey,
    text: &str,
    changed_at: Timestamp,
    decision: Decision,
    write: Write,
) -> Planned {
    Planned {
        key: key.clone(),
        id: key.item_id().unwrap(),
        title: String::new(),
        item_type: "Bug".into(),
        url: String::new(),
        area_path: String::new(),
        assigned_to: None,
        priority: Some(2),
        revision: 1,
        changed_at,
        fingerprint: text.into(),
        decision,
        reason: Reason::SameFingerprint,
        attempts: 0,
        write,
        words: None,
        fields: None,
        created_at: None,
    }
}

/// What a run does for every page: look up, decide, record.
async fn plan(journal: &Journal, items: &[(ItemKey, String)], store_work: bool) -> usize {
    let now = journal.clock().now();
    let mut work = 0;
    for page in items.chunks(PAGE) {
        let seen = page.to_vec();
        let known = journal.store().items().known(seen).await.unwrap();
        let mut record = PageRecord::default();
        for ((key, text), known) in page.iter().zip(&known) {
            let seen = Seen {
                fingerprint: text,
                revision: 1,
                area_path: "",
                terminal: false,
                readable: true,
                max_attempts: 3,
            };
            let decision = dedupe::decide(seen, known.as_ref(), now).decision;
            let is_work = matches!(decision, Decision::New | Decision::Changed);
            work += usize::from(is_work);
            let write = if is_work && store_work { Write::Row } else { Write::Nothing };
            let decision = if store_work { decision } else { Decision::Unchanged };
            record.planned.push(planned(key, text, now, decision, write));
        }
        journal.items().record_page("ado", record).await.unwrap();
    }
    work
}

/// The same question by hand: what was fetched and is not known like that?
fn by_hand(database: &std::path::Path, items: &[(ItemKey, String)]) -> usize {
    let mut connection = Connection::open(database).unwrap();
    let transaction = connection.transaction().unwrap();
    transaction.execute_batch("CREATE TEMP TABLE fetched (key TEXT, fingerprint TEXT)").unwrap();
    {
        let mut insert = transaction.prepare("INSERT INTO fetched VALUES (?1, ?2)").unwrap();
        for (key, text) in items {
            insert.execute(params![key.to_string(), text]).unwrap();
        }
    }
    let changed: usize = transaction
        .prepare(
            "SELECT key, fingerprint FROM fetched
             EXCEPT SELECT key, processed_fingerprint FROM heartbeat_state",
        )
        .unwrap()
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap()
        .count();
    transaction.rollback().unwrap();
    changed
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

async fn measure(rows: usize, count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let database = folder.path().join("heartbeat.db");
    fill(&database, rows);
    let journal = Journal::open(store, Clock::system(), None).unwrap();
    let items = fetched(count, rows);
    let expected = count.div_ceil(50);
    let (mut ours, mut hand) = (Vec::new(), Vec::new());
    let before = resident_kib();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        assert_eq!(plan(&journal, &items, false).await, expected);
        ours.push(start.elapsed());
        let start = Instant::now();
        assert_eq!(by_hand(&database, &items), expected);
        hand.push(start.elapsed());
    }
    let grown = resident_kib().saturating_sub(before);
    let (ours, hand) = (median(ours), median(hand));
    let start = Instant::now();
    plan(&journal, &items, true).await;
    let stored = start.elapsed();
    println!(
        "{count:>6} fetched, {rows:>7} known: ours {:>7.1} ms, EXCEPT by hand {:>7.1} ms, ratio \
         {:.2}; with {expected} changes stored {:>7.1} ms; resident +{grown} KiB",
        ours.as_secs_f64() * 1e3,
        hand.as_secs_f64() * 1e3,
        ours.as_secs_f64() / hand.as_secs_f64(),
        stored.as_secs_f64() * 1e3,
    );
}

fn main() {
    let scale = if std::env::args().any(|arg| arg == "--quick") { 10 } else { 1 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        for part in [4, 2, 1] {
            measure(200_000 / scale / part, 50_000 / scale / part).await;
        }
    });
}
