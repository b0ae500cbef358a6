//! Compares the items found in commits with what a person reads in them: repositories with
//! different conventions.

use std::collections::BTreeSet;
use std::path::Path;

use heartbeat::fixes::{Commit, Keys, Link, Numbers, Reason, Rules, links};
use serde::Deserialize;

#[derive(Deserialize)]
struct Sample {
    source: String,
    bare_numbers: bool,
    patterns: Vec<String>,
    #[serde(default)]
    issue_pages: Option<String>,
    appended_pull_requests: bool,
    /// The items have keys: `SHOP` of `SHOP-12`.
    #[serde(default)]
    key_project: Option<String>,
    commits: Vec<Judged>,
}

impl Sample {
    fn keys(&self) -> Keys {
        let mut keys = Keys::default();
        let judged = self.commits.iter().filter_map(|commit| commit.judged.as_ref()).flatten();
        for (project, item) in
            self.key_project.iter().flat_map(|p| judged.clone().map(move |item| (p, item)))
        {
            keys.insert(&format!("{project}-{item}"), *item);
        }
        keys
    }
}

#[derive(Deserialize)]
struct Judged {
    id: String,
    merge: bool,
    subject: String,
    body: String,
    expected: BTreeSet<i64>,
    /// The items that the person decided on; none: every one.
    #[serde(default)]
    judged: Option<BTreeSet<i64>>,
}

/// Right, wrong and missed links, and the differences from the person.
fn judge(sample: &Sample) -> (usize, usize, usize, String) {
    let numbers = match sample.bare_numbers {
        _ if sample.key_project.is_some() => Numbers::Nothing,
        true => Numbers::Items,
        false => Numbers::OtherHost,
    };
    let appended_pull_requests = sample.appended_pull_requests;
    let rules = Rules {
        numbers,
        issue_pages: sample.issue_pages.clone().into_iter().collect(),
        patterns: sample.patterns.clone(),
        keys: sample.keys(),
        appended_pull_requests,
    };
    let (mut right, mut wrong, mut missed, mut differs) = (0, 0, 0, String::new());
    for Judged { id, merge, subject, body, expected, judged } in &sample.commits {
        let commit = Commit { subject, body, merge: *merge };
        // A merely related commit counts only if no other names the item, and people differ about
        // tests, so here these count if the person says so.
        let is_weak = |link: &Link| matches!(link.reason, Reason::Related | Reason::Test);
        let counts = |link: &&Link| !is_weak(link) || expected.contains(&link.item);
        let found = links(commit, &rules);
        let mut found: BTreeSet<i64> = found.iter().filter(counts).map(|link| link.item).collect();
        found.retain(|item| judged.as_ref().is_none_or(|judged| judged.contains(item)));
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
    assert!(files.len() >= 61, "{files:?}");
    let mut all = (0, 0, 0, String::new());
    for file in files {
        let sample: Sample =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let (right, wrong, missed, differs) = judge(&sample);
        // One commit of a small sample is several per cent.
        assert_good((right, wrong, missed), (92.0, 80.0), &format!("{}\n{differs}", sample.source));
        all = (all.0 + right, all.1 + wrong, all.2 + missed, all.3 + &differs);
    }
    let (right, wrong, missed, differs) = all;
    assert_good((right, wrong, missed), (98.0, 95.0), &differs);
}

/// Least precision and recall, in percent.
type Bounds = (f64, f64);

fn assert_good((right, wrong, missed): (usize, usize, usize), least: Bounds, differs: &str) {
    let share = |other: usize| 100.0 * right as f64 / (right + other) as f64;
    assert!(
        share(wrong) >= least.0 && share(missed) >= least.1,
        "{right} right, {wrong} wrong, {missed} missed: {differs}"
    );
}
