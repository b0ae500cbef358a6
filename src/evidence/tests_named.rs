//! Tests that a finding says exist.

use super::names::{is_path, occurs_in, without_line};

/// Paths and names in an entry about an existing test.
#[derive(Debug, PartialEq, Eq)]
pub struct Named {
    pub paths: Vec<String>,
    pub names: Vec<String>,
}

/// Words that make an entry one about a test to write.
const TO_WRITE: &[&str] = &["new", "add", "write", "create", "cover", "introduce", "missing", "no"];
/// First words of commands that run tests.
const RUNNERS: &[&str] = &[
    "cargo",
    "npm",
    "npx",
    "pnpm",
    "yarn",
    "pytest",
    "python",
    "python3",
    "go",
    "dotnet",
    "mvn",
    "gradle",
    "make",
    "node",
    "jest",
    "vitest",
    "mocha",
    "bundle",
    "rake",
    "rspec",
    "tox",
    "./gradlew",
    "php",
    "mix",
    "sh",
];

/// What an entry names, if it speaks of a test that is there. It says so by its first word; one
/// without such a word speaks of an existing test unless it is about writing one.
pub fn existing(entry: &str) -> Option<Named> {
    let (first, rest) = entry.trim().split_once(':').unwrap_or(("", entry));
    let rest = match first.trim().to_lowercase().as_str() {
        "existing" => rest,
        "new" => return None,
        _ => {
            let prose: String =
                entry.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
            let mut words = prose.split(|c: char| !c.is_alphanumeric());
            if words.any(|word| TO_WRITE.contains(&word)) {
                return None;
            }
            entry
        }
    };
    let mut named = Named { paths: Vec::new(), names: Vec::new() };
    for code in rest.split('`').skip(1).step_by(2) {
        read(code.trim(), &mut named);
    }
    if !rest.contains('`') {
        let words =
            rest.split_whitespace().map(|word| word.trim_matches([',', '.', ';', '(', ')']));
        words
            .filter(|word| is_path(word) || word.contains("::"))
            .for_each(|word| read(word, &mut named));
    }
    Some(named)
}

/// `a/b_test.py::test_c`, `a/b_test.py:12`, `test_c`, or a title in words.
fn read(code: &str, named: &mut Named) {
    let first = code.split_whitespace().next().unwrap_or_default();
    if RUNNERS.contains(&first) || code.is_empty() {
        return;
    }
    let (path, rest) = match code.split_once("::").or_else(|| code.split_once('#')) {
        Some((path, rest)) if is_path(path) => (Some(path), rest),
        _ if is_path(code) => (Some(code), ""),
        _ => (None, code),
    };
    named.paths.extend(path.map(|path| without_line(path).to_owned()));
    let rest = rest.rsplit("::").next().unwrap_or(rest);
    let rest = rest.split("()").next().unwrap_or(rest).trim_matches(['"', '\'', ' ']);
    let name = rest.split(['(', '[', '{']).next().unwrap_or(rest).trim();
    // `describe > it` and `Class.method`: the last is the test.
    let name = name.rsplit(" > ").next().unwrap_or(name);
    let name = match name.contains(' ') {
        true => name,
        false => name.rsplit('.').next().unwrap_or(name),
    };
    if name.len() > 2 {
        named.names.push(name.to_owned());
    }
}

/// Whether a file has a test of this name, white space aside: as a whole, and not in a comment.
pub fn has_test(text: &str, name: &str) -> bool {
    if !name.contains(' ') {
        return text.lines().any(|line| !is_comment(line) && occurs_in(name, line));
    }
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<&str> = text.lines().filter(|line| !is_comment(line)).collect();
    let (text, name) = (squeeze(&lines.join("\n")), squeeze(name));
    // `rounds half` is not the test `rounds half up`.
    let ends = |at: usize| !text[at..].starts_with(|c: char| c.is_alphanumeric() || c == ' ');
    text.match_indices(&name).any(|(at, _)| ends(at + name.len()))
}

fn is_comment(line: &str) -> bool {
    ["//", "#", "-- ", "*", "/*"].iter().any(|mark| line.trim_start().starts_with(mark))
}

/// Whether a file outside of the folders of tests has tests too.
pub fn has_tests(text: &str) -> bool {
    const SIGNS: [&str; 9] = [
        "#[test]",
        "::test]",
        "@Test",
        "def test",
        "func Test",
        "[Fact]",
        "[Test",
        "TEST(",
        "describe(",
    ];
    SIGNS.iter().any(|sign| text.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_names_paths_and_tests_or_is_about_a_new_one() {
        let named = |paths: &[&str], names: &[&str]| {
            let all = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            Some(Named { paths: all(paths), names: all(names) })
        };
        for (entry, expected) in [
            ("existing: `tests/total.py::test_round`", named(&["tests/total.py"], &["test_round"])),
            (
                "Run `api/test/rate.test.ts`, test `rounds half up`",
                named(&["api/test/rate.test.ts"], &["rounds half up"]),
            ),
            ("existing: tests/total.rs", named(&["tests/total.rs"], &[])),
            (
                "`RetryQueueTests.Retries_once()` in `worker/RetryQueueTests.cs`",
                named(&["worker/RetryQueueTests.cs"], &["Retries_once"]),
            ),
            ("new: `test_of_a_new_thing`", None),
            ("Add a test `rounds once` to `tests/a.rs`", None),
            ("run `cargo test round`", named(&[], &[])),
        ] {
            assert_eq!(existing(entry), expected, "{entry}");
        }
    }
}
