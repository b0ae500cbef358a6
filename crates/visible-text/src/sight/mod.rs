//! What a reader sees of an element, judged by lists: each declaration that could apply is
//! harmless, certainly hides, or may hide.
//!
//! There is no layout here and hardly a cascade. A `style` attribute can hide for certain; a style
//! sheet cannot, since whether its rules apply is decided elsewhere: what it may hide is doubtful. A
//! property that is not on a list does nothing, because no browser knows it or because no value of
//! it hides text.
//!
//! `inline` reads a `style` attribute and `sheet` finds the rules that could apply to an element.
//! `declared` is what they say: `lists` has the properties and values, `paint`, `color` and `length`
//! read parts of values, whose `text` is read once and may name `variables`. `state` is the little that is inherited, colours,
//! the size of the font, opacity and what was doubtful further out, and what declarations do to it;
//! `judge` passes over the tree with it.

mod color;
mod declared;
mod inline;
mod judge;
mod length;
mod lists;
mod paint;
mod sheet;
mod state;
mod text;
mod variables;

pub(crate) use declared::{Display, TextSpace};
pub(crate) use judge::{Look, Verdict, judge};
pub(crate) use state::Sight;
