//! What speaks for each file: a handful of numbers, each with a plain meaning. Computed from the
//! index and the query alone.

use super::ContextError;
use super::document::{BLOCKS, FIELDS, Field, Posting};
use super::index::Index;
use super::links;
use super::past;
use super::places;
use super::query::{Query, Weighted};

/// How much a word counts in each field of the content; names and folders are judged apart.
const CONTENT_WEIGHT: [f64; FIELDS] = [0.0, 0.0, 3.0, 1.0, 1.0, 1.0];
/// How strongly a long field is held against its file.
const LENGTH_PENALTY: f64 = 0.75;
/// How soon more of the same word stops counting.
const SATURATION: f64 = 1.2;

/// How many signals there are.
pub const SIGNALS: usize = 12;

/// Everything that speaks for one file; comparable between files of one query only.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Signals {
    /// The words of the query in the whole file.
    pub content: f64,
    /// The words of the query close together in one place.
    pub focus: f64,
    /// The words of the query in the folders' names.
    pub folder: f64,
    /// The words of the query in the file's name.
    pub name: f64,
    /// Names of the query that the file defines.
    pub symbol: f64,
    /// The query mentions its path.
    pub mention: f64,
    /// The query mentions it as a module, a namespace or a type.
    pub dotted: f64,
    /// Commits about the same words changed it.
    pub past: f64,
    /// It changes often and lately.
    pub habit: f64,
    /// The best files name it.
    pub used: f64,
    /// It names one of the best files.
    pub using: f64,
    /// Its tests hold the words of the query.
    pub tested: f64,
}

impl Signals {
    /// As a list, in the order of the fields above.
    pub fn values(&self) -> [f64; SIGNALS] {
        [
            self.content,
            self.focus,
            self.folder,
            self.name,
            self.symbol,
            self.mention,
            self.dotted,
            self.past,
            self.habit,
            self.used,
            self.using,
            self.tested,
        ]
    }

    /// Does anything but habit speak for it?
    pub(super) fn speaks(&self) -> bool {
        Self { habit: 0.0, ..*self }.values().iter().any(|value| *value > 0.0)
    }

    fn values_mut(&mut self) -> [&mut f64; SIGNALS] {
        [
            &mut self.content,
            &mut self.focus,
            &mut self.folder,
            &mut self.name,
            &mut self.symbol,
            &mut self.mention,
            &mut self.dotted,
            &mut self.past,
            &mut self.habit,
            &mut self.used,
            &mut self.using,
            &mut self.tested,
        ]
    }
}

/// The signals of every file, by number, each scaled so that the best file has one.
pub fn signals(index: &Index, query: &Query) -> Result<Vec<Signals>, ContextError> {
    let mut table = Table::new(index);
    for word in &query.words {
        table.word(word)?;
    }
    for name in &query.identifiers {
        table.identifier(name)?;
    }
    for name in &query.symbols {
        table.symbol(name)?;
    }
    let mut all = table.finish();
    places::add(index, query, &mut all);
    past::add(index, query, &mut all);
    scale(&mut all);
    // Links start from the files that are best by everything else.
    let order = super::rank::order(index, query, &all);
    links::add(index, &order, &mut all)?;
    scale(&mut all);
    Ok(all)
}

/// Brings each signal to the range from zero to one.
fn scale(all: &mut [Signals]) {
    let mut most = [0.0f64; SIGNALS];
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

struct Table<'a> {
    index: &'a Index,
    all: Vec<Signals>,
    places: Vec<[f32; BLOCKS]>,
    found: Vec<(u32, Posting)>,
}

impl<'a> Table<'a> {
    fn new(index: &'a Index) -> Self {
        let count = index.files().len();
        Self {
            index,
            all: vec![Signals::default(); count],
            places: vec![[0.0; BLOCKS]; count],
            found: Vec::new(),
        }
    }

    /// Reads the postings of a term; the answer is how rare it is among those that `counts` accepts.
    fn look_up(
        &mut self,
        term: u64,
        counts: impl Fn(&Posting) -> bool,
    ) -> Result<f64, ContextError> {
        self.found.clear();
        let found = &mut self.found;
        self.index.postings(term, |file, posting| found.push((file, *posting)))?;
        let holders = self.found.iter().filter(|(_, posting)| counts(posting)).count() as f64;
        let total = self.all.len() as f64;
        Ok((1.0 + (total - holders + 0.5) / (holders + 0.5)).ln())
    }

    fn word(&mut self, word: &Weighted) -> Result<(), ContextError> {
        let rare = self.look_up(word.term, in_content)? * word.weight;
        let named = self.found.iter().filter(|(_, posting)| in_path(posting)).count() as f64;
        let rare_name = (1.0 + self.all.len() as f64 / named.max(1.0)).ln() * word.weight;
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

    /// A whole identifier says where to look inside a file; its parts already count as words.
    fn identifier(&mut self, name: &Weighted) -> Result<(), ContextError> {
        let rare = self.look_up(name.term, in_content)? * name.weight;
        for (file, posting) in &self.found {
            add_place(&mut self.places[*file as usize], posting.blocks, rare);
        }
        Ok(())
    }

    fn symbol(&mut self, name: &Weighted) -> Result<(), ContextError> {
        let rare = self.look_up(name.term, |_| true)? * name.weight;
        for (file, posting) in &self.found {
            self.all[*file as usize].symbol += rare;
            add_place(&mut self.places[*file as usize], posting.blocks, rare);
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<Signals> {
        for (signals, places) in self.all.iter_mut().zip(&self.places) {
            signals.focus = f64::from(places.iter().copied().fold(0.0, f32::max));
        }
        self.all
    }
}

fn in_content(posting: &Posting) -> bool {
    posting.counts[Field::Definition as usize..].iter().any(|count| *count > 0)
}

fn in_path(posting: &Posting) -> bool {
    posting.counts[..Field::Definition as usize].iter().any(|count| *count > 0)
}

/// How often a word stands in a file, counted by field and by the length of each field.
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
