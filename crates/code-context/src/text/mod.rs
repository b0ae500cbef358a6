//! One file as words by field, definitions and kind; and the words of a work item. Pure.

pub(crate) mod bytes;
pub(crate) mod definition;
pub(crate) mod document;
pub(crate) mod kind;
pub(crate) mod language;
pub(crate) mod lexer;
pub(crate) mod mention;
pub(crate) mod noise;
pub(crate) mod term;
