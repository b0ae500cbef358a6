//! The dependency directions of the crate, read from its sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each room with the rooms it may know. A room may always know itself.
const MAY_KNOW: [(&str, &[&str]); 22] = [
    // Words.
    ("model", &[]),
    ("event", &["model"]),
    ("clock", &[]),
    // Pure rooms.
    ("clean", &["model"]),
    ("dedupe", &["model", "event", "config"]),
    ("prompt", &["model", "config"]),
    ("triage", &["model", "config", "prompt"]),
    ("analyze", &["model", "config", "prompt"]),
    // Edges: they know words and pure rooms, and of each other only the seams that they implement:
    // `store` keeps the breaker of `fetch` and the ledger of `session`.
    ("exec", &[]),
    ("private", &[]),
    ("config", &["model", "exec", "schedule"]),
    ("schedule", &["model"]),
    ("fetch", &["model", "event", "clock", "config"]),
    ("context", &["model", "exec", "private"]),
    ("session", &["model", "event", "clock", "config", "exec"]),
    ("store", &["model", "event", "clock", "fetch", "session", "private"]),
    ("report", &["model", "event", "config", "triage", "analyze", "store"]),
    // The way, and what puts it together.
    (
        "run",
        &[
            "model", "event", "clock", "config", "schedule", "fetch", "clean", "dedupe", "prompt",
            "triage", "analyze", "session", "store", "report",
        ],
    ),
    ("simulate", &["model", "event", "clock", "config", "session", "prompt", "private"]),
    (
        "web",
        &["model", "event", "clock", "config", "session", "store", "report", "schedule", "fetch"],
    ),
    (
        "app",
        &[
            "model", "event", "clock", "config", "schedule", "fetch", "clean", "dedupe", "prompt",
            "triage", "context", "analyze", "session", "store", "report", "web", "run", "simulate",
            "exec", "private",
        ],
    ),
    ("cli", &["*"]),
];

#[test]
fn rooms_know_only_what_they_may() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        MAY_KNOW.iter().map(|(room, known)| (*room, known.iter().copied().collect())).collect();
    let mut wrong = Vec::new();
    for (room, file, known) in uses() {
        let Some(allowed) = allowed.get(room.as_str()) else {
            wrong.push(format!("{room} is no known room ({})", file.display()));
            continue;
        };
        if known != room && !allowed.contains("*") && !allowed.contains(known.as_str()) {
            wrong.push(format!("{} knows {known}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "against the direction:\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_stands_only_in_the_containment_room() {
    let mut wrong = Vec::new();
    for file in sources(&root()) {
        let text = std::fs::read_to_string(&file).unwrap();
        let inside = file.starts_with(root().join("session/keeper"));
        if !inside && without_tests(&text).contains("unsafe {") {
            wrong.push(file.display().to_string());
        }
    }
    assert!(wrong.is_empty(), "unsafe outside session/keeper: {wrong:?}");
}

#[test]
fn no_file_is_too_long_to_read() {
    let long: Vec<String> = sources(&root())
        .into_iter()
        .filter(|file| std::fs::read_to_string(file).unwrap().lines().count() > 500)
        .map(|file| file.display().to_string())
        .collect();
    assert!(long.is_empty(), "over 500 lines: {long:?}");
}

/// The rule would hold by accident if the reader of sources saw nothing.
#[test]
fn the_reader_of_sources_sees_the_known_directions() {
    let seen: BTreeSet<(String, String)> =
        uses().into_iter().map(|(room, _, known)| (room, known)).collect();
    for (room, known) in [("run", "store"), ("store", "session"), ("app", "fetch")] {
        assert!(seen.contains(&(room.into(), known.into())), "{room} → {known} was not seen");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// (room, file, room it knows) for every `crate::room` outside of tests.
fn uses() -> Vec<(String, PathBuf, String)> {
    let mut found = Vec::new();
    for file in sources(&root()) {
        let relative = file.strip_prefix(root()).unwrap();
        let first = relative.components().next().unwrap().as_os_str().to_string_lossy();
        let room = first.trim_end_matches(".rs").to_owned();
        if ["lib", "main"].contains(&room.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        for known in mentioned(without_tests(&text)) {
            found.push((room.clone(), relative.to_path_buf(), known));
        }
    }
    found
}

/// Names after `crate::`, alone or in braces, comments left out.
fn mentioned(text: &str) -> BTreeSet<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut names = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        let list = after.strip_prefix('{').and_then(|rest| rest.split('}').next());
        for name in list.map_or_else(|| vec![after], |list| list.split(',').collect()) {
            let name: String =
                name.trim().chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            if !name.is_empty() {
                names.insert(name);
            }
        }
    }
    names
}

/// The part of a file before its tests.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs")
            && path.file_name().is_some_and(|name| name != "tests.rs")
        {
            found.push(path);
        }
    }
    found
}
