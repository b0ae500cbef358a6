//! The way through the tree: iterative, one frame per open element, each with what it hands down.

use std::collections::{HashMap, HashSet};

use ego_tree::{NodeId, NodeRef};
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
use crate::model::{Alarms, Doubt, Doubtful, Doubts};

/// Stands where text was left out because its colour is nearly that of the page.
const LOW_CONTRAST_MARK: &str = "[low-contrast text left out]";

/// What has to be done when an element ends.
#[derive(Debug)]
pub(super) enum Closing {
    /// Nothing.
    Nothing,
    /// Ask for a gap.
    Gap(Gap),
    /// End a prefix, then ask for a gap.
    Prefix(Gap),
    /// End an item.
    Item,
    /// End a list, and its own prefix if it has one.
    List { has_prefix: bool },
    /// Write the link's target.
    Link(Option<String>),
    /// Mark inline code.
    Code,
    /// Mark struck text.
    Struck,
    /// Mark a raised number.
    Raised,
    /// Close a quotation in the line.
    Quotation,
    /// Put what was written in brackets.
    Group,
    /// Write the code block.
    Preformatted,
    /// End a cell with its spans.
    Cell { columns: usize, rows: usize },
    /// End a row.
    Row,
    /// End a table.
    Table,
    /// End the marker of an item written by Word.
    WordMarker,
    /// End a closed section.
    Details,
}

/// What to do with an element's children.
pub(super) enum Entry {
    /// They are of no interest.
    Skip,
    /// Go on with them, then do this.
    Into(Closing),
}

/// What is known about an element when it is entered.
pub(super) struct Seen<'a> {
    pub(super) node: NodeRef<'a, Node>,
    pub(super) element: &'a Element,
    pub(super) role: Role,
    pub(super) verdict: Verdict,
}

/// An element that is open.
struct Frame<'a> {
    node: NodeRef<'a, Node>,
    verdict: Verdict,
    closing: Closing,
    /// The sign between its parts, and how many of them have begun.
    pair: Option<(char, usize)>,
    /// Does it stand on lines of its own although it is of the kind that does not?
    is_block: bool,
    /// Is it a closed `<details>`, of which only the summary is seen?
    is_closed: bool,
}

/// The state of one rendering.
pub(super) struct Walk<'a> {
    pub(super) writer: Writer,
    pub(super) rendering: Rendering,
    pub(super) alarms: Alarms,
    pub(super) lists: Vec<List>,
    pub(super) tables: Vec<Table>,
    pub(super) data_tables: HashMap<NodeId, bool>,
    /// The code block being collected.
    pub(super) code: Option<Code>,
    pub(super) code_spans: usize,
    pub(super) struck_spans: usize,
    pub(super) quotations: usize,
    pub(super) in_link: bool,
    pub(super) in_word_marker: bool,
    /// Was something passed over in the closed section that is open now?
    pub(super) passed_over: bool,
    /// What to do with text of which nobody knows whether it is seen.
    pub(super) doubtful: Doubtful,
    /// Names of sections of which one is open.
    open_groups: HashSet<&'a str>,
    verdicts: &'a [Verdict],
    /// The verdict on the element that comes next.
    next_verdict: usize,
    frames: Vec<Frame<'a>>,
    low_contrast_marked: bool,
    /// The reasons given by the last mark, as long as nothing else was written.
    doubts_marked: Doubts,
}

/// What a rendering gives.
pub(super) struct Rendered {
    /// The text.
    pub(super) text: String,
    /// What was noticed.
    pub(super) alarms: Alarms,
    /// Bytes for which there was no room.
    pub(super) overflow: usize,
}

/// Renders a tree into at most about `limit` bytes.
pub(super) fn render(
    parsed: &Parsed,
    verdicts: &[Verdict],
    rendering: Rendering,
    doubtful: Doubtful,
    limit: usize,
) -> Rendered {
    let root = parsed.html.tree.root();
    let mut walk = Walk {
        // Of real input more than half is markup.
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
        doubts_marked: Doubts::NONE,
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
        let is_cut = verdict.sight == Sight::Shown
            && verdict.longest_word < u16::MAX
            && longest_word(text) > usize::from(verdict.longest_word);
        match verdict.sight {
            // White space takes its place in whatever colour.
            _ if !verdict.is_gone && !has_words(text) => self.shown(text, verdict.space),
            Sight::Hidden => self.alarms.hidden_chars += words_in(text),
            Sight::LowContrast => self.low_contrast(text),
            Sight::Doubtful => self.doubtful(text, verdict.doubts, verdict.space),
            Sight::Shown if is_cut => {
                self.doubtful(text, Doubts::of(Doubt::Clipped), verdict.space);
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
            self.doubts_marked = Doubts::NONE;
        }
    }

    /// Text of which nobody can say whether it is seen: a mark stands in its place, or before it.
    pub(super) fn doubtful(&mut self, text: &str, doubts: Doubts, space: TextSpace) {
        let characters = words_in(text);
        if characters == 0 {
            return;
        }
        self.alarms.doubtful_chars += characters;
        self.alarms.doubts = self.alarms.doubts.and(doubts);
        let is_marked = self.doubts_marked == doubts;
        let word = if self.doubtful == Doubtful::MarkAndKeep { "follows" } else { "left out" };
        let mark = format!("[doubtful text {word}: {}]", doubts.words());
        match &mut self.code {
            _ if is_marked => {}
            Some(code) => code.push(&mark),
            None => {
                self.writer.text(" ", TextSpace::Collapse);
                self.writer.word(&mark);
                self.writer.text(" ", TextSpace::Collapse);
            }
        }
        if self.doubtful == Doubtful::MarkAndKeep {
            self.shown(text, space);
        }
        self.doubts_marked = doubts;
    }

    /// A reader with a dark theme sees it, one with a light theme does not: neither text to trust
    /// nor text to drop without a word.
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

    /// The symbols that Word draws from its symbol fonts are bullets to us.
    fn word_marker(&mut self, text: &str) {
        for part in text.split_whitespace() {
            let is_symbol = matches!(part, "·" | "•" | "▪" | "●" | "■")
                || part.chars().all(|c| matches!(c, '\u{e000}'..='\u{f8ff}'));
            self.writer.word(if is_symbol { "-" } else { part });
            self.writer.text(" ", TextSpace::Collapse);
        }
    }

    /// Enters an element. Returns whether to go on with its children.
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
        if in_closed && role != Role::Summary {
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

    /// Is a `<details>` open? Of several with the same name only the first can be.
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

    /// Is the element that is open a fraction or a power?
    pub(super) fn in_pair(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.pair.is_some())
    }
}

/// The longest run of characters between white space.
fn longest_word(text: &str) -> usize {
    text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0)
}

/// Characters that are not white space.
fn words_in(text: &str) -> usize {
    text.chars().filter(|character| !character.is_whitespace()).count()
}

fn has_words(text: &str) -> bool {
    text.chars().any(|character| !character.is_whitespace())
}
