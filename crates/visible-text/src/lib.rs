//! Prepares work-item text for a prompt: converts HTML, Markdown and test steps to compact, safe
//! text.
//!
//! A prompt contains everything that a user would see, with its structure, and nothing that a user
//! would not see: hidden text is a vector of prompt injection. Everything here is pure.
//!
//! # Data flow of an HTML field
//! `feed` gives the input to html5ever in pieces and removes attributes from tags with too many
//! (`flood`), and `sink` builds scraper's tree and counts the work; `sight` judges every element
//! once; `walk` traverses the tree without recursion and `writer` writes the lines. `enter` and
//! `leave` define what each element does at its start and end; `table`, `list`, `code`, `control` and
//! `link` handle their parts. Markdown is converted to HTML by a parser and takes the same path
//! (`markdown`), as do Jira's documents (`adf`) and wiki markup (`wiki`), the steps of a test case
//! do so text by text (`steps`).
//!
//! # Visibility
//! Each declaration that could apply to an element is judged by itself, from lists: harmless,
//! certainly hiding, or perhaps hiding. There is no layout: what needs one to be decided is
//! *doubtful*. What is certainly hidden is left out and counted. What is doubtful is kept, with one
//! mark with the reason before the first of it in a text, or left out ([`UnclearTextPolicy`]); so is
//! text in the colour of a light page without its own background, since its author's page may be
//! dark. A property that no browser knows does nothing, a closed `<details>` is one click away and
//! is text, and where a tracker shows no styles none counts. Why not a layout: half of one was here
//! once, several times this size. It let fewer of the rare tricks through (none of a hundred instead
//! of two) and doubted more of what people paste.
//!
//! [`Alarms`] counts all of it. Three certainly hidden words or a message in invisible characters
//! are an [alarm](Tier::Alarm), the rest, which ordinary texts have too, is a [note](Tier::Note).
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
mod alarm;
mod characters;
mod code;
mod control;
mod drawn;
mod element;
mod enter;
mod feed;
mod flood;
mod format;
mod html;
mod leave;
mod link;
mod list;
mod markdown;
mod parse;
mod sight;
mod sink;
mod steps;
mod swallow;
mod table;
mod trim;
mod walk;
mod wiki;
mod wiki_inline;
mod writer;

pub use alarm::{Alarms, Tier, UnclearTextPolicy, VisibilityIssue, VisibilityIssues};
pub use characters::visible as without_invisible;
pub use format::{Format, TextStats};
pub use trim::to_bytes as trim_to_bytes;

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
    let mut cleaned = Source::read(raw, format).render(options.rendering, options.doubtful);
    if let Some(max_bytes) = options.max_bytes {
        let (text, left_out) = trim::to_bytes(cleaned.text, max_bytes);
        cleaned.text = text;
        cleaned.stats.cut_bytes += left_out;
    }
    cleaned.measured(raw)
}

/// Cleans one text in both renderings, full and tight; it is parsed and judged only once.
pub fn clean_both(raw: &str, format: Format, doubtful: UnclearTextPolicy) -> (Cleaned, Cleaned) {
    let source = Source::read(raw, format);
    let [full, tight] = [Rendering::Full, Rendering::Tight]
        .map(|rendering| source.render(rendering, doubtful).measured(raw));
    (full, tight)
}

/// A text that is parsed and judged, as far as its format allows, and can be rendered.
enum Source<'a> {
    Page(html::Page),
    Document(markdown::Document),
    Plain(&'a str),
    /// Each step is a text of its own.
    TestSteps(&'a str),
}

impl<'a> Source<'a> {
    fn read(raw: &'a str, format: Format) -> Self {
        match format {
            Format::Html => Self::Page(html::Page::read(raw)),
            Format::Markdown => Self::Document(markdown::Document::read(raw)),
            Format::RawMarkdown => Self::Document(markdown::Document::read_raw(raw)),
            Format::Adf => Self::Document(adf::read(raw)),
            Format::Wiki => Self::Document(wiki::read(raw)),
            Format::Plain => Self::Plain(raw),
            Format::TestSteps => Self::TestSteps(raw),
        }
    }

    fn render(&self, rendering: Rendering, doubtful: UnclearTextPolicy) -> Cleaned {
        match self {
            Self::Page(page) => page.render(rendering, doubtful),
            Self::Document(document) => document.render(rendering, doubtful),
            Self::Plain(raw) => markdown::clean_plain(raw),
            Self::TestSteps(raw) => steps::clean(raw, rendering, doubtful),
        }
    }
}

impl Cleaned {
    fn measured(mut self, raw: &str) -> Self {
        self.stats.raw_bytes = raw.len();
        self.stats.clean_bytes = self.text.len();
        self
    }
}
