//! Gives `--version` the commit it was built from, where that can be known.
//!
//! In order: `HEARTBEAT_COMMIT` (a release), the note that `cargo publish` puts into a package, and
//! git. Without any of them, and in development builds, where every commit would mean a new build of
//! the crate, the version stands alone.

#![expect(clippy::disallowed_methods, reason = "how a build script speaks")]

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=HEARTBEAT_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let version = variable("CARGO_PKG_VERSION");
    let commit = Some(variable("HEARTBEAT_COMMIT"))
        .filter(|commit| !commit.is_empty())
        .or_else(of_package)
        .or_else(|| (variable("PROFILE") == "release").then(of_git).flatten());
    let version = match commit {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    // Not `HEARTBEAT_…`: cargo hands this variable to tests as well, and there it would be read as a
    // setting that does not exist.
    println!("cargo::rustc-env=BUILT_VERSION={version}");
}

/// `{"git": {"sha1": "…"}}`
fn of_package() -> Option<String> {
    let note = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let hash = note.split("\"sha1\"").nth(1)?.split('"').nth(1)?;
    hash.get(..12).map(str::to_owned)
}

fn of_git() -> Option<String> {
    // Another repository around an unpacked source would tell its own commit.
    if !Path::new(".git").exists() {
        return None;
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // What changes with a commit and with a change of branch.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .filter(|text| !text.is_empty())
}
