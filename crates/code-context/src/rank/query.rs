//! What a work item says about the code: its words, weighted by position, and the names, paths and
//! symbols it mentions. Runs, the command line and the benchmarks all use it. Pure.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::text::bytes::cut;
use crate::text::mention;
use crate::text::noise::{self, Part};
use crate::text::term::{self, Space, Term};

/// Longer texts are cut; the rest repeats it.
const MAX_LEN: usize = 60_000;
/// The lightest words above this number are dropped.
const MAX_WORDS: usize = 400;
/// A term of more words is a sentence, not a name.
const MAX_NAME_LEN: usize = 4;
const MAX_LITERALS: usize = 40;
const MAX_PLACES: usize = 40;
const MAX_CHANGES: usize = 4;

/// Words that say nothing about where to look.
const STOP: &str = "a about above actual actually after again all along already also although always am an and another any anything anyway are around as at be because been before behavior behaviour being below between both bug but by can cannot cant case cause causes check code could couldn current currently describe described description did didn different do does doesn doesnt doing don done dont during each either else error etc even every everything example expect expected feature few find fine first fix following for found from full further gets get getting give given go going got had happen happened happening happens has have having he hello help her here hi his how however i id if im in info information instead into is isn issue it its itself just kind know latest least let like likely ll look looks lot made make makes many may maybe me mean means might more most much must my need needed needs never new next no non none not nothing now of off ok old on once one only open or order other otherwise our out over own please possible probably problem question rather re really reason related repro reproduce reproduced reproduction request result results right run running same say screenshot see seem seems seen self set several shall she should shouldn show shows side similar simple since so solution some something sometimes still step steps such sure take tell than thank thanks that the their them then there therefore these they thing think this those though through thus time to too took true tried try trying two under until up us use used useful user users uses using ve version very via want wanted was wasn way we well were what when where whether which while who whole why will wish with within without won work working workaround works would wrong wrote yes yet you your false null none return def class import public void int string var let const function new";

/// The kind of a text, which determines the weight of its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    /// Written by the reporter: description, steps, criteria.
    Report,
    /// From the discussion.
    Comment,
    /// Written by a program about its machine.
    System,
}

/// An item as a query sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    pub title: String,
    /// In the item's order.
    pub texts: Vec<(TextKind, String)>,
    /// The area path without the project, and the tags.
    pub labels: Vec<String>,
    /// Parts of the product that triage named.
    pub modules: Vec<String>,
    /// Search terms: English words and likely names in the code, from triage or a user.
    pub terms: Vec<String>,
}

impl Subject {
    /// Any text; its first line is the title.
    pub fn from_text(text: &str) -> Self {
        let (title, body) = text.split_once('\n').unwrap_or((text, ""));
        Self {
            title: title.to_owned(),
            texts: vec![(TextKind::Report, body.to_owned())],
            ..Self::default()
        }
    }

    /// Adds search terms.
    #[must_use]
    pub fn with_terms(mut self, terms: impl IntoIterator<Item = String>) -> Self {
        self.terms.extend(terms);
        self
    }
}

/// A weighted term, with its original word.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighted {
    pub term: Term,
    /// As it was written first.
    pub text: String,
    /// Higher for the title, lower for quoted code.
    pub weight: f64,
}

/// What an item says about the code.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Query {
    /// Stemmed words, heaviest first.
    pub words: Vec<Weighted>,
    /// Whole compound identifiers.
    pub identifiers: Vec<Weighted>,
    /// Names that may be defined somewhere.
    pub symbols: Vec<Weighted>,
    /// With forward slashes and in lower case.
    pub paths: Vec<String>,
    /// Lines named by a stack frame or a link, each with its path as written.
    pub places: Vec<(String, usize)>,
    /// Possible file names, without separators, each with its weight.
    pub names: BTreeMap<String, f64>,
    /// Text that may occur in the code verbatim.
    pub literals: Vec<String>,
    /// Possible prefixes of commit ids, in lower case.
    pub commits: Vec<String>,
    pub pulls: Vec<String>,
    /// Whether it is about tests.
    pub about_tests: bool,
    /// Whether it is about documents.
    pub about_documents: bool,
}

/// The weight of words, by the position of their text in the item.
#[derive(Debug, Clone, Copy)]
struct Weight(f64);

const TITLE: Weight = Weight(3.0);
const PROSE: Weight = Weight(1.0);
const CODE: Weight = Weight(0.5);
const FRAME: Weight = Weight(0.5);
const LABEL: Weight = Weight(1.0);
const MODULE: Weight = Weight(2.0);
const TERM: Weight = Weight(3.0);

impl Weight {
    /// The weight of words in a text of that kind.
    fn within(self, kind: TextKind) -> Self {
        let share = match kind {
            TextKind::Report => 1.0,
            TextKind::Comment => 0.5,
            TextKind::System => 0.2,
        };
        Self(self.0 * share)
    }
}

impl Query {
    /// From any text; its first line is the title.
    pub fn from_text(text: &str) -> Self {
        Self::of(&Subject::from_text(text))
    }

    pub fn of(subject: &Subject) -> Self {
        let mut collector = WordCollector::new(&subject.title);
        collector.title(&subject.title);
        for (kind, text) in &subject.texts {
            collector.text(text, *kind);
        }
        subject.labels.iter().for_each(|label| collector.words(label, LABEL));
        for module in &subject.modules {
            collector.words(module, MODULE);
            collector.mentions(module);
        }
        subject.terms.iter().for_each(|term| collector.term(term));
        collector.finish()
    }

    /// The lines of this file that the item names, from 1.
    pub(crate) fn lines_of(&self, path: &str) -> Vec<usize> {
        let path = path.to_ascii_lowercase();
        let name = path.rsplit('/').next().unwrap_or(&path);
        let meant = |own: &str| path.ends_with(own) || own.ends_with(path.as_str()) || own == name;
        self.places.iter().filter(|(own, _)| meant(own)).map(|(_, line)| *line).collect()
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.paths.is_empty() && self.symbols.is_empty()
    }
}

#[derive(Default)]
struct WordCollector {
    words: BTreeMap<Term, (String, f64)>,
    identifiers: BTreeMap<String, f64>,
    paths: BTreeSet<String>,
    names: BTreeMap<String, f64>,
    places: Vec<(String, usize)>,
    literals: Vec<String>,
    commits: Vec<String>,
    pulls: Vec<String>,
    stop: HashSet<&'static str>,
    title: String,
}

impl WordCollector {
    fn new(title: &str) -> Self {
        Self { stop: STOP.split(' ').collect(), title: title.to_lowercase(), ..Self::default() }
    }

    fn title(&mut self, title: &str) {
        self.words(title, TITLE);
        self.quoted(title);
        self.mentions(title);
        self.phrases(title, 1.0);
        self.changes(title);
        // A word in backticks is a name, even if it is a stop word.
        let stop = std::mem::take(&mut self.stop);
        for quoted in title.split('`').skip(1).step_by(2) {
            self.words(quoted, PROSE);
        }
        self.stop = stop;
    }

    fn text(&mut self, text: &str, kind: TextKind) {
        self.changes(cut(text, MAX_LEN));
        self.places.extend(mention::lines(cut(text, MAX_LEN)).into_iter().take(MAX_PLACES));
        let (text, linked) = mention::without_noise(cut(text, MAX_LEN));
        self.paths.extend(linked);
        for (part, text) in noise::pieces(&text) {
            match part {
                Part::Prose => {
                    self.words(&text, PROSE.within(kind));
                    self.quoted(&text);
                }
                Part::Quoted => self.words_once(&text, CODE.within(kind)),
                Part::Frame => self.words_once(&text, FRAME.within(kind)),
            }
            self.mentions(&text);
        }
    }

    /// Commits and pull requests, each once.
    fn changes(&mut self, text: &str) {
        for (known, found) in
            [(&mut self.commits, mention::commits(text)), (&mut self.pulls, mention::pulls(text))]
        {
            for name in found {
                if known.len() < MAX_CHANGES && !known.contains(&name) {
                    known.push(name);
                }
            }
        }
    }

    /// A search term: a word, several, or a name as it may occur in the code.
    fn term(&mut self, term: &str) {
        self.words(term, TERM);
        self.mentions(term);
        self.phrases(term, TERM.0);
        let words: Vec<&str> = term.split_whitespace().collect();
        if let [name] = words[..] {
            for (_, word) in term::identifiers(name.as_bytes()) {
                if let Ok(word) = std::str::from_utf8(word)
                    && word.len() > 2
                {
                    *self.identifiers.entry(word.to_owned()).or_default() += TERM.0;
                    self.name(word, TERM.0);
                }
            }
        } else if words.len() <= MAX_NAME_LEN {
            // As written in code: `doc id` is `docId` or `doc_id`.
            for name in [words.concat(), words.join("_")] {
                self.identifiers.entry(name).or_insert(TERM.0);
            }
        }
    }

    /// The words of a text, each counted once: repetition in code and logs is not emphasis.
    fn words_once(&mut self, text: &str, weight: Weight) {
        let mut seen = HashSet::new();
        let once: Vec<String> = term::identifiers(text.as_bytes())
            .filter_map(|(at, word)| {
                let word = std::str::from_utf8(word).ok()?;
                let called = text.as_bytes().get(at + word.len()) == Some(&b'(');
                seen.insert(word).then(|| if called { format!("{word}(") } else { word.to_owned() })
            })
            .collect();
        self.words(&once.join(" "), weight);
    }

    fn words(&mut self, text: &str, weight: Weight) {
        for (at, word) in term::identifiers(text.as_bytes()) {
            let stop = &self.stop;
            let words = &mut self.words;
            term::parts(word, |part| {
                let Ok(part) = std::str::from_utf8(part) else { return };
                if part.len() > 1
                    && !part.starts_with(|c: char| c.is_ascii_digit())
                    && !stop.contains(part)
                {
                    let term = term::hash(Space::Word, term::stem(part.as_bytes()));
                    words.entry(term).or_insert_with(|| (part.to_owned(), 0.0)).1 += weight.0;
                }
            });
            let Ok(word) = std::str::from_utf8(word) else { continue };
            let called = text.as_bytes().get(at + word.len()) == Some(&b'(');
            self.identifier(word, weight, called);
        }
    }

    /// Keeps a word that looks like a name in code.
    fn identifier(&mut self, word: &str, weight: Weight, called: bool) {
        let compound = term::is_compound(word.as_bytes());
        let proper = word.starts_with(|c: char| c.is_ascii_uppercase());
        let plain = self.stop.contains(word.to_ascii_lowercase().as_str());
        if word.len() > 2 && !plain && (compound || proper || called) {
            let factor = if compound { 1.0 } else { 0.5 };
            *self.identifiers.entry(word.to_owned()).or_default() += weight.0 * factor;
            self.name(word, weight.0 * factor);
        }
    }

    /// Keeps a possible file name.
    fn name(&mut self, text: &str, weight: f64) {
        let name = term::squeeze(text);
        if name.len() > 2 {
            *self.names.entry(name).or_default() += weight;
        }
    }

    /// Adjacent words in a title or a term may be a name: `source maps` and `source-map.ts`.
    fn phrases(&mut self, text: &str, weight: f64) {
        let words: Vec<&str> = term::identifiers(text.as_bytes())
            .filter_map(|(_, word)| std::str::from_utf8(word).ok())
            .collect();
        let says_something = |word: &&str| !self.stop.contains(word.to_ascii_lowercase().as_str());
        let phrases: Vec<String> = (2..=3)
            .flat_map(|length| words.windows(length))
            .filter(|phrase| phrase.iter().all(says_something))
            .map(<[&str]>::concat)
            .collect();
        phrases.iter().for_each(|phrase| self.name(phrase, weight));
    }

    /// Words between backticks are names.
    fn quoted(&mut self, text: &str) {
        for quoted in text.split('`').skip(1).step_by(2) {
            for (_, word) in term::identifiers(quoted.as_bytes()) {
                if let Ok(word) = std::str::from_utf8(word)
                    && word.len() > 2
                    && !word.starts_with(|c: char| c.is_ascii_digit())
                {
                    *self.identifiers.entry(word.to_owned()).or_default() += 1.5;
                    self.name(word, 1.5);
                }
            }
        }
    }

    fn mentions(&mut self, text: &str) {
        mention::paths(text, |path| {
            self.paths.insert(path);
        });
        mention::hyphened(text, |name| self.name(name, 1.0));
        for literal in mention::literals(text) {
            if self.literals.len() < MAX_LITERALS && !self.literals.contains(&literal) {
                self.literals.push(literal);
            }
        }
    }

    fn finish(self) -> Query {
        let mut words: Vec<_> = self
            .words
            .into_iter()
            .map(|(term, (text, weight))| Weighted { term, text, weight: damp(weight) })
            .collect();
        words.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.term.cmp(&b.term)));
        words.truncate(MAX_WORDS);
        let mut folded: BTreeMap<String, (String, f64)> = BTreeMap::new();
        for (text, weight) in self.identifiers {
            folded.entry(text.to_ascii_lowercase()).or_insert((text, 0.0)).1 += weight;
        }
        let named = |space: Space| {
            let mut all: Vec<_> = folded
                .iter()
                .filter(|(key, (text, _))| {
                    space == Space::Symbol || (key.len() > 2 && term::is_compound(text.as_bytes()))
                })
                .map(|(key, (text, weight))| Weighted {
                    term: term::hash(space, key.as_bytes()),
                    text: text.clone(),
                    weight: damp(*weight),
                })
                .collect();
            all.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.text.cmp(&b.text)));
            all.truncate(MAX_WORDS / 2);
            all
        };
        let about = |names: &[&str]| {
            self.title.split(|c: char| !c.is_alphanumeric()).any(|word| names.contains(&word))
        };
        Query {
            words,
            identifiers: named(Space::Whole),
            symbols: named(Space::Symbol),
            paths: self.paths.into_iter().collect(),
            literals: self.literals,
            commits: self.commits,
            pulls: self.pulls,
            places: self.places,
            names: self.names.into_iter().map(|(name, weight)| (name, damp(weight))).collect(),
            about_tests: about(&["test", "tests", "flaky", "fixture"]),
            about_documents: about(&["docs", "documentation", "readme", "typo"]),
        }
    }
}

/// The tenth mention counts less than the first.
fn damp(weight: f64) -> f64 {
    if weight > 1.0 { 1.0 + weight.ln() } else { weight.max(0.3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(query: &Query, text: &str) -> Option<f64> {
        let term = term::hash(Space::Word, term::stem(text.as_bytes()));
        query.words.iter().find(|word| word.term == term).map(|word| word.weight)
    }

    #[test]
    fn the_title_weighs_more_than_prose_and_prose_more_than_code() {
        let query = Query::from_text("Basket total\nThe checkout fails.\n```\nwarehouse()\n```\n");
        assert!(word(&query, "basket") > word(&query, "checkout"));
        assert!(word(&query, "checkout") > word(&query, "warehouse"));
        assert_eq!(word(&query, "the"), None);
    }

    #[test]
    fn names_and_paths_are_taken_as_such() {
        let query =
            Query::from_text("x\nSee `CartService.total` in src\\Shop\\Cart.cs and parse_line.");
        let symbols: Vec<_> = query.symbols.iter().map(|symbol| symbol.text.as_str()).collect();
        assert!(
            symbols.contains(&"CartService")
                && symbols.contains(&"total")
                && symbols.contains(&"parse_line"),
            "{symbols:?}"
        );
        assert!(query.paths.contains(&"src/shop/cart.cs".to_owned()), "{:?}", query.paths);
        assert!(query.names.contains_key("cartservice"), "{:?}", query.names);
    }

    #[test]
    fn names_are_kept_however_they_are_written() {
        let query = Query::from_text("Wrong source maps\nRule `no-unused-vars` and stock_level");
        for name in ["sourcemap", "nounusedvar", "stocklevel"] {
            assert!(query.names.contains_key(name), "{name} {:?}", query.names);
        }
    }

    #[test]
    fn an_empty_text_asks_for_nothing() {
        assert!(Query::from_text("").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC{0,300}") {
            Query::from_text(&text);
        }
    }
}
