//! As much CSS as it takes to know what a browser shows: inline declarations, `<style>` rules with
//! simple selectors, and what follows from them for the visibility of text.

mod color;
mod computed;
mod declarations;
mod length;
mod sheet;

pub(super) use color::Color;
pub(super) use computed::{Flow, Inherited, Sight, TextSpace};
pub(super) use declarations::{Declarations, Display};
pub(super) use sheet::Sheet;
