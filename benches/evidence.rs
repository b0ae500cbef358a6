//! Are true claims confirmed and corrupted ones caught? Findings made from real fixes: their evidence
//! is the code that each fix changed, at the commit before it.
//!
//! `cargo test --bench evidence -- FOLDER FIXES REPOSITORY...` (or `cargo bench`)
//!
//! FOLDER is for work trees and indexes. Of each repository the newest FIXES usable commits are taken.
//! Every finding is checked as it is, and once for each kind of corruption; a corruption is caught if
//! the corrupted claim is not confirmed as it stands. Nothing of a repository is kept.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a measurement for people")]

use std::collections::BTreeMap;
use std::path::Path;
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
