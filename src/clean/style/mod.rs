//! As much CSS as it takes to know what a browser shows. Selectors and tokens are read by real
//! parsers (`selectors`, `cssparser`); values inside the ranges of real text are evaluated; every
//! other construct that can hide text makes the text it touches doubtful.
//!
//! `text` reads a value, `property` knows the harmless properties, `declaration` turns declarations
//! into values or doubts, `sheet` holds rules with their layers and `condition`s, `selector` matches
//! them within a budget, `computed` adds up what is inherited, `impact` says what declarations could
//! do wherever they apply, `verdict` goes through the tree, `unseen` knows the
//! elements of which no text is read, and `fonts` the families that draw what they spell.

mod boxes;
mod color;
mod computed;
mod condition;
mod declaration;
mod element_style;
mod fonts;
mod impact;
mod layout;
mod length;
mod property;
mod reader;
mod reader_box;
mod reader_paint;
mod seen;
mod selector;
mod sheet;
mod text;
mod unseen;
mod value;
mod verdict;

pub(super) use computed::Sight;
pub(super) use declaration::{Display, TextSpace};
pub(super) use seen::Verdict;
pub(super) use verdict::judge;
