//! The evidence for each file: a few numbers, each with a simple meaning. Computed from the index
//! and the query; files are read only for rare phrases.

use std::collections::HashMap;

use super::{links, literal, main_language, outline, past, places, together};
use crate::ContextError;
use crate::index::open::Index;
use crate::rank::query::{Query, Weighted};
use crate::rank::weights::Weights;
use crate::text::document::{BLOCKS, FIELDS, Field, Posting};
use crate::text::term::Term;

/// Weight of a word in each field of the content; names and folders are scored separately.
const CONTENT_WEIGHT: [f64; FIELDS] = [0.0, 0.0, 3.0, 1.0, 1.0, 1.0];
/// How much a long field counts against its file.
const LENGTH_PENALTY: f64 = 0.75;
/// How soon repetitions of a word stop counting.
const SATURATION: f64 = 1.2;

pub const SIGNALS: usize = 15;

/// The evidence for one file, from zero to one; comparable between files of one query only.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Signals {
    /// The query's words in the whole file.
    pub content: f64,
    /// The query's words close together in one place.
    pub focus: f64,
    /// The query's words in the folders' names.
    pub folder: f64,
    /// The query's words in the file's name.
    pub name: f64,
    /// The query mentions its path.
    pub mention: f64,
    /// The query mentions its name.
    pub named: f64,
    /// Commits about the same words changed it.
    pub commit_history: f64,
    /// It is in the main language of the product.
    pub main_language: f64,
    /// It defines a name that is made of the query's words.
    pub definition: f64,
    /// The best files name it.
    pub used: f64,
    /// Its tests contain the query's words.
    pub tested: f64,
    /// It contains a rare phrase of the query verbatim.
    pub literal: f64,
    /// It is in the folder of a best file.
    pub same_folder: f64,
    /// It only declares what another file implements.
    pub declares: f64,
    /// Lead of a best file of which it is a part.
    pub together: f64,
}

impl Signals {
    /// As a list, in the order of the fields.
    pub fn values(&self) -> [f64; SIGNALS] {
        let mut own = *self;
        own.values_mut().map(|value| *value)
    }

    /// Whether there is evidence other than its language.
    pub(crate) fn has_evidence(&self) -> bool {
        Self { main_language: 0.0, declares: 0.0, ..*self }
            .values()
            .iter()
            .any(|value| *value > 0.0)
    }

    fn values_mut(&mut self) -> [&mut f64; SIGNALS] {
        [
            &mut self.content,
            &mut self.focus,
            &mut self.folder,
            &mut self.name,
            &mut self.mention,
            &mut self.named,
            &mut self.commit_history,
            &mut self.main_language,
            &mut self.definition,
            &mut self.used,
            &mut self.tested,
            &mut self.literal,
            &mut self.same_folder,
            &mut self.declares,
            &mut self.together,
        ]
    }
}

/// What makes the evidence of files in different indexes comparable: how rare a word is among all of
/// them, and the strongest evidence in any of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scale {
    files: f64,
    holders: HashMap<Term, f64>,
    /// Of `content`, `focus` and `commit_history`.
    most: [f64; 3],
}

impl Scale {
    /// `None` for one index, which is its own scale.
    pub(crate) fn among(indexes: &[&Index], query: &Query) -> Result<Option<Self>, ContextError> {
        if indexes.len() < 2 {
            return Ok(None);
        }
        let mut scale = Self::default();
        for index in indexes {
            scale.files += index.files().len() as f64;
            for word in query.words.iter().chain(&query.identifiers).chain(&query.symbols) {
                let mut holders = 0.0;
                index.postings(word.term, |_, posting| {
                    holders += f64::from(u8::from(in_content(posting)));
                })?;
                *scale.holders.entry(word.term).or_default() += holders;
            }
        }
        for index in indexes {
            let (mut all, _) = in_words(index, query, Some(&scale))?;
            past::add(index, query, &mut all);
            for signals in all {
                let found = [signals.content, signals.focus, signals.commit_history];
                scale.most.iter_mut().zip(found).for_each(|(most, value)| *most = most.max(value));
            }
        }
        Ok(Some(scale))
    }
}

/// The signals of every file, by number.
pub fn signals(
    index: &Index,
    query: &Query,
    judged_by: &Weights,
) -> Result<Vec<Signals>, ContextError> {
    signals_among(index, query, judged_by, None)
}

/// The signals that words give, and the weight of each word as a part of a definition's name.
fn in_words(
    index: &Index,
    query: &Query,
    among: Option<&Scale>,
) -> Result<(Vec<Signals>, HashMap<Term, f64>), ContextError> {
    let mut table = SignalTable::new(index, among);
    for word in &query.words {
        table.word(word)?;
    }
    for name in query.identifiers.iter().chain(&query.symbols) {
        table.name(name)?;
    }
    Ok(table.finish())
}

/// The same on the scale of several indexes.
pub(crate) fn signals_among(
    index: &Index,
    query: &Query,
    judged_by: &Weights,
    among: Option<&Scale>,
) -> Result<Vec<Signals>, ContextError> {
    let (mut all, weights) = in_words(index, query, among)?;
    places::add(index, query, &mut all);
    past::add(index, query, &mut all);
    main_language::add(index, &mut all);
    literal::add(index, query, &mut all)?;
    // The weight of a single rare word: weak evidence stays weak, even where it is the best.
    let word = (1.0 + all.len() as f64).ln();
    let name = 1.4 * word;
    let one = 1.0;
    let [content, focus, past] = among.map_or([0.0; 3], |scale| scale.most);
    scale(
        &mut all,
        [content, focus, name, name, 2.8, 2.8, past, one, one, one, one, one, one, one, one],
    );
    // Outlines and links are computed only for the files that are best so far.
    let order = crate::rank::order::order(index, query, judged_by, &all);
    outline::add(index, &order, &weights, &mut all)?;
    links::add(index, &order, &mut all)?;
    let defined = 2.0 * word;
    scale(
        &mut all,
        [one, one, one, one, one, one, one, one, defined, 0.0, 0.0, one, 0.5, one, one],
    );
    together::add(index, query, judged_by, &mut all)?;
    Ok(all)
}

/// Divides each signal by its maximum, or by `least` if that is greater.
fn scale(all: &mut [Signals], least: [f64; SIGNALS]) {
    let mut most = least;
    for signals in all.iter() {
        for (most, value) in most.iter_mut().zip(signals.values()) {
            *most = most.max(value);
        }
    }
    for signals in all.iter_mut() {
        for (value, most) in signals.values_mut().into_iter().zip(most) {
            if most > 0.0 {
                *value /= most;
            }
        }
    }
}

struct SignalTable<'a> {
    index: &'a Index,
    among: Option<&'a Scale>,
    all: Vec<Signals>,
    places: Vec<[f32; BLOCKS]>,
    found: Vec<(u32, Posting)>,
    defined: HashMap<Term, f64>,
}

impl<'a> SignalTable<'a> {
    fn new(index: &'a Index, among: Option<&'a Scale>) -> Self {
        let count = index.files().len();
        Self {
            index,
            among,
            all: vec![Signals::default(); count],
            places: vec![[0.0; BLOCKS]; count],
            found: Vec::new(),
            defined: HashMap::new(),
        }
    }

    /// Reads the postings of a term; returns how rare it is among those that `counts` accepts.
    fn look_up(
        &mut self,
        term: u64,
        counts: impl Fn(&Posting) -> bool,
    ) -> Result<f64, ContextError> {
        self.found.clear();
        let found = &mut self.found;
        self.index.postings(term, |file, posting| found.push((file, *posting)))?;
        let holders = self.found.iter().filter(|(_, posting)| counts(posting)).count() as f64;
        let (total, holders) = match self.among {
            Some(scale) => (scale.files, scale.holders.get(&term).copied().unwrap_or(holders)),
            None => (self.all.len() as f64, holders),
        };
        Ok((1.0 + (total - holders + 0.5) / (holders + 0.5)).ln())
    }

    fn word(&mut self, word: &Weighted) -> Result<(), ContextError> {
        let rare = self.look_up(word.term, in_content)? * word.weight;
        let named = self.found.iter().filter(|(_, posting)| in_path(posting)).count() as f64;
        let rare_name = (1.0 + self.all.len() as f64 / named.max(1.0)).ln() * word.weight;
        let definers = self.found.iter().filter(|(_, posting)| defines(posting)).count() as f64;
        let rare_definition = (1.0 + self.all.len() as f64 / definers.max(1.0)).ln() * word.weight;
        self.defined.insert(word.term, rare_definition);
        let average = self.index.average();
        for (file, posting) in &self.found {
            let entry = &self.index.files()[*file as usize];
            let signals = &mut self.all[*file as usize];
            signals.content += rare * saturated(frequency(posting, &entry.lengths, average));
            if posting.counts[Field::Name as usize] > 0 {
                signals.name +=
                    rare_name / (1.0 + 0.15 * f64::from(entry.lengths[Field::Name as usize]));
            }
            if posting.counts[Field::Folder as usize] > 0 {
                signals.folder +=
                    rare_name / (1.0 + 0.15 * f64::from(entry.lengths[Field::Folder as usize]));
            }
            add_place(&mut self.places[*file as usize], posting.blocks, rare);
        }
        Ok(())
    }

    /// A whole name tells where to look inside a file; its parts already count as words.
    fn name(&mut self, name: &Weighted) -> Result<(), ContextError> {
        let rare = self.look_up(name.term, in_content)? * name.weight;
        for (file, posting) in &self.found {
            add_place(&mut self.places[*file as usize], posting.blocks, rare);
        }
        Ok(())
    }

    /// The signals, and the weight of each word as a part of a definition's name.
    fn finish(mut self) -> (Vec<Signals>, HashMap<Term, f64>) {
        for (signals, places) in self.all.iter_mut().zip(&self.places) {
            signals.focus = f64::from(places.iter().copied().fold(0.0, f32::max));
        }
        (self.all, self.defined)
    }
}

fn in_content(posting: &Posting) -> bool {
    posting.counts[Field::Definition as usize..].iter().any(|count| *count > 0)
}

fn in_path(posting: &Posting) -> bool {
    posting.counts[..Field::Definition as usize].iter().any(|count| *count > 0)
}

fn defines(posting: &Posting) -> bool {
    posting.counts[Field::Definition as usize] > 0
}

/// How often a word occurs in a file, weighted by field and its length.
fn frequency(posting: &Posting, lengths: &[u32; FIELDS], average: &[f64; FIELDS]) -> f64 {
    let total: f64 =
        lengths[Field::Identifier as usize..].iter().map(|length| f64::from(*length)).sum();
    let usual: f64 = average[Field::Identifier as usize..].iter().sum();
    let norm = 1.0 - LENGTH_PENALTY + LENGTH_PENALTY * total / usual;
    (0..FIELDS).map(|field| CONTENT_WEIGHT[field] * f64::from(posting.counts[field])).sum::<f64>()
        / norm
}

fn saturated(frequency: f64) -> f64 {
    frequency * (SATURATION + 1.0) / (frequency + SATURATION)
}

#[expect(clippy::cast_possible_truncation, reason = "a sum of a few hundred small weights")]
fn add_place(places: &mut [f32; BLOCKS], mut blocks: u64, weight: f64) {
    while blocks != 0 {
        places[blocks.trailing_zeros() as usize] += weight as f32;
        blocks &= blocks - 1;
    }
}
