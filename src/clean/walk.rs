//! Traverses the tree iteratively: one frame per open element, each with what it passes to its
//! children.

use std::collections::{HashMap, HashSet};

use ego_tree::{NodeId, NodeRef};
use html5ever::ns;
use scraper::Node;
use scraper::node::Element;

use super::Rendering;
use super::characters;
use super::code::Code;
use super::element::{Role, attribute};
use super::list::List;
use super::parse::Parsed;
use super::style::{Display, Sight, TextSpace, Verdict};
use super::table::Table;
use super::writer::{Gap, Writer};
use crate::model::{Alarms, UnclearTextPolicy, VisibilityIssue, VisibilityIssues};

/// Replaces text whose colour is nearly that of the page.
const LOW_CONTRAST_MARK: &str = "[low-contrast text left out]";

/// Maximum nodes before the summary of a closed section.
const MAX_SIBLINGS: usize = 64;

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
    /// End a closed section.
    Details,
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
    /// Whether it is a closed `<details>`, of which only the summary is visible.
    is_closed: bool,
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
    /// Whether content of the current closed section was skipped.
    pub(super) passed_over: bool,
    /// How to treat text that may or may not be visible.
    pub(super) doubtful: UnclearTextPolicy,
    /// Names of groups in which a section is open.
    open_groups: HashSet<&'a str>,
    verdicts: &'a [Verdict],
    /// Index of the next element's verdict.
    next_verdict: usize,
    frames: Vec<Frame<'a>>,
    low_contrast_marked: bool,
    /// The reasons in the last mark, if nothing was written since.
    doubts_marked: VisibilityIssues,
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
        passed_over: false,
        doubtful,
        open_groups: HashSet::default(),
        verdicts,
        next_verdict: 0,
        frames: Vec::new(),
        low_contrast_marked: false,
        doubts_marked: VisibilityIssues::NONE,
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
        if frame.is_closed {
            self.passed_over |= has_words(text);
            return;
        }
        if frame.node.value().as_element().is_some_and(is_formula_frame) {
            self.alarms.hidden_chars += words_in(text);
            return;
        }
        let is_cut = verdict.sight == Sight::Shown
            && verdict.longest_word < u16::MAX
            && longest_word(text) > usize::from(verdict.longest_word);
        match verdict.sight {
            // White space counts in any colour.
            _ if !verdict.is_gone && !has_words(text) => self.shown(text, verdict.space),
            Sight::Hidden => self.alarms.hidden_chars += words_in(text),
            Sight::LowContrast => self.low_contrast(text),
            Sight::Doubtful => self.doubtful(text, verdict.doubts, verdict.space),
            Sight::Shown if is_cut => {
                self.doubtful(text, VisibilityIssues::of(VisibilityIssue::Clipped), verdict.space);
            }
            Sight::Shown => self.shown(text, verdict.space),
        }
    }

    fn shown(&mut self, text: &str, space: TextSpace) {
        let text = characters::visible(text, &mut self.alarms.invisible_chars);
        if let Some(code) = &mut self.code {
            code.push(&text);
        } else if self.in_word_marker {
            self.word_marker(&text);
        } else {
            self.writer.text(&text, space);
        }
        if (self.low_contrast_marked || !self.doubts_marked.is_empty()) && has_words(&text) {
            self.low_contrast_marked = false;
            self.doubts_marked = VisibilityIssues::NONE;
        }
    }

    /// Text that may or may not be visible: a mark replaces or precedes it.
    pub(super) fn doubtful(&mut self, text: &str, doubts: VisibilityIssues, space: TextSpace) {
        let characters = words_in(text);
        if characters == 0 {
            return;
        }
        self.alarms.doubtful_chars += characters;
        self.alarms.doubts = self.alarms.doubts.and(doubts);
        let is_marked = self.doubts_marked == doubts;
        let word =
            if self.doubtful == UnclearTextPolicy::MarkAndKeep { "follows" } else { "left out" };
        let mark = format!("[doubtful text {word}: {}]", doubts.to_text());
        match &mut self.code {
            _ if is_marked => {}
            Some(code) => code.push(&mark),
            None => {
                self.writer.text(" ", TextSpace::Collapse);
                self.writer.word(&mark);
                self.writer.text(" ", TextSpace::Collapse);
            }
        }
        if self.doubtful == UnclearTextPolicy::MarkAndKeep {
            self.shown(text, space);
        }
        self.doubts_marked = doubts;
    }

    /// Visible with a dark theme but not with a light one: neither trusted nor silently dropped.
    fn low_contrast(&mut self, text: &str) {
        let characters = words_in(text);
        self.alarms.low_contrast_chars += characters;
        if characters > 0 && !self.low_contrast_marked && self.code.is_none() {
            self.writer.text(" ", TextSpace::Collapse);
            self.writer.word(LOW_CONTRAST_MARK);
            self.writer.text(" ", TextSpace::Collapse);
            self.low_contrast_marked = true;
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
        let (in_flex, in_closed) = self.frames.last().map_or((false, false), |frame| {
            (frame.verdict.flow.display == Some(Display::Flex), frame.is_closed)
        });
        if in_closed && !(role == Role::Summary && is_first_summary(node)) {
            self.passed_over = true;
            return false;
        }
        let is_block = self.code.is_none() && role.is_inline() && verdict.flow.is_block(in_flex);
        let mut frame = Frame {
            node,
            verdict,
            closing: Closing::Nothing,
            pair: if let Role::Pair(sign) = role { Some((sign, 0)) } else { None },
            is_block,
            is_closed: role == Role::Details && !self.opens_section(element),
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

    /// Whether a `<details>` is open. Of several with the same name only the first can be.
    fn opens_section(&mut self, details: &'a Element) -> bool {
        let group = attribute(details, "name").filter(|name| !name.is_empty());
        attribute(details, "open").is_some()
            && group.is_none_or(|name| self.open_groups.insert(name))
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

/// Whether it is the one that stays visible when its section is closed.
fn is_first_summary(node: NodeRef<'_, Node>) -> bool {
    let is_summary = |node: NodeRef<'_, Node>| {
        node.value().as_element().is_some_and(|element| element.name() == "summary")
    };
    !node.prev_siblings().take(MAX_SIBLINGS).any(is_summary)
        && node.prev_siblings().nth(MAX_SIBLINGS).is_none()
}

/// The longest run of characters without white space.
fn longest_word(text: &str) -> usize {
    text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0)
}

/// Number of characters other than white space.
fn words_in(text: &str) -> usize {
    text.chars().filter(|character| !character.is_whitespace()).count()
}

fn has_words(text: &str) -> bool {
    text.chars().any(|character| !character.is_whitespace())
}
