//! Findings checked against a real repository and its index.

use std::path::Path;

use heartbeat::analyze;
use heartbeat::context::{CommitCode, Index, Options};
use heartbeat::evidence::{self, Code, File, Seen};
use heartbeat::model::{Evidence, Finding, Rung, Standing, Unfound};
use heartbeat::simulate::sample;
use serde_json::{Value, json};
use support::git;

fn repository(folder: &Path) -> String {
    sample::write_to(folder).unwrap();
    git(folder, &["init", "-q"]);
    git(folder, &["add", "-A"]);
    git(folder, &["commit", "-qm", "all"]);
    heartbeat::context::commit_of(folder, "HEAD").unwrap().id
}

fn index(root: &Path, cache: &Path) -> Index {
    let options = Options { history: false, ..Options::default() };
    Index::open_or_build(root, cache, &options).unwrap().0
}

fn checked(output: &Value, code: &dyn Code) -> Finding {
    let mut finding = analyze::check(output).unwrap();
    evidence::check(&mut finding, code, &Seen::default(), jiff::Timestamp::UNIX_EPOCH);
    finding
}

#[test]
fn every_finding_of_the_demo_is_confirmed_and_its_patches_apply() {
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let commit = repository(folder.path());
    let index = index(folder.path(), cache.path());
    let code = CommitCode::new(folder.path(), Some(&commit), Some(&index));
    let answers: Value =
        serde_json::from_str(include_str!("../../src/simulate/agent/parcel.json")).unwrap();
    let (mut applied, mut doubts) = (0, Vec::new());
    for answer in answers["findings"].as_array().unwrap() {
        let mut answer = answer.clone();
        let title = answer.as_object_mut().unwrap().remove("title").unwrap();
        let finding = checked(&answer, &code);
        let proof = finding.proof.unwrap();
        assert!(proof.rung() >= Rung::Cited, "{title}");
        let confirmed = |entry: &Evidence| entry.standing == Some(Standing::Confirmed);
        assert!(finding.evidence.iter().all(confirmed), "{title}");
        assert_eq!(proof.commit(), Some(commit.as_str()));
        applied += usize::from(proof.rung() == Rung::Applies);
        doubts.extend(proof.doubts.into_iter().map(|doubt| (title.clone(), doubt)));
    }
    assert_eq!(doubts, []);
    assert_eq!(applied, 3);
}

fn answer(path: &str, line: u32, quote: &str) -> Value {
    json!({
        "evidence": [{"path": path, "line": line, "last_line": line, "quote": quote, "shows": ""}],
        "summary": "The prices are wrong.", "likely_causes": ["It is so [1]."], "files": [],
        "suggested_change": "Change it.", "risk": "low", "effort": "small", "confidence": "high",
        "open_questions": [],
    })
}

#[test]
fn the_commit_counts_and_not_the_folder_as_it_is_by_then() {
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = folder.path();
    let commit = repository(root);
    let index = index(root, cache.path());
    let file = root.join("tools/import_rates.py");
    std::fs::write(&file, "def entirely_new_code():\n    return later_than_the_commit()\n")
        .unwrap();
    let code = CommitCode::new(root, Some(&commit), Some(&index));
    let standing = |answer: &Value| checked(answer, &code).evidence[0].standing.clone().unwrap();
    let old = answer("tools/import_rates.py", 12, "euros = text.split(\",\")[0]");
    assert_eq!(standing(&old), Standing::Confirmed);
    let new = answer("tools/import_rates.py", 2, "return later_than_the_commit()");
    assert_eq!(standing(&new), Standing::NotFound { why: Unfound::Uncommitted });
    let elsewhere = answer("tools/reconcile.py", 12, "euros = text.split(\",\")[0]");
    let found = checked(&elsewhere, &code);
    assert_eq!(found.evidence[0].path, "tools/import_rates.py");
    let renamed = answer("tools/import_prices.py", 12, "euros = text.split(\",\")[0]");
    assert_eq!(
        standing(&renamed),
        Standing::InAnotherFile { named: "tools/import_prices.py".into() }
    );
    assert_eq!(code.file("tools"), File::Missing, "a folder is no file");
    assert_eq!(code.file("no such/file here.txt"), File::Missing);
    assert!(matches!(code.file("README.md"), File::Text(_)), "git answers on");
    let part = CommitCode::new(&root.join("tools"), Some(&commit), None);
    assert!(matches!(part.file("reconcile.py"), File::Text(_)), "a code base may be a part");
}

#[test]
fn a_part_of_a_name_is_not_that_name() {
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let commit = repository(folder.path());
    let index = index(folder.path(), cache.path());
    let code = CommitCode::new(folder.path(), Some(&commit), Some(&index));
    let mut answer = answer("tools/import_rates.py", 12, "euros = text.split(\",\")[0]");
    let names = ["normalizeAddress", "services", "normalize", "billable"];
    let causes = names.map(|name| format!("It is in `{name}` [1]."));
    answer["likely_causes"] = json!(causes);
    assert_eq!(checked(&answer, &code).likely_causes, causes[..2]);
}

#[test]
fn names_are_known_by_the_index_and_invented_ones_are_not() {
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let commit = repository(folder.path());
    let index = index(folder.path(), cache.path());
    let code = CommitCode::new(folder.path(), Some(&commit), Some(&index));
    for known in ["findBand", "VOLUMETRIC_DIVISOR", "summarize", "billableGrams", "LabelPrinter"] {
        assert_eq!(code.knows(known), Some(true), "{known}");
    }
    for invented in ["frobnicateLedger", "findBands", "frobnicate", "volumetric_divisors"] {
        assert_eq!(code.knows(invented), Some(false), "{invented}");
    }
    assert_eq!(code.knows(&"very_long_".repeat(10)), None);
    assert!(code.has_file_named("services/csv.ts") && !code.has_file_named("services/tsv.ts"));
    assert_eq!(CommitCode::new(folder.path(), None, None).knows("frobnicate"), None);
}
