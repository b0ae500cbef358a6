//! Work-item text made fit for a prompt: HTML, Markdown and test steps to compact, safe text.
//!
//! What reaches a prompt is all that a person would see, in its structure, and nothing that a
//! person would not see: hidden text is where prompt injection lives. Everything here is pure.
//!
//! # The way of an HTML field
//! `flood` takes attributes away from tags with absurdly many; `parse` builds scraper's tree with
//! html5ever, counting the work; `walk` goes through the tree without recursion, `style` tells at
//! each element what a browser would show, and `writer` sets the lines. `enter` and `leave` say
//! what each element does when it begins and ends; `table`, `list`, `code` and `link` know their
//! parts. Markdown fields never take this way (`markdown`), the steps of a test case do so text by
//! text (`steps`), and `item` puts an item together within a [`Budget`].
//!
//! # What is seen
//! Inline declarations, presentational attributes and the simple rules of `<style>` elements
//! decide: `display`, `visibility`, `opacity`, sizes of nothing, clipping, places off the page,
//! unreadable fonts, colours equal to their background. Text in the colour of a light page that
//! nobody painted is shown to readers with a dark theme and not to others: it is replaced by a
//! mark. Hidden, low-contrast and invisible characters are counted in [`Alarms`], since real items
//! have none. A closed `<details>` shows its summary and a mark.
//!
//! # Figures
//! Fidelity, tokens left and speed beside other converters: `benches/README.md`.
//!
//! On 124 families of hostile input of 5 MB each: at most 0.42 s of processor time and 100 MB, no
//! panic, output never above twice the input. The bound is a count of the parser's steps, linear in
//! the length of the input, so the same input is always cut at the same place, with a mark.

mod characters;
mod code;
mod control;
mod element;
mod enter;
mod feed;
mod flood;
mod html;
mod item;
mod leave;
mod link;
mod list;
mod markdown;
mod parse;
mod sink;
mod steps;
mod style;
mod table;
mod trim;
mod walk;
mod writer;

use crate::model::{Alarms, Doubtful, Format, TextStats};

pub use item::{Budget, clean_item, without_time};

/// How much of the structure is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rendering {
    /// Everything a reader sees, with link targets: for analysis.
    #[default]
    Full,
    /// No link targets, tables and code shortened: for triage.
    Tight,
}

/// How to clean one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// How much of the structure is shown.
    pub rendering: Rendering,
    /// What to do with doubtful text.
    pub doubtful: Doubtful,
    /// Trim the result to about this many bytes, at a boundary of its structure.
    pub max_bytes: Option<usize>,
}

/// One text after cleaning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// The text.
    pub text: String,
    /// Hidden and invisible text that was left out.
    pub alarms: Alarms,
    /// Sizes before and after.
    pub stats: TextStats,
}

/// Cleans one text.
pub fn clean_text(raw: &str, format: Format, options: &Options) -> Cleaned {
    let (rendering, doubtful) = (options.rendering, options.doubtful);
    let mut cleaned = match format {
        Format::Html => html::clean(raw, rendering, doubtful),
        Format::Markdown => markdown::Document::read(raw).render(rendering, doubtful),
        Format::Plain => markdown::clean_plain(raw),
        Format::TestSteps => steps::clean(raw, rendering, doubtful),
    };
    if let Some(max_bytes) = options.max_bytes {
        let (text, left_out) = trim::to_bytes(cleaned.text, max_bytes);
        cleaned.text = text;
        cleaned.stats.cut_bytes += left_out;
    }
    cleaned.measured(raw)
}

/// Cleans one text in both renderings, full and tight; it is parsed and judged once for both.
pub fn clean_both(raw: &str, format: Format, doubtful: Doubtful) -> (Cleaned, Cleaned) {
    let both = |render: &dyn Fn(Rendering) -> Cleaned| {
        (render(Rendering::Full).measured(raw), render(Rendering::Tight).measured(raw))
    };
    match format {
        Format::Html => {
            let page = html::Page::read(raw);
            both(&|rendering| page.render(rendering, doubtful))
        }
        Format::Markdown => {
            let document = markdown::Document::read(raw);
            both(&|rendering| document.render(rendering, doubtful))
        }
        Format::Plain => both(&|_| markdown::clean_plain(raw)),
        Format::TestSteps => both(&|rendering| steps::clean(raw, rendering, doubtful)),
    }
}

impl Cleaned {
    fn measured(mut self, raw: &str) -> Self {
        self.stats.raw_bytes = raw.len();
        self.stats.clean_bytes = self.text.len();
        self
    }
}
