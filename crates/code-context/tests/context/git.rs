//! A test repository, without user settings.

use std::path::Path;
use std::process::Command;

/// Runs git in a repository; a failure fails the test.
pub fn git(repository: &Path, arguments: &[&str]) {
    git_at(repository, arguments, None);
}

/// The same with a commit time in seconds since the epoch.
#[expect(clippy::disallowed_methods, reason = "the test makes its own repository")]
pub fn git_at(repository: &Path, arguments: &[&str], seconds: Option<i64>) {
    let date = seconds.map(|seconds| format!("{seconds} +0000"));
    let dates = ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"];
    let status = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"])
        .args(["-c", "protocol.file.allow=always", "-C"])
        .arg(repository)
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs(date.iter().flat_map(|date| dates.map(|name| (name, date))))
        .status()
        .unwrap();
    assert!(status.success(), "{arguments:?}");
}
