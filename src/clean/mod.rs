//! Prepares work-item text for a prompt: converts HTML, Markdown and test steps to compact, safe
//! text.
//!
//! A prompt contains everything that a user would see, with its structure, and nothing that a user
//! would not see: hidden text is a vector of prompt injection. Everything here is pure.
//!
//! # Data flow of an HTML field
//! `plain` builds the tree of simple markup itself; `feed` gives any other input to html5ever in
//! pieces and removes attributes from tags with too many (`flood`), and `sink` builds scraper's tree
//! and counts the work; `style` judges every element once;
//! `walk` traverses the tree without recursion and `writer` writes the lines. `enter` and `leave`
//! define what each element does at its start and end; `table`, `list`, `code`, `control` and
//! `link` handle their parts. Markdown is converted to HTML by a parser and takes the same path
//! (`markdown`), as do Jira's documents (`adf`) and wiki markup (`wiki`), the steps of a test case
//! do so text by text (`steps`), and `item` assembles an item within a [`Budget`].
//!
//! # Visibility
//! Real parsers read selectors and tokens. Values in the ranges of real text are evaluated: such
//! text is shown or hidden. Every other construct that could hide text, and every exceeded budget,
//! makes the text it affects *doubtful*: a mark with the reason replaces or precedes it
//! ([`UnclearTextPolicy`]). Text in the colour of a light page without its own background is replaced by a
//! mark too. Hidden, low-contrast, invisible and doubtful characters are counted in [`Alarms`] with
//! the reasons, since real items have hardly any. A closed `<details>` shows its summary and a
//! mark.
//!
//! # Figures
//! Fidelity, remaining tokens and speed compared with other converters: `benches/README.md`.
//!
//! On 88 families of hostile input of 5 MB each, as HTML and as Markdown: at most 0.42 s of
//! processor time and 80 MB, twice the input takes at most 2.1 times as long, no panic, output
//! never above twice the input. The bound is a count of the parser's steps, linear in the length of
//! the input, so the same input is always cut at the same place, with a mark.

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
mod plain;
mod sink;
mod steps;
mod style;
mod swallow;
mod table;
mod trim;
mod walk;
mod wiki;
mod wiki_inline;
mod writer;

use crate::model::{Alarms, Format, TextStats, UnclearTextPolicy};

pub use file::{FileKind, harmless_name, kind_of_file};
pub use item::{Budget, clean_item, clean_items, without_texts, without_time};

/// How much of the structure is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rendering {
    /// Everything visible, with link targets: for analysis.
    #[default]
    Full,
    /// No link targets, tables and code shortened: for triage.
    Tight,
}

/// How to clean one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    pub rendering: Rendering,
    pub doubtful: UnclearTextPolicy,
    /// Trims the result to about this many bytes, at a boundary of its structure.
    pub max_bytes: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleaned {
    pub text: String,
    /// Hidden and invisible text that was removed.
    pub alarms: Alarms,
    pub stats: TextStats,
    /// Steps of parsing and judging: deterministic for the same input.
    pub steps: u64,
}

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

/// Cleans one text in both renderings, full and tight; it is parsed and judged only once.
pub fn clean_both(raw: &str, format: Format, doubtful: UnclearTextPolicy) -> (Cleaned, Cleaned) {
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

#[cfg(test)]
mod plain_tests;
