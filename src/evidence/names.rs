//! Names of code in a text, and whether a sentence claims that they are there. Names without code
//! marks are those that are written as only code is: `line_total`, `lineTotal`, `total()`.

use std::collections::HashSet;

use super::patch::{FilePatch, Mark, Patch};
use super::vocabulary::{
    ACTING, COMMANDS, EXTENSIONS, FILLING, OF_ALL_TYPES, OF_LANGUAGES, PLACES, PLANNING, PROPOSING,
    REFERRING, ROOTS, THERE, THINGS,
};
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
    pub kind: Kind,
    /// It is said to be called.
    pub is_call: bool,
    /// The type that it is said to belong to: `Cart` of `Cart.total`.
    pub of: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Name,
    /// A plain word, which is claimed only as a part of its type.
    Member,
    Path,
    /// `max-size` of a setting or `--max-size`, which code may write in other ways.
    Dashed,
}

/// What the words around a name say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    There,
    Plain,
    New,
}

/// What follows a name that stays, that is not there, and that was there once.
const STAYS: &[&str] = &["stays", "remains", "must stay", "already", "exists", "is unchanged"];
const IS_MISSING: &[&str] = &[
    "is missing",
    "are missing",
    "does not exist",
    "do not exist",
    "is absent",
    "is not there",
    "is not defined",
    "was removed",
    "would ",
    "(new",
    "(a new",
    ", a new",
    ", which is new",
];
const WAS: &[&str] = &["was", "were", "formerly", "previously", "renamed from", "moved from"];

/// How many words before a name are looked at.
const BEFORE_FACT: usize = 4;
const BEFORE_PLAN: usize = 6;

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
        let texts_with_plans = [&finding.suggested_change].into_iter().chain(&finding.tests);
        for (at, text) in texts_with_plans.enumerate() {
            // What a new test passes on is not new.
            let passed = |code: &str| code.find('(').filter(|_| at > 0).unwrap_or(code.len());
            texts.extend(fenced(text).map(str::to_owned));
            for sentence in sentences(text) {
                let proposed = spans(sentence).filter(|span| {
                    proposes(span.before, span.code, Wanted::Fact) || is_named_as_new(span.before)
                });
                texts.extend(proposed.map(|span| span.code[..passed(span.code)].to_owned()));
            }
        }
        for text in &texts {
            names.extend(identifiers(text).map(str::to_owned));
        }
        // The test of the patch is new only where the patch has it.
        if identifiers(&finding.patch_test).last().is_some_and(|name| names.contains(name)) {
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
    after: &'a str,
    is_marked: bool,
}

impl Span<'_> {
    fn said(&self, wanted: Wanted) -> Said {
        let after = self.after.trim_start_matches(['`', ' ']);
        if IS_MISSING.iter().any(|words| after.starts_with(words)) {
            return Said::New;
        }
        if self.acts_on().is_some() || STAYS.iter().any(|words| after.starts_with(words)) {
            return Said::There;
        }
        if proposes(self.before, self.code, wanted) || is_named_as_new(self.before) {
            return Said::New;
        }
        // `the x option` speaks of one that is there.
        let is_thing = |word: &str| THINGS.have(word.trim_matches(|c: char| !c.is_alphanumeric()));
        let is_the = self.before.trim_end().to_lowercase().ends_with("the");
        match is_the && after.split_whitespace().next().is_some_and(is_thing) {
            true => Said::There,
            false => Said::Plain,
        }
    }

    /// The word before it that says that it is there.
    fn acts_on(&self) -> Option<String> {
        let clause = clause_of(self.before).to_lowercase();
        let all: Vec<&str> = clause.split_whitespace().rev().collect();
        let to = usize::from(
            all.first() == Some(&"to") && matches!(all.get(1), Some(&("call" | "calls"))),
        );
        let mut words = all.iter().skip(to).skip_while(|word| FILLING.have(word));
        let nearest = *words.next()?;
        let earlier: Vec<&str> = words.copied().collect();
        let is_denied =
            earlier.first().is_some_and(|word| matches!(*word, "no" | "not" | "without"));
        let has = |some: &[&str]| earlier.iter().any(|word| some.contains(word));
        let is_loose = match nearest {
            "in" => has(&["wrap", "put", "enclose", "write", "create", "place"]),
            "like" => earlier.first().is_some_and(|word| {
                matches!(*word, "something" | "name" | "names" | "named" | "helper" | "looks")
            }),
            _ => false,
        };
        // A new name may be said to be in a new file.
        let is_place = PLACES.have(nearest) && is_path(self.code);
        if is_denied || is_loose || is_place {
            return None;
        }
        (THERE.have(nearest) || ACTING.have(nearest)).then(|| nearest.to_owned())
    }

    /// What is removed is there whatever library its name may be of.
    fn is_of_code(&self) -> bool {
        self.acts_on().is_some_and(|word| ACTING.have(&word))
    }

    fn was_there_once(&self) -> bool {
        let before = self.before.trim_end();
        let after = self.after.trim_start_matches(['`', ' ']);
        WAS.iter().any(|words| before.ends_with(words)) || after.starts_with("before")
    }
}

/// A name or a clause in between begins something else.
fn clause_of(before: &str) -> &str {
    before.rsplit([',', ';', ':', '(']).next().unwrap_or(before)
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
                return Some(Span {
                    code: &sentence[inner..inner + length],
                    before: &sentence[..start],
                    after: &sentence[from..],
                    is_marked: true,
                });
            }
        }
    })
}

/// Words outside of code marks that are written as only code is.
fn unmarked(sentence: &str) -> impl Iterator<Item = Span<'_>> {
    let is_edge = |c: char| !c.is_alphanumeric() && !matches!(c, '_' | '(' | ')');
    let mut marked = false;
    sentence.split_inclusive(|c: char| c.is_whitespace() || c == '`').filter_map(move |part| {
        let was_marked = marked;
        marked ^= part.ends_with('`');
        let word = part.trim_matches(is_edge);
        let head = word.split('(').next().unwrap_or(word).trim_end_matches(')');
        let is_code = word.contains("()") && is_one_name(head) || is_path(head) || is_coded(head);
        if was_marked || part.contains("://") || !is_code || head.starts_with('(') {
            return None;
        }
        let start = head.as_ptr() as usize - sentence.as_ptr() as usize;
        let end = start + head.len() + if word[head.len()..].starts_with("()") { 2 } else { 0 };
        let (before, after) = (&sentence[..start], &sentence[end..]);
        Some(Span { code: &sentence[start..end], before, after, is_marked: false })
    })
}

/// `line_total` and `lineTotal`, but not `en_US`, `x86_64`, `watchOS` or `iPhone`.
pub fn is_coded(word: &str) -> bool {
    if !word.starts_with(is_name_char) || !word.chars().all(|c| is_name_char(c) || c == '.') {
        return false;
    }
    word.split('.').any(|name| {
        let parts: Vec<&str> = name.split('_').filter(|part| !part.is_empty()).collect();
        let is_word = |part: &&str| part.len() > 1 && part.chars().all(char::is_alphabetic);
        let snake = parts.len() > 1 && parts.iter().all(is_word) && name.len() > 6;
        let first = name.bytes().take_while(u8::is_ascii_lowercase).count();
        let rest = name.as_bytes().get(first..).unwrap_or_default();
        let camel = first > 1
            && matches!(rest, [a, b, ..] if a.is_ascii_uppercase() && b.is_ascii_lowercase());
        snake || camel
    })
}

/// The content of fenced blocks.
fn fenced(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").skip(1).step_by(2)
}

fn proposes(before: &str, code: &str, wanted: Wanted) -> bool {
    // Something new may be in a new file, and a plan may be about what is new.
    let may_be_place = wanted == Wanted::Fact && !is_path(code);
    let clause = clause_of(before);
    let most = if wanted == Wanted::Fact { BEFORE_FACT } else { BEFORE_PLAN };
    let words = clause.split_whitespace().rev().take(most);
    let words: Vec<String> = words
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
        .collect();
    for (at, word) in words.iter().enumerate() {
        let before = words.get(at + 1).map_or("", String::as_str);
        if wanted == Wanted::Plan && PLANNING.have(word) {
            return true;
        }
        if may_be_place && PLACES.have(word) && !REFERRING.have(before) {
            return false;
        }
        if PROPOSING.have(word) {
            return true;
        }
    }
    false
}

/// `Add a helper to the cart named x`.
fn is_named_as_new(before: &str) -> bool {
    let clause = clause_of(before).to_lowercase();
    let is_named = ["called", "named"].iter().any(|word| clause.trim_end().ends_with(word));
    is_named && clause.split_whitespace().any(|word| PROPOSING.have(word))
}

/// The names that a sentence says are in the code.
pub fn claims(sentence: &str, wanted: Wanted) -> Vec<Claim> {
    spans(sentence).chain(unmarked(sentence)).flat_map(|span| claimed(&span, wanted)).collect()
}

/// What a command, an option, a path or a name with dashes claims; `None` for code.
fn in_other_forms(span: &Span, code: &str) -> Option<Vec<Claim>> {
    let claim = |name: &str, kind| Claim { name: name.to_owned(), kind, is_call: false, of: None };
    let first = code.split_whitespace().next().unwrap_or_default();
    if COMMANDS.have(first) && code.contains(' ') {
        return Some(Vec::new());
    }
    if first.starts_with("--") || (is_path(first) && code.contains(" --")) {
        let options = code.split_whitespace().filter_map(|word| word.strip_prefix("--"));
        let names = options.filter_map(|word| word.split(['=', ']', '<']).next());
        let is_plain = |name: &&str| name.len() > 2 && is_dashed(&format!("x-{name}"));
        return Some(names.filter(is_plain).map(|name| claim(name, Kind::Dashed)).collect());
    }
    if first.starts_with('-') {
        return Some(Vec::new());
    }
    if is_path(code) {
        let is_named = code.contains('/') || span.is_marked;
        let is_claimed = is_named && !span.was_there_once();
        return Some(
            is_claimed.then(|| claim(without_line(code), Kind::Path)).into_iter().collect(),
        );
    }
    let is_dashes = code.contains('-') && code.chars().all(|c| is_name_char(c) || c == '-');
    is_dashes.then(|| is_dashed(code).then(|| claim(code, Kind::Dashed)).into_iter().collect())
}

fn claimed(span: &Span, wanted: Wanted) -> Vec<Claim> {
    let code = span.code.trim();
    let claim = |name: &str, kind, of: Option<&str>| Claim {
        name: name.to_owned(),
        kind,
        is_call: code.contains(&format!("{name}(")),
        of: of.map(str::to_owned),
    };
    let said = span.said(wanted);
    if said == Said::New {
        return Vec::new();
    }
    if let Some(claims) = in_other_forms(span, code) {
        return claims;
    }
    let root = identifiers(code).next().unwrap_or_default();
    let single = is_one_name(code) && (!ROOTS.have(root) || span.is_of_code());
    let mut found = Vec::new();
    let plain = without_strings(code);
    let mut known_root = false;
    let mut of: Option<&str> = None;
    let mut end = 0;
    for name in identifiers(&plain) {
        let start = name.as_ptr() as usize - plain.as_ptr() as usize;
        let between = &plain[end..start];
        let in_chain = end > 0 && matches!(between, "." | "::" | "->" | "?." | "#")
            || between.ends_with(").")
            || between.ends_with(")?.");
        end = start + name.len();
        if !in_chain {
            (known_root, of) = (ROOTS.have(name) && !span.is_of_code(), None);
        }
        let owner = of.filter(|owner| in_chain && owner.starts_with(char::is_uppercase));
        of = Some(name);
        let of_language = OF_LANGUAGES.have(&name.to_lowercase());
        let readable = name.is_ascii() || is_disguised(name);
        let is_inherited = owner.is_some() && OF_ALL_TYPES.have(&name.to_lowercase());
        if known_root || name.len() < 3 || of_language || is_inherited || !readable {
            continue;
        }
        // A line of code in a plan is code to write, and a plain word may be anything.
        let is_claimed = match (wanted, said) {
            (Wanted::Fact, _) => single || is_compound(name),
            (Wanted::Plan, Said::There) => is_compound(name) || (single && code.starts_with(':')),
            (Wanted::Plan, _) => single && is_compound(name),
        };
        if is_claimed {
            found.push(claim(name, Kind::Name, owner));
        } else if owner.is_some() {
            found.push(claim(name, Kind::Member, owner));
        }
    }
    found
}

/// `max-size`, but not `max - size` or `MAX-SIZE`.
fn is_dashed(word: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    word.contains('-')
        && word.split('-').all(is_part)
        && word.split('-').filter(|part| part.len() > 1).count() > 1
        && word.starts_with(|c: char| c.is_ascii_lowercase())
}

/// `total`, `total()`, `Cart.total`, `Cart::total(x)`, but not a line of code or of prose.
fn is_one_name(code: &str) -> bool {
    let head = code.split('(').next().unwrap_or(code);
    // Names of Ruby may end in a question or an exclamation.
    let head = head.strip_suffix(['?', '!']).unwrap_or(head);
    !head.is_empty() && head.chars().all(|c| c.is_alphanumeric() || "_.:$#".contains(c))
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

/// How a text declares a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declared {
    /// It may have more than stands there.
    pub inherits: bool,
}

/// Whether a text declares a type of this name.
pub fn declares(name: &str, text: &str) -> Option<Declared> {
    const WORDS: [&str; 12] = [
        "class",
        "struct",
        "enum",
        "trait",
        "interface",
        "object",
        "module",
        "record",
        "union",
        "protocol",
        "type",
        "namespace",
    ];
    text.match_indices(name).find_map(|(at, _)| {
        let before = text[..at].trim_end();
        let after = &text[at + name.len()..];
        let is_whole = !after.starts_with(is_name_char) && before.len() < at;
        let word = before.rsplit(|c: char| !is_name_char(c)).next().unwrap_or_default();
        let head = after.split(['{', '\n', ';']).next().unwrap_or_default();
        let inherits = [":", "(", "extends", "implements", " < ", "="];
        let inherits = inherits.iter().any(|sign| head.contains(sign));
        // What a type of Go embeds stands in its body.
        let inherits = inherits || word == "type";
        (is_whole && WORDS.contains(&word)).then_some(Declared { inherits })
    })
}

/// Whether a name stands in a text where it is not one of another type: not only `Other.name`.
pub fn stands_for(owner: &str, name: &str, text: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        if before.ends_with(is_name_char) || after.starts_with(is_name_char) {
            return false;
        }
        let chain = before.strip_suffix('.').or_else(|| before.strip_suffix("::"));
        let root = chain.map(|chain| chain.rsplit(|c| !is_name_char(c)).next().unwrap_or_default());
        // Constants and variables may be of any type.
        let is_type = |root: &str| {
            root.starts_with(char::is_uppercase) && root.contains(|c: char| c.is_lowercase())
        };
        root.is_none_or(|root| root == owner || !is_type(root) || root == "Self")
    })
}

/// The types that a declaration names: those that it is made from, includes or embeds.
pub fn bases(owner: &str, text: &str) -> Vec<String> {
    const MIXING: [&str; 6] = ["include", "extend", "prepend", "use", "with", "mixin"];
    let is_type =
        |name: &&str| name.len() > 2 && name.starts_with(char::is_uppercase) && *name != owner;
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let rest = match occurs_in(owner, line) && declares(owner, line).is_some() {
            true => line.split_once(owner).map_or("", |(_, rest)| rest),
            // `impl Trait for Owner`, in any place of the file.
            false if is_impl(line) && occurs_in(owner, line) => line,
            false => continue,
        };
        found.extend(identifiers(rest).filter(is_type).map(str::to_owned));
        let mut head = !rest.contains(['{', ';']) && !rest.trim_end().ends_with(':');
        for line in lines.clone().take(60).take_while(|line| !matches!(*line, "}" | "end" | "};")) {
            let bare = line.trim();
            let first = bare.split([' ', '(']).next().unwrap_or_default();
            let embeds =
                !bare.is_empty() && bare.chars().all(|c| is_name_char(c) || "*.".contains(c));
            if head || embeds || MIXING.contains(&first) {
                found.extend(identifiers(bare).filter(is_type).map(str::to_owned));
            }
            head &= !bare.contains(['{', ';']) && !bare.ends_with(':');
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Of Rust; one that `implements` a type gives it nothing.
fn is_impl(line: &str) -> bool {
    line.contains("impl") && !line.contains("implements")
}

/// Whether a text that has a name may give it to a type: it declares or extends the type, or has the
/// name behind that of the type.
pub fn may_have_member(owner: &str, name: &str, text: &str) -> bool {
    let chained = [".", "::", "#", "->", ".prototype."];
    let extends = |line: &str| {
        occurs_in(owner, line)
            && (is_impl(line)
                || ["extension ", "prototype"].iter().any(|word| line.contains(word))
                || (line.trim_start().starts_with("func (") && occurs_in(name, line)))
    };
    let is_inside = stands_for(owner, name, text) && !has_receiver_of_another(owner, name, text);
    (is_inside && declares(owner, text).is_some())
        || chained.iter().any(|sign| text.contains(&format!("{owner}{sign}{name}")))
        || text.lines().any(extends)
}

/// `func (f *Other) name(`: a file of Go has methods of several types.
fn has_receiver_of_another(owner: &str, name: &str, text: &str) -> bool {
    let method = |line: &&str| line.starts_with("func (") && line.contains(&format!(") {name}("));
    let mut methods = text.lines().filter(method).peekable();
    methods.peek().is_some() && methods.all(|line| !occurs_in(owner, line))
}

pub fn is_compound(name: &str) -> bool {
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
        .is_some_and(|(stem, ending)| !stem.is_empty() && EXTENSIONS.have(ending));
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
        let claims = claims(sentence, wanted).into_iter();
        claims.filter(|claim| claim.kind != Kind::Member).map(|claim| claim.name).collect()
    }

    #[test]
    fn names_in_code_marks_are_claims_unless_they_are_proposed() {
        use Wanted::{Fact, Plan};
        for (sentence, wanted, names) in [
            ("`frobnicateLedger()` rounds twice [1].", Fact, vec!["frobnicateLedger"]),
            ("`Cart.lineTotal` is called by Totals.", Fact, vec!["Cart", "lineTotal"]),
            ("There is no `validateInput` here.", Fact, vec![]),
            ("The caller does not use `roundTwice`.", Fact, vec!["roundTwice"]),
            ("`if (a_b > c) return d_e` is wrong", Fact, vec!["a_b", "d_e"]),
            ("It compares `\"not foundHere\"` with `null`.", Fact, vec![]),
            ("In `Math.round` and `npm run testAll`", Fact, vec![]),
            ("See `src/a/b.rs:12` and `b.rs`", Fact, vec!["src/a/b.rs", "b.rs"]),
            ("Add a helper `roundOnce` to it.", Plan, vec![]),
            ("Use `isSafeInteger` there.", Plan, vec![]),
            ("Use `isSafeInteger` there.", Fact, vec!["isSafeInteger"]),
            ("In `lineTotal`, round once.", Plan, vec!["lineTotal"]),
            ("Call the existing helper `roundOnce` on it.", Plan, vec!["roundOnce"]),
            (
                "Add `sumOf`, a method like `lineTotal`, after `cartTotal`.",
                Plan,
                vec!["lineTotal", "cartTotal"],
            ),
            ("Use something like `roundOnce`.", Plan, vec![]),
            ("Remove the calls to `String.roundOnce()`.", Plan, vec!["roundOnce"]),
            ("Replace `a_b + c` by `d_e`.", Plan, vec!["a_b"]),
            ("Wrap it in `roundOnce`.", Plan, vec![]),
            ("Use `round` in `lineTotal`.", Plan, vec!["lineTotal"]),
            ("`sum_of(a_b)` stays.", Plan, vec!["sum_of", "a_b"]),
            ("`validateInput` is missing.", Fact, vec![]),
            ("It rounds with `Math.round(a_b * factor)`.", Fact, vec!["a_b"]),
            ("`usize::swap_bytes` and `char.IsWhiteSpace` do so.", Plan, vec![]),
            ("`MY-PROG_HELP` and `a_b-c` are read.", Fact, vec![]),
            ("`max-size` and `--dry-run=yes` are read.", Fact, vec!["max-size", "dry-run"]),
            ("`src/run.sh --keep-last 3` and `git log --all-refs` do.", Fact, vec!["keep-last"]),
            (
                "roundTwice() and line_total drop cents on watchOS.",
                Fact,
                vec!["roundTwice", "line_total"],
            ),
            ("JavaScript on x86_64 for en_US, see https://a.b/c_d/e_fg.", Fact, vec![]),
            ("It was `old/a.rs` before.", Fact, vec![]),
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
