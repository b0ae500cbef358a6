//! What a reader sees of an element, judged by lists: each declaration that could apply is
//! harmless, certainly hides, or may hide.
//!
//! There is no layout here and hardly a cascade. A `style` attribute can hide for certain; a style
//! sheet cannot, since whether its rules apply is decided elsewhere: what it may hide is doubtful. A
//! property that is not on a list does nothing, because no browser knows it or because no value of
//! it hides text.
//!
//! `text` reads a value, `declared` judges declarations by the lists, `sheet` finds the rules that
//! could apply to an element, and `judge` passes over the tree with the little that is inherited:
//! colours, the size of the font, opacity, and what was doubtful further out.

mod color;
mod declared;
mod judge;
mod length;
mod sheet;
mod text;

pub(crate) use declared::{Display, TextSpace};
pub(crate) use judge::{Look, Sight, Verdict, judge};
