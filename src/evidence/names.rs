//! Names in code marks, and whether a sentence claims that they are there.

use std::collections::HashSet;

use super::patch::{FilePatch, Mark, Patch};
use crate::model::Finding;

/// What a text is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The code as it is: a name is proposed only if the words before it say so at once.
    Fact,
    /// The change: it may also use what the code base does not have yet.
    Plan,
}

/// A name that a sentence says is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub name: String,
    pub is_path: bool,
    /// It is said to be called.
    pub is_call: bool,
}

/// Words before a name that make it a proposal, or say that it is missing.
const PROPOSING: &[&str] = &[
    "no",
    "missing",
    "lacks",
    "lacking",
    "without",
    "new",
    "add",
    "adds",
    "adding",
    "introduce",
    "introduces",
    "introducing",
    "create",
    "creates",
    "creating",
    "extract",
    "define",
    "absent",
    "nonexistent",
    "expected",
];
/// The same where the text is a plan.
const PLANNING: &[&str] = &[
    "use",
    "using",
    "with",
    "to",
    "via",
    "into",
    "as",
    "by",
    "like",
    "write",
    "implement",
    "replace",
    "switch",
    "wrap",
    "return",
    "throw",
    "raise",
    "or",
    "instead",
    "prefer",
    "example",
    "e.g",
    "such",
    "called",
    "named",
    "run",
    "set",
    "pass",
    "call",
];
/// Words before a name that say where something is: what is new or missing is not the name.
const PLACES: &[&str] =
    &["to", "in", "from", "inside", "within", "for", "at", "on", "by", "before", "after", "around"];
/// `no call to x` says nothing about a place.
const REFERRING: &[&str] = &["call", "calls", "reference", "references", "equivalent"];

/// How many words before a name are looked at.
const BEFORE_FACT: usize = 4;
const BEFORE_PLAN: usize = 6;

/// First words of commands, which are not code of the code base.
const COMMANDS: &[&str] = &[
    "bundle",
    "cargo",
    "composer",
    "curl",
    "cmake",
    "docker",
    "dotnet",
    "git",
    "go",
    "gradle",
    "heartbeat",
    "make",
    "mvn",
    "node",
    "npm",
    "npx",
    "php",
    "pip",
    "pnpm",
    "pytest",
    "python",
    "python3",
    "rake",
    "sh",
    "bash",
    "yarn",
    "mix",
    "swift",
    "ruby",
    "java",
    "javac",
    "tox",
];
/// What languages bring along, whether this code base uses it or not.
const OF_LANGUAGES: &[&str] = &[
    "array",
    "assert",
    "async",
    "await",
    "bool",
    "boolean",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "continue",
    "date",
    "default",
    "defer",
    "double",
    "else",
    "enum",
    "error",
    "except",
    "exception",
    "export",
    "false",
    "finally",
    "float",
    "for",
    "from",
    "func",
    "function",
    "hashmap",
    "i32",
    "i64",
    "if",
    "impl",
    "import",
    "int",
    "integer",
    "interface",
    "isinstance",
    "json",
    "lambda",
    "len",
    "let",
    "list",
    "long",
    "map",
    "match",
    "math",
    "mutex",
    "nan",
    "new",
    "nil",
    "none",
    "null",
    "number",
    "object",
    "option",
    "panic",
    "print",
    "private",
    "promise",
    "protected",
    "public",
    "raise",
    "regexp",
    "result",
    "return",
    "self",
    "set",
    "static",
    "std",
    "str",
    "string",
    "struct",
    "super",
    "switch",
    "system",
    "this",
    "throw",
    "true",
    "try",
    "tuple",
    "type",
    "typeerror",
    "u32",
    "u64",
    "undefined",
    "unwrap",
    "usize",
    "valueerror",
    "var",
    "vec",
    "void",
    "while",
    "with",
    "yield",
    "keyerror",
    "nullpointerexception",
    "referenceerror",
    "rangeerror",
    "attributeerror",
    "indexerror",
];
/// Roots of names that a language or its library defines: `Math.round`, `std::mem::take`.
const ROOTS: &[&str] = &[
    "string",
    "Encoding",
    "Array",
    "Date",
    "JSON",
    "Map",
    "Math",
    "Number",
    "Object",
    "Promise",
    "Set",
    "String",
    "Symbol",
    "BigInt",
    "Intl",
    "console",
    "process",
    "window",
    "document",
    "std",
    "core",
    "alloc",
    "fmt",
    "strings",
    "strconv",
    "errors",
    "os",
    "sys",
    "re",
    "json",
    "itertools",
    "functools",
    "collections",
    "datetime",
    "pathlib",
    "System",
    "java",
    "javax",
    "kotlin",
    "Objects",
    "Collections",
    "Arrays",
    "Optional",
    "Enumerable",
    "Task",
    "DateTime",
    "TimeSpan",
];
/// Endings that make a word with a dot the name of a file.
const EXTENSIONS: &[&str] = &[
    "rs", "ts", "tsx", "js", "jsx", "mjs", "cjs", "py", "pyi", "go", "java", "kt", "kts", "cs",
    "cpp", "cc", "cxx", "hpp", "hh", "rb", "php", "swift", "scala", "sql", "html", "css", "scss",
    "json", "yaml", "yml", "toml", "xml", "md", "rst", "txt", "sh", "gradle", "vue", "svelte",
    "dart", "ex", "exs", "erl", "hs", "lua", "proto", "csproj", "ini", "cfg", "c", "h", "m",
];

/// Everything that a finding proposes as new.
#[derive(Debug, Default)]
pub struct Proposals {
    names: HashSet<String>,
    files: Vec<String>,
}

impl Proposals {
    pub fn of(finding: &Finding, patch: &Patch) -> Self {
        let mut names = HashSet::new();
        let added = |file: &FilePatch| -> Vec<String> {
            let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
            lines.filter(|(mark, _)| *mark == Mark::Added).map(|(_, text)| text.clone()).collect()
        };
        let mut texts: Vec<String> = patch.files.iter().flat_map(added).collect();
        for text in [&finding.suggested_change].into_iter().chain(&finding.tests) {
            texts.extend(fenced(text).map(str::to_owned));
            for sentence in sentences(text) {
                let proposed = spans(sentence).filter(|span| {
                    proposes(span.before, span.code, Wanted::Fact) || is_named_as_new(span.before)
                });
                texts.extend(proposed.map(|span| span.code.to_owned()));
            }
        }
        for text in &texts {
            names.extend(identifiers(text).map(str::to_owned));
        }
        if !finding.patch_test.is_empty() {
            names.insert(finding.patch_test.clone());
        }
        let files = patch.files.iter().filter(|file| file.old.is_none());
        let mut files: Vec<String> = files.filter_map(|file| file.new.clone()).collect();
        let words = texts.iter().flat_map(|text| text.split_whitespace());
        files.extend(words.filter(|word| is_path(word)).map(|word| without_line(word).to_owned()));
        Self { names, files }
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name) || self.files.iter().any(|file| ends_with_path(file, name))
    }

    /// Whether a file that is not there is one to create.
    pub fn is_new_file(&self, path: &str, reason: &str) -> bool {
        let is_made = |word: &str| matches!(word, "new" | "create" | "created" | "add" | "added");
        let is_it = |word: &str| {
            matches!(word, "file" | "module" | "helper" | "test" | "tests" | "class" | "script")
        };
        let words = reason.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let words: Vec<String> = words.take(6).map(str::to_lowercase).collect();
        // `Handles new orders` is about a file that should be there.
        self.files.iter().any(|file| file == path)
            || words.first().is_some_and(|word| is_made(word))
            || words.windows(2).any(|pair| is_made(&pair[0]) && is_it(&pair[1]))
            || words.windows(2).any(|pair| pair[0] == "be" && is_made(&pair[1]))
    }
}

/// The sentences and steps of a text, which together are the text.
pub fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (mut marked, mut end) = (false, rest.len());
        let mut before = ' ';
        for (at, c) in rest.char_indices() {
            marked ^= c == '`';
            let ends = c == '\n' || (c.is_whitespace() && matches!(before, '.' | '!' | '?' | ';'));
            // `1. Round once` is one step.
            let number =
                rest[..at].trim_end_matches('.').trim().bytes().all(|b| b.is_ascii_digit());
            if ends && (!marked || c == '\n') && (c == '\n' || !number) {
                end = at + c.len_utf8();
                break;
            }
            before = c;
        }
        let (sentence, later) = rest.split_at(end);
        rest = later;
        Some(sentence)
    })
}

struct Span<'a> {
    code: &'a str,
    /// The sentence up to it.
    before: &'a str,
}

/// Text in single code marks.
fn spans(sentence: &str) -> impl Iterator<Item = Span<'_>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + sentence[from..].find('`')?;
            let marks = sentence[start..].bytes().take_while(|byte| *byte == b'`').count();
            let inner = start + marks;
            let length = sentence[inner..].find(&"`".repeat(marks))?;
            from = inner + length + marks;
            // A fence is code that is proposed or quoted as a whole.
            if marks < 3 && length > 0 {
                let (code, before) = (&sentence[inner..inner + length], &sentence[..start]);
                return Some(Span { code, before });
            }
        }
    })
}

/// The content of fenced blocks.
fn fenced(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").skip(1).step_by(2)
}

fn proposes(before: &str, code: &str, wanted: Wanted) -> bool {
    // Something new may be in a new file, and a plan may be about what is new.
    let may_be_place = wanted == Wanted::Fact && !is_path(code);
    // A name or a clause in between begins something else.
    let clause = before.rsplit([',', ';', ':', '(']).next().unwrap_or(before);
    let most = if wanted == Wanted::Fact { BEFORE_FACT } else { BEFORE_PLAN };
    let words = clause.split_whitespace().rev().take(most);
    let words: Vec<String> = words
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
        .collect();
    for (at, word) in words.iter().enumerate() {
        let before = words.get(at + 1).map_or("", String::as_str);
        if wanted == Wanted::Plan && PLANNING.contains(&word.as_str()) {
            return true;
        }
        if may_be_place && PLACES.contains(&word.as_str()) && !REFERRING.contains(&before) {
            return false;
        }
        if PROPOSING.contains(&word.as_str()) {
            return true;
        }
    }
    false
}

/// `Add a helper to the cart named x`.
fn is_named_as_new(before: &str) -> bool {
    let clause = before.rsplit([',', ';', ':', '(']).next().unwrap_or(before).to_lowercase();
    let is_named = ["called", "named"].iter().any(|word| clause.trim_end().ends_with(word));
    is_named && clause.split_whitespace().any(|word| PROPOSING.contains(&word))
}

/// The names that a sentence says are in the code.
pub fn claims(sentence: &str, wanted: Wanted) -> Vec<Claim> {
    let mut claims = Vec::new();
    for span in spans(sentence) {
        let code = span.code.trim();
        let first = code.split_whitespace().next().unwrap_or_default();
        if COMMANDS.contains(&first) && code.contains(' ') || first.starts_with('-') {
            continue;
        }
        if proposes(span.before, span.code, wanted) || is_named_as_new(span.before) {
            continue;
        }
        if !code.contains(char::is_whitespace) && is_path(code) && code.contains('/') {
            let name = without_line(code).to_owned();
            claims.push(Claim { name, is_path: true, is_call: false });
            continue;
        }
        let root = code.split(['.', ':', '(']).next().unwrap_or_default();
        if is_path(code) || ROOTS.contains(&root) {
            continue;
        }
        let single = is_one_name(code);
        for name in identifiers(&without_strings(code)) {
            // A line of code in a plan is code to write, and a plain word may be anything.
            let claimed = match wanted {
                Wanted::Fact => single || is_compound(name),
                Wanted::Plan => single && is_compound(name),
            };
            let of_language = OF_LANGUAGES.contains(&name.to_lowercase().as_str());
            if claimed && name.len() > 2 && !of_language && (name.is_ascii() || is_disguised(name))
            {
                let is_call = code.contains(&format!("{name}("));
                claims.push(Claim { name: name.to_owned(), is_path: false, is_call });
            }
        }
    }
    claims
}

/// `total`, `total()`, `Cart.total`, `Cart::total(x)`, but not a line of code or of prose.
fn is_one_name(code: &str) -> bool {
    let head = code.split('(').next().unwrap_or(code);
    !head.is_empty() && head.chars().all(|c| c.is_alphanumeric() || "_.:$".contains(c))
}

/// Letters of another alphabet between Latin ones, which look the same.
fn is_disguised(name: &str) -> bool {
    let is_foreign = |c: char| matches!(c, '\u{370}'..='\u{58f}' | '\u{ff01}'..='\u{ff5e}');
    name.chars().any(|c| c.is_ascii_alphabetic()) && name.chars().any(is_foreign)
}

/// Whether a name stands in code outside of comments and strings.
pub fn is_live_in(name: &str, text: &str) -> bool {
    text.lines().filter(|line| line.contains(name)).any(|line| {
        let bare = line.trim_start();
        let is_comment = ["//", "#", "-- ", "*", "/*", "<!--"].iter().any(|m| bare.starts_with(m));
        !is_comment && occurs_in(name, &without_strings(line))
    })
}

fn is_compound(name: &str) -> bool {
    let inner = name.trim_matches('_');
    let humps = inner
        .as_bytes()
        .windows(2)
        .any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    inner.contains('_') || humps
}

fn without_strings(code: &str) -> String {
    let (mut plain, mut open) = (String::new(), None);
    for c in code.chars() {
        match open {
            Some(mark) if c == mark => open = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => {
                open = Some(c);
                plain.push(' ');
            }
            None => plain.push(c),
        }
    }
    // A lone apostrophe is no string.
    if open.is_some() { code.to_owned() } else { plain }
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Words that can be names; numbers are none.
pub fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_name_char(c))
        .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
}

/// Whether a name stands in a text as a whole word.
pub fn occurs_in(name: &str, text: &str) -> bool {
    let whole = |at: usize| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(is_name_char) && !after.is_some_and(is_name_char)
    };
    !name.is_empty() && text.match_indices(name).any(|(at, _)| whole(at))
}

/// Whether a word is the name of a file, by its ending.
pub fn is_path(word: &str) -> bool {
    let bare = without_line(word);
    let name = bare.rsplit('/').next().unwrap_or(bare);
    let known = name
        .rsplit_once('.')
        .is_some_and(|(stem, ending)| !stem.is_empty() && EXTENSIONS.contains(&ending));
    known && bare.chars().all(|c| c.is_alphanumeric() || "/._-+@".contains(c))
}

/// `src/a.rs:12-30` becomes `src/a.rs`.
pub fn without_line(path: &str) -> &str {
    let path = path.trim_start_matches("./");
    let path = path.split("::").next().unwrap_or(path);
    match path.split_once(':') {
        Some((file, lines)) if lines.starts_with(|c: char| c.is_ascii_digit()) => file,
        _ => path.split('#').next().unwrap_or(path),
    }
}

/// Whether a path is `end`, or has it as its last parts.
pub fn ends_with_path(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// The numbers of `[1]`, `[2, 3]`.
pub fn references(text: &str) -> impl Iterator<Item = usize> {
    let bare: String = without_code(text);
    let mut numbers = Vec::new();
    for part in bare.split('[').skip(1) {
        let Some((inside, _)) = part.split_once(']') else { continue };
        let all: Option<Vec<usize>> = inside.split(',').map(|n| n.trim().parse().ok()).collect();
        numbers.extend(all.unwrap_or_default());
    }
    numbers.into_iter()
}

fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(sentence: &str, wanted: Wanted) -> Vec<String> {
        claims(sentence, wanted).into_iter().map(|claim| claim.name).collect()
    }

    #[test]
    fn names_in_code_marks_are_claims_unless_they_are_proposed() {
        use Wanted::{Fact, Plan};
        for (sentence, wanted, names) in [
            ("`frobnicateLedger()` rounds twice [1].", Fact, vec!["frobnicateLedger"]),
            ("`Cart.lineTotal` is called by total_of.", Fact, vec!["Cart", "lineTotal"]),
            ("There is no `validateInput` here.", Fact, vec![]),
            ("The caller does not use `roundTwice`.", Fact, vec!["roundTwice"]),
            ("`if (a_b > c) return d_e` is wrong", Fact, vec!["a_b", "d_e"]),
            ("It compares `\"not foundHere\"` with `null`.", Fact, vec![]),
            ("In `Math.round` and `npm run testAll`", Fact, vec![]),
            ("See `src/a/b.rs:12` and `b.rs`", Fact, vec!["src/a/b.rs"]),
            ("Add a helper `roundOnce` to it.", Plan, vec![]),
            ("Use `isSafeInteger` there.", Plan, vec![]),
            ("Use `isSafeInteger` there.", Fact, vec!["isSafeInteger"]),
            ("In `lineTotal`, round once.", Plan, vec!["lineTotal"]),
            ("There is no guard in `lineTotal`.", Fact, vec!["lineTotal"]),
            ("Add a check to `lineTotal`.", Fact, vec!["lineTotal"]),
            ("It is called by `lineTotal`.", Fact, vec!["lineTotal"]),
            ("There is no call to `validateInput`.", Fact, vec![]),
            ("Add a helper to the cart named `roundOnce`.", Plan, vec![]),
            ("`c\u{430}rtTotal` rounds twice.", Fact, vec!["c\u{430}rtTotal"]),
        ] {
            assert_eq!(claimed(sentence, wanted), names, "{sentence}");
        }
    }

    #[test]
    fn sentences_and_steps_are_the_text_again() {
        let text = "1. Round once in `a. b`. Then test.\n2. Stop; go on e.g. there";
        let parts: Vec<&str> = sentences(text).collect();
        assert_eq!(parts.concat(), text);
        assert_eq!(parts[0], "1. Round once in `a. b`. ");
        assert_eq!(parts[1], "Then test.\n");
        assert_eq!(parts[2], "2. Stop; ");
    }

    #[test]
    fn references_are_numbers_in_brackets_outside_of_code() {
        let numbers: Vec<usize> =
            references("It rounds [1] twice [2, 3], `a[0]` and [x].").collect();
        assert_eq!(numbers, [1, 2, 3]);
    }

    #[test]
    fn a_name_occurs_as_a_whole_word() {
        assert!(occurs_in("total", "a.total()") && !occurs_in("total", "subtotal totals"));
    }
}
