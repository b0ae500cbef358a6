//! Work-item text made fit for a prompt: HTML, Markdown and test steps to compact, safe text.

mod characters;
mod code;
mod element;
mod enter;
mod flood;
mod html;
mod item;
mod leave;
mod link;
mod list;
mod markdown;
mod parse;
mod steps;
mod style;
mod table;
mod trim;
mod walk;
mod writer;

use crate::model::{Alarms, Format, TextStats};

pub use item::{Budget, clean_item};

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
    let mut cleaned = match format {
        Format::Html => html::clean(raw, options.rendering),
        Format::Markdown => markdown::clean(raw, options.rendering),
        Format::Plain => markdown::clean_plain(raw),
        Format::TestSteps => steps::clean(raw, options.rendering),
    };
    if let Some(max_bytes) = options.max_bytes {
        let (text, left_out) = trim::to_bytes(cleaned.text, max_bytes);
        cleaned.text = text;
        cleaned.stats.cut_bytes += left_out;
    }
    cleaned.measured(raw)
}

/// Cleans one text in both renderings, full and tight; HTML is parsed once for both.
pub fn clean_both(raw: &str, format: Format) -> (Cleaned, Cleaned) {
    let options = |rendering| Options { rendering, max_bytes: None };
    if format == Format::Html {
        let page = html::Page::read(raw);
        let render = |rendering| page.render(rendering).measured(raw);
        return (render(Rendering::Full), render(Rendering::Tight));
    }
    let clean = |rendering| clean_text(raw, format, &options(rendering));
    (clean(Rendering::Full), clean(Rendering::Tight))
}

impl Cleaned {
    fn measured(mut self, raw: &str) -> Self {
        self.stats.raw_bytes = raw.len();
        self.stats.clean_bytes = self.text.len();
        self
    }
}

/// Estimates the tokens of a text: a token for four bytes, rounded up.
///
/// No tokenizer of the models we use is public. On cleaned work-item text, four bytes a token is
/// within about a tenth of what public tokenizers count for English, and on the safe side for
/// scripts with more bytes a character.
pub fn estimate_tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}
