//! Tests that a finding says exist.

use super::names::{is_coded, is_compound, is_path, occurs_in, without_line};

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
        _ => before_what_to_write(entry)?,
    };
    let titles = marked(rest).into_iter().filter(|title| !title.starts_with('`'));
    let titles = titles.map(|title| title[1..title.len() - 1].to_owned());
    let is_title = |title: &String| title.split_whitespace().count() > 2;
    let mut named = Named { paths: Vec::new(), names: titles.filter(is_title).collect() };
    for code in rest.split('`').skip(1).step_by(2) {
        read(code.trim(), &mut named);
    }
    // Without code marks, only what is written as nothing but code is.
    let is_marked = rest.contains('`');
    for word in without_marked(rest).split_whitespace() {
        let word = word.trim_matches([',', '.', ';', ':', '(', ')', '"', '\'']);
        let humps = word.split(char::is_uppercase).filter(|hump| !hump.is_empty()).count();
        let is_name = word.contains("::") || word.contains('_') || humps > 2 || is_coded(word);
        if (is_path(word) && word.contains('/')) || (!is_marked && (is_name || is_path(word))) {
            read(word, &mut named);
        }
    }
    Some(named)
}

/// An entry may name a test that is there and then say what to add to it; `None` if it only does that.
fn before_what_to_write(entry: &str) -> Option<&str> {
    let prose = without_marked(entry).to_ascii_lowercase();
    let (mut at, mut end) = (0, 0);
    for word in prose.split_inclusive(' ') {
        if word.split(|c: char| !c.is_alphanumeric()).any(|word| TO_WRITE.contains(&word)) {
            break;
        }
        at += word.len();
        if word.trim_end().ends_with([';', ':', '.']) || at == prose.len() {
            end = at;
        }
    }
    let before = &entry[..end];
    // `test_a`: a new test
    let is_title = before.trim_end().ends_with(':')
        && ["new", "test"].iter().any(|word| prose[end..].contains(word));
    (!before.is_empty() && !is_title).then_some(before)
}

/// What stands in code marks and quotation marks, with them.
fn marked(text: &str) -> Vec<&str> {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let (mut found, mut end) = (Vec::new(), 0);
    for (at, mark) in text.match_indices(['`', '"', '\'']) {
        // An apostrophe within a word opens and closes nothing.
        if at < end || (mark != "`" && is_word(text[..at].chars().next_back())) {
            continue;
        }
        let mut ends = text[at + 1..].match_indices(mark).map(|(length, _)| at + length + 2);
        if let Some(close) = ends.find(|end| mark == "`" || !is_word(text[*end..].chars().next())) {
            found.push(&text[at..close]);
            end = close;
        }
    }
    found
}

/// The rest, as long as the text.
fn without_marked(text: &str) -> String {
    let blank = |prose: String, part: &str| prose.replacen(part, &"`".repeat(part.len()), 1);
    marked(text).into_iter().fold(text.to_owned(), blank)
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
        let is_there = |line: &str| match is_compound(name) {
            true => may_define(line, name),
            false => occurs_in(name, line),
        };
        return text.lines().any(|line| !is_comment(line) && is_there(line));
    }
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<&str> = text.lines().filter(|line| !is_comment(line)).collect();
    let (text, name) = (squeeze(&lines.join("\n")), squeeze(name));
    // `rounds half` is not the test `rounds half up`.
    let ends = |at: usize| !text[at..].starts_with(|c: char| c.is_alphanumeric() || c == ' ');
    let has = |part: &str| text.match_indices(part).any(|(at, _)| ends(at + part.len()));
    // `when empty rounds up` may be `rounds up` within `when empty`.
    let is_nested = |(outer, inner): (&str, &str)| {
        [outer, inner].iter().all(|half| half.trim().contains(' ') && has(half.trim()))
    };
    has(&name) || name.match_indices(' ').map(|(at, _)| name.split_at(at)).any(is_nested)
}

/// Whether a line has a name as something else than code that uses it: what a test calls is no test.
fn may_define(line: &str, name: &str) -> bool {
    const USES: [&str; 7] = ["return", "await", "new", "import", "use", "from", "yield"];
    let is_use = |at: usize| {
        let before = line[..at].trim_end();
        let word = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        // `rgtest!(name, …)` and `TEST(suite, name)` define one.
        let of_tests = before.to_ascii_lowercase().contains("test");
        let sign = before.ends_with(['.', '=', '(', ',', '[', '!', '&', '{']);
        let is_statement = before.is_empty() && line.trim_end().ends_with(';');
        // `exports.testTotal = function () {`
        let after = line[at + name.len()..].trim_start();
        let is_assigned = after.starts_with('=') && !after.starts_with("==");
        !is_assigned && (USES.contains(&word) || is_statement || (sign && !of_tests))
    };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_whole =
        |at: usize| !line[..at].ends_with(is_word) && !line[at + name.len()..].starts_with(is_word);
    line.match_indices(name).any(|(at, _)| is_whole(at) && !is_use(at))
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
    fn what_a_test_calls_is_no_test() {
        for (line, name) in [
            ("def test_total(self):", "test_total"),
            ("rgtest!(r1, |dir: Dir| {", "r1"),
            ("    TEST_F(Map, inserts) {", "inserts"),
            ("exports.roundsUp = function (test) {", "roundsUp"),
            ("  { name: \"rounds_up\", want: 2 },", "rounds_up"),
            ("describe('lineTotal', () => {", "lineTotal"),
            ("public void Retries_once() =>", "Retries_once"),
        ] {
            assert!(has_test(line, name), "{line}");
        }
        for line in [
            "expect(lineTotal(1)).toBe(2);",
            "const total = lineTotal(2);",
            "cart.lineTotal();",
            "import { lineTotal } from '../src/total';",
            "    lineTotal(1, 2);",
            "subLineTotal // lineTotals",
        ] {
            assert!(!has_test(line, "lineTotal"), "{line}");
        }
    }

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
            (
                "The example 'rounds up, not down' in `a/b.bats`",
                named(&["a/b.bats"], &["rounds up, not down"]),
            ),
            (
                "`test_round` in `a/b.py`; add a case to `test_new`",
                named(&["a/b.py"], &["test_round"]),
            ),
            ("`test_round`: a new test for zero", None),
            ("The team's test `test_round` isn't enough", named(&[], &["test_round"])),
            ("new: `test_of_a_new_thing`", None),
            ("Add a test `rounds once` to `tests/a.rs`", None),
            ("run `cargo test round`", named(&[], &[])),
        ] {
            assert_eq!(existing(entry), expected, "{entry}");
        }
    }
}
