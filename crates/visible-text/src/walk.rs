//! Traverses the tree iteratively: one frame per open element, each with what it passes to its
//! children.

use std::collections::HashMap;

use ego_tree::{NodeId, NodeRef};
use html5ever::ns;
use scraper::Node;
use scraper::node::Element;

use super::Rendering;
use super::characters;
use super::code::Code;
use super::element::Role;
use super::list::List;
use super::parse::Parsed;
use super::sight::{Display, Sight, TextSpace, Verdict};
use super::table::Table;
use super::writer::{Gap, Writer};
use crate::{Alarms, UnclearTextPolicy, VisibilityIssue, VisibilityIssues};

/// Action at the end of an element.
#[derive(Debug)]
pub(super) enum Closing {
    Nothing,
    Gap(Gap),
    /// End a prefix, then request a gap.
    Prefix(Gap),
    Item,
    /// End a list, and its prefix if it has one.
    List {
        has_prefix: bool,
    },
    /// Write the link's target.
    Link(Option<String>),
    /// Mark inline code.
    Code,
    /// Mark struck text.
    Struck,
    /// Mark a superscript number.
    Raised,
    /// Close an inline quotation.
    Quotation,
    /// Put the written text in brackets.
    Group,
    /// Write the code block.
    Preformatted,
    /// End a cell with its spans.
    Cell {
        columns: usize,
        rows: usize,
    },
    Row,
    Table,
    /// End the marker of an item written by Word.
    WordMarker,
}

/// What to do with an element's children.
pub(super) enum Entry {
    Skip,
    /// Visit them, then run this action.
    Into(Closing),
}

/// What is known about an element when it is entered.
pub(super) struct Seen<'a> {
    pub(super) node: NodeRef<'a, Node>,
    pub(super) element: &'a Element,
    pub(super) role: Role,
    pub(super) verdict: Verdict,
}

/// An open element.
struct Frame<'a> {
    node: NodeRef<'a, Node>,
    verdict: Verdict,
    closing: Closing,
    /// The sign between its parts, and how many have begun.
    pair: Option<(char, usize)>,
    /// Whether it is displayed as a block although it is inline by default.
    is_block: bool,
}

pub(super) struct Walk<'a> {
    pub(super) writer: Writer,
    pub(super) rendering: Rendering,
    pub(super) alarms: Alarms,
    pub(super) lists: Vec<List>,
    pub(super) tables: Vec<Table>,
    pub(super) data_tables: HashMap<NodeId, bool>,
    /// The code block under construction.
    pub(super) code: Option<Code>,
    pub(super) code_spans: usize,
    pub(super) struck_spans: usize,
    pub(super) quotations: usize,
    pub(super) in_link: bool,
    pub(super) in_word_marker: bool,
    /// How to treat text that may or may not be visible.
    pub(super) doubtful: UnclearTextPolicy,
    verdicts: &'a [Verdict],
    /// Index of the next element's verdict.
    next_verdict: usize,
    frames: Vec<Frame<'a>>,
    /// The reasons in the last mark, if nothing was written since.
    doubts_marked: VisibilityIssues,
    /// Whether the one mark before text that is kept was written.
    is_marked: bool,
}

/// Result of a rendering.
pub(super) struct Rendered {
    pub(super) text: String,
    pub(super) alarms: Alarms,
    /// Bytes that did not fit.
    pub(super) overflow: usize,
}

/// Renders a tree into at most about `limit` bytes.
pub(super) fn render(
    parsed: &Parsed,
    verdicts: &[Verdict],
    rendering: Rendering,
    doubtful: UnclearTextPolicy,
    limit: usize,
) -> Rendered {
    let root = parsed.html.tree.root();
    let mut walk = Walk {
        // More than half of real input is markup.
        writer: Writer::new(rendering, limit, limit / 4),
        rendering,
        alarms: Alarms::default(),
        lists: Vec::new(),
        tables: Vec::new(),
        data_tables: HashMap::default(),
        code: None,
        code_spans: 0,
        struck_spans: 0,
        quotations: 0,
        in_link: false,
        in_word_marker: false,
        doubtful,
        verdicts,
        next_verdict: 0,
        frames: Vec::new(),
        doubts_marked: VisibilityIssues::NONE,
        is_marked: false,
    };
    walk.run(root);
    let overflow = walk.writer.overflow;
    Rendered { text: walk.writer.finish(), alarms: walk.alarms, overflow }
}

impl<'a> Walk<'a> {
    fn run(&mut self, root: NodeRef<'a, Node>) {
        let mut next = root.first_child();
        loop {
            let Some(node) = next else {
                let Some(frame) = self.frames.pop() else { return };
                self.close(frame.closing, frame.is_block, frame.verdict.flow.display);
                next = frame.node.next_sibling();
                continue;
            };
            next = match node.value() {
                Node::Text(text) => {
                    self.text(text);
                    node.next_sibling()
                }
                Node::Element(element) if self.open(node, element) => node.first_child(),
                _ => node.next_sibling(),
            };
        }
    }

    fn text(&mut self, text: &str) {
        let Some(frame) = self.frames.last() else { return };
        let verdict = frame.verdict;
        if frame.node.value().as_element().is_some_and(is_formula_frame) {
            self.hidden(text);
            return;
        }
        match verdict.sight {
            // White space counts in any colour.
            _ if !verdict.is_gone && !has_words(text) => self.shown(text, verdict.space),
            Sight::Hidden => self.hidden(text),
            Sight::Doubtful | Sight::Pale => {
                self.doubtful(text, verdict.doubts, verdict.space);
            }
            Sight::Shown => self.shown(text, verdict.space),
        }
    }

    /// Text that nobody sees: counted, not written.
    fn hidden(&mut self, text: &str) {
        self.alarms.hidden_chars += words_in(text);
        self.alarms.hidden_words += text.split_whitespace().count();
    }

    fn shown(&mut self, text: &str, space: TextSpace) {
        let text = characters::visible(text, &mut self.alarms);
        if let Some(code) = &mut self.code {
            code.push(&text);
        } else if self.in_word_marker {
            self.word_marker(&text);
        } else {
            self.writer.text(&text, space);
        }
        if !self.doubts_marked.is_empty() && has_words(&text) {
            self.doubts_marked = VisibilityIssues::NONE;
        }
    }

    /// Text that may or may not be visible: one mark precedes all of it, or one replaces each piece.
    pub(super) fn doubtful(&mut self, text: &str, doubts: VisibilityIssues, space: TextSpace) {
        let characters = words_in(text);
        if characters == 0 {
            return;
        }
        if doubts == VisibilityIssues::of(VisibilityIssue::Pale) {
            self.alarms.low_contrast_chars += characters;
        } else {
            self.alarms.doubtful_chars += characters;
        }
        self.alarms.doubts = self.alarms.doubts.and(doubts);
        let keeps = self.doubtful == UnclearTextPolicy::MarkAndKeep;
        let is_marked = if keeps { self.is_marked } else { self.doubts_marked == doubts };
        let word = if keeps { "may be hidden" } else { "left out, may be hidden" };
        let mark = format!("[{word}: {}]", doubts.to_text());
        match &mut self.code {
            _ if is_marked => {}
            Some(code) => code.push(&mark),
            None => {
                self.writer.text(" ", TextSpace::Collapse);
                self.writer.word(&mark);
                self.writer.text(" ", TextSpace::Collapse);
            }
        }
        self.is_marked = true;
        if keeps {
            self.shown(text, space);
        } else {
            self.doubts_marked = doubts;
        }
    }

    /// Symbols of Word's symbol fonts become bullets.
    fn word_marker(&mut self, text: &str) {
        for part in text.split_whitespace() {
            let is_symbol = matches!(part, "·" | "•" | "▪" | "●" | "■")
                || part.chars().all(|c| matches!(c, '\u{e000}'..='\u{f8ff}'));
            self.writer.word(if is_symbol { "-" } else { part });
            self.writer.text(" ", TextSpace::Collapse);
        }
    }

    /// Enters an element. Returns whether to visit its children.
    fn open(&mut self, node: NodeRef<'a, Node>, element: &'a Element) -> bool {
        let Some(&verdict) = self.verdicts.get(self.next_verdict) else { return false };
        let enters =
            verdict.role != Role::Nothing && self.open_judged(node, element, verdict.role, verdict);
        self.next_verdict = if enters { self.next_verdict + 1 } else { verdict.next as usize };
        enters
    }

    fn open_judged(
        &mut self,
        node: NodeRef<'a, Node>,
        element: &'a Element,
        role: Role,
        verdict: Verdict,
    ) -> bool {
        let in_flex = self
            .frames
            .last()
            .is_some_and(|frame| frame.verdict.flow.display == Some(Display::Flex));
        let is_block = self.code.is_none() && role.is_inline() && verdict.flow.is_block(in_flex);
        let mut frame = Frame {
            node,
            verdict,
            closing: Closing::Nothing,
            pair: if let Role::Pair(sign) = role { Some((sign, 0)) } else { None },
            is_block,
        };
        if verdict.is_gone {
            frame.is_block = false;
            self.frames.push(frame);
            return true;
        }
        if is_block {
            self.writer.gap(Gap::Line);
        }
        self.begin_part();
        let entry = self.enter(&Seen { node, element, role, verdict });
        let Entry::Into(closing) = entry else { return false };
        frame.closing = closing;
        self.frames.push(frame);
        true
    }

    /// Writes the sign between the parts of a fraction or a power.
    fn begin_part(&mut self) {
        let Some((sign, parts)) = self.frames.last_mut().and_then(|frame| frame.pair.as_mut())
        else {
            return;
        };
        *parts += 1;
        if *parts > 1 {
            let sign = *sign;
            self.writer.word(sign.encode_utf8(&mut [0; 4]));
        }
    }

    /// Whether the current element is a fraction or a power.
    pub(super) fn in_pair(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.pair.is_some())
    }
}

/// Whether it is a part of a formula that shows only the elements in it, not its own text.
fn is_formula_frame(element: &Element) -> bool {
    element.name.ns == ns!(mathml)
        && !matches!(element.name(), "mi" | "mn" | "mo" | "ms" | "mtext" | "mtable" | "mtr")
}

/// Number of characters other than white space.
fn words_in(text: &str) -> usize {
    text.chars().filter(|character| !character.is_whitespace()).count()
}

fn has_words(text: &str) -> bool {
    text.chars().any(|character| !character.is_whitespace())
}
