//! Are the duplicates of a new item among the known items that triage is offered? Issues with known
//! duplicates, each asked about when it arrives, beside plain BM25 over the same texts.
//!
//! `cargo bench --bench duplicates -- NAME.csv…`; `-- --speed ITEMS` measures the time instead.
//!
//! NAME.csv has the columns `Summary`, `Issue id`, `Created` and `Description`; NAME-combined.csv
//! beside it has `Issue id` and `Duplicate id` (one or more numbers, separated by commas). The sets
//! of GitBugs (<https://github.com/av9ash/gitbugs>, CC BY 4.0) have this form.

#![expect(clippy::print_stdout, reason = "a benchmark tells its figures")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot run ends")]

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::Instant;

use heartbeat::clock::Clock;
use heartbeat::dedupe::{ItemWords, Planned, Write};
use heartbeat::event::{Decision, Reason};
use heartbeat::model::{
    Alarms, CleanField, CleanItem, ItemId, ItemKey, Links, TextStats, WorkItem, estimate_tokens,
};
use heartbeat::prompt::known_text;
use heartbeat::store::{Journal, PageRecord, Store};
use jiff::Timestamp;
use jiff::civil::DateTime;
use rusqlite::{Connection, params};

/// Known items that triage is offered for one item.
const OFFERED: u32 = 15;

struct Issue {
    id: i64,
    created: Timestamp,
    title: String,
    text: String,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    match args.iter().position(|arg| arg == "--speed") {
        Some(at) => runtime.block_on(speed(args[at + 1].parse().unwrap())),
        None if args.is_empty() => println!("no sets given; see the top of benches/duplicates.rs"),
        None => runtime.block_on(recall(&args)),
    }
}

async fn recall(sets: &[String]) {
    println!(
        "| set | issues | with an earlier duplicate | plain BM25, recall@{OFFERED} | offered, recall@{OFFERED} | offered per item | tokens per item |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for set in sets {
        let path = Path::new(set);
        let issues = issues(path);
        let groups = groups(path, &issues);
        let (asked, plain) = plain_bm25(&issues, &groups);
        let offered = offered(&issues, &groups).await;
        println!(
            "| {} | {} | {asked} | {} | {} | {} | {} |",
            path.file_stem().unwrap().to_string_lossy(),
            issues.len(),
            share(plain, asked),
            share(offered.hits, asked),
            per(offered.neighbours, issues.len()),
            per(offered.tokens, issues.len()),
        );
    }
}

fn share(part: usize, of: usize) -> String {
    format!("{part} ({:.1} %)", 100.0 * ratio(part, of))
}

fn per(sum: usize, items: usize) -> String {
    format!("{:.1}", ratio(sum, items))
}

fn ratio(part: usize, of: usize) -> f64 {
    f64::from(u32::try_from(part).unwrap()) / f64::from(u32::try_from(of.max(1)).unwrap())
}

/// What the program offers: every issue is stored as a run stores it, and then asked about.
#[derive(Default)]
struct Offered {
    hits: usize,
    neighbours: usize,
    tokens: usize,
}

async fn offered(issues: &[Issue], groups: &HashMap<i64, i64>) -> Offered {
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    let mut earlier: HashMap<i64, BTreeSet<i64>> = HashMap::new();
    let mut offered = Offered::default();
    for issue in issues {
        let words = ItemWords::of(&clean(issue));
        let planned = vec![planned(issue, words.clone())];
        let record = PageRecord { planned, ..PageRecord::default() };
        journal.items().record_page("ado", record).await.unwrap();
        let key = ItemKey::new("ado", ItemId(issue.id));
        let mut found = journal.items().neighbours(vec![(key.clone(), words)]).await.unwrap();
        let found = found.remove(&key).unwrap();
        offered.neighbours += found.len();
        // The lines of the known items, and their numbers in the item's tag.
        let numbers: String = found.iter().map(|known| format!(" {}", known.id)).collect();
        let tokens = estimate_tokens(&known_text(&found, None)) + estimate_tokens(&numbers);
        offered.tokens += usize::try_from(tokens).unwrap();
        if let Some(group) = groups.get(&issue.id) {
            let same = earlier.entry(*group).or_default();
            offered.hits += usize::from(found.iter().any(|known| same.contains(&known.id.0)));
            same.insert(issue.id);
        }
    }
    offered
}

/// Every word of title and description, as SQLite splits and ranks them by default.
fn plain_bm25(issues: &[Issue], groups: &HashMap<i64, i64>) -> (usize, usize) {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("CREATE VIRTUAL TABLE issues USING fts5 (words)").unwrap();
    let mut earlier: HashMap<i64, BTreeSet<i64>> = HashMap::new();
    let (mut asked, mut hits) = (0, 0);
    for issue in issues {
        let text = format!("{} {}", issue.title, issue.text);
        if let Some(group) = groups.get(&issue.id) {
            let same = earlier.entry(*group).or_default();
            if !same.is_empty() {
                asked += 1;
                hits += usize::from(best(&connection, &text).iter().any(|id| same.contains(id)));
            }
            same.insert(issue.id);
        }
        let insert = "INSERT INTO issues (rowid, words) VALUES (?1, ?2)";
        connection.execute(insert, params![issue.id, text]).unwrap();
    }
    (asked, hits)
}

fn best(connection: &Connection, text: &str) -> Vec<i64> {
    let words: BTreeSet<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| format!("\"{}\"", word.to_lowercase()))
        .collect();
    let query = words.into_iter().collect::<Vec<_>>().join(" OR ");
    connection
        .prepare_cached("SELECT rowid FROM issues WHERE issues MATCH ?1 ORDER BY rank LIMIT ?2")
        .unwrap()
        .query_map(params![query, OFFERED], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

/// How long a batch of 200 new items takes on a long backlog, and how big the index is.
async fn speed(items: usize) {
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    let started = Instant::now();
    for first in (0..items).step_by(200) {
        let page = (first..items.min(first + 200)).map(|n| {
            let issue = lifelike(n);
            planned(&issue, ItemWords::of(&clean(&issue)))
        });
        let record = PageRecord { planned: page.collect(), ..PageRecord::default() };
        journal.items().record_page("ado", record).await.unwrap();
    }
    let stored = started.elapsed();
    let size = std::fs::metadata(folder.path().join(heartbeat::store::DATABASE)).unwrap().len();
    println!("{items} items stored and indexed in {stored:.2?}; the database has {size} bytes");
    let asked: Vec<_> = (0..200)
        .map(|n| lifelike(n * items / 200))
        .map(|issue| (ItemKey::new("ado", ItemId(issue.id)), ItemWords::of(&clean(&issue))))
        .collect();
    let started = Instant::now();
    let found = journal.items().neighbours(asked).await.unwrap();
    println!("neighbours of {} items found in {:.2?}", found.len(), started.elapsed());
}

/// Words as they are spread in texts: the n-th commonest is used 1/n as often.
fn lifelike(number: usize) -> Issue {
    let mut state = u64::try_from(number).unwrap().wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let share = f64::from(u32::try_from(state >> 40).unwrap()) / f64::from(1_u32 << 24);
        format!("w{:.0}", 30_000_f64.powf(share))
    };
    let title = (0..8).map(|_| next()).collect::<Vec<_>>().join(" ");
    let text = (0..120).map(|_| next()).collect::<Vec<_>>().join(" ");
    let id = i64::try_from(number).unwrap();
    Issue { id, created: Timestamp::UNIX_EPOCH, title, text }
}

fn journal(folder: &Path) -> Journal {
    let clock = Clock::manual("2026-11-16T08:00:00Z".parse().unwrap());
    Journal::open(Store::open(folder).unwrap(), clock, None).unwrap()
}

fn clean(issue: &Issue) -> CleanItem {
    let text = issue.text.clone();
    CleanItem {
        facts: WorkItem {
            key: ItemKey::new("ado", ItemId(issue.id)),
            id: ItemId(issue.id),
            rev: 1,
            item_type: "Bug".into(),
            title: issue.title.clone(),
            state: "New".into(),
            changed_at: issue.created,
            created_at: Some(issue.created),
            priority: None,
            severity: None,
            area_path: None,
            iteration_path: None,
            assigned_to: None,
            reporter: None,
            tags: Vec::new(),
            parent: None,
            links: Links::default(),
            finished: None,
            handle: None,
            more_areas: Vec::new(),
            url: String::new(),
            texts: Vec::new(),
            comments: Vec::new(),
        },
        fields: vec![CleanField { name: "Description".into(), full: text.clone(), tight: text }],
        alarms: Alarms::default(),
        stats: TextStats::default(),
    }
}

fn planned(issue: &Issue, words: ItemWords) -> Planned {
    Planned {
        key: ItemKey::new("ado", ItemId(issue.id)),
        id: ItemId(issue.id),
        title: issue.title.clone(),
        item_type: "Bug".into(),
        url: String::new(),
        area_path: String::new(),
        assigned_to: None,
        priority: None,
        revision: 1,
        changed_at: issue.created,
        fingerprint: "2:a".into(),
        decision: Decision::New,
        reason: Reason::FirstSeen,
        attempts: 0,
        write: Write::Row,
        words: Some(words),
        fields: None,
        created_at: None,
    }
}

/// In the order in which they arrived.
fn issues(path: &Path) -> Vec<Issue> {
    let rows = table(&std::fs::read_to_string(path).unwrap());
    let mut issues: Vec<Issue> = rows
        .into_iter()
        .map(|row| Issue {
            id: row["Issue id"].parse().unwrap(),
            created: instant(&row["Created"]),
            title: row["Summary"].clone(),
            text: row["Description"].clone(),
        })
        .collect();
    issues.sort_by_key(|issue| (issue.created, issue.id));
    issues
}

fn instant(text: &str) -> Timestamp {
    let civil = DateTime::strptime("%d/%b/%y %H:%M", text);
    let civil = civil.or_else(|_| DateTime::strptime("%Y-%m-%d %H:%M:%S", &text[..19]));
    civil.unwrap().to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp()
}

/// Which group of duplicates an issue is in, by one of its numbers.
fn groups(path: &Path, issues: &[Issue]) -> HashMap<i64, i64> {
    let known: BTreeSet<i64> = issues.iter().map(|issue| issue.id).collect();
    let name = format!("{}-combined.csv", path.file_stem().unwrap().to_string_lossy());
    let mut groups: HashMap<i64, i64> = HashMap::new();
    for row in table(&std::fs::read_to_string(path.with_file_name(name)).unwrap()) {
        let one: i64 = row["Issue id"].parse().unwrap();
        let others = row["Duplicate id"].split(',').filter_map(|id| id.trim().parse::<i64>().ok());
        for other in others.filter(|other| known.contains(other) && known.contains(&one)) {
            let a = *groups.entry(one).or_insert(one);
            let b = *groups.entry(other).or_insert(other);
            groups.values_mut().filter(|group| **group == b).for_each(|group| *group = a);
        }
    }
    groups
}

/// Rows by the names in the first one.
fn table(text: &str) -> Vec<HashMap<String, String>> {
    let mut rows: Vec<Vec<String>> = vec![vec![String::new()]];
    let (mut quoted, mut chars) = (false, text.chars().peekable());
    while let Some(c) = chars.next() {
        let row = rows.last_mut().unwrap();
        let cell = row.last_mut().unwrap();
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(String::new()),
            '\n' if !quoted => rows.push(vec![String::new()]),
            '\r' if !quoted => {}
            c => cell.push(c),
        }
    }
    let mut rows = rows.into_iter().filter(|row| row.len() > 1);
    let Some(names) = rows.next() else { panic!("the file is empty") };
    let named = |row: Vec<String>| names.iter().cloned().zip(row).collect();
    rows.map(named).collect()
}
