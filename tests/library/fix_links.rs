//! Which items commits name, against what a person reads in them: repositories of different habits.

use std::collections::BTreeSet;
use std::path::Path;

use heartbeat::fixes::{Commit, Numbers, Rules, links};
use serde::Deserialize;

#[derive(Deserialize)]
struct Sample {
    source: String,
    bare_numbers: bool,
    patterns: Vec<String>,
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
    let rules = Rules { numbers, patterns: sample.patterns.clone(), appended_pull_requests };
    let (mut right, mut wrong, mut missed, mut differs) = (0, 0, 0, String::new());
    for Judged { id, merge, subject, body, expected } in &sample.commits {
        let commit = Commit { subject, body, merge: *merge };
        let found: BTreeSet<i64> = links(commit, &rules).iter().map(|link| link.item).collect();
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
    for file in files {
        let sample: Sample =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let (right, wrong, missed, differs) = judge(&sample);
        let share = |other: usize| 100.0 * right as f64 / (right + other) as f64;
        let (precision, recall) = (share(wrong), share(missed));
        let name = &sample.source;
        assert!(
            precision >= 98.0 && recall >= 90.0,
            "{name}: {right} right, {wrong} wrong, {missed} missed\n{differs}"
        );
    }
}
