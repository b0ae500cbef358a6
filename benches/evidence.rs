//! Are true claims confirmed and corrupted ones caught? Findings made from real fixes: their evidence
//! is the code that each fix changed, at the commit before it.
//!
//! `cargo test --bench evidence -- FOLDER FIXES REPOSITORY...` (or `cargo bench`)
//!
//! `-- FOLDER check FINDINGS.jsonl` checks findings of your own: each line has `repository`, `commit` and
//! `finding` (as `prompts/deep.schema.json` says), and may have `id`, `item` (the text of the work item)
//! and `read` (paths that the session read). One line of verdicts is printed for each.
//!
//! `-- FOLDER cost FILES` writes a repository of that many files and measures a check in it.
//!
//! FOLDER is for work trees and indexes. Of each repository the newest FIXES usable commits are taken.
//! Every finding is checked as it is, and once for each kind of corruption; a corruption is caught if
//! the corrupted claim is not confirmed as it stands. Nothing of a repository is kept.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a measurement for people")]

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heartbeat::context::tree::BorrowedTree;
use heartbeat::context::{CommitCode, Index, Kind, Language, Options};
use heartbeat::evidence::{self, Code as _, File, Seen};
use heartbeat::model::{
    Confidence, Doubt, Effort, Evidence, FileReference, FileRole, Finding, Risk, Rung, Standing,
};

const KINDS: [&str; 9] = [
    "true",
    "moved line",
    "stale quote",
    "invented symbol",
    "invented test",
    "invented path",
    "wrong file",
    "another commit",
    "patch",
];

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [folder, fixes, repositories @ ..] = arguments.as_slice() else {
        println!("FOLDER FIXES REPOSITORY... are needed");
        return;
    };
    match (fixes.as_str(), repositories) {
        ("check", [findings]) => return check_own(Path::new(folder), Path::new(findings)),
        ("cost", [files]) => {
            return cost(Path::new(folder), files.parse().expect("FILES is a number"));
        }
        _ => {}
    }
    let fixes: usize = fixes.parse().expect("FIXES is a number");
    let mut all: BTreeMap<(String, &str), (usize, usize)> = BTreeMap::new();
    let (mut spent, mut findings) = (Duration::ZERO, 0u32);
    for (number, repository) in repositories.iter().enumerate() {
        let place = Path::new(folder).join(format!("r{number}"));
        measure(Path::new(repository), &place, fixes, &mut |language, kind, right, took| {
            let entry = all.entry((language.to_owned(), kind)).or_default();
            entry.0 += usize::from(right);
            entry.1 += 1;
            spent += took;
            findings += 1;
        });
    }
    let languages: Vec<String> = {
        let mut names: Vec<String> = all.keys().map(|(language, _)| language.clone()).collect();
        names.dedup();
        names
    };
    println!("| kind | {} | all |", languages.join(" | "));
    for kind in KINDS {
        let of =
            |language: &String| all.get(&(language.clone(), kind)).copied().unwrap_or_default();
        let shown: Vec<String> =
            languages.iter().map(|l| format!("{} of {}", of(l).0, of(l).1)).collect();
        let sum = languages.iter().map(of).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        println!("| {kind} | {} | {} of {} |", shown.join(" | "), sum.0, sum.1);
    }
    println!("{findings} checks, {:?} each", spent / findings.max(1));
}

/// A finding that somebody else wrote.
#[derive(serde::Deserialize)]
struct Own {
    #[serde(default)]
    id: serde_json::Value,
    repository: PathBuf,
    commit: String,
    finding: serde_json::Value,
    #[serde(default)]
    item: String,
    read: Option<Vec<String>>,
}

/// Prints a verdict for every claim of every finding. Findings of one commit should follow each other.
fn check_own(folder: &Path, findings: &Path) {
    let file = std::fs::File::open(findings).expect("FINDINGS.jsonl can be read");
    let lines = std::io::BufReader::new(file).lines().map(|line| line.expect("text"));
    let options = Options { history: false, ..Options::default() };
    let mut trees: BTreeMap<PathBuf, (PathBuf, BorrowedTree)> = BTreeMap::new();
    let mut open: Option<((PathBuf, String), Index)> = None;
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let own: Own = serde_json::from_str(&line).expect("a line is a finding with its commit");
        let number = trees.len();
        let (place, tree) = trees.entry(own.repository.clone()).or_insert_with(|| {
            let place = folder.join(format!("own{number}"));
            std::fs::create_dir_all(&place).expect("the folder can be written");
            let tree = BorrowedTree::open(&own.repository, &place, "tree").expect("a repository");
            (place, tree)
        });
        let at = (own.repository.clone(), own.commit.clone());
        if open.as_ref().is_none_or(|(opened, _)| *opened != at) {
            tree.move_to(&own.commit).expect("the commit can be checked out");
            let index = Index::open_or_build(tree.folder(), &place.join("index"), &options);
            open = Some((at, index.expect("it can be indexed").0));
        }
        let index = open.as_ref().map(|(_, index)| index);
        let code = CommitCode::new(tree.folder(), Some(&own.commit), index);
        println!("{}", verdict(&own, &code));
    }
}

fn verdict(own: &Own, code: &CommitCode<'_>) -> serde_json::Value {
    let mut finding = match heartbeat::analyze::check(&own.finding) {
        Ok(finding) => finding,
        Err(error) => return serde_json::json!({"id": own.id, "refused": error.to_string()}),
    };
    let seen = Seen { read: own.read.clone(), item: own.item.clone() };
    let began = Instant::now();
    evidence::check(&mut finding, code, &seen, jiff::Timestamp::UNIX_EPOCH);
    let took = began.elapsed().as_secs_f64() * 1e3;
    let standings: Vec<_> = finding.evidence.iter().map(|entry| &entry.standing).collect();
    serde_json::json!({
        "id": own.id,
        "rung": finding.rung(),
        "is_unproven": finding.is_unproven(),
        "confidence": finding.confidence,
        "evidence": standings,
        "doubts": finding.proof.as_ref().map(|proof| &proof.doubts),
        "milliseconds": took,
    })
}

/// What a check costs in a large repository: quotes at their place, moved, of another file, invented,
/// with names that are there and names that are not.
fn cost(folder: &Path, files: usize) {
    let place = folder.join("cost");
    let root = place.join("repository");
    if !root.exists() {
        generate(&root, files);
    }
    let commit = git(&root, &["rev-parse", "HEAD"]).trim().to_owned();
    let options = Options { history: false, ..Options::default() };
    let (index, _) =
        Index::open_or_build(&root, &place.join("index"), &options).expect("it can be indexed");
    let mut all: Vec<Duration> = Vec::new();
    let before = processor_time();
    for round in 0..200 {
        let mut one = generated_finding(round * 149 % files, files);
        // Opened anew, as after a session.
        let began = Instant::now();
        let code = CommitCode::new(&root, Some(&commit), Some(&index));
        evidence::check(&mut one, &code, &Seen::default(), jiff::Timestamp::UNIX_EPOCH);
        all.push(began.elapsed());
        let is = |at: usize| one.evidence[at].standing.clone();
        assert_eq!(is(0), Some(Standing::Confirmed));
        assert!(matches!(is(1), Some(Standing::Moved { .. })));
        assert!(matches!(is(2), Some(Standing::InAnotherFile { .. })));
        assert!(matches!(is(3), Some(Standing::NotFound { .. })));
        assert!(one.rung() == Some(Rung::Applies) && one.likely_causes.len() == 1);
    }
    let worked = (processor_time() - before) / 200;
    all.sort_unstable();
    let at = |part: usize| all[(all.len() - 1) * part / 100];
    println!(
        "{files} files, {} findings with 5 quotes each: {worked:?} of a processor, git's included; by the clock {:?} at the least, {:?} at the middle, {:?} of 95 in 100 at most, {:?} at most",
        all.len(),
        at(0),
        at(50),
        at(95),
        at(100)
    );
}

/// Of this process and of those that it has waited for: other work on the machine does not count.
fn processor_time() -> Duration {
    use nix::sys::resource::{UsageWho, getrusage};
    let of = |who| {
        let usage = getrusage(who).expect("its own figures");
        [usage.user_time(), usage.system_time()].map(|time| {
            // These types differ between systems.
            let micros = i128::from(time.tv_sec()) * 1_000_000 + i128::from(time.tv_usec());
            Duration::from_micros(u64::try_from(micros).unwrap_or(0))
        })
    };
    of(UsageWho::RUSAGE_SELF).iter().chain(&of(UsageWho::RUSAGE_CHILDREN)).sum()
}

/// A repository of so many files with functions of their own.
fn generate(root: &Path, files: usize) {
    let function = |file: usize, n: usize| {
        format!(
            "export function total{file}Of{n}(price: number) {{\n  const rounded = round{file}(price * {n});\n  return rounded;\n}}\n\n"
        )
    };
    for file in 0..files {
        let path = root.join(format!("packages/p{}/src", file % 300));
        std::fs::create_dir_all(&path).expect("the folder can be written");
        let body: String = (0..12).map(|n| function(file, n)).collect();
        std::fs::write(path.join(format!("module{file}.ts")), body).expect("written");
    }
    for arguments in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "all"],
    ] {
        git(root, arguments);
    }
}

/// About one file of [`generate`]: true, moved, misplaced and invented claims.
fn generated_finding(file: usize, files: usize) -> Finding {
    let path = format!("packages/p{}/src/module{file}.ts", file % 300);
    let quote = format!("const rounded = round{file}(price * 3);");
    let other = format!("const rounded = round{}(price * 5);", (file + 1) % files);
    let entry = |line: u32, quote: &str| Evidence {
        path: path.clone(),
        line,
        last_line: line,
        quote: quote.to_owned(),
        ..Evidence::default()
    };
    let evidence = vec![
        entry(17, &quote),
        entry(170, &quote),
        entry(17, &other),
        entry(17, "const rounded = frobnicate(price, ledger);"),
        entry(3, "  return rounded;"),
    ];
    let fix = Fix {
        path: path.clone(),
        line: 17,
        old: vec![format!("  {quote}")],
        new: vec!["  const rounded = price;".into()],
        diff: format!(
            "--- a/{path}\n+++ b/{path}\n@@ -17,1 +17,1 @@\n-  {quote}\n+  const rounded = price;\n"
        ),
        language: "JavaScript".into(),
    };
    let mut one = Finding { evidence, ..finding(&fix, &format!("total{file}Of3")) };
    one.likely_causes.push("`frobnicateLedger` and `roundLedgerTwice` differ [1].".into());
    one.tests.push("existing: `packages/p0/test/none.test.ts` `rounds half up`".into());
    one
}

type Tell<'a> = &'a mut dyn FnMut(&str, &'static str, bool, Duration);

fn git(repository: &Path, arguments: &[&str]) -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "a measurement on repositories that the user names"
    )]
    let output = std::process::Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(arguments)
        .output()
        .expect("git runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn measure(repository: &Path, place: &Path, fixes: usize, tell: Tell<'_>) {
    std::fs::create_dir_all(place).expect("the folder can be written");
    let tree = BorrowedTree::open(repository, place, "tree").expect("a repository");
    let commits = git(repository, &["log", "--no-merges", "-n", "3000", "--format=%H %P"]);
    let options = Options { history: false, ..Options::default() };
    let mut used = 0;
    for line in commits.lines() {
        let Some((commit, parent)) =
            line.split_once(' ').filter(|(_, parent)| !parent.contains(' '))
        else {
            continue;
        };
        let diff = git(repository, &["diff", "--no-ext-diff", "--no-renames", parent, commit]);
        if diff.len() > 30_000 || used >= fixes {
            continue;
        }
        let Some(fix) = Fix::of(&diff) else { continue };
        tree.move_to(parent).expect("the commit can be checked out");
        let (index, _) = Index::open_or_build(tree.folder(), &place.join("index"), &options)
            .expect("it can be indexed");
        let code = CommitCode::new(tree.folder(), Some(parent), Some(&index));
        if try_all(&fix, &code, tell) {
            used += 1;
        }
    }
    println!("{}: {used} findings", repository.display());
}

/// The part of a fix that a finding would cite.
struct Fix {
    path: String,
    line: u32,
    /// Lines that the fix removed.
    old: Vec<String>,
    /// The lines that it wrote instead.
    new: Vec<String>,
    diff: String,
    language: String,
}

impl Fix {
    /// The first hunk in product code that removes lines with a name in them.
    fn of(diff: &str) -> Option<Self> {
        let (mut path, mut line) = (String::new(), 0u32);
        let mut fix: Option<Self> = None;
        for text in diff.lines() {
            if let Some(name) = text.strip_prefix("--- a/") {
                path = name.to_owned();
            } else if let Some(head) = text.strip_prefix("@@ -") {
                line = head.split([',', ' ']).next()?.parse().ok()?;
                if fix.as_ref().is_some_and(Self::is_usable) {
                    break;
                }
                fix = None;
            } else if let Some(removed) =
                text.strip_prefix('-').filter(|_| !text.starts_with("---"))
            {
                let fix = fix.get_or_insert_with(|| Self {
                    path: path.clone(),
                    line,
                    old: Vec::new(),
                    new: Vec::new(),
                    diff: diff.to_owned(),
                    language: language(&path),
                });
                // Only lines that follow each other are a quote.
                if fix.old.len() < 4 && fix.line + u32::try_from(fix.old.len()).ok()? == line {
                    fix.old.push(removed.to_owned());
                }
                line += 1;
            } else if let Some(added) = text.strip_prefix('+').filter(|_| !text.starts_with("+++"))
            {
                fix.iter_mut().for_each(|fix| fix.new.push(added.to_owned()));
            } else {
                line += 1;
            }
        }
        fix.filter(Self::is_usable)
    }

    fn is_usable(&self) -> bool {
        let is_code = Language::of_path(&self.path).is_code();
        is_code
            && Kind::of_path(&self.path, true) == Kind::Source
            && self.name().is_some()
            && squeezed(&self.old).len() >= 16
            && squeezed(&self.new).len() >= 16
    }

    /// A name of several parts in the lines.
    fn name(&self) -> Option<String> {
        let is_compound = |word: &&str| {
            let inner = word.trim_matches('_').as_bytes();
            let hump =
                inner.windows(2).any(|p| p[0].is_ascii_lowercase() && p[1].is_ascii_uppercase());
            word.len() > 5 && (hump || inner.contains(&b'_'))
        };
        let words = self
            .old
            .iter()
            .flat_map(|line| line.split(|c: char| !(c.is_alphanumeric() || c == '_')));
        words
            .filter(is_compound)
            .find(|word| word.starts_with(char::is_alphabetic))
            .map(str::to_owned)
    }
}

fn squeezed(lines: &[String]) -> String {
    lines.iter().flat_map(|line| line.chars()).filter(|c| !c.is_whitespace()).collect()
}

fn language(path: &str) -> String {
    match path.rsplit('.').next().unwrap_or_default() {
        "py" => "Python",
        "js" | "ts" | "mjs" | "jsx" | "tsx" => "JavaScript",
        "go" => "Go",
        "rs" => "Rust",
        "java" => "Java",
        "cs" => "C#",
        "c" | "cc" | "cpp" | "h" => "C++",
        _ => "other",
    }
    .to_owned()
}

fn finding(fix: &Fix, name: &str) -> Finding {
    let count = u32::try_from(fix.old.len()).unwrap_or(1);
    Finding {
        evidence: vec![Evidence {
            path: fix.path.clone(),
            line: fix.line,
            last_line: fix.line + count - 1,
            quote: fix.old.join("\n"),
            shows: "This is what goes wrong.".into(),
            standing: None,
        }],
        summary: format!("The fault is in `{}`.", fix.path),
        likely_causes: vec![format!("`{name}` is used as if it could not fail [1].")],
        files: vec![FileReference {
            path: fix.path.clone(),
            role: Some(FileRole::Change),
            read: None,
            reason: "Has to change.".into(),
            exists: None,
        }],
        suggested_change: format!("Change how `{name}` is used."),
        risk: Risk::Low,
        effort: Effort::Small,
        confidence: Confidence::High,
        open_questions: Vec::new(),
        tests: Vec::new(),
        pitfalls: Vec::new(),
        not_checked: Vec::new(),
        patch: fix.diff.clone(),
        patch_test: String::new(),
        proof: None,
    }
}

/// Checks one fix in all ways; false if it cannot be used.
#[expect(clippy::too_many_lines, reason = "one kind of corruption after the other")]
fn try_all(fix: &Fix, code: &CommitCode<'_>, tell: Tell<'_>) -> bool {
    let Some(name) = fix.name() else { return false };
    let File::Text(text) = code.file(&fix.path) else { return false };
    let tidy = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let (whole, old, new) = (tidy(&text.text), squeezed(&fix.old), squeezed(&fix.new));
    // What stands twice has no single place, and what the commit before has is not another's code.
    if whole.matches(&old).count() != 1 || whole.contains(&new) {
        return false;
    }
    let mut check = |kind: &'static str,
                     mut finding: Finding,
                     is_right: &dyn Fn(&Finding, &[Doubt]) -> bool| {
        let began = Instant::now();
        evidence::check(&mut finding, code, &Seen::default(), jiff::Timestamp::UNIX_EPOCH);
        let took = began.elapsed();
        let doubts = finding.proof.as_ref().map(|proof| proof.doubts.clone()).unwrap_or_default();
        let right = is_right(&finding, &doubts);
        if !right {
            println!("  missed {kind}: {} {doubts:?}", fix.path);
        }
        tell(&fix.language, kind, right, took);
    };
    let good = || finding(fix, &name);
    let standing = |finding: &Finding| finding.evidence[0].standing.clone();
    check("true", good(), &|finding, doubts| {
        standing(finding) == Some(Standing::Confirmed)
            && doubts.is_empty()
            && finding.rung() == Some(Rung::Applies)
    });
    let mut moved = good();
    moved.evidence[0].line += 57;
    moved.evidence[0].last_line += 57;
    check("moved line", moved, &|finding, _| {
        matches!(standing(finding), Some(Standing::Moved { .. }))
            && finding.evidence[0].line == fix.line
    });
    let mut stale = good();
    stale.evidence[0].quote = stale.evidence[0].quote.replacen(&name, &format!("{name}Old"), 1);
    check("stale quote", stale, &|finding, _| !standing(finding).is_some_and(|s| s.is_found()));
    let doubted = |place: &'static str| {
        move |_: &Finding, doubts: &[Doubt]| doubts.iter().any(|d| d.place == place)
    };
    let invented = format!("{name}Ledger");
    check("invented symbol", finding(fix, &invented), &doubted("likely_causes"));
    let mut test = good();
    test.tests = vec![format!("existing: `test_{}_is_frobnicated`", name.to_lowercase())];
    check("invented test", test, &doubted("tests"));
    let mut path = good();
    path.files[0].path = path.files[0].path.replacen('.', "_helpers.", 1);
    check("invented path", path, &doubted("files"));
    let mut wrong = good();
    wrong.evidence[0].path = ["README.md", "README.rst", "Readme.md", "LICENSE"]
        .into_iter()
        .find(|path| code.file(path) != File::Missing)
        .unwrap_or("README.md")
        .to_owned();
    check("wrong file", wrong, &|finding, _| match standing(finding) {
        Some(Standing::InAnotherFile { .. }) => finding.evidence[0].path == fix.path,
        Some(Standing::NotFound { .. }) => true,
        _ => false,
    });
    let mut another = good();
    another.evidence[0].quote = fix.new.join("\n");
    check("another commit", another, &|finding, _| {
        !standing(finding).is_some_and(|s| s.is_found())
    });
    let mut patch = good();
    let removed = fix.old.iter().find(|line| line.contains(&name)).cloned().unwrap_or_default();
    patch.patch =
        patch.patch.replacen(&format!("\n-{removed}"), &format!("\n-{removed} frobnicated"), 1);
    check("patch", patch, &doubted("patch"));
    true
}
