//! Judges every element of a tree in one pass, from the outside to the inside.

use ego_tree::NodeRef;
use ego_tree::iter::Edge;
use html5ever::ns;
use scraper::Node;
use scraper::node::Element;

use super::color::Color;
use super::declared::{
    self, Declared, Display, Effect, INHERITED, Inherited, Paint, Position, TextSpace,
};
use super::length::Length;
use super::sheet::{Applies, List, MAIL_PROGRAMS, Sheet, is_of_fonts};
use crate::element::{Role, attribute};
use crate::enter::whole_number;
use crate::parse::Parsed;
use crate::{VisibilityIssue, VisibilityIssues};

/// Smaller text cannot be read, in pixels.
const UNREADABLE_PX: f32 = 2.5;
/// Text with a smaller colour difference to its background is invisible.
const UNSEEN_DISTANCE: f32 = 0.127;
/// Small text needs more, by its size in pixels.
const SMALL_TEXT: [(f32, f32); 2] = [(6.0, 0.55), (8.0, 0.25)];
const UNSEEN_OPACITY: f32 = 0.06;
/// Beyond the edge of the page by this many pixels, nobody finds it.
const FAR: f32 = -300.0;
/// A negative margin of more pixels moves text over other text.
const PULL: f32 = -18.0;
/// An indent of more pixels to the left takes words off the page.
const INDENT: f32 = -65.0;
/// A box in which something is pushed by more pixels may clip it.
const PUSH: f32 = 60.0;
/// Characters counted to see whether a text fits its box.
const MAX_COUNTED: usize = 4_000;
/// What cannot make letters visible that have no colour.
const HARMLESS_TO_CLEAR: [VisibilityIssue; 5] = [
    VisibilityIssue::Clipped,
    VisibilityIssue::Moved,
    VisibilityIssue::Covered,
    VisibilityIssue::Painted,
    VisibilityIssue::Sized,
];
/// Elements that may lie over others; with more of them all text is doubtful.
const MAX_COVERS: usize = 16;
/// The width of a page, in pixels.
const PAGE: f32 = 1_000.0;

/// What a tracker shows of the look that a text declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Inline styles and attributes, as Azure DevOps does; Jira's markup has colours only.
    Styled,
    /// Nothing, as GitHub: what a style would hide there is visible to everybody.
    Plain,
}

/// Whether a reader sees a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    Shown,
    /// In nearly the colour of a light page, without a background of its own.
    Pale,
    Doubtful,
    Hidden,
}

/// How an element flows, as far as its style determines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flow {
    /// The declared display, if any.
    pub(crate) display: Option<Display>,
    /// Floating, or positioned absolutely.
    pub(crate) blockified: bool,
    /// Whether the box is only a few pixels in size.
    pub(crate) tiny: bool,
}

impl Flow {
    /// Whether an inline element is displayed as a block.
    pub(crate) fn is_block(self, in_flex: bool) -> bool {
        in_flex
            || self.blockified
            || matches!(self.display, Some(Display::Block | Display::Flex | Display::TablePart))
    }

    /// Whether a block element is displayed inline.
    pub(crate) fn is_inline(self) -> bool {
        !self.blockified
            && matches!(
                self.display,
                Some(
                    Display::Inline
                        | Display::InlineBlock
                        | Display::InlineFlex
                        | Display::TableCell
                        | Display::Contents
                )
            )
    }
}

/// What is known about one element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verdict {
    /// Its role in the text.
    pub(crate) role: Role,
    /// Whether its text is visible.
    pub(crate) sight: Sight,
    /// Why that is unknown.
    pub(crate) doubts: VisibilityIssues,
    /// Index of the next element after its content.
    pub(crate) next: u32,
    /// How white space is handled.
    pub(crate) space: TextSpace,
    pub(crate) flow: Flow,
    /// Whether it is hidden with all its content.
    pub(crate) is_gone: bool,
    /// Whether the text is struck through.
    pub(crate) line_through: bool,
    /// Whether the border is turned off, as editors do when they use a quote for indenting.
    pub(crate) border_none: bool,
    /// Whether this is the span with a Word list marker.
    pub(crate) is_word_marker: bool,
    /// Level of a list item written by Word as a paragraph, from 1; 0 for others.
    pub(crate) word_list_level: u8,
}

impl Verdict {
    /// For an element whose text is not read, with all its content.
    fn unread(next: u32) -> Self {
        Self {
            role: Role::Nothing,
            sight: Sight::Hidden,
            doubts: VisibilityIssues::NONE,
            next,
            space: TextSpace::Collapse,
            flow: Flow::default(),
            is_gone: true,
            line_through: false,
            border_none: false,
            is_word_marker: false,
            word_list_level: 0,
        }
    }

    /// Makes its text doubtful, unless it is hidden.
    fn doubt(&mut self, doubts: VisibilityIssues) {
        if !doubts.is_empty() && self.sight != Sight::Hidden {
            self.sight = Sight::Doubtful;
            self.doubts = self.doubts.and(doubts);
        }
    }
}

/// What an element passes on to its children.
#[derive(Debug, Clone, Copy)]
struct State {
    gone: bool,
    invisible: bool,
    opacity: f32,
    font_px: f32,
    color: Color,
    fill: Option<Color>,
    /// Whether text and link colours are those of the page.
    is_default_color: bool,
    link: Color,
    /// The colour behind the text.
    behind: Color,
    own_background: bool,
    /// Whether what is behind the text is unknown.
    is_unknown_paint: bool,
    /// Whether the colour of the text is unknown.
    is_unknown_color: bool,
    /// How much what is behind the text differs from place to place.
    spread: f32,
    /// Whether the text declares variables further out.
    has_variables: bool,
    outlined: bool,
    zoom: f32,
    space: TextSpace,
    nowrap: bool,
    rtl: bool,
    /// Text is moved to the right by this many pixels, as in a list.
    indent_room: f32,
    /// The sum of negative margins further out.
    pulled: f32,
    /// Whether a box further out clips what leaves it, and its width.
    clipped: Option<f32>,
    /// Whether something further out is positioned, and could bring text back onto the page.
    positioned: Option<u32>,
    width: f32,
    doubts: VisibilityIssues,
    inherited: [Option<VisibilityIssue>; INHERITED],
}

impl State {
    const PAGE: Self = Self {
        gone: false,
        invisible: false,
        opacity: 1.0,
        font_px: 16.0,
        color: Color::BLACK,
        fill: None,
        is_default_color: true,
        link: Color::LINK,
        behind: Color::WHITE,
        own_background: false,
        is_unknown_paint: false,
        is_unknown_color: false,
        spread: 0.0,
        has_variables: false,
        outlined: false,
        zoom: 1.0,
        space: TextSpace::Collapse,
        nowrap: false,
        rtl: false,
        indent_room: 0.0,
        pulled: 0.0,
        clipped: None,
        positioned: None,
        width: PAGE,
        doubts: VisibilityIssues::NONE,
        inherited: [None; INHERITED],
    };

    fn set_color(&mut self, color: Color) {
        self.color = color;
        self.fill = None;
        self.is_default_color = false;
        self.is_unknown_color = false;
    }

    fn paint(&mut self, color: Color) {
        if color.alpha() > 0.0 {
            self.behind = color.over(self.behind);
            self.own_background = true;
            if color.alpha() >= 1.0 {
                self.is_unknown_paint = false;
                self.spread = 0.0;
            }
        }
    }

    /// Whether text here is visible, and if that is unknown, why.
    fn sight(&self) -> (Sight, VisibilityIssues) {
        let mut doubts = self.inherited.iter().flatten().copied().collect::<VisibilityIssues>();
        doubts = doubts.and(self.doubts);
        let may_grow = doubts.has(VisibilityIssue::Moved) || doubts.has(VisibilityIssue::Sized);
        if self.gone
            || self.invisible
            || self.opacity < UNSEEN_OPACITY
            || (self.font_px * self.zoom < UNREADABLE_PX && !may_grow)
        {
            return (Sight::Hidden, VisibilityIssues::NONE);
        }
        let color = self.fill.unwrap_or(self.color);
        let is_clear = color.alpha() < UNSEEN_OPACITY && !self.outlined && !self.is_unknown_color;
        // Where it stands and what is behind it makes no difference.
        if is_clear && doubts.iter().all(|doubt| HARMLESS_TO_CLEAR.contains(&doubt)) {
            return (Sight::Hidden, VisibilityIssues::NONE);
        }
        if self.is_unknown_paint || self.is_unknown_color {
            doubts.add(VisibilityIssue::Painted);
        }
        if !doubts.is_empty() {
            return (Sight::Doubtful, doubts);
        }
        let small = SMALL_TEXT.iter().find(|(px, _)| self.font_px < *px);
        let least = small.map_or(UNSEEN_DISTANCE, |(_, least)| *least);
        let seen = color.over(self.behind).distance(self.behind) * self.opacity;
        let is_seen = seen >= least;
        let painted = (Sight::Doubtful, VisibilityIssues::of(VisibilityIssue::Painted));
        if self.spread > 0.0 && seen < least + self.spread {
            return painted;
        }
        // The text of the page may be any dark colour.
        let is_default = self.is_default_color && self.fill.is_none();
        if is_default && is_seen && self.behind.distance_to_text() < least {
            return painted;
        }
        match is_seen {
            true => (Sight::Shown, VisibilityIssues::NONE),
            // A page in a dark theme has light text.
            false if is_default || self.outlined => painted,
            false if self.own_background => (Sight::Hidden, VisibilityIssues::NONE),
            false => (Sight::Pale, VisibilityIssues::of(VisibilityIssue::Pale)),
        }
    }
}

/// An open element.
struct Frame<'a> {
    node: NodeRef<'a, Node>,
    at: usize,
    /// The nearest block: what moves in a line takes the line along.
    block: u32,
    state: State,
    is_flex: bool,
}

struct Judge {
    sheet: Sheet,
    verdicts: Vec<Verdict>,
    /// Doubts about all text.
    field: VisibilityIssues,
    /// Elements of which all text may be covered or moved.
    covers: Vec<(u32, VisibilityIssue)>,
    styles: bool,
}

/// Judges every visited element below `root`, in document order. Also returns the steps of matching
/// rules.
pub(crate) fn judge(parsed: &Parsed, look: Look) -> (Vec<Verdict>, u64) {
    let mut judge = Judge {
        sheet: Sheet::default(),
        verdicts: Vec::with_capacity(parsed.elements),
        field: VisibilityIssues::NONE,
        covers: Vec::new(),
        styles: look == Look::Styled,
    };
    let root = parsed.html.tree.root();
    if parsed.has_style && judge.styles {
        judge.read_sheets(root);
    }
    let page = judge.page(root, parsed.body.as_ref());
    judge.run(root, page);
    judge.finish()
}

impl Judge {
    fn read_sheets(&mut self, root: NodeRef<'_, Node>) {
        let has = |name: &str| {
            let elements = root.descendants().filter_map(|node| node.value().as_element());
            elements.into_iter().any(|element| attribute(element, name).is_some())
        };
        self.sheet.absent = MAIL_PROGRAMS.into_iter().filter(|name| !has(name)).collect();
        let mut templates = 0_usize;
        for edge in root.traverse() {
            let (node, opens) = match edge {
                Edge::Open(node) => (node, true),
                Edge::Close(node) => (node, false),
            };
            let Some(element) = node.value().as_element() else { continue };
            match element.name() {
                "template" if opens => templates += 1,
                "template" => templates -= 1,
                "style" if opens && templates == 0 => {
                    let kind = attribute(element, "type").unwrap_or("").trim();
                    if kind.is_empty() || kind.eq_ignore_ascii_case("text/css") {
                        let texts = node.children().filter_map(|child| child.value().as_text());
                        let css: String = texts.map(|text| &**text).collect();
                        self.sheet.read(&css, attribute(element, "media").unwrap_or(""));
                    }
                }
                "link" if opens && templates == 0 && is_style_sheet(element) => {
                    self.field.add(VisibilityIssue::Remote);
                }
                _ => {}
            }
        }
        self.field = self.field.and(self.sheet.doubts);
    }

    /// The page around the text: the tags `html` and `body` of the text, and rules for elements of the
    /// tracker. Whether they count depends on the tracker, so they only make doubtful.
    fn page(&mut self, root: NodeRef<'_, Node>, body: Option<&Element>) -> State {
        let mut page = State::PAGE;
        if !self.styles {
            return page;
        }
        let html = root.children().find_map(|child| child.value().as_element());
        let mut doubts = VisibilityIssues::NONE;
        for tag in html.into_iter().chain(body) {
            doubts = doubts.and(page_doubts(tag));
        }
        for (applies, list) in self.sheet.rules_around() {
            let mut declared = Declared::default();
            declared.apply(&[list]);
            doubts = doubts.and(match applies {
                Applies::Generated => could_cover(&declared),
                _ => could_hide(&declared, &State::PAGE),
            });
        }
        page.doubts = doubts;
        page.has_variables = self.sheet.declares_variable;
        page
    }

    fn run<'a>(&mut self, root: NodeRef<'a, Node>, page: State) {
        let mut frames: Vec<Frame<'a>> = Vec::new();
        let mut next = root.first_child();
        loop {
            let Some(node) = next else {
                let Some(frame) = frames.pop() else { return };
                self.verdicts[frame.at].next =
                    u32::try_from(self.verdicts.len()).unwrap_or(u32::MAX);
                next = frame.node.next_sibling();
                continue;
            };
            next = match node.value() {
                Node::Element(element) => match self.open(node, element, frames.last(), &page) {
                    Some(frame) => {
                        frames.push(frame);
                        node.first_child()
                    }
                    None => node.next_sibling(),
                },
                _ => node.next_sibling(),
            };
        }
    }

    /// Judges an element. Returns a frame if its children are to be judged too.
    fn open<'a>(
        &mut self,
        node: NodeRef<'a, Node>,
        element: &'a Element,
        parent: Option<&Frame<'a>>,
        page: &State,
    ) -> Option<Frame<'a>> {
        let role = Role::of(element);
        let at = self.verdicts.len();
        let place = u32::try_from(at).unwrap_or(u32::MAX);
        let mut state = parent.map_or(*page, |frame| frame.state);
        let mut declared = Declared::default();
        if let Some(parent) = parent.filter(|_| !state.gone) {
            self.style_of(node, element, role, &mut state, &mut declared, parent);
        }
        if role == Role::Nothing {
            self.verdicts.push(Verdict::unread(place.saturating_add(1)));
            return None;
        }
        let block = match parent {
            Some(parent) if !is_block(role, &declared, parent.is_flex) => parent.block,
            _ => place,
        };
        let flow = Flow {
            display: declared.display,
            blockified: declared.floats || declared.position == Some(Position::Absolute),
            tiny: is_tiny(&declared),
        };
        let (sight, doubts) = state.sight();
        self.verdicts.push(Verdict {
            role,
            sight,
            doubts,
            next: place.saturating_add(1),
            space: state.space,
            flow,
            is_gone: state.gone,
            line_through: declared.line_through,
            border_none: declared.border_none,
            is_word_marker: declared.word_marker,
            word_list_level: declared.word_list_level,
        });
        let is_flex = matches!(flow.display, Some(Display::Flex | Display::InlineFlex));
        Some(Frame { node, at, block, state, is_flex })
    }

    /// Computes an element's state from its attributes, the rules and its own declarations.
    #[expect(clippy::too_many_lines, reason = "one step after the other over the same few values")]
    fn style_of<'a>(
        &mut self,
        node: NodeRef<'a, Node>,
        element: &'a Element,
        role: Role,
        state: &mut State,
        declared: &mut Declared,
        parent: &Frame<'a>,
    ) {
        let outside = *state;
        let mut is_hidden = usual_style(element, role, node, state);
        if !self.styles {
            state.gone |= is_hidden && role == Role::Dialog;
            return;
        }
        let mut inline = Vec::new();
        for (name, value) in &element.attrs {
            match &*name.local {
                "style" => inline = declared::read_inline(value, declared),
                "hidden"
                    if element.name.ns != ns!(html)
                        || value.eq_ignore_ascii_case("until-found") =>
                {
                    state.doubts.add(VisibilityIssue::Element);
                }
                "hidden" | "popover" => is_hidden = true,
                "bgcolor" if takes_bgcolor(element.name()) => {
                    Color::parse_legacy(value).into_iter().for_each(|color| state.paint(color));
                }
                "background" if takes_bgcolor(element.name()) => state.is_unknown_paint = true,
                "color" if role == Role::Font => {
                    Color::parse_legacy(value).into_iter().for_each(|color| state.set_color(color));
                }
                "nowrap" => state.nowrap = true,
                "width" | "cellpadding" | "cellspacing" | "hspace" | "border"
                    if outside.clipped.is_some()
                        && whole_number(value).is_some_and(|number| number > 100) =>
                {
                    state.doubts.add(VisibilityIssue::Clipped);
                }
                crate::parse::CUT_ATTRIBUTES => state.doubts.add(VisibilityIssue::Budget),
                _ => {}
            }
        }
        let place = u32::try_from(self.verdicts.len()).unwrap_or(u32::MAX);
        let broken = declared.clone();
        declared.apply(&[&inline]);
        let is_shown = |declared: &Declared| declared.display.is_some() || declared.display_reset;
        if is_hidden && !is_shown(declared) {
            state.gone = true;
        } else if is_hidden && declared.display_reset {
            state.doubts.add(VisibilityIssue::Element);
        }
        let plain = *state;
        let mut covers = state.apply_to(declared, node, role, parent.is_flex, place);
        if !self.sheet.is_empty() {
            let mut with_rules = broken;
            let (doubts, sure) = self.rules_of(element, &plain);
            if !sure.is_empty() {
                let mut lists: Vec<&[_]> = sure.iter().map(Vec::as_slice).collect();
                lists.push(&inline);
                with_rules.apply(&lists);
                let mut other = plain;
                other.gone &= !is_shown(&with_rules);
                covers.extend(other.apply_to(&with_rules, node, role, parent.is_flex, place));
                if other.sight().0 == Sight::Hidden && state.sight().0 != Sight::Hidden {
                    // A rule hides it; whether it applies is not known for certain.
                    state.doubts.add(VisibilityIssue::Condition);
                } else {
                    *state = other;
                    *declared = with_rules;
                }
            }
            state.doubts = state.doubts.and(doubts);
        }
        self.note_columns(node, element, declared, parent);
        self.note_covers(&Placed { node, element, role, declared }, state, &covers, parent);
    }

    /// Notes what an element may cover or move.
    fn note_covers(
        &mut self,
        placed: &Placed<'_>,
        state: &State,
        covers: &[VisibilityIssue],
        parent: &Frame<'_>,
    ) {
        let Placed { element, role, declared, .. } = *placed;
        if element.name() == "template" && attribute(element, "shadowrootmode").is_some() {
            self.cover(Some(u32::try_from(parent.at).unwrap_or(0)), VisibilityIssue::Element);
        }
        let has_box =
            role != Role::Nothing || makes_a_box(element.name()) || declared.display.is_some();
        if state.gone || !has_box || state.opacity < UNSEEN_OPACITY {
            return;
        }
        for issue in covers {
            self.cover(Some(parent.block), *issue);
        }
        let is_lifted = declared.position == Some(Position::Absolute) || role == Role::Dialog;
        if is_lifted && placed.paints() && !is_thin(declared) {
            self.cover(parent.state.positioned, VisibilityIssue::Covered);
        }
    }

    /// The rules for an element: doubts about what those could hide that may or may not apply, and
    /// the declarations of those that do.
    fn rules_of(&mut self, element: &Element, outside: &State) -> (VisibilityIssues, Vec<List>) {
        let (mut doubts, mut sure) = (VisibilityIssues::NONE, Vec::new());
        for (applies, list) in self.sheet.rules_for(element) {
            let mut own = Declared::default();
            match applies {
                Applies::Surely => sure.push(list.clone()),
                Applies::Generated => {
                    own.apply(&[list]);
                    doubts = doubts.and(could_cover(&own));
                }
                Applies::Perhaps => {
                    own.apply(&[list]);
                    doubts = doubts.and(could_hide(&own, outside));
                }
            }
        }
        if self.sheet.is_spent() {
            self.field.add(VisibilityIssue::Budget);
        }
        (doubts, sure)
    }

    /// A column can hide its cells or be behind them.
    fn note_columns(
        &mut self,
        node: NodeRef<'_, Node>,
        element: &Element,
        declared: &Declared,
        parent: &Frame<'_>,
    ) {
        if !matches!(element.name(), "col" | "colgroup") {
            return;
        }
        self.column(element, declared, parent);
        for child in node.children().filter_map(|child| child.value().as_element()) {
            let mut column = Declared::default();
            let style = attribute(child, "style").unwrap_or("");
            let list = declared::read_inline(style, &mut column);
            column.apply(&[&list]);
            self.column(child, &column, parent);
        }
    }

    fn column(&mut self, element: &Element, declared: &Declared, parent: &Frame<'_>) {
        let is_painted = declared
            .background
            .is_some_and(|paint| !matches!(paint, Paint::Initial | Paint::Unset))
            || attribute(element, "bgcolor").is_some();
        let is_hiding = declared.visible == Some(false)
            || declared.display.is_some()
            || !could_hide(declared, &parent.state).is_empty();
        if is_painted || is_hiding {
            self.cover(Some(parent.block), VisibilityIssue::Covered);
        }
    }

    fn cover(&mut self, at: Option<u32>, issue: VisibilityIssue) {
        match at {
            Some(at) if self.covers.len() < MAX_COVERS => {
                if !self.covers.contains(&(at, issue)) {
                    self.covers.push((at, issue));
                }
            }
            _ => self.field.add(issue),
        }
    }

    /// Applies doubts about more than one element.
    fn finish(mut self) -> (Vec<Verdict>, u64) {
        for (at, issue) in std::mem::take(&mut self.covers) {
            let end = self.verdicts.get(at as usize).map_or(0, |verdict| verdict.next);
            for verdict in self.verdicts.get_mut(at as usize..end as usize).into_iter().flatten() {
                verdict.doubt(VisibilityIssues::of(issue));
            }
        }
        let field = self.field;
        for verdict in self.verdicts.iter_mut().filter(|_| !field.is_empty()) {
            verdict.doubt(field);
        }
        (self.verdicts, self.sheet.steps())
    }
}

/// What the attributes of `html` and `body` could do to text.
fn page_doubts(tag: &Element) -> VisibilityIssues {
    let mut doubts = VisibilityIssues::NONE;
    let mut declared = Declared::default();
    for (name, value) in &tag.attrs {
        let color = || Color::parse_legacy(value);
        match &*name.local {
            "style" => {
                let list = declared::read_inline(value, &mut declared);
                declared.apply(&[&list]);
            }
            "hidden" => doubts.add(VisibilityIssue::Element),
            "bgcolor" => declared.background = color().map(Paint::Color),
            "text" => declared.color = color().map(Paint::Color),
            "link" if color().is_some_and(is_light) => doubts.add(VisibilityIssue::Painted),
            "background" => doubts.add(VisibilityIssue::Painted),
            _ => {}
        }
    }
    let is_repainted =
        |paint: Paint| matches!(paint, Paint::Color(color) if !is_light(color.over(Color::WHITE)));
    if declared.background.is_some_and(is_repainted) {
        doubts.add(VisibilityIssue::Painted);
    }
    doubts.and(could_hide(&declared, &State::PAGE))
}

/// Whether it is hardly visible on a white page.
fn is_light(color: Color) -> bool {
    color.over(Color::WHITE).distance(Color::WHITE) < 0.2
}

/// What declarations that may or may not apply could do to text.
fn could_hide(declared: &Declared, around: &State) -> VisibilityIssues {
    let mut state = *around;
    let before = state.sight();
    let kind = Kind { is_block: true, is_cell: false, fits: !declared.clips.contains(&Some(true)) };
    let covers = state.apply(declared, kind, 0);
    let mut doubts = state.doubts;
    doubts.extend(covers);
    let (sight, why) = state.sight();
    if (sight, why) != before {
        doubts = doubts.and(why);
        if sight == Sight::Hidden {
            doubts.add(VisibilityIssue::Condition);
        }
    }
    doubts
}

/// What a box before or after the content could do to text.
fn could_cover(declared: &Declared) -> VisibilityIssues {
    let is_lifted = declared.position == Some(Position::Absolute)
        || declared.effects.iter().any(|(name, _)| *name != "content")
        || declared.margin.iter().flatten().any(|side| side.pixels(16.0, 100.0) < PULL)
        || declared.size.iter().flatten().any(|size| size.pixels(16.0, 100.0) > 300.0);
    match is_lifted && declared.display != Some(Display::None) {
        true => VisibilityIssues::of(VisibilityIssue::Covered),
        false => VisibilityIssues::NONE,
    }
}

/// Whether it is so small that it covers at most a letter.
fn is_thin(declared: &Declared) -> bool {
    let is_small =
        |at: usize| declared.size[at].is_some_and(|length| length.pixels(16.0, PAGE) <= 20.0);
    is_small(0) || is_small(1)
}

/// An element with its declarations.
struct Placed<'a> {
    node: NodeRef<'a, Node>,
    element: &'a Element,
    role: Role,
    declared: &'a Declared,
}

/// The kind of box of an element.
#[derive(Debug, Clone, Copy)]
struct Kind {
    is_block: bool,
    is_cell: bool,
    /// Whether its text fits the declared size.
    fits: bool,
}

impl State {
    /// Applies the declarations of an element.
    fn apply_to(
        &mut self,
        declared: &Declared,
        node: NodeRef<'_, Node>,
        role: Role,
        in_flex: bool,
        place: u32,
    ) -> Vec<VisibilityIssue> {
        let is_cell = matches!(role, Role::Cell | Role::HeaderCell | Role::Row | Role::TableHead);
        let is_part = is_cell || role == Role::Table;
        let is_control = matches!(role, Role::Input | Role::TextArea | Role::Select);
        let is_button = node.value().as_element().is_some_and(|element| element.name() == "button");
        let kind = Kind {
            is_block: is_block(role, declared, in_flex) || is_button,
            is_cell,
            fits: fits(node, declared, self),
        };
        let covers = self.apply(declared, kind, place);
        let name = node.value().as_element().map_or("", Element::name);
        self.gone |= declared.collapsed && (is_part || matches!(name, "tbody" | "tfoot"));
        self.gone |= declared.display == Some(Display::Contents)
            && (is_control || role == Role::Image || makes_a_box(name) || name == "svg");
        let is_shifted = declared.indent.is_some()
            || declared.padding.iter().flatten().any(|side| side.pixels(16.0, PAGE) > 60.0);
        self.gone |= is_control && is_tiny(declared);
        if (is_control && is_shifted) || (name == "object" && declared.display.is_some()) {
            self.doubts.add(VisibilityIssue::Clipped);
        }
        covers
    }

    /// Applies declarations. Returns why text beside the element may be covered or moved.
    fn apply(&mut self, declared: &Declared, kind: Kind, place: u32) -> Vec<VisibilityIssue> {
        let mut covers = Vec::new();
        if declared.display == Some(Display::None) {
            self.gone = true;
            return covers;
        }
        if let Some(visible) = declared.visible {
            self.invisible = !visible;
        }
        self.opacity *= declared.opacity.unwrap_or(1.0);
        if let Some(font) = declared.font {
            self.font_px = font.font_size(self.font_px);
            let is_relative = matches!(font, Length::Em(_) | Length::Share(_));
            if is_relative && self.font_px > 0.0 && self.font_px < UNREADABLE_PX {
                // A browser has a smallest size for text.
                self.doubts.add(VisibilityIssue::Sized);
            }
            if self.font_px > 400.0 {
                self.doubts.add(VisibilityIssue::Sized);
            }
        }
        self.space = declared.space.unwrap_or(self.space);
        self.nowrap = declared.nowrap.unwrap_or(self.nowrap);
        self.rtl = declared.rtl.unwrap_or(self.rtl);
        self.zoom *= declared.zoom.unwrap_or(1.0);
        self.has_variables |= declared.declares_variable;
        self.outlined |= declared.outlined;
        for (name, issue) in &declared.inherited {
            // The height of a line is that of its block: raised text has none of its own.
            if *name != Inherited::LineHeight || kind.is_block || issue.is_none() {
                self.inherited[*name as usize] = *issue;
            }
        }
        self.apply_paint(declared, kind);
        for (name, effect) in &declared.effects {
            match effect {
                // Only a positioned box is clipped by it.
                _ if *name == "clip" && declared.position != Some(Position::Absolute) => {}
                Effect::Hides => self.gone = true,
                Effect::May(issue) => self.doubts.add(*issue),
                Effect::Covers(issue) => {
                    self.doubts.add(*issue);
                    covers.push(*issue);
                }
            }
        }
        if declared.grid_place == [true; 2] {
            self.doubts.add(VisibilityIssue::Moved);
        }
        self.apply_place(declared, place, &mut covers);
        self.apply_size(declared, kind);
        covers
    }

    fn apply_paint(&mut self, declared: &Declared, kind: Kind) {
        // The background of a line without height, or of what is invisible, is not painted.
        let is_flat = self.invisible
            || declared.display == Some(Display::Contents)
            || (!kind.is_block && self.font_px < UNREADABLE_PX);
        match declared.color {
            Some(Paint::Color(color)) => self.set_color(color),
            Some(Paint::Initial) => self.set_color(Color::BLACK),
            Some(Paint::Undeclared(Some(color))) if !self.has_variables => self.set_color(color),
            Some(Paint::Undeclared(None)) if !self.has_variables => {}
            Some(Paint::Unknown | Paint::Undeclared(_)) => self.is_unknown_color = true,
            Some(Paint::Current | Paint::Unset) | None => {}
        }
        match declared.fill {
            Some(Paint::Color(color)) => self.fill = Some(color),
            Some(Paint::Current | Paint::Initial) => self.fill = None,
            Some(Paint::Unknown | Paint::Undeclared(_)) => self.is_unknown_color = true,
            Some(Paint::Unset) | None => {}
        }
        match declared.background {
            Some(Paint::Color(_) | Paint::Current) if is_flat => {}
            Some(Paint::Color(color)) => self.paint(color),
            Some(Paint::Current) => self.paint(self.color),
            Some(Paint::Undeclared(Some(_))) if is_flat => {}
            Some(Paint::Undeclared(Some(color))) if !self.has_variables => self.paint(color),
            Some(Paint::Undeclared(None)) if !self.has_variables => {}
            Some(Paint::Unknown | Paint::Undeclared(_)) => self.is_unknown_paint = true,
            Some(Paint::Unset | Paint::Initial) | None => {}
        }
        let gradient = declared.gradient.filter(|_| !declared.picture_placed && !is_flat);
        if let Some((color, spread)) = gradient.filter(|_| declared.picture) {
            self.paint(color);
            self.spread = spread;
        } else {
            self.is_unknown_paint |=
                declared.picture || (declared.picture_of_variable && self.has_variables);
        }
    }

    /// Positions, margins and indents.
    #[expect(clippy::too_many_lines, reason = "one step after the other over the same few values")]
    fn apply_place(&mut self, declared: &Declared, place: u32, covers: &mut Vec<VisibilityIssue>) {
        let px = |length: &Option<Length>| length.map_or(0.0, |l| l.pixels(self.font_px, PAGE));
        let inset = [0, 1, 2, 3].map(|at| px(&declared.inset[at]));
        let margin = [0, 1, 2, 3].map(|at| px(&declared.margin[at]));
        let padding = [0, 1, 2, 3].map(|at| px(&declared.padding[at]));
        let is_unknown = |sides: &[f32; 4]| sides.iter().any(|side| side.is_nan());
        match declared.position {
            Some(Position::Absolute) => {
                let is_off = inset[3] + margin[3] < FAR
                    || inset[0] + margin[0] < FAR
                    || inset[1] > PAGE + 200.0
                    || inset[2] > 3_000.0;
                if is_off && self.positioned.is_none() && padding[3] < 100.0 {
                    self.gone = true;
                } else {
                    self.doubts.add(VisibilityIssue::Moved);
                }
            }
            // A heading that stays in sight while its table is scrolled.
            Some(Position::Sticky) => {
                if is_unknown(&inset) || inset.iter().any(|side| !(-12.0..=60.0).contains(side)) {
                    self.doubts.add(VisibilityIssue::Moved);
                }
            }
            Some(Position::Relative) => {
                if is_unknown(&inset) || inset.iter().any(|side| side.abs() > 12.0) {
                    self.doubts.add(VisibilityIssue::Moved);
                    covers.push(VisibilityIssue::Covered);
                }
                if declared.behind_others && self.own_background {
                    self.doubts.add(VisibilityIssue::Covered);
                }
            }
            Some(Position::Static) | None => {}
        }
        if matches!(
            declared.position,
            Some(Position::Absolute | Position::Relative | Position::Sticky)
        ) {
            self.positioned = Some(place);
        }
        let mut margin = margin;
        // A list that is pulled to the left by what its padding or its indent gives back stays in
        // place; what it paints would cover its neighbour.
        if margin[3] < 0.0 && declared.background.is_none() && !declared.picture {
            margin[3] = (margin[3] + padding[3].max(0.0) + self.indent_room).min(0.0);
        }
        self.pulled += margin.iter().filter(|side| **side < 0.0).sum::<f32>();
        if is_unknown(&margin) {
            self.doubts.add(VisibilityIssue::Computed);
        } else if margin.iter().any(|side| *side < PULL) || self.pulled < 2.0 * PULL {
            self.doubts.add(VisibilityIssue::Moved);
            if margin.iter().any(|side| *side < PULL) {
                covers.push(VisibilityIssue::Covered);
            }
        }
        self.indent_room += (margin[3] + padding[3]).max(0.0);
        if let Some(indent) = declared.indent {
            let indent = indent.pixels(self.font_px, PAGE);
            if indent < -900.0 && self.indent_room < 100.0 {
                self.gone = true;
            } else if indent.is_nan() || indent + self.indent_room < INDENT {
                self.doubts.add(VisibilityIssue::Moved);
            } else if indent > 300.0
                || (indent > PUSH
                    && (self.clipped.is_some() || declared.clips.contains(&Some(true))))
            {
                self.doubts.add(VisibilityIssue::Clipped);
            }
        }
        let is_pushed = margin.iter().chain(&padding).any(|side| *side > PUSH)
            || declared.size[..2].iter().flatten().any(|s| s.pixels(self.font_px, 0.0) > 400.0)
            || declared.wide_border;
        let is_wide = |size: Length| size.pixels(16.0, PAGE) > PAGE + 200.0;
        if declared.floats && declared.size[0].is_some_and(is_wide) {
            self.doubts.add(VisibilityIssue::Moved);
        }
        let is_half = |side: &Option<Length>| matches!(side, Some(Length::Share(s)) if *s >= 0.5);
        if declared.clips.contains(&Some(true))
            && declared.margin.iter().chain(&declared.padding).any(is_half)
        {
            self.doubts.add(VisibilityIssue::Clipped);
        }
        let is_far = margin.iter().chain(&padding).any(|side| *side > 3_000.0);
        if (self.clipped.is_some() && is_pushed) || is_far {
            self.doubts.add(VisibilityIssue::Clipped);
        }
    }

    /// Boxes that clip their text.
    fn apply_size(&mut self, declared: &Declared, kind: Kind) {
        let scrolls = declared.clips.contains(&Some(false));
        let clips = declared.clips.contains(&Some(true)) || declared.clips_paint;
        // Light text outside of its dark box is as invisible as if it were clipped.
        let needs_box = declared.background.is_some() && is_light(self.fill.unwrap_or(self.color));
        if !kind.is_block {
            return;
        }
        if declared.in_columns && (clips || declared.size[1].or(declared.size[3]).is_some()) {
            self.doubts.add(VisibilityIssue::Clipped);
        }
        if is_tiny(declared) && !kind.is_cell {
            if (clips || scrolls) && !declared.has_least && !declared.clips_paint {
                self.gone = true;
            } else if self.clipped.is_some() || is_light(self.fill.unwrap_or(self.color)) || clips {
                self.doubts.add(VisibilityIssue::Sized);
            }
            return;
        }
        let is_squeezed = declared.basis_zero
            || (matches!(declared.display, Some(Display::Flex)) && declared.size[0].is_some());
        if clips || needs_box {
            if !kind.fits || (clips && is_squeezed) {
                self.doubts.add(VisibilityIssue::Clipped);
            }
            let px = |at: usize| declared.size[at].map(|l| l.pixels(self.font_px, self.width));
            if clips || px(0).or(px(1)).is_some() {
                self.clipped = Some(px(0).or(px(2)).unwrap_or(self.width));
            }
        }
    }
}

/// Whether a box has no room for any text.
fn is_tiny(declared: &Declared) -> bool {
    let px = |at: usize| match declared.size[at] {
        Some(Length::Share(share)) if share > 0.0 => None,
        length => length.map(|length| length.pixels(16.0, 0.0)),
    };
    let least = |one: usize, other: usize| match (px(one), px(other)) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    let (width, height) = (least(0, 2), least(1, 3));
    let padding = |at: usize| declared.padding[at].map_or(0.0, |l| l.pixels(16.0, PAGE));
    let is_padded = padding(0) + padding(2) > 8.0;
    let none = |size: Option<f32>| size.is_some_and(|size| size <= 1.0);
    none(width) || (none(height) && !is_padded)
}

/// Whether the text of an element fits into the declared size of its box, by its length.
#[expect(clippy::too_many_lines, reason = "one step after the other over the same few values")]
fn fits(node: NodeRef<'_, Node>, declared: &Declared, state: &State) -> bool {
    let is_bounded = declared.clips.contains(&Some(true))
        || declared.clips_paint
        || declared.background.is_some();
    if !is_bounded {
        return true;
    }
    if declared.size.iter().flatten().any(|length| *length == Length::Unknown) {
        return false;
    }
    let font = declared.font.map_or(state.font_px, |font| font.font_size(state.font_px));
    let px = |at: usize, whole: f32| match declared.size[at] {
        Some(Length::Share(_)) if whole <= 0.0 => None,
        length => length.map(|length| length.pixels(font, whole)),
    };
    let least = |one: Option<f32>, other: Option<f32>| match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    let width = least(px(0, state.width), px(2, state.width));
    let clamped = declared.line_clamp.map(|lines| lines * font * 1.2);
    let height = least(least(px(1, 0.0), px(3, 0.0)), clamped);
    let nowrap = declared.nowrap.unwrap_or(state.nowrap);
    if width.is_none() && height.is_none() && !nowrap {
        return true;
    }
    let (mut characters, mut lines, mut longest) = (0_usize, 1_usize, 0_usize);
    for node in node.descendants() {
        match node.value() {
            Node::Text(text) => {
                if nowrap {
                    lines += text.trim().bytes().filter(|byte| *byte == b'\n').count();
                }
                for word in text.split_whitespace() {
                    let length = word.chars().count();
                    characters += length + 1;
                    longest = longest.max(length);
                }
            }
            Node::Element(element) if element.name() == "br" => lines += 1,
            Node::Element(element) => {
                let role = Role::of(element);
                let is_box =
                    matches!(role, Role::Image | Role::Input | Role::Table | Role::Drawing)
                        || matches!(
                            element.name(),
                            "iframe" | "hr" | "object" | "video" | "canvas"
                        );
                if is_box && nowrap {
                    return false;
                }
                lines += usize::from(!role.is_inline());
            }
            _ => {}
        }
        if characters > MAX_COUNTED {
            return false;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a few thousand characters")]
    let (characters, lines, longest) = (characters as f32, lines as f32, longest as f32);
    let letter = font * 0.6;
    let width = width.unwrap_or(state.width).min(state.width);
    if nowrap {
        let is_high = |height: f32| height >= font * (0.9 + 1.2 * (lines - 1.0));
        return characters * letter <= width && height.is_none_or(is_high);
    }
    let needed = (characters * letter / width.max(1.0)).ceil() + (lines - 1.0).min(40.0);
    longest * letter <= width
        && height.is_none_or(|height| height >= font * 0.9 + (needed - 1.0) * font * 1.2)
}

/// A browser's default style sheet. Returns whether the element is hidden unless it is displayed.
fn usual_style(element: &Element, role: Role, node: NodeRef<'_, Node>, state: &mut State) -> bool {
    match role {
        Role::Preformatted => (state.space, state.nowrap) = (TextSpace::Keep, true),
        Role::Link if attribute(element, "href").is_some() => state.set_color(state.link),
        Role::Drawing => state.doubts.add(VisibilityIssue::Element),
        Role::Raised | Role::Lowered | Role::Heading(5) => state.font_px *= 0.83,
        Role::Heading(6) => state.font_px *= 0.67,
        Role::BulletList | Role::NumberedList | Role::Quote | Role::Definition => {
            state.indent_room += 40.0;
        }
        Role::Font => {
            const SIZES: [f32; 7] = [10.0, 13.0, 16.0, 18.0, 24.0, 32.0, 48.0];
            let value = attribute(element, "size").unwrap_or("");
            if let Some(size) = whole_number(value) {
                let is_relative = value.trim_start().starts_with(['+', '-']);
                let size = if is_relative { size.saturating_add(3) } else { size };
                state.font_px = SIZES[usize::try_from(size.clamp(1, 7)).unwrap_or(1) - 1];
            }
        }
        Role::RubyText => state.font_px *= 0.5,
        Role::Input | Role::TextArea | Role::Select => {
            state.set_color(Color::BLACK);
            state.paint(Color::WHITE);
            state.font_px = 13.33;
        }
        _ => {}
    }
    match element.name() {
        "small" => state.font_px *= 0.83,
        "big" => state.font_px *= 1.2,
        "nobr" => state.nowrap = true,
        "mark" => {
            state.paint(Color::MARK);
            state.set_color(Color::BLACK);
        }
        "button" => {
            state.paint(Color::BUTTON);
            state.set_color(Color::BLACK);
            state.font_px = 13.33;
        }
        "mphantom" => state.gone = true,
        // Its label is shown instead of its text.
        "option" if attribute(element, "label").is_some_and(|label| !label.is_empty()) => {
            state.doubts.add(VisibilityIssue::Element);
        }
        "bdo" if attribute(element, "dir").is_some_and(|dir| dir.eq_ignore_ascii_case("rtl")) => {
            state.doubts.add(VisibilityIssue::Moved);
        }
        _ => {}
    }
    if element.name.ns == ns!(mathml) && is_second_meaning(node) {
        state.gone = true;
    }
    role == Role::Dialog && attribute(element, "open").is_none()
}

/// Whether it is a child of `<semantics>` other than the first, which alone is shown.
fn is_second_meaning(node: NodeRef<'_, Node>) -> bool {
    let is_semantics = |node: NodeRef<'_, Node>| {
        node.value().as_element().is_some_and(|element| element.name() == "semantics")
    };
    node.parent().is_some_and(is_semantics)
        && node.prev_siblings().any(|before| before.value().is_element())
}

fn is_style_sheet(element: &Element) -> bool {
    let is_sheet = attribute(element, "rel").is_some_and(|rel| {
        rel.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("stylesheet"))
    });
    is_sheet && attribute(element, "href").is_some_and(|address| !is_of_fonts(address))
}

/// Whether its `bgcolor` is a background; other elements ignore it.
fn takes_bgcolor(name: &str) -> bool {
    matches!(
        name,
        "body" | "table" | "thead" | "tbody" | "tfoot" | "tr" | "td" | "th" | "col" | "colgroup"
    ) || name == "marquee"
}

/// Whether an element without readable text has a box.
fn makes_a_box(name: &str) -> bool {
    matches!(
        name,
        "iframe"
            | "object"
            | "embed"
            | "applet"
            | "video"
            | "audio"
            | "canvas"
            | "meter"
            | "progress"
            | "frame"
            | "frameset"
    )
}

/// Whether the element has a size of its own.
fn is_block(role: Role, declared: &Declared, in_flex: bool) -> bool {
    match declared.display {
        Some(Display::Inline | Display::Contents) => declared.floats || in_flex,
        Some(_) => true,
        None => {
            !role.is_inline()
                || declared.floats
                || in_flex
                || declared.position == Some(Position::Absolute)
        }
    }
}

impl Placed<'_> {
    /// Whether it paints more than its letters.
    fn paints(&self) -> bool {
        let declared = self.declared;
        let is_painted = |paint: Paint| match paint {
            Paint::Color(color) => color.alpha() > 0.0,
            paint => !matches!(paint, Paint::Initial | Paint::Unset),
        };
        let is_painted_inside = |element: &Element| {
            attribute(element, "style").is_some_and(|style| style.contains("background"))
                || attribute(element, "bgcolor").is_some()
                || matches!(element.name(), "img" | "svg" | "video" | "canvas" | "iframe")
        };
        matches!(self.role, Role::Image | Role::Input | Role::TextArea | Role::Select)
            || matches!(self.role, Role::Drawing | Role::Table | Role::Dialog)
            || matches!(self.element.name(), "mark" | "button" | "hr")
            || makes_a_box(self.element.name())
            || declared.background.is_some_and(is_painted)
            || declared.effects.iter().any(|(name, _)| *name != "clip")
            || declared.picture
            || declared.wide_border
            || self
                .node
                .descendants()
                .skip(1)
                .take(50)
                .any(|node| node.value().as_element().is_some_and(is_painted_inside))
    }
}
