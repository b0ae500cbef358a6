//! Feeds the tokenizer and follows it through the input, so that no tag reaches it with more
//! attributes than it can compare.

use std::cell::Cell;

use html5ever::buffer_queue::BufferQueue;
use html5ever::interface::create_element;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts};
use html5ever::{QualName, local_name, ns};

use super::flood::{self, Construct};
use super::parse::{CUT_ATTRIBUTES, floor_char_boundary};
use super::sink::{CountingSink, Handle, is_read};

/// Bytes given to the parser between two checks of the counters.
pub(super) const PIECE: usize = 1024;
/// Maximum input in bytes; the rest is cut.
const MAX_INPUT: usize = 8 << 20;
/// Maximum number of nodes, just below a power of two because memory grows by doubling; a long text
/// field (one million characters) of real markup has a third.
pub(super) const MAX_NODES: u32 = 120_000;
/// Additional steps allowed per byte of input; real markup needs about three.
pub(super) const WORK_PER_BYTE: u64 = 8;
/// How the tokenizer interprets the next bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Markup,
    /// Text up to the end tag of the element that started it.
    Raw,
    /// Text up to the end of the input.
    Plain,
}

/// The tree builder, and its last response to the tokenizer.
pub(super) struct Watch {
    pub(super) builder: TreeBuilder<Handle, CountingSink>,
    mode: Cell<Mode>,
}

impl TokenSink for Watch {
    type Handle = Handle;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<Handle> {
        let ends = matches!(&token, Token::TagToken(tag) if tag.kind == TagKind::EndTag);
        let result = self.builder.process_token(token, line);
        match &result {
            TokenSinkResult::RawData(_) => self.mode.set(Mode::Raw),
            TokenSinkResult::Plaintext => self.mode.set(Mode::Plain),
            _ if ends => self.mode.set(Mode::Markup),
            _ => {}
        }
        result
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// Feeds the tokenizer and follows it through the input, so that no tag reaches it with more
/// attributes than it can compare.
pub(super) struct Feeder<'a> {
    input: &'a str,
    end: usize,
    allowed: u64,
    keeps_all: bool,
    pub(super) tokenizer: Tokenizer<Watch>,
    queue: BufferQueue,
    /// Bytes given to the tokenizer.
    pub(super) fed: usize,
    pub(super) flood_bytes: usize,
    pub(super) body: Option<String>,
}

impl<'a> Feeder<'a> {
    pub(super) fn new(input: &'a str, allowed: u64) -> Self {
        let keeps_all = mentions_style(input);
        let sink = CountingSink::new(input.len(), keeps_all);
        let context = QualName::new(None, ns!(html), local_name!("body"));
        let context = create_element(&sink, context, Vec::new());
        let builder =
            TreeBuilder::new_for_fragment(sink, context, None, TreeBuilderOpts::default());
        let watch = Watch { builder, mode: Cell::new(Mode::Markup) };
        Self {
            input,
            end: floor_char_boundary(input, MAX_INPUT),
            allowed,
            keeps_all,
            tokenizer: Tokenizer::new(watch, TokenizerOpts::default()),
            queue: BufferQueue::default(),
            fed: 0,
            flood_bytes: 0,
            body: None,
        }
    }

    pub(super) fn run(&mut self) {
        let mut at = 0;
        let mut raw_name = "";
        while at < self.end && !self.is_spent() {
            match self.tokenizer.sink.mode.get() {
                Mode::Plain => at = self.end,
                Mode::Raw => match find_end_tag(self.input, at, raw_name) {
                    Some(open) => (at, _) = self.step(open),
                    None => at = self.end,
                },
                Mode::Markup => match flood::find(self.input.as_bytes(), at, b'<') {
                    Some(open) => (at, raw_name) = self.step(open),
                    None => at = self.end,
                },
            }
            at = at.min(self.end);
            if at - self.fed >= PIECE || at == self.end {
                self.feed_to(at);
            }
        }
    }

    /// Skips the construct at `open`. Returns its end, and its name if text follows.
    fn step(&mut self, open: usize) -> (usize, &'a str) {
        let keeps_all = self.keeps_all;
        let (construct, end) = flood::construct(self.input, open, &is_read);
        match construct {
            Construct::Text | Construct::Comment => (end, ""),
            Construct::Cdata => {
                self.feed_to(open);
                let is_text =
                    self.tokenizer.sink.adjusted_current_node_present_but_not_in_html_namespace();
                let close = if is_text { "]]>" } else { ">" };
                let rest = self.input.get(end..).unwrap_or("");
                (rest.find(close).map_or(self.input.len(), |at| end + at + close.len()), "")
            }
            Construct::Tag(tag) => {
                let name_start = open + 1 + usize::from(tag.is_end);
                let name = self.input.get(name_start..tag.name_end).unwrap_or("");
                if let Some((from, kept)) = &tag.flood {
                    self.feed_to(*from);
                    let mark = if keeps_all { CUT_ATTRIBUTES } else { "" };
                    self.feed(&format!("{kept}{mark}"));
                    let close = if self.input[..end].ends_with('>') { end - 1 } else { end };
                    self.flood_bytes += close.saturating_sub(from + kept.len());
                    self.fed = close.min(self.end);
                }
                if tag.has_attributes
                    && !tag.is_end
                    && name.eq_ignore_ascii_case("body")
                    && self.body.is_none()
                {
                    self.body = self
                        .input
                        .get(tag.name_end..end.min(tag.name_end + 4096))
                        .map(str::to_owned);
                }
                // Whether text follows these depends on their position: the tree builder decides.
                if starts_text(name) {
                    self.feed_to(end.min(self.end));
                }
                (end, name)
            }
        }
    }

    fn is_spent(&self) -> bool {
        let counted = &self.tokenizer.sink.builder.sink;
        counted.work.get() > self.allowed || counted.depths.borrow().len() as u64 > MAX_NODES.into()
    }

    /// Feeds the input up to `to` in pieces, while steps are left.
    fn feed_to(&mut self, to: usize) {
        while self.fed < to && !self.is_spent() {
            let next = floor_char_boundary(&self.input[..to], self.fed + PIECE);
            let input = self.input;
            self.feed(&input[self.fed..next]);
            self.fed = next;
        }
    }

    fn feed(&self, text: &str) {
        self.queue.push_back(StrTendril::from_slice(text));
        // It stops at the end of a script and continues when called again.
        while !self.queue.is_empty() {
            drop(self.tokenizer.feed(&self.queue));
        }
    }
}

/// Whether the content of such an element may be text without markup.
fn starts_text(name: &str) -> bool {
    const NAMES: &str =
        "title textarea style xmp iframe noembed noframes script noscript plaintext";
    // Most tags have a shorter name, or one of four letters like `span`.
    matches!(name.len(), 3 | 5..=9)
        && NAMES.split(' ').any(|known| name.eq_ignore_ascii_case(known))
}

/// Position of the next `</name`.
fn find_end_tag(input: &str, from: usize, name: &str) -> Option<usize> {
    let bytes = input.as_bytes();
    let mut at = from;
    while let Some(open) = flood::find(bytes, at, b'<') {
        let tail = &bytes[open + 1..];
        if tail.first() == Some(&b'/')
            && tail.get(1..=name.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(name.as_bytes()))
        {
            return Some(open);
        }
        at = open + 1;
    }
    None
}

/// Whether there is a style sheet, whose selectors may refer to any attribute.
fn mentions_style(input: &str) -> bool {
    let bytes = input.as_bytes();
    let names_style = |open: usize| {
        bytes.get(open + 1..open + 6).is_some_and(|name| name.eq_ignore_ascii_case(b"style"))
    };
    [b"<s", b"<S"].into_iter().any(|start| memchr::memmem::find_iter(bytes, start).any(names_style))
}
