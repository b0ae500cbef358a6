//! The part of CSS that determines what a browser shows. Real parsers read selectors and tokens
//! (`selectors`, `cssparser`); values in the ranges of real text are evaluated; every other
//! construct that can hide text makes the text it affects doubtful.
//!
//! `text` reads a value, `property` lists the harmless properties, `declaration` turns declarations
//! into values or doubts, `sheet` holds rules with their layers and `condition`s, `selector`
//! matches them within a budget, `pseudo` tells which of their pseudo-classes are known, `computed`
//! combines inherited values, `impact` tells what declarations could do anywhere, `verdict`
//! traverses the tree, `unseen` handles elements without readable text, `drag`
//! those that move others, `stack` those that are painted over others, `spill` text that leaves its
//! box, `shift` and `shrink` what many small steps do together, and `fonts` lists the
//! families that draw characters as written. `page` and `outer` tell what is known of the
//! page around a text.

mod boxes;
mod color;
mod computed;
mod condition;
mod declaration;
mod drag;
mod element_style;
mod fonts;
mod impact;
mod layout;
mod length;
mod outer;
mod page;
mod property;
mod pseudo;
mod reader;
mod reader_box;
mod reader_paint;
mod seen;
mod selector;
mod sheet;
mod shift;
mod shrink;
mod spill;
mod stack;
mod text;
mod unseen;
mod value;
mod verdict;

pub(super) use computed::Sight;
pub(super) use declaration::{Display, TextSpace};
pub(super) use seen::Verdict;
pub(super) use verdict::judge;
