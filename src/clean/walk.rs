//! The way through the tree: iterative, one frame per open element, each with what it hands down.

use std::collections::HashMap;

use ego_tree::{NodeId, NodeRef};
use scraper::Node;
use scraper::node::Element;

use super::Rendering;
use super::characters;
use super::code::Code;
use super::element::{Role, attribute};
use super::list::List;
use super::parse::Parsed;
use super::style::{Color, Declarations, Display, Flow, Inherited, Sheet, Sight, TextSpace};
use super::table::{self, Table};
use super::writer::{Gap, Writer};
use crate::model::Alarms;

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
    pub(super) style: Inherited,
    pub(super) flow: Flow,
}

/// An element that is open.
struct Frame<'a> {
    node: NodeRef<'a, Node>,
    style: Inherited,
    closing: Closing,
    display: Option<Display>,
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
    pub(super) declarations: Declarations,
    sheet: Sheet,
    frames: Vec<Frame<'a>>,
    low_contrast_marked: bool,
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
pub(super) fn render(parsed: &Parsed, rendering: Rendering, limit: usize) -> Rendered {
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
        declarations: Declarations::default(),
        sheet: Sheet::default(),
        frames: Vec::new(),
        low_contrast_marked: false,
    };
    if parsed.has_style {
        walk.sheet = read_sheets(root);
    }
    if parsed.has_table {
        walk.data_tables = table::data_tables(root);
    }
    walk.run(root);
    let overflow = walk.writer.overflow;
    Rendered { text: walk.writer.finish(), alarms: walk.alarms, overflow }
}

fn read_sheets(root: NodeRef<'_, Node>) -> Sheet {
    let mut sheet = Sheet::default();
    for node in root.descendants() {
        if node.value().as_element().is_some_and(|element| element.name() == "style") {
            for text in node.children().filter_map(|child| child.value().as_text()) {
                sheet.read(text);
            }
        }
    }
    sheet
}

impl<'a> Walk<'a> {
    fn run(&mut self, root: NodeRef<'a, Node>) {
        let mut next = root.first_child();
        loop {
            let Some(node) = next else {
                let Some(frame) = self.frames.pop() else { return };
                self.close(frame.closing, frame.is_block, frame.display);
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

    /// What the element that is open hands down.
    fn inherited(&self) -> Inherited {
        self.frames.last().map_or(Inherited::PAGE, |frame| frame.style)
    }

    fn text(&mut self, text: &str) {
        let style = self.inherited();
        if self.frames.last().is_some_and(|frame| frame.is_closed) {
            self.passed_over |= has_words(text);
            return;
        }
        match style.sight {
            Sight::Hidden => self.alarms.hidden_chars += words_in(text),
            Sight::LowContrast => self.low_contrast(text),
            Sight::Shown => {
                let text = characters::visible(text, &mut self.alarms.invisible_chars);
                if let Some(code) = &mut self.code {
                    code.push(&text);
                } else if self.in_word_marker {
                    self.word_marker(&text);
                } else {
                    self.writer.text(&text, style.space);
                    if self.low_contrast_marked && has_words(&text) {
                        self.low_contrast_marked = false;
                    }
                }
            }
        }
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
        let role = Role::of(element.name());
        let (in_flex, in_closed) = self.frames.last().map_or((false, false), |frame| {
            (frame.display == Some(Display::Flex), frame.is_closed)
        });
        if role == Role::Nothing {
            return false;
        }
        if in_closed && role != Role::Summary {
            self.passed_over = true;
            return false;
        }
        let mut style = self.inherited();
        let flow = self.style_of(node, element, role, &mut style);
        let is_block = self.code.is_none() && role.is_inline() && flow.is_block(in_flex);
        let mut frame = Frame {
            node,
            style,
            closing: Closing::Nothing,
            display: flow.display,
            is_block,
            is_closed: role == Role::Details && attribute(element, "open").is_none(),
        };
        if style.is_gone() {
            frame.is_block = false;
            self.frames.push(frame);
            return true;
        }
        if is_block {
            self.writer.gap(Gap::Line);
        }
        let entry = self.enter(&Seen { node, element, role, style, flow });
        let Entry::Into(closing) = entry else { return false };
        frame.closing = closing;
        self.frames.push(frame);
        true
    }

    /// Works out an element's style from its attributes, the rules and its own declarations.
    fn style_of(
        &mut self,
        node: NodeRef<'a, Node>,
        element: &Element,
        role: Role,
        style: &mut Inherited,
    ) -> Flow {
        self.declarations.clear();
        match role {
            Role::Preformatted => style.space = TextSpace::Keep,
            Role::Link if attribute(element, "href").is_some() => style.set_color(Color::LINK),
            _ => {}
        }
        let mut is_hidden = false;
        let mut inline = None;
        for (name, value) in &element.attrs {
            match &*name.local {
                "style" => inline = Some(value),
                "hidden" | "popover" => is_hidden = true,
                "bgcolor" => Color::parse_legacy(value).into_iter().for_each(|color| {
                    style.set_background(color);
                }),
                "color" if role == Role::Font => {
                    Color::parse_legacy(value).into_iter().for_each(|color| style.set_color(color));
                }
                _ => {}
            }
        }
        if !self.sheet.is_empty() {
            self.sheet.collect(node, &mut self.declarations);
        }
        if let Some(inline) = inline {
            self.declarations.read(inline);
        }
        let flow = style.apply(&self.declarations, role.is_box());
        is_hidden |= role == Role::Dialog && attribute(element, "open").is_none();
        if is_hidden && flow.display.is_none() {
            style.hide();
        }
        flow
    }
}

/// Characters that are not white space.
fn words_in(text: &str) -> usize {
    text.chars().filter(|character| !character.is_whitespace()).count()
}

fn has_words(text: &str) -> bool {
    text.chars().any(|character| !character.is_whitespace())
}
