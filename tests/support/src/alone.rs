//! Tests that inspect their whole process need a separate one.

use std::process::Command;

const ALONE: &str = "HEARTBEAT_TEST_ALONE";

/// Runs the calling test again as the only one of a new process and returns true; returns false in
/// that process. `test` is its full name, as the test binary lists it.
#[expect(clippy::disallowed_methods, reason = "a test starts itself once more")]
pub fn ran_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    println!("{stdout}{stderr}");
    assert!(output.status.success(), "{test} failed in a process of its own");
    assert!(stdout.contains("1 passed"), "{test} is no test of this binary");
    true
}
