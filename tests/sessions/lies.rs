//! A kernel that answers "done" and does nothing: the self-test says so, and no session is started.
//! The launcher is a filter that answers a call with success, in front of the whole program.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;

use heartbeat::session::confinement::Strength;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_heartbeat");

/// Answers these calls with success.
fn liar(calls: &[i64]) -> BpfProgram {
    let rules: BTreeMap<_, _> = calls.iter().map(|call| (*call, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let (pass, lie) = (SeccompAction::Allow, SeccompAction::Errno(0));
    SeccompFilter::new(rules, pass, lie, arch).unwrap().try_into().unwrap()
}

/// Exit status and report of the self-test under it.
fn selftest(calls: &[i64], more: &[&str]) -> (bool, Value) {
    let filter = liar(calls);
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["selftest", "--json", "--walls"]).args(more).current_dir(folder.path());
    if !calls.is_empty() {
        // SAFETY: between fork and exec only system calls are made.
        #[expect(unsafe_code, reason = "the launcher must act in the child")]
        unsafe {
            command.pre_exec(move || {
                seccompiler::apply_filter(&filter).map_err(|_| std::io::Error::last_os_error())
            })
        };
    }
    let output = command.output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {} {}", output.status, String::from_utf8_lossy(&output.stderr))
    });
    (output.status.success(), report)
}

fn broken(report: &Value) -> Vec<String> {
    let rows = report["promises"].as_array().unwrap();
    let is_broken = |row: &&Value| row["claimed"] == true && row["held"] == false;
    rows.iter().filter(is_broken).map(|row| row["attack"].to_string()).collect()
}

#[test]
fn the_selftest_notices_every_lie_of_the_kernel() {
    if Strength::of_this_machine() != Strength::Full {
        println!("skipped: this kernel cannot confine an agent fully");
        return;
    }
    for tier in ["auto", "subreaper"] {
        let (passed, report) = selftest(&[], &["--tier", tier]);
        assert!(passed, "{tier}: {:#?}", broken(&report));
        let rows = report["promises"].as_array().unwrap();
        let shown = rows.iter().filter(|row| row["shown"] == true).count();
        println!("{tier}: {} attempts, {shown} shown to work without confinement", rows.len());
        assert!(rows.len() >= 150 && shown * 10 >= rows.len() * 8, "{tier}: {shown}");
        let mut lies = vec![
            ("landlock_restrict_self", vec![libc::SYS_landlock_restrict_self]),
            ("seccomp", vec![libc::SYS_seccomp]),
        ];
        if nix::unistd::getuid().is_root() {
            lies.push(("capset", vec![libc::SYS_capset]));
        }
        for (name, calls) in lies {
            let (passed, report) = selftest(&calls, &["--tier", tier]);
            let broken = broken(&report);
            assert!(!passed && !broken.is_empty(), "{tier} {name}: {report:#}");
            println!("{tier} {name}: {} of {} not in force", broken.len(), rows.len());
        }
        // A kernel without Landlock is only accepted by a user who says so.
        let absent = [libc::SYS_landlock_create_ruleset];
        let (passed, report) = selftest(&absent, &["--tier", tier]);
        assert!(!passed && !broken(&report).is_empty(), "{tier}: {report:#}");
        let (passed, report) = selftest(&absent, &["--tier", tier, "--without-landlock"]);
        assert!(passed, "{tier}: {:#?}", broken(&report));
        let files = &report["in_force"]["behind the gateway"]["files"];
        let expected = if tier == "auto" { "mounts" } else { "not restricted" };
        assert!(files == expected || tier == "auto", "{tier}: {files}");
    }
}

/// The words of `SECURITY.md` are those of the table that is tried.
#[test]
fn every_promise_of_the_security_page_is_tried() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/SECURITY.md"));
    let page = page.unwrap();
    let table = page.split("\n| attack |").nth(1).unwrap();
    let rows: Vec<&str> = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| line.split('|').nth(1).map(str::trim))
        .collect();
    assert_eq!(rows, heartbeat::cli::selftest::promises::PROMISES);
}
