//! Which items commits name, against what a person reads in them: repositories of different habits.

use std::collections::BTreeSet;
use std::path::Path;

use heartbeat::fixes::{Commit, Link, Numbers, Reason, Rules, links};
use serde::Deserialize;

#[derive(Deserialize)]
struct Sample {
    source: String,
    bare_numbers: bool,
    patterns: Vec<String>,
    #[serde(default)]
    issue_pages: Option<String>,
    appended_pull_requests: bool,
    commits: Vec<Judged>,
}

#[derive(Deserialize)]
struct Judged {
    id: String,
    merge: bool,
    subject: String,
    body: String,
    expected: BTreeSet<i64>,
}

/// Right, wrong and missed links, and where it differs from the person.
fn judge(sample: &Sample) -> (usize, usize, usize, String) {
    let numbers = if sample.bare_numbers { Numbers::Items } else { Numbers::OtherHost };
    let appended_pull_requests = sample.appended_pull_requests;
    let rules = Rules {
        numbers,
        issue_pages: sample.issue_pages.clone(),
        patterns: sample.patterns.clone(),
        appended_pull_requests,
    };
    let (mut right, mut wrong, mut missed, mut differs) = (0, 0, 0, String::new());
    for Judged { id, merge, subject, body, expected } in &sample.commits {
        let commit = Commit { subject, body, merge: *merge };
        // What a commit is only related to counts where nothing else names the item, so here it does
        // if the person says so.
        let counts = |link: &&Link| link.reason != Reason::Related || expected.contains(&link.item);
        let found = links(commit, &rules);
        let found: BTreeSet<i64> = found.iter().filter(counts).map(|link| link.item).collect();
        if found != *expected {
            differs += &format!("{id}: {subject}\n  found {found:?}, a person {expected:?}\n");
        }
        right += found.intersection(expected).count();
        wrong += found.difference(expected).count();
        missed += expected.difference(&found).count();
    }
    (right, wrong, missed, differs)
}

#[test]
fn links_are_those_that_a_person_reads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/links");
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 4, "{files:?}");
    let mut all = (0, 0, 0, String::new());
    for file in files {
        let sample: Sample =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let (right, wrong, missed, differs) = judge(&sample);
        // One commit of a small sample is several per cent.
        assert_good((right, wrong, missed), 95.0, &format!("{}\n{differs}", sample.source));
        all = (all.0 + right, all.1 + wrong, all.2 + missed, all.3 + &differs);
    }
    let (right, wrong, missed, differs) = all;
    assert_good((right, wrong, missed), 98.0, &differs);
}

fn assert_good((right, wrong, missed): (usize, usize, usize), precise: f64, differs: &str) {
    let share = |other: usize| 100.0 * right as f64 / (right + other) as f64;
    assert!(
        share(wrong) >= precise && share(missed) >= 90.0,
        "{right} right, {wrong} wrong, {missed} missed: {differs}"
    );
}
