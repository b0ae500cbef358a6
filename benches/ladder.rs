//! Are the patches of real fixes verified as what they are, and nothing else as *reproduced*?
//!
//! `cargo test --bench ladder -- FOLDER CASES.jsonl [READABLE...]` (or `cargo bench`)
//!
//! Each line of CASES.jsonl is a fix: `id`, `language`, `repository`, `commit` (the one before it), `patch`
//! (its change with its test), `patch_test` (the name of that test), and the commands `build` and `test`.
//! It may have `kinds`: the mutations that are tried, if not all are.
//! READABLE are toolchains outside of the system's folders; their `bin` folders are searched first.
//!
//! Each fix is verified as it is and in mutations of which none may count as reproduced, then with
//! builds that write outside, leave processes and want the network. Nothing of a repository is kept.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a measurement for people")]

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heartbeat::app::verify::Ladder;
use heartbeat::context::{Kind, Language};
use heartbeat::model::{Confidence, Effort, Finding, Risk, Rung};
use heartbeat::session::brief::Briefly;
use heartbeat::settings::{Containment, VerifiedCodeBase};

#[derive(serde::Deserialize)]
struct Case {
    id: String,
    language: String,
    repository: PathBuf,
    commit: String,
    patch: String,
    patch_test: String,
    build: String,
    test: String,
    kinds: Option<Vec<String>>,
}

/// A patch with the name of its test and the build command.
struct Variant {
    kind: &'static str,
    patch: String,
    test: String,
    build: String,
    reproduced: bool,
}

struct Place<'a> {
    folder: &'a Path,
    readable: Vec<PathBuf>,
    /// Nobody may come.
    listener: std::net::TcpListener,
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [folder, cases, readable @ ..] = arguments.as_slice() else {
        println!("FOLDER CASES.jsonl are needed");
        return;
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let readable = readable.iter().map(PathBuf::from).collect();
    let place = Place { folder: Path::new(folder), readable, listener };
    let file = std::fs::File::open(cases).expect("CASES.jsonl can be read");
    let mut table: BTreeMap<(&str, String), (usize, usize)> = BTreeMap::new();
    let mut harm = 0;
    for line in std::io::BufReader::new(file).lines() {
        let case: Case = serde_json::from_str(&line.expect("text")).expect("a case");
        let is_wanted = |variant: &Variant| match &case.kinds {
            Some(kinds) => kinds.iter().any(|kind| kind == variant.kind),
            None => true,
        };
        for variant in variants(&case, &place).into_iter().filter(is_wanted) {
            let (reproduced, note) = climb(&case, &variant, &place).await;
            let entry = table.entry((variant.kind, case.language.clone())).or_default();
            entry.0 += usize::from(reproduced == variant.reproduced);
            entry.1 += 1;
            if reproduced != variant.reproduced {
                println!("  WRONG {} {}: {reproduced} {note}", case.id, variant.kind);
            }
            harm += harm_of(&case, &place);
        }
    }
    println!("| kind | language | as expected |");
    for ((kind, language), (right, all)) in &table {
        println!("| {kind} | {language} | {right} of {all} |");
    }
    println!("{harm} processes left, files written outside or connections made");
}

async fn climb(case: &Case, variant: &Variant, place: &Place<'_>) -> (bool, String) {
    let commands = VerifiedCodeBase {
        path: case.repository.clone(),
        build: variant.build.clone(),
        test: case.test.clone(),
    };
    let mut path: Vec<PathBuf> = place.readable.iter().map(|folder| folder.join("bin")).collect();
    path.extend(["/usr/bin", "/bin"].map(PathBuf::from));
    let ladder = Ladder {
        code_base: None,
        briefly: Briefly {
            keeper: Path::new(env!("CARGO_BIN_EXE_heartbeat")).to_owned(),
            containment: Containment::Auto,
        },
        repository: case.repository.clone(),
        commit: Some(case.commit.clone()),
        place: place.folder.join("copies"),
        commands: &commands,
        timeout: Duration::from_mins(1),
        max_disk: 2 << 30,
        path: std::env::join_paths(path).expect("paths"),
        readable: place.readable.clone(),
    };
    let rungs = ladder.climb(&finding(variant)).await;
    if ladder.place.exists() {
        std::fs::remove_dir_all(&ladder.place).expect("copies can be removed");
    }
    let reproduced = rungs.iter().any(|(rung, reached, _)| *rung == Rung::Reproduced && *reached);
    let note = rungs.last().map(|(rung, _, note)| format!("{rung:?} {note}")).unwrap_or_default();
    println!("{} {}: {reproduced} {}", case.id, variant.kind, note.replace('\n', " / "));
    (reproduced, note)
}

fn variants(case: &Case, place: &Place<'_>) -> Vec<Variant> {
    let plain = |kind, patch: &str| Variant {
        kind,
        patch: patch.to_owned(),
        test: case.patch_test.clone(),
        build: case.build.clone(),
        reproduced: false,
    };
    let mut all = vec![Variant { reproduced: true, ..plain("true", &case.patch) }];
    let (never, always, flaky) = bodies(&case.language);
    for (kind, body) in
        [("passes before too", always), ("fails after", never), ("by chance", flaky)]
    {
        all.extend(with_body(case, body).map(|patch| plain(kind, &patch)));
    }
    all.extend(without_a_test(case).map(|patch| plain("no test of the name", &patch)));
    let (tests, change) = by_file(&case.patch);
    if !tests.is_empty() && !change.is_empty() {
        all.push(plain("only its test", &tests));
        all.push(plain("only its change", &change));
        let remark = remark(case, &change);
        all.extend(remark.map(|remark| plain("no effect", &format!("{remark}{tests}"))));
        let deletes = deletion(case, &tests);
        all.extend(deletes.iter().map(|patch| plain("deletes a test", patch)));
        let both = deletes.iter().map(|patch| format!("{change}{patch}"));
        all.extend(both.map(|patch| plain("change, and deletes a test", &patch)));
    }
    let outside = place.folder.join("outside");
    std::fs::create_dir_all(&outside).expect("a folder");
    let port = place.listener.local_addr().expect("an address").port();
    let hostile = format!(
        "({}) && {{ for to in {} {} /tmp \"$HOME/../..\"; do echo x > \"$to/escaped-{}\"; done; \
         (setsid sleep {MARK} >/dev/null 2>&1 &); nohup sleep {MARK} >/dev/null 2>&1 & true; }}",
        case.build,
        outside.display(),
        case.repository.display(),
        std::process::id(),
    );
    all.push(Variant {
        build: hostile,
        reproduced: true,
        ..plain("build that writes outside and stays", &case.patch)
    });
    let network = format!(
        "({}) && perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new(\"127.0.0.1:{port}\")'",
        case.build
    );
    all.push(Variant { build: network, ..plain("build that wants the network", &case.patch) });
    all
}

/// Seconds that nobody else sleeps.
const MARK: u32 = 4_071_823;

/// Begins of tests that always fail, always pass, and do either.
fn bodies(language: &str) -> (&'static str, &'static str, &'static str) {
    match language {
        "Python" => (
            "raise AssertionError('always')",
            "return",
            "import os; assert os.urandom(1)[0] % 2; return",
        ),
        "Rust" => (
            "panic!(\"always\");",
            "if true { return; }",
            "if std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_micros() % 2 == 0 { panic!() } else if true { return; }",
        ),
        _ => (
            "throw new Error('always');",
            "return;",
            "if (Math.random() < 0.5) throw new Error('chance'); return;",
        ),
    }
}

/// The line that the patch defines its test with.
fn definition(case: &Case) -> Option<&str> {
    let name = case.patch_test.rsplit("::").next().unwrap_or_default();
    let defines = |line: &&str| {
        line.starts_with('+')
            && line.contains(name)
            && (line.trim_end().ends_with('{') || line.trim_end().ends_with("):"))
    };
    case.patch.lines().find(defines)
}

/// The patch with something at the begin of its test.
fn with_body(case: &Case, body: &str) -> Option<String> {
    let line = definition(case)?;
    let indent: String = line[1..].chars().take_while(|c| c.is_whitespace()).collect();
    Some(case.patch.replacen(line, &format!("{line}\n+{indent}    {body}"), 1))
}

/// The test has another name; the one that is given stands in a remark.
fn without_a_test(case: &Case) -> Option<String> {
    let line = definition(case)?;
    let name = case.patch_test.rsplit("::").next().unwrap_or_default();
    let mark = if case.language == "Python" { "#" } else { "//" };
    let other = line.replacen(name, &format!("other{}", &name[name.len() / 2..]), 1);
    let indent: String = line[1..].chars().take_while(|c| c.is_whitespace()).collect();
    Some(case.patch.replacen(line, &format!("{other}\n+{indent}    {mark} {name}"), 1))
}

/// The parts of a patch in tests, and the others.
fn by_file(patch: &str) -> (String, String) {
    let (mut tests, mut rest) = (String::new(), String::new());
    for part in patch.split("diff --git ").filter(|part| !part.is_empty()) {
        let path = part.split_whitespace().next().unwrap_or_default().trim_start_matches("a/");
        let is_test = Kind::of_path(path, Language::of_path(path).is_code()) == Kind::Test;
        let half = if is_test { &mut tests } else { &mut rest };
        half.push_str("diff --git ");
        half.push_str(part);
    }
    (tests, rest)
}

/// A change of nothing but a remark at the begin of a file.
fn remark(case: &Case, change: &str) -> Option<String> {
    let path = change.lines().find_map(|line| line.strip_prefix("--- a/"))?;
    let text = show(case, path)?;
    let first = text.lines().next()?;
    let mark = if case.language == "Python" { "#" } else { "//" };
    Some(format!("--- a/{path}\n+++ b/{path}\n@@ -1,1 +1,2 @@\n {first}\n+{mark} remark\n"))
}

/// Deletes a file of tests that the code base has.
fn deletion(case: &Case, tests: &str) -> Option<String> {
    let path = tests.lines().find_map(|line| line.strip_prefix("--- a/"))?;
    let text = show(case, path)?;
    let lines: String = text.lines().map(|line| format!("-{line}\n")).collect();
    let count = text.lines().count();
    Some(format!("--- a/{path}\n+++ /dev/null\n@@ -1,{count} +0,0 @@\n{lines}"))
}

fn show(case: &Case, path: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "a measurement on repositories of the user")]
    let output = std::process::Command::new("git")
        .arg("-C")
        .arg(&case.repository)
        .args(["show", &format!("{}:{path}", case.commit)])
        .output()
        .expect("git runs");
    String::from_utf8(output.stdout).ok().filter(|text| !text.is_empty())
}

/// Counts what a verification left behind.
fn harm_of(case: &Case, place: &Place<'_>) -> usize {
    let name = format!("escaped-{}", std::process::id());
    let outside = [place.folder.join("outside"), case.repository.clone(), "/tmp".into()];
    let mut harm = outside.iter().filter(|folder| folder.join(&name).exists()).count();
    harm += usize::from(place.folder.join(&name).exists());
    harm += usize::from(place.listener.accept().is_ok());
    let stayed = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line == format!("sleep\0{MARK}\0").into_bytes()
    };
    harm += std::fs::read_dir("/proc").expect("/proc").flatten().filter(stayed).count();
    if harm > 0 {
        println!("  HARM after {}", case.id);
    }
    harm
}

fn finding(variant: &Variant) -> Finding {
    Finding {
        evidence: Vec::new(),
        summary: String::new(),
        likely_causes: Vec::new(),
        files: Vec::new(),
        suggested_change: String::new(),
        risk: Risk::Low,
        effort: Effort::Small,
        confidence: Confidence::High,
        open_questions: Vec::new(),
        tests: Vec::new(),
        pitfalls: Vec::new(),
        not_checked: Vec::new(),
        patch: variant.patch.clone(),
        patch_test: variant.test.clone(),
        proof: None,
    }
}
