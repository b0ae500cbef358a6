//! Tests that a finding says exist.

use super::names::{is_coded, is_path, occurs_in, without_line};

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
    // Without code marks, only what is written as nothing but code is.
    let is_marked = rest.contains('`');
    for word in rest.split('`').step_by(2).flat_map(str::split_whitespace) {
        let word = word.trim_matches([',', '.', ';', ':', '(', ')', '"', '\'']);
        let humps = word.split(char::is_uppercase).filter(|hump| !hump.is_empty()).count();
        let is_name = word.contains("::") || word.contains('_') || humps > 2 || is_coded(word);
        if (is_path(word) && word.contains('/')) || (!is_marked && (is_name || is_path(word))) {
            read(word, &mut named);
        }
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
    if let Some(name) = declared(rest) {
        named.names.push(name.to_owned());
        return;
    }
    let rest = rest.rsplit("::").next().unwrap_or(rest);
    let rest = rest.split("()").next().unwrap_or(rest).trim_matches(['"', '\'', ' ']);
    let name = rest.split(['(', '[', '{']).next().unwrap_or(rest).trim();
    // `describe > it` and `Class.method`: the last is the test.
    let name = name.rsplit(" > ").next().unwrap_or(name);
    let name = match name.contains(' ') {
        true => name,
        false => name.rsplit(['.', '#']).next().unwrap_or(name),
    };
    if name.len() > 2 {
        named.names.push(name.to_owned());
    }
}

/// The name in a declaration: `TEST(suite, name)`, `it("name", …)`, `def test_a(self)`.
fn declared(code: &str) -> Option<&str> {
    const MACROS: [&str; 4] = ["TEST", "TEST_F", "TEST_P", "TYPED_TEST"];
    const CALLS: [&str; 6] = ["it", "test", "describe", "context", "should", "TEST_CASE"];
    const WORDS: [&str; 5] = ["def ", "fn ", "func ", "fun ", "void "];
    if let Some((head, inside)) = code.split_once('(') {
        let inside = inside.trim_end_matches([')', ' ', '{']).trim();
        if MACROS.contains(&head.trim()) {
            return Some(inside);
        }
        let quote = inside.chars().next().filter(|c| matches!(c, '"' | '\''));
        if let (true, Some(quote)) = (CALLS.contains(&head.trim()), quote) {
            return inside[1..].split(quote).next();
        }
    }
    let (_, rest) = WORDS.iter().find_map(|word| code.split_once(word))?;
    rest.split(['(', '[', '<']).next().map(str::trim).filter(|name| !name.contains(' '))
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
            ("existing: `TEST(map_test, inserts)`", named(&[], &["map_test, inserts"])),
            ("existing: `it('rounds (half) up')`", named(&[], &["rounds (half) up"])),
            ("existing: `void Rounds_up()`", named(&[], &["Rounds_up"])),
            ("existing: `TotalTest#roundsUp`", named(&[], &["roundsUp"])),
            ("existing: test_round in tests/total.py", named(&["tests/total.py"], &["test_round"])),
            ("existing: TestRoundsHalfUp on GitHub", named(&[], &["TestRoundsHalfUp"])),
            (
                "existing: `test_round` in tests/total.py",
                named(&["tests/total.py"], &["test_round"]),
            ),
            ("new: `test_of_a_new_thing`", None),
            ("Add a test `rounds once` to `tests/a.rs`", None),
            ("run `cargo test round`", named(&[], &[])),
        ] {
            assert_eq!(existing(entry), expected, "{entry}");
        }
    }
}
