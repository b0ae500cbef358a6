//! Suggested values for the fields of an item, from the team's own items.
//!
//! Pure. [`Memory`] finds the earlier items most like a new one, [`candidates`] turns what they and
//! the code point to into values with a score, [`Options`] offers the best ones to triage and checks
//! its choice, [`Figures`] says how often such suggestions were right and which may be shown,
//! [`measure()`] computes those figures from finished items, and [`fate()`] tells what people did with a
//! suggestion. A value is never made up: every one was used by the team before.

mod fate;
mod figures;
mod measure;
mod memory;
mod options;
mod people;
mod vote;

pub use fate::fate;
pub use figures::{Figure, Figures, interval, is_reliable};
pub use measure::{
    FieldMeasure, Measured, PastFields, PastItem, RECENT, SAME_REPORTER, Split, measure,
};
pub use memory::{Example, Memory, words_kept};
pub use options::{Chosen, Options};
pub use people::{Author, matched};
pub use vote::{Candidate, Evidence, NEIGHBOURS, Neighbour, candidates};
