//! Patches that are built and tested: which of them count as proven, and that commands cannot do
//! anything but that.

use std::path::{Path, PathBuf};
use std::time::Duration;

use heartbeat::app::verify::Ladder;
use heartbeat::model::{Confidence, Effort, Finding, Risk, Rung};
use heartbeat::session::brief::Briefly;
use heartbeat::settings::{Containment, VerifiedCodeBase};
use support::git;

/// A repository whose build and tests are shell scripts.
struct Bench {
    folder: tempfile::TempDir,
    commit: String,
}

const FIX: &str =
    "--- a/src/total.sh\n+++ b/src/total.sh\n@@ -1,2 +1,2 @@\n #!/bin/sh\n-echo 3\n+echo 4\n";
const TEST: &str = "--- /dev/null\n+++ b/tests/total_test.sh\n@@ -0,0 +1,2 @@\n+# total_is_four\n+[ \"$(sh src/total.sh)\" = 4 ]\n";

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("repo");
        for (path, text) in
            [("src/total.sh", "#!/bin/sh\necho 3\n"), ("build.sh", "sh -n src/total.sh\n")]
        {
            let file = root.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        git(&root, &["init", "-q"]);
        git(&root, &["add", "-A"]);
        git(&root, &["commit", "-qm", "all"]);
        let commit = heartbeat::context::commit_of(&root, "HEAD").unwrap().id;
        Self { folder, commit }
    }

    fn repo(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    async fn climb(&self, patch: &str, build: &str, test: &str) -> Vec<(Rung, bool, String)> {
        self.climb_for(&finding(patch), build, test).await
    }

    async fn climb_for(
        &self,
        finding: &Finding,
        build: &str,
        test: &str,
    ) -> Vec<(Rung, bool, String)> {
        let commands =
            VerifiedCodeBase { path: self.repo(), build: build.into(), test: test.into() };
        let place = self.folder.path().join(format!("place-{}", uuid::Uuid::now_v7()));
        let ladder = Ladder {
            briefly: Briefly {
                keeper: Path::new(env!("CARGO_BIN_EXE_heartbeat")).to_owned(),
                containment: Containment::Auto,
            },
            repository: self.repo(),
            code_base: None,
            commit: Some(self.commit.clone()),
            place: place.clone(),
            commands: &commands,
            timeout: Duration::from_secs(60),
            max_disk: 64 << 20,
            path: "/usr/bin:/bin".into(),
            readable: Vec::new(),
        };
        let rungs = ladder.climb(finding).await;
        std::fs::remove_dir_all(place).unwrap();
        rungs
    }
}

fn finding(patch: &str) -> Finding {
    Finding {
        evidence: Vec::new(),
        summary: "The total is wrong.".into(),
        likely_causes: Vec::new(),
        files: Vec::new(),
        suggested_change: "Change it.".into(),
        risk: Risk::Low,
        effort: Effort::Small,
        confidence: Confidence::High,
        open_questions: Vec::new(),
        tests: Vec::new(),
        pitfalls: Vec::new(),
        not_checked: Vec::new(),
        patch: patch.into(),
        patch_test: "total_is_four".into(),
        proof: None,
    }
}

const BUILD: &str = "sh build.sh";
/// Runs the file that has the named test.
const RUN: &str = "sh \"$(grep -l {test} tests/*.sh)\"";

fn last(rungs: &[(Rung, bool, String)]) -> (Rung, bool, &str) {
    let (rung, reached, note) = rungs.last().unwrap();
    (*rung, *reached, note.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_test_that_fails_without_the_change_and_passes_with_it_is_a_proof() {
    let bench = Bench::new();
    let good = bench.climb(&format!("{FIX}{TEST}"), BUILD, RUN).await;
    let often = "failed without the change and passed with it, 8 times each".to_owned();
    assert_eq!(good, [(Rung::Builds, true, String::new()), (Rung::Reproduced, true, often)]);
    let passes_before = TEST.replace("= 4 ]", "!= 5 ]");
    let fails_after = TEST.replace("= 4 ]", "= 5 ]");
    let broken = FIX.replace("+echo 4", "+if then");
    let settings = "--- /dev/null\n+++ b/Makefile\n@@ -0,0 +1,1 @@\n+test:\n";
    for (name, patch, expected) in [
        (
            "passes before",
            format!("{FIX}{passes_before}"),
            (Rung::Reproduced, "passes without the change"),
        ),
        ("fails after", format!("{FIX}{fails_after}"), (Rung::Reproduced, "fails with the change")),
        ("no test", FIX.to_owned(), (Rung::Reproduced, "no test that can be told")),
        ("only a test", TEST.to_owned(), (Rung::Reproduced, "nothing but tests")),
        (
            "another test",
            format!("{FIX}{}", TEST.replace("total_is_four", "other")),
            (Rung::Reproduced, "name that it gives"),
        ),
        ("does not build", format!("{broken}{TEST}"), (Rung::Builds, "the build failed")),
        (
            "changes the build",
            format!("{FIX}{settings}{TEST}"),
            (Rung::Reproduced, "decide how tests are run"),
        ),
    ] {
        let rungs = bench.climb(&patch, BUILD, RUN).await;
        let (rung, reached, note) = last(&rungs);
        assert_eq!((rung, reached), (expected.0, false), "{name}: {rungs:?}");
        assert!(note.contains(expected.1), "{name}: {note}");
    }
    let missing = bench.climb(&format!("{FIX}{TEST}"), "", "no-such-runner {test}").await;
    let (rung, reached, note) = last(&missing);
    assert_eq!((rung, reached), (Rung::Reproduced, false));
    assert!(note.contains("could not be run") && note.contains("127"), "{note}");
    let unbuilt = bench.climb(&format!("{FIX}{TEST}"), "false", RUN).await;
    assert!(last(&unbuilt).2.contains("does not build here without the patch"), "{unbuilt:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_two_new_tests_have_proves_nothing_unless_it_says_which() {
    let bench = Bench::new();
    let text = "class A:\n    def total_is_four(self):\n        total()\nclass B:\n    def total_is_four(self):\n        pass\n";
    let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
    let twice = format!("--- /dev/null\n+++ b/tests/test_total.py\n@@ -0,0 +1,6 @@\n{lines}");
    let run = "[ \"$(sh src/total.sh)\" = 4 ] # {test}";
    let rungs = bench.climb(&format!("{FIX}{twice}"), "", run).await;
    assert_eq!(last(&rungs).2, "the patch brings several tests of the name that it gives");
    let mut exact = finding(&format!("{FIX}{twice}"));
    exact.patch_test = "tests/test_total.py::A::total_is_four".into();
    let rungs = bench.climb_for(&exact, "", run).await;
    assert!(!last(&rungs).2.contains("several tests"), "{rungs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_passes_once_something_ran_or_by_turns_is_no_proof() {
    let bench = Bench::new();
    // State in the copy: fails at first and passes from then on.
    let second = TEST.replace("= 4 ]", "= 5 ] || [ -e ran ] || { touch ran; false; }");
    let rungs = bench.climb(&format!("{FIX}{second}"), "", RUN).await;
    assert!(!last(&rungs).1, "{rungs:?}");
    // Passes in every other run of the same copy.
    let turns =
        TEST.replace("= 4 ]", "= 5 ] || { [ -e ran ] && rm ran || { touch ran; false; }; }");
    let rungs = bench.climb(&format!("{FIX}{turns}"), "", RUN).await;
    assert!(!last(&rungs).1, "{rungs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_copies_are_built_alike_and_cannot_be_told_apart() {
    let bench = Bench::new();
    // It needs what the build leaves, and has nothing to do with the change.
    let built = TEST.replace("[ \"$(sh src/total.sh)\" = 4 ]", "[ -e built ]");
    let rungs = bench.climb(&format!("{FIX}{built}"), "touch built", RUN).await;
    assert!(last(&rungs).2.contains("passes without the change"), "{rungs:?}");
    for place in ["after", "before"] {
        let by_name = TEST.replace(
            "[ \"$(sh src/total.sh)\" = 4 ]",
            &format!("case \"$PWD\" in *{place}*) true;; *) false;; esac"),
        );
        let rungs = bench.climb(&format!("{FIX}{by_name}"), "", RUN).await;
        assert!(!last(&rungs).1, "{rungs:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_is_content_with_no_test_has_to_show_what_it_ran() {
    let bench = Bench::new();
    // Fails to load without the change, then has no test of this name.
    let loads = TEST.replace("# total_is_four\n", "# total_is_four is not a test\n");
    let content = "sh src/total.sh | grep -q 4 || exit 1; set -- {test}; \
                   grep -q \"^# $1$\" tests/*.sh && echo \"ok $1\"; true";
    let rungs = bench.climb(&format!("{FIX}{loads}"), "", content).await;
    assert!(last(&rungs).2.contains("the same for a test that is not there"), "{rungs:?}");
    let runs = "set -- {test}; grep -q \"^# $1$\" tests/*.sh || exit 0; \
                sh tests/total_test.sh && echo \"ok $1\"";
    let rungs = bench.climb(&format!("{FIX}{TEST}"), "", runs).await;
    assert!(last(&rungs).1, "{rungs:?}");
    // Printing the command is not running the test.
    let printing = format!("echo run {{test}}; {content}");
    let rungs = bench.climb(&format!("{FIX}{loads}"), "", &printing).await;
    assert!(!last(&rungs).1, "{rungs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_cannot_be_loaded_without_the_change_shows_no_fault() {
    let bench = Bench::new();
    let new = "--- /dev/null\n+++ b/src/new.sh\n@@ -0,0 +1,1 @@\n+echo new\n";
    let empty = TEST.replace("[ \"$(sh src/total.sh)\" = 4 ]", "true");
    // Loads all that the tests need, then runs the one that is named.
    let runner = "[ -e src/new.sh ] || exit 1; FILE=$(grep -l {test} tests/*.sh) || exit 1; \
                  sh $FILE && echo ok {test} || { echo failed {test}; exit 1; }";
    let rungs = bench.climb(&format!("{new}{empty}"), "", runner).await;
    assert!(last(&rungs).2.contains("cannot even be loaded"), "{rungs:?}");
    let loaded = runner.replacen("src/new.sh", "src/total.sh", 1);
    let rungs = bench.climb(&format!("{FIX}{TEST}"), "", &loaded).await;
    assert!(last(&rungs).1, "{rungs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_fills_the_disk_is_ended() {
    let bench = Bench::new();
    let build = "while :; do head -c 8388608 /dev/zero >> big; done";
    let rungs = bench.climb(&format!("{FIX}{TEST}"), build, "").await;
    let (rung, reached, note) = last(&rungs);
    assert_eq!((rung, reached), (Rung::Builds, false));
    assert!(note.contains("more than verify.max_disk (64 MiB)"), "{note}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_writes_nothing_outside_leaves_nothing_alive_and_reaches_no_network() {
    let bench = Bench::new();
    let outside = bench.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mark = format!("{}", 400_000 + std::process::id());
    let build = format!(
        "echo x > {0}/written; echo x > {1}/src/total.sh; echo x > \"$HOME/../../escaped\"; \
         (setsid sleep {mark} >/dev/null 2>&1 &) ; \
         python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 2)\"; \
         perl -e 'use IO::Socket::INET; IO::Socket::INET->new(\"127.0.0.1:{port}\")'; true",
        outside.display(),
        bench.repo().display(),
    );
    let rungs = bench.climb(&format!("{FIX}{TEST}"), &build, "").await;
    assert_eq!(rungs, [(Rung::Builds, true, String::new())], "it may try, and nothing comes of it");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(
        std::fs::read_to_string(bench.repo().join("src/total.sh")).unwrap(),
        "#!/bin/sh\necho 3\n"
    );
    let would_block = listener.accept().unwrap_err().kind();
    assert_eq!(would_block, std::io::ErrorKind::WouldBlock, "somebody came");
    let alive = std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line == format!("sleep\0{mark}\0").into_bytes()
    });
    assert!(!alive, "a process stayed");
}
