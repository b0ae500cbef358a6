//! Checks what a finding claims against the code at the analysed commit: quotes, names, paths, tests
//! and the patch. What is not there is struck from its place and listed.
//!
//! Pure: [`Code`] gives the files of the commit and answers from the index that exists anyway. An
//! agent is never believed about its own claims; how far a finding is proven is decided here.
//!
//! # Answers
//! - White space never matters: line ends, tabs, indentation and wrapping of a quote are free, and
//!   so are the line numbers that an agent's tool printed before each line. A line of dots stands
//!   for lines that were left out.
//! - Files are read as UTF-8, UTF-16 with a mark, or else byte by byte (Latin-1). A file with a zero
//!   byte is not text, and one above [`MAX_FILE`] is not checked; both are said.
//! - A quote at its lines is confirmed however often it stands elsewhere. One that is not there is
//!   moved to the nearest place, but only if it has few places: a quote that stands everywhere, or
//!   is too short to show anything, proves nothing.
//! - A quote that another file has (a renamed one, or a mistaken name) is corrected and told.
//! - What is only in uncommitted changes is not in the analysed commit, and that is said.
//! - A path that leads out of the code base is never looked at. With several code bases, a path
//!   without the name of one, or with another name, is outside ([`Several`]).
//! - Code that stands only behind a comment's mark is not code, unless the mark is quoted too. What
//!   the product is said to do is not looked for in tests and documents.
//! - Names in code marks, and words written as only code is, are claims. They are known to the code
//!   base, come from the item, are proposed as new by the change, or are unknown.

pub mod halves;
mod names;
pub mod patch;
mod quote;
mod several;
mod strike;
mod tests_named;
mod vocabulary;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::model::{
    AnalysedCode, Confidence, Doubt, Evidence, Finding, Proof, Rung, Standing, Step, Unfound,
};
pub use names::occurs_in;
use names::{Proposals, Wanted};
use quote::{Quote, Squeezed};
pub use several::Several;

/// Larger files are not checked.
pub const MAX_FILE: u64 = 8 << 20;
/// Other files that are searched for a quote.
const MAX_CANDIDATES: usize = 12;
/// Places of a quote from which the nearest is taken.
const FEW_PLACES: usize = 10;

/// The files of one commit.
pub trait Code: Send + Sync {
    /// `None` without a git history.
    fn commit(&self) -> Option<&str>;

    /// The code bases if there are several: their commits are in these, and paths begin with their
    /// names.
    fn code_bases(&self) -> Vec<AnalysedCode> {
        Vec::new()
    }

    /// Whether a path stays inside and has one form.
    fn admits(&self, path: &str) -> bool {
        stays_inside(path)
    }

    /// A file of the commit. Called only with paths that it admits.
    fn file(&self, path: &str) -> File;

    /// The text of a file as the work tree has it now.
    fn in_work_tree(&self, path: &str) -> File {
        let _ = path;
        File::Missing
    }

    /// Whether a name occurs in the code base; `None` if that cannot be told.
    fn knows(&self, name: &str) -> Option<bool>;

    /// Paths of files that have all of these words, at most `most`.
    fn files_with(&self, words: &[&str], most: usize) -> Vec<String>;

    /// What a file is for, by its path.
    fn role(&self, path: &str) -> Role {
        let _ = path;
        Role::Product
    }

    /// Whether there is a file whose path ends with these parts.
    fn has_file_named(&self, end: &str) -> bool;
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Product,
    Test,
    /// Documents, settings, examples, generated and third-party code.
    Other,
}

/// A file, as far as it can be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum File {
    Missing,
    NotText,
    TooLarge,
    Text(Arc<Text>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    pub text: String,
    /// False: decoded from another encoding, so it cannot be written back.
    pub is_utf8: bool,
}

impl File {
    /// Decodes a file. A zero byte in the first part means that it is not text, as for git.
    pub fn of(bytes: &[u8]) -> Self {
        const LOOKED_AT: usize = 8_000;
        let text = |text, is_utf8| Self::Text(Arc::new(Text { text, is_utf8 }));
        let wide = |from: fn([u8; 2]) -> u16| {
            let units = bytes[2..].chunks_exact(2).map(|pair| from([pair[0], pair[1]]));
            text(char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect(), false)
        };
        match bytes {
            [0xff, 0xfe, ..] => return wide(u16::from_le_bytes),
            [0xfe, 0xff, ..] => return wide(u16::from_be_bytes),
            _ => {}
        }
        if bytes.iter().take(LOOKED_AT).any(|byte| *byte == 0) {
            return Self::NotText;
        }
        match std::str::from_utf8(bytes) {
            Ok(decoded) => text(decoded.to_owned(), true),
            Err(_) => text(bytes.iter().map(|byte| char::from(*byte)).collect(), false),
        }
    }

    fn text(&self) -> Option<&Arc<Text>> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// What the supervisor knows of the session that made a finding.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The files it was seen to read, relative to the code base; `None` if that is not known.
    pub read: Option<Vec<String>>,
    /// The text of the item: names from it are not invented.
    pub item: String,
}

/// Whether a path stays inside of the code base and has one form.
pub fn stays_inside(path: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    !path.is_empty()
        && !path.starts_with(['/', '\\', '~'])
        && !path.contains(['\\', ':', '\n', '\0'])
        && path.split('/').all(plain)
        && !path.split('/').any(|part| part.eq_ignore_ascii_case(".git"))
}

/// The claims of a finding that fail, without changing it.
pub fn doubts(finding: &Finding, code: &dyn Code, seen: &Seen) -> Vec<Doubt> {
    let mut finding = finding.clone();
    Check::of(code, seen, &finding).run(&mut finding).doubts
}

/// Checks a finding, strikes what fails, and states how far the rest is proven.
pub fn check(finding: &mut Finding, code: &dyn Code, seen: &Seen, now: Timestamp) {
    let result = Check::of(code, seen, finding).run(finding);
    strike::strike(finding, &result.struck);
    let commit = code.commit().map(str::to_owned);
    let step =
        |rung, reached, note: String| Step { rung, reached, at: now, commit: commit.clone(), note };
    let found = finding.evidence.iter().filter(|entry| is_found(entry)).count();
    let none = if finding.evidence.is_empty() {
        "it cites nothing"
    } else {
        "nothing that it cites was found"
    };
    let note = if found > 0 { String::new() } else { none.to_owned() };
    let mut steps = vec![step(Rung::Cited, found > 0, note)];
    if !finding.patch.is_empty() {
        let why = result.patch_failure.as_ref().map(ToString::to_string);
        steps.push(step(Rung::Applies, why.is_none(), why.unwrap_or_default()));
    }
    let said = finding.confidence;
    finding.confidence = ours(said, found, finding.evidence.len(), result.doubts.len());
    let code_bases = code.code_bases();
    finding.proof = Some(Proof { said, doubts: result.doubts, steps, code_bases });
}

fn is_found(entry: &Evidence) -> bool {
    entry.standing.as_ref().is_some_and(Standing::is_found)
}

/// Never more than the agent said; less for each thing that it said and that is not so.
fn ours(said: Confidence, found: usize, cited: usize, doubts: usize) -> Confidence {
    let most = match (found, doubts) {
        (0, _) => Confidence::Low,
        (_, 0) => Confidence::High,
        _ if found * 2 <= cited || doubts > 2 => Confidence::Low,
        _ => Confidence::Medium,
    };
    said.min(most)
}

/// What to ask the agent about claims that failed; `None` if none did.
pub fn question(doubts: &[Doubt]) -> Option<String> {
    /// More would not be read.
    const MAX: usize = 12;
    if doubts.is_empty() {
        return None;
    }
    let one =
        |doubt: &Doubt| format!("- `{}`: {} ({})\n", doubt.place, clipped(&doubt.claim), doubt.why);
    let list: String = doubts.iter().take(MAX).map(one).collect();
    Some(format!(
        "These claims were checked against the code and could not be confirmed:\n\n{list}\nAnswer again \
         in the same form, in full. Correct each of them by what the code says, or leave it out; \
         keep what was not doubted. That something could not be determined is a good answer."
    ))
}

fn clipped(text: &str) -> String {
    crate::model::text::clip(&text.split_whitespace().collect::<Vec<_>>().join(" "), 200)
}

/// Something to strike from its place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Struck {
    Cause(usize),
    Test(usize),
    Pitfall(usize),
    File(usize),
    /// A sentence of the summary.
    Summary(String),
    /// A sentence or step of the change.
    Change(String),
    /// A remark of an entry of the evidence or of a file is kept without its claim.
    Shows(usize),
    Reason(usize),
}

#[derive(Debug, Default)]
struct Result {
    doubts: Vec<Doubt>,
    struck: Vec<Struck>,
    patch_failure: Option<patch::PatchError>,
}

/// A file with the first and the last line of something in it.
type Place = (String, (u32, u32));

struct Check<'a> {
    code: &'a dyn Code,
    seen: &'a Seen,
    /// Each file is read and prepared once.
    files: HashMap<String, (File, Option<Arc<Squeezed>>)>,
    /// Names that the code base has or not, as far as they were asked for.
    known: HashMap<String, bool>,
    proposals: Proposals,
    result: Result,
}

impl<'a> Check<'a> {
    fn of(code: &'a dyn Code, seen: &'a Seen, finding: &Finding) -> Self {
        let parsed = patch::parse(&finding.patch).unwrap_or_default();
        Self {
            code,
            seen,
            files: HashMap::new(),
            known: HashMap::new(),
            proposals: Proposals::of(finding, &parsed),
            result: Result::default(),
        }
    }

    fn run(mut self, finding: &mut Finding) -> Result {
        self.evidence(finding);
        self.files(finding);
        self.patch(finding);
        self.texts(finding);
        self.tests(finding);
        self.references(finding);
        self.result
    }

    fn doubt(&mut self, place: &str, claim: &str, why: impl Into<String>, struck: Option<Struck>) {
        let doubt = Doubt { place: place.to_owned(), claim: claim.to_owned(), why: why.into() };
        if !self.result.doubts.contains(&doubt) {
            self.result.doubts.push(doubt);
        }
        self.result.struck.extend(struck);
    }

    fn file(&mut self, path: &str) -> File {
        self.prepared(path, false).0
    }

    fn prepared(&mut self, path: &str, squeezed: bool) -> (File, Option<Arc<Squeezed>>) {
        let code = self.code;
        let kept = self.files.entry(path.to_owned()).or_insert_with(|| {
            let file = if code.admits(path) { code.file(path) } else { File::Missing };
            (file, None)
        });
        if squeezed && kept.1.is_none() {
            kept.1 = kept.0.text().map(|text| Arc::new(Squeezed::of(&text.text)));
        }
        kept.clone()
    }

    fn evidence(&mut self, finding: &mut Finding) {
        for at in 0..finding.evidence.len() {
            let mut entry = finding.evidence[at].clone();
            let standing = self.standing(&mut entry, finding);
            if let Standing::NotFound { why } = &standing {
                let claim = format!("{}:{} {}", entry.path, entry.line, clipped(&entry.quote));
                self.doubt("evidence", &claim, <&str>::from(*why), None);
            }
            entry.standing = Some(standing);
            finding.evidence[at] = entry;
        }
    }

    /// Where a quote is; path and lines are corrected.
    fn standing(&mut self, entry: &mut Evidence, finding: &Finding) -> Standing {
        let quote = Quote::of(&entry.quote);
        let not_found = |why| Standing::NotFound { why };
        if quote.is_too_short() {
            return not_found(Unfound::TooShort);
        }
        if !self.code.admits(&entry.path) {
            return not_found(Unfound::Outside);
        }
        let (file, squeezed) = self.prepared(&entry.path, true);
        let mut why = match &file {
            File::Missing => Unfound::NoSuchFile,
            File::NotText => Unfound::NotText,
            File::TooLarge => Unfound::TooLarge,
            File::Text(_) => Unfound::NotInFile,
        };
        if let Some(squeezed) = squeezed {
            let (commented, places): (Vec<_>, Vec<_>) = squeezed
                .places(&quote)
                .into_iter()
                .partition(|place| squeezed.is_commented_out(&quote, *place));
            if places.is_empty() && !commented.is_empty() {
                return not_found(Unfound::Comment);
            }
            let named = (entry.line, entry.last_line.max(entry.line));
            if let Some(place) = places.iter().find(|place| quote::is_at(**place, named)) {
                (entry.line, entry.last_line) = *place;
                return Standing::Confirmed;
            }
            let far = |place: &&(u32, u32)| place.0.abs_diff(entry.line);
            match places.iter().min_by_key(far) {
                Some(nearest) if places.len() <= FEW_PLACES && quote.is_telling() => {
                    let named = std::mem::replace(&mut entry.line, nearest.0);
                    entry.last_line = nearest.1;
                    return Standing::Moved { named };
                }
                Some(_) if quote.is_telling() => return not_found(Unfound::Everywhere),
                Some(_) => return not_found(Unfound::TooShort),
                None => {}
            }
        }
        if quote.is_telling() {
            match self.elsewhere(&quote, &entry.path, finding) {
                Ok(Some((path, place))) => {
                    (entry.line, entry.last_line) = place;
                    let named = std::mem::replace(&mut entry.path, path);
                    return Standing::InAnotherFile { named };
                }
                Ok(None) => {}
                Err(everywhere) => why = everywhere,
            }
        }
        if matches!(why, Unfound::NotInFile | Unfound::NoSuchFile)
            && let File::Text(text) = self.code.in_work_tree(&entry.path)
            && !Squeezed::of(&text.text).places(&quote).is_empty()
        {
            why = Unfound::Uncommitted;
        }
        not_found(why)
    }

    /// The one other file that has the quote: one that the finding names, or the only one.
    fn elsewhere(
        &mut self,
        quote: &Quote,
        named: &str,
        finding: &Finding,
    ) -> std::result::Result<Option<Place>, Unfound> {
        let cited = finding.evidence.iter().map(|entry| entry.path.clone());
        let of_finding: Vec<String> =
            finding.files.iter().map(|file| file.path.clone()).chain(cited).collect();
        let words = quote.words();
        let found = self.code.files_with(&words, MAX_CANDIDATES + 1);
        let too_many = found.len() > MAX_CANDIDATES;
        let mut candidates = of_finding.clone();
        candidates.extend(found);
        let mut places: Vec<(String, (u32, u32))> = Vec::new();
        for path in candidates {
            if path == named
                || !self.code.admits(&path)
                || places.iter().any(|(known, _)| *known == path)
            {
                continue;
            }
            // A test or a document does not show what the product does.
            let of_product = self.code.role(named) == Role::Product;
            if of_product && self.code.role(&path) != Role::Product && !of_finding.contains(&path) {
                continue;
            }
            let Some(squeezed) = self.prepared(&path, true).1 else { continue };
            let found = squeezed.places(quote);
            if let Some(place) = found.iter().find(|at| !squeezed.is_commented_out(quote, **at)) {
                places.push((path, *place));
            }
        }
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let likely = |(path, _): &&(String, (u32, u32))| {
            of_finding.contains(path) || name(path) == name(named)
        };
        match places.as_slice() {
            [] => Ok(None),
            [one] if !too_many => Ok(Some(one.clone())),
            several => match several.iter().find(likely) {
                Some(one) => Ok(Some(one.clone())),
                None => Err(Unfound::Everywhere),
            },
        }
    }

    fn files(&mut self, finding: &mut Finding) {
        for at in 0..finding.files.len() {
            let file = &finding.files[at];
            let path = file.path.clone();
            let is_there = self.file(&path) != File::Missing;
            let read = self.seen.read.as_ref().map(|read| read.contains(&path));
            let is_new = self.proposals.is_new_file(&path, &file.reason);
            let remark = file.reason.clone();
            finding.files[at].exists = Some(is_there);
            finding.files[at].read = read;
            if !is_there && !is_new {
                let why = match self.code.admits(&path) {
                    true => Unfound::NoSuchFile,
                    false => Unfound::Outside,
                };
                self.doubt("files", &path, <&str>::from(why), Some(Struck::File(at)));
            } else {
                self.names("files", &remark, Wanted::Fact, |_| Struck::Reason(at));
            }
        }
    }

    fn patch(&mut self, finding: &Finding) {
        if finding.patch.is_empty() {
            return;
        }
        let code = self.code;
        let failed =
            patch::parse(&finding.patch).and_then(|parsed| patch::apply(&parsed, code).map(drop));
        if let Err(error) = failed {
            self.doubt("patch", "the patch", error.to_string(), None);
            self.result.patch_failure = Some(error);
        }
    }

    fn texts(&mut self, finding: &Finding) {
        self.names("summary", &finding.summary, Wanted::Fact, Struck::Summary);
        for (at, cause) in finding.likely_causes.iter().enumerate() {
            self.names("likely_causes", cause, Wanted::Fact, |_| Struck::Cause(at));
        }
        self.names("suggested_change", &finding.suggested_change, Wanted::Plan, Struck::Change);
        for (at, pitfall) in finding.pitfalls.iter().enumerate() {
            self.names("pitfalls", pitfall, Wanted::Plan, |_| Struck::Pitfall(at));
        }
        for (at, entry) in finding.evidence.iter().enumerate() {
            self.names("evidence", &entry.shows, Wanted::Fact, |_| Struck::Shows(at));
        }
    }

    /// Doubts each sentence with a name that nobody knows.
    fn names(
        &mut self,
        place: &str,
        text: &str,
        wanted: Wanted,
        struck: impl Fn(String) -> Struck,
    ) {
        for sentence in names::sentences(text) {
            for claim in names::claims(sentence, wanted) {
                let Some(why) = self.why_not(&claim) else { continue };
                let struck = struck(sentence.to_owned());
                self.doubt(place, &format!("`{}`", claim.name), why, Some(struck));
            }
        }
    }

    /// Why a claimed name is doubted; `None` if it is not.
    fn why_not(&mut self, claim: &names::Claim) -> Option<&'static str> {
        let of_another = |check: &mut Self| {
            let owner = claim.of.as_deref()?;
            (check.is_member(owner, &claim.name) == Some(false))
                .then_some("this name is not one of that type")
        };
        match (claim.kind, self.is_known(&claim.name, claim.kind)) {
            (names::Kind::Member, _) => of_another(self),
            (names::Kind::Path, false) => Some("the analysed commit has no such file"),
            (_, false) => Some("this name is not in the code"),
            (names::Kind::Name, true) if claim.is_call && !self.is_live(&claim.name) => {
                Some("this name is only in texts and comments")
            }
            (names::Kind::Name, true) => of_another(self),
            (_, true) => None,
        }
    }

    fn is_known(&mut self, name: &str, kind: names::Kind) -> bool {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        let known = self.proposals.has(name)
            || names::occurs_in(name, &self.seen.item)
            || match kind {
                names::Kind::Path => self.has_file(name),
                names::Kind::Dashed => self.has_spelling(name),
                // What cannot be told is not doubted.
                _ => self.in_read_files(name) || self.is_spelled_so(name),
            };
        self.known.insert(name.to_owned(), known);
        known
    }

    /// The index does not tell `cartTotal` from `CartTotal`, nor `totals` from `total`; the files that
    /// have it do. Other names than mixed ones are free in their case, as SQL is.
    fn is_spelled_so(&mut self, name: &str) -> bool {
        if !self.code.knows(name).unwrap_or(true) {
            return false;
        }
        let is_mixed = name.contains(char::is_lowercase) && name.contains(char::is_uppercase);
        let bare = name.trim_matches('_');
        let is_it = |word: &str| word.trim_matches('_').eq_ignore_ascii_case(bare);
        let is_in = |text: &Arc<Text>| match is_mixed {
            true => names::occurs_in(name, &text.text),
            false => names::identifiers(&text.text).any(is_it),
        };
        let texts = self.texts_with(name).filter(|texts| !texts.is_empty());
        texts.is_none_or(|texts| texts.iter().any(is_in) || self.is_folder(name))
    }

    /// A module may be no more than a folder or a file.
    fn is_folder(&self, name: &str) -> bool {
        let files = self.code.files_with(&[name], MAX_CANDIDATES);
        let parts = |path: &String| {
            let mut parts = path.split(['/', '.']);
            parts.any(|part| part.eq_ignore_ascii_case(name))
        };
        files.iter().any(parts)
    }

    /// Whether a text names a file that is there, as texts name files.
    fn has_file(&mut self, name: &str) -> bool {
        let bare = name.trim_start_matches("../");
        if self.code.has_file_named(bare) {
            return true;
        }
        // `../types.js` is how a module imports `types.ts`.
        if let Some((stem, "js" | "mjs" | "jsx")) = bare.rsplit_once('.') {
            let sources = ["ts", "tsx", "mts"].map(|ending| format!("{stem}.{ending}"));
            if bare.len() < name.len() && sources.iter().any(|path| self.code.has_file_named(path))
            {
                return true;
            }
            if stem.starts_with(char::is_uppercase) && !bare.contains('/') {
                return true;
            }
        }
        // A name without a folder may be one that a build makes, or `rect.h` of a variable.
        !bare.contains('/')
            && self
                .texts_with(bare)
                .is_none_or(|texts| texts.iter().any(|text| text.text.contains(bare)))
    }

    /// Whether `max-size` is there, or the same as a name.
    fn has_spelling(&mut self, dashed: &str) -> bool {
        let snake = dashed.replace('-', "_");
        let mut pascal = String::new();
        for part in dashed.split('-') {
            let (first, rest) = part.split_at(part.len().min(1));
            pascal.extend([&first.to_uppercase(), rest]);
        }
        let (first, rest) = pascal.split_at(pascal.len().min(1));
        let camel = format!("{}{rest}", first.to_lowercase());
        let names = [snake.to_uppercase(), snake, pascal, camel];
        if names
            .iter()
            .any(|name| self.in_read_files(name) || self.code.knows(name).unwrap_or(true))
        {
            return true;
        }
        let is_in = |text: &Arc<Text>| names::occurs_in(dashed, &text.text);
        self.texts_with(dashed).is_none_or(|texts| texts.iter().any(is_in))
    }

    /// The files that have all words of something; `None` if they are too many or it has no words.
    fn texts_with(&mut self, text: &str) -> Option<Vec<Arc<Text>>> {
        let words: Vec<&str> = names::identifiers(text).filter(|word| word.len() > 2).collect();
        let files = self.code.files_with(&words, MAX_CANDIDATES + 1);
        if words.is_empty() || files.len() > MAX_CANDIDATES {
            return None;
        }
        Some(files.iter().filter_map(|path| self.file(path).text().cloned()).collect())
    }

    /// Whether a type that the code base declares has a member of this name; `None` if that cannot be
    /// told. A name that is only ever called on other types is none of this one.
    fn is_member(&mut self, owner: &str, name: &str) -> Option<bool> {
        if self.proposals.has(name) || names::occurs_in(name, &self.seen.item) {
            return None;
        }
        let (declared, _) = self.declaration(owner)??;
        let texts = self.texts_with(name)?;
        if texts.is_empty() {
            // Another one may have it that this one is made from.
            return (!declared.inherits && self.code.knows(name) == Some(false)).then_some(false);
        }
        if !texts.iter().any(|text| names::stands_for(owner, name, &text.text)) {
            return Some(false);
        }
        if !names::is_compound(name) {
            return Some(true);
        }
        // A telling name is a member only where the type, or what it is made from, is spoken of.
        let mut family = vec![owner.to_owned()];
        let mut at = 0;
        while let Some(one) = family.get(at).cloned() {
            at += 1;
            // A type of another code base has no names of this one.
            let Some((_, text)) = self.declaration(&one)? else { continue };
            let bases = names::bases(&one, &text.text);
            let new: Vec<_> = bases.into_iter().filter(|base| !family.contains(base)).collect();
            family.extend(new);
            if family.len() > MAX_CANDIDATES {
                return None;
            }
        }
        let has = |text: &Arc<Text>| {
            family.iter().any(|one| names::may_have_member(one, name, &text.text))
        };
        Some(texts.iter().any(has))
    }

    /// Where a type is declared: in a file that was read for the finding, in one of its name, or in one
    /// of some that have the name. The outer `None`: it cannot be told.
    fn declaration(&mut self, owner: &str) -> Option<Option<(names::Declared, Arc<Text>)>> {
        const MAX_HOLDERS: usize = 2_000;
        const MAX_READ: usize = 64;
        let declares = |text: &Arc<Text>| Some((names::declares(owner, &text.text)?, text.clone()));
        let read = self.files.values().filter_map(|(file, _)| file.text()).find_map(declares);
        if read.is_some() {
            return Some(read);
        }
        let is_named_so = |path: &String| {
            let stem = path.rsplit('/').next().unwrap_or(path).split('.').next();
            stem.is_some_and(|stem| stem.replace('_', "").eq_ignore_ascii_case(owner))
        };
        let holders = self.code.files_with(&[owner], MAX_HOLDERS);
        let (mut likely, rest): (Vec<_>, Vec<_>) = holders.into_iter().partition(is_named_so);
        let are_all = likely.len() + rest.len() <= MAX_READ;
        likely.extend(rest.into_iter().filter(|_| are_all));
        likely.truncate(MAX_READ);
        let found = likely.iter().find_map(|path| declares(self.file(path).text()?));
        (found.is_some() || are_all).then_some(found)
    }

    /// Whether something that is called is in the code, or cannot be told.
    fn is_live(&mut self, name: &str) -> bool {
        if self.proposals.has(name) || names::occurs_in(name, &self.seen.item) {
            return true;
        }
        let files = self.code.files_with(&[name], MAX_CANDIDATES + 1);
        if files.is_empty() || files.len() > MAX_CANDIDATES {
            return true;
        }
        let is_prose =
            |path: &str| [".md", ".rst", ".txt", ".adoc"].iter().any(|e| path.ends_with(e));
        let texts: Vec<Arc<Text>> = files
            .iter()
            .filter(|path| !is_prose(path))
            .filter_map(|path| self.file(path).text().cloned())
            .collect();
        texts.iter().any(|text| names::is_live_in(name, &text.text))
    }

    /// Whether some file has a test of this name, or that cannot be told.
    fn has_test(&mut self, name: &str) -> bool {
        let words: Vec<&str> = names::identifiers(name).filter(|word| word.len() > 2).collect();
        let files = self.code.files_with(&words, MAX_CANDIDATES + 1);
        if words.is_empty() || files.is_empty() || files.len() > MAX_CANDIDATES {
            return self.is_known(name, names::Kind::Name);
        }
        files.iter().any(|path| {
            let is_test = self.code.role(path) == Role::Test;
            self.file(path).text().is_some_and(|text| {
                tests_named::has_test(&text.text, name)
                    && (is_test || tests_named::has_tests(&text.text))
            })
        })
    }

    /// The files of the finding are read anyway, also where the index did not look inside.
    fn in_read_files(&self, name: &str) -> bool {
        let texts = self.files.values().filter_map(|(file, _)| file.text());
        texts.into_iter().any(|text| names::occurs_in(name, &text.text))
    }

    fn tests(&mut self, finding: &Finding) {
        for (at, entry) in finding.tests.iter().enumerate() {
            if let Some((claim, why)) = self.unknown_in_test(entry, finding) {
                self.doubt("tests", &format!("`{claim}`"), why, Some(Struck::Test(at)));
                continue;
            }
            let Some(mut named) = tests_named::existing(entry) else {
                continue;
            };
            // `Makefile` is a path that does not look like one.
            let is_file =
                |name: &String| self.code.admits(name) && self.code.file(name) != File::Missing;
            let (files, names) = named.names.into_iter().partition(is_file);
            named.paths.extend::<Vec<String>>(files);
            named.names = names;
            let mut inside: Vec<Arc<Text>> = Vec::new();
            let mut failed = None;
            for path in &named.paths {
                match self.file(path) {
                    File::Text(text) => inside.push(text),
                    File::Missing if self.proposals.has(path) => {}
                    File::Missing if self.code.has_file_named(path) => {}
                    File::Missing => {
                        failed = Some((path.clone(), "the analysed commit has no such file"));
                    }
                    File::NotText | File::TooLarge => {}
                }
            }
            for name in &named.names {
                let there = inside.iter().any(|text| tests_named::has_test(&text.text, name))
                    || (inside.is_empty() && self.has_test(name))
                    || self.proposals.has(name);
                if !there && failed.is_none() {
                    failed = Some((name.clone(), "there is no such test"));
                }
            }
            if let Some((claim, why)) = failed {
                self.doubt("tests", &format!("`{claim}`"), why, Some(Struck::Test(at)));
            }
        }
    }

    /// What also a new test cannot bring along: an option, or a member of a type that is there.
    fn unknown_in_test(
        &mut self,
        entry: &str,
        finding: &Finding,
    ) -> Option<(String, &'static str)> {
        let is_of_product =
            |owner: &String| !["Test", "Spec"].iter().any(|word| owner.contains(word));
        let codes = entry.split('`').skip(1).step_by(2);
        for mut claim in codes.flat_map(|code| names::claims(&format!("`{code}`"), Wanted::Fact)) {
            match claim.kind {
                names::Kind::Dashed => {}
                names::Kind::Path => continue,
                _ if claim.of.as_ref().is_some_and(is_of_product) => {
                    claim.kind = names::Kind::Member;
                }
                _ => continue,
            }
            let mut plans = [&finding.suggested_change, &finding.patch].into_iter();
            if plans.any(|text| text.contains(&claim.name)) {
                continue;
            }
            if let Some(why) = self.why_not(&claim) {
                return Some((claim.name, why));
            }
        }
        None
    }

    /// A cause that rests only on evidence that is not there falls with it.
    fn references(&mut self, finding: &Finding) {
        for (at, cause) in finding.likely_causes.iter().enumerate() {
            let mut numbers = names::references(cause).peekable();
            let holds = |number: usize| {
                let entry = number.checked_sub(1).and_then(|index| finding.evidence.get(index));
                entry.is_some_and(is_found)
            };
            if numbers.peek().is_some() && !numbers.any(holds) {
                self.doubt(
                    "likely_causes",
                    cause,
                    "its evidence was not found",
                    Some(Struck::Cause(at)),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
