//! Codex' sandbox on machines with different programs of the same name: none, one from before the
//! option that it needs, one that does not work in a session. Its own is used in all cases, and an
//! analysis that could read nothing is not a finding.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use heartbeat::model::{FailureKind, Outcome};
use heartbeat::settings::AgentKind;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use support::answers::finding;
use support::messages_api::{MessagesApi, Reply};

use super::bench::{Bench, answer, cli, read, sent};

/// Before version 0.9: without the option `--argv0`.
const OLD: &str = r#"#!/bin/sh
case "$*" in *--version*) echo "bubblewrap 0.8.0"; exit 0;; esac
for word; do [ "$word" = --argv0 ] && { echo "bwrap: Unknown option --argv0" >&2; exit 1; }; done
echo "bwrap: an old one was used" >&2; exit 1
"#;

/// Works outside of a session only.
const PRIVILEGED: &str = r#"#!/bin/sh
case "$*" in *--version*) echo "bubblewrap 0.11.0"; exit 0;; esac
case "$*" in *--help*) echo "--argv0 --perms --ro-bind-data"; exit 0;; esac
grep -q 'NoNewPrivs:.*1' /proc/self/status && { echo "bwrap: setting up uid map: not permitted" >&2; exit 1; }
while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done; shift; exec "$@"
"#;

/// Puts `bwrap` into `/usr/bin`, for this thread and what it starts.
fn install(script: &str, folder: &Path) {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let place = folder.join("overlay");
    std::fs::create_dir(&place).unwrap();
    mount(Some("tmpfs"), &place, Some("tmpfs"), MsFlags::empty(), none).unwrap();
    for name in ["upper", "work"] {
        std::fs::create_dir(place.join(name)).unwrap();
    }
    let program = place.join("upper/bwrap");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let options = format!("lowerdir=/usr/bin,upperdir={0}/upper,workdir={0}/work", place.display());
    let flags = MsFlags::empty();
    mount(Some("overlay"), "/usr/bin", Some("overlay"), flags, Some(options.as_str())).unwrap();
    assert!(Path::new("/usr/bin/bwrap").exists());
}

/// Runs in a thread of its own, whose mounts may differ.
fn alone(work: impl FnOnce() + Send + 'static) {
    std::thread::spawn(work).join().unwrap();
}

fn block_on(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work);
}

#[test]
fn codex_works_with_no_an_old_and_a_broken_bubblewrap() {
    if cli(AgentKind::Codex).is_none() || !nix::unistd::getuid().is_root() {
        println!("skipped: needs Codex and root, to put a program into /usr/bin");
        return;
    }
    for (name, script) in [("none", ""), ("old", OLD), ("privileged", PRIVILEGED)] {
        alone(move || {
            let folder = tempfile::tempdir().unwrap();
            if !script.is_empty() {
                install(script, folder.path());
            }
            block_on(async {
                let api = MessagesApi::start(|request| match request.number {
                    0 => Reply::Tools(vec![read(AgentKind::Codex, "src/total.rs")]),
                    _ => answer(&finding(&["src/total.rs"])),
                });
                let bench = Bench::new(AgentKind::Codex, &api.url(), |_| {}).unwrap();
                let end = bench.analyse().await;
                let said = end.stderr_tail.raw().clone();
                assert_eq!(end.outcome, Outcome::Completed, "{name}: {end:?} {said}");
                assert!(sent(&api).contains("MARK-OF-THE-CODE"), "{name}: the code was read");
                println!("{name}: the code was read in the sandbox");
            });
        });
    }
}

/// The model answers all the same, and sounds sure.
#[tokio::test(flavor = "multi_thread")]
async fn an_analysis_whose_every_command_failed_is_not_a_finding() {
    for kind in super::bench::KINDS {
        let api = MessagesApi::start(move |request| match request.number {
            0 => Reply::Tools(vec![read(kind, "src/absent.rs"), read(kind, "src/gone.rs")]),
            _ => answer(&finding(&["src/total.rs"])),
        });
        let Some(bench) = Bench::new(kind, &api.url(), |_| {}) else { continue };
        let end = bench.analyse().await;
        let nothing = Outcome::BadOutput { why: FailureKind::NothingRead };
        assert_eq!(end.outcome, nothing, "{kind:?} {end:?}");
        assert!(end.output.is_none(), "{kind:?}");
    }
}
