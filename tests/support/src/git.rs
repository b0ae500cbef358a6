//! A test's own repository, without anybody's settings.

use std::path::Path;
use std::process::Command;

/// Runs git in a repository; a failure is a failed test.
#[expect(clippy::disallowed_methods, reason = "the test makes its own repository")]
pub fn git(repository: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"])
        .args(["-c", "protocol.file.allow=always", "-C"])
        .arg(repository)
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .status()
        .unwrap();
    assert!(status.success(), "{arguments:?}");
}
