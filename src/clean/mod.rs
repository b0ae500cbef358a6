//! Work-item text made fit for a prompt: HTML, Markdown and test steps to compact, safe text.
//!
//! What reaches a prompt is all that a person would see, in its structure, and nothing that a
//! person would not see: hidden text is where prompt injection lives. Everything here is pure.
//!
//! # Data flow of an HTML field
//! `feed` gives the input to html5ever piece by piece and takes attributes away from tags with
//! absurdly many (`flood`); `sink` builds scraper's tree and counts the work; `style` judges every
//! element once; `walk` goes through the tree without recursion and `writer` sets the lines.
//! `enter` and `leave` say what each element does when it begins and ends; `table`, `list`, `code`,
//! `control` and `link` know their parts. Markdown becomes HTML by a parser and takes the same path
//! (`markdown`), as do Jira's documents (`adf`) and wiki markup (`wiki`), the steps of a test case
//! do so text by text (`steps`), and `item` puts an item together within a [`Budget`].
//!
//! # What is seen
//! Selectors and tokens are read by real parsers. Values in the ranges of real text are evaluated:
//! such text is shown or hidden. Every other construct that could hide text, and every budget that
//! is hit, makes the text it touches *doubtful*: a mark with the reason stands in its place, or
//! before it ([`Doubtful`]). Text in the colour of a light page that nobody painted is replaced by
//! a mark too. Hidden, low-contrast, invisible and doubtful characters are counted in [`Alarms`]
//! with the reasons, since real items have hardly any. A closed `<details>` shows its summary and a
//! mark.
//!
//! # Figures
//! Fidelity, tokens left and speed beside other converters: `benches/README.md`.
//!
//! On 88 families of hostile input of 5 MB each, as HTML and as Markdown: at most 0.42 s of processor
//! time and 80 MB, twice the input takes at most 2.1 times as long, no
//! panic, output never above twice the input. The bound is a count of the parser's steps, linear in
//! the length of the input, so the same input is always cut at the same place, with a mark.

mod adf;
mod adf_tree;
mod characters;
mod code;
mod control;
mod drawn;
mod element;
mod enter;
mod feed;
mod file;
mod flood;
mod html;
mod item;
mod leave;
mod link;
mod list;
mod many;
mod markdown;
mod parse;
mod sink;
mod steps;
mod style;
mod table;
mod trim;
mod walk;
mod wiki;
mod wiki_inline;
mod writer;

use crate::model::{Alarms, Doubtful, Format, TextStats};

pub use file::{FileKind, harmless_name, kind_of_file};
pub use item::{Budget, clean_item, clean_items, without_texts, without_time};

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
    /// Steps that parsing and judging took: a count, so the same input always takes the same.
    pub steps: u64,
}

/// Cleans one text.
pub fn clean_text(raw: &str, format: Format, options: &Options) -> Cleaned {
    let (rendering, doubtful) = (options.rendering, options.doubtful);
    let mut cleaned = match format {
        Format::Html => html::clean(raw, rendering, doubtful),
        Format::Markdown => markdown::Document::read(raw).render(rendering, doubtful),
        Format::RawMarkdown => markdown::Document::read_raw(raw).render(rendering, doubtful),
        Format::Plain => markdown::clean_plain(raw),
        Format::TestSteps => steps::clean(raw, rendering, doubtful),
        Format::Adf => adf::read(raw).render(rendering, doubtful),
        Format::Wiki => wiki::read(raw).render(rendering, doubtful),
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
        Format::RawMarkdown => {
            let document = markdown::Document::read_raw(raw);
            both(&|rendering| document.render(rendering, doubtful))
        }
        Format::Adf => {
            let document = adf::read(raw);
            both(&|rendering| document.render(rendering, doubtful))
        }
        Format::Wiki => {
            let document = wiki::read(raw);
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
