//! Judges every element of a tree in one pass, from the outside to the inside.

use ego_tree::NodeRef;
use ego_tree::iter::Edge;
use html5ever::ns;
use scraper::Node;
use scraper::node::Element;

use super::color::Color;
use super::declared::{Declared, Display, Position, TextSpace};
use super::inline::read_inline;
use super::paint::Paint;
use super::sheet::{Applies, MAIL_PROGRAMS, Sheet, is_of_fonts};
use super::state::{
    PAGE, Sight, State, UNSEEN_OPACITY, could_cover, could_hide, is_block, is_light, is_tiny,
};
use crate::element::{Role, attribute};
use crate::enter::whole_number;
use crate::parse::Parsed;
use crate::{VisibilityIssue, VisibilityIssues};

/// Elements that may lie over others; with more of them all text is doubtful.
const MAX_COVERS: usize = 16;

/// What a tracker shows of the look that a text declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Inline styles and attributes, as Azure DevOps does; Jira's markup has colours only.
    Styled,
    /// Nothing, as GitHub: what a style would hide there is visible to everybody.
    Plain,
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
        for (applies, declared) in self.sheet.rules_around() {
            doubts = doubts.and(could_do(applies, declared, &State::PAGE));
        }
        page.doubts = doubts;
        page.variables = self.sheet.variables;
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
        if role == Role::Image {
            // A picture has no lines and no letters.
            state.inherited = State::PAGE.inherited;
        }
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
                "style" => inline = read_inline(value, declared),
                "hidden"
                    if element.name.ns != ns!(html)
                        || value.eq_ignore_ascii_case("until-found") =>
                {
                    state.doubts.add(VisibilityIssue::Element);
                }
                "hidden" | "popover" => is_hidden = true,
                "bgcolor" if takes_bgcolor(element.name()) => match Color::parse_legacy(value) {
                    Some(color) => state.paint(color),
                    None => state.is_unknown_paint |= !is_unset(value),
                },
                "background" if takes_bgcolor(element.name()) => state.is_unknown_paint = true,
                "color" if role == Role::Font => match Color::parse_legacy(value) {
                    Some(color) => state.set_color(color),
                    None => state.is_unknown_color |= !is_unset(value),
                },
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
        declared.apply(&inline);
        if is_hidden && declared.display.is_none() && !declared.display_reset {
            state.gone = true;
        } else if is_hidden && declared.display_reset {
            state.doubts.add(VisibilityIssue::Element);
        }
        let mut with_colors = *state;
        let (doubts, has_colors) = self.rules_of(element, &mut with_colors, parent);
        let covers = state.apply_to(declared, node, role, parent.is_flex, place);
        if has_colors {
            with_colors.apply_to(declared, node, role, parent.is_flex, place);
            match with_colors.sight().0 {
                // A style sheet does not hide for certain.
                Sight::Hidden if !state.gone => state.doubts.add(VisibilityIssue::Condition),
                _ => *state = with_colors,
            }
        }
        state.doubts = state.doubts.and(doubts);
        self.note_covers(node, (element, role, declared), state, &covers, parent);
    }

    /// Notes what an element may cover or move.
    fn note_covers(
        &mut self,
        node: NodeRef<'_, Node>,
        (element, role, declared): (&Element, Role, &Declared),
        state: &State,
        covers: &[VisibilityIssue],
        parent: &Frame<'_>,
    ) {
        if element.name() == "template" && attribute(element, "shadowrootmode").is_some() {
            self.cover(Some(u32::try_from(parent.at).unwrap_or(0)), VisibilityIssue::Element);
        }
        // A column can hide its cells or be behind them.
        let is_column = |element: &Element| {
            let style = attribute(element, "style").unwrap_or("");
            attribute(element, "bgcolor").is_some()
                || ["background", "visibility", "display"].iter().any(|word| style.contains(word))
        };
        if matches!(element.name(), "col" | "colgroup")
            && node.descendants().filter_map(|node| node.value().as_element()).any(is_column)
        {
            self.cover(Some(parent.block), VisibilityIssue::Covered);
        }
        if state.gone || state.opacity < UNSEEN_OPACITY {
            return;
        }
        for issue in covers {
            self.cover(Some(parent.block), *issue);
        }
        let is_lifted = declared.position == Some(Position::Absolute) || role == Role::Dialog;
        if is_lifted && paints(node, role, declared) && !is_thin(declared) {
            self.cover(parent.state.positioned, VisibilityIssue::Covered);
        }
    }

    /// Doubts about what the rules for an element could hide. Applies the colours of those that
    /// apply, and says whether there are any.
    fn rules_of(
        &mut self,
        element: &Element,
        state: &mut State,
        parent: &Frame<'_>,
    ) -> (VisibilityIssues, bool) {
        let (mut doubts, mut lifts, mut has_colors) = (VisibilityIssues::NONE, false, false);
        let rules = self.sheet.rules_for(element);
        for (_, declared) in rules.iter().filter(|(applies, _)| *applies == Applies::Surely) {
            has_colors |= state.take_colors(declared);
        }
        for (applies, declared) in rules {
            doubts = doubts.and(could_do(applies, declared, state));
            lifts |= applies != Applies::Generated
                && declared.position == Some(Position::Absolute)
                && (declared.picture || !declared.background.is_none_or(Paint::is_clear))
                && !is_thin(declared);
        }
        if lifts {
            self.cover(parent.state.positioned, VisibilityIssue::Covered);
        }
        if self.sheet.is_spent() {
            self.field.add(VisibilityIssue::Budget);
        }
        (doubts, has_colors)
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
                let list = read_inline(value, &mut declared);
                declared.apply(&list);
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

/// Whether it paints more than letters: a link over the whole of a card does not.
fn paints(node: NodeRef<'_, Node>, role: Role, declared: &Declared) -> bool {
    let of = |element: &Element, names: &str| names.split(' ').any(|name| name == element.name());
    let inside = node.descendants().skip(1).take(50).filter_map(|node| node.value().as_element());
    // The sign on a button that copies the text below it.
    let is_sign = |element: &Element| {
        let small =
            |name| attribute(element, name).and_then(whole_number).is_some_and(|px| px <= 24);
        small("width") && small("height") && attribute(element, "style").is_none()
    };
    let mut signs = 0_usize;
    declared.picture
        || declared.wide_border
        || declared.background.is_some_and(|paint| !paint.is_clear())
        || declared.effects.iter().any(|(name, effect)| *name != "clip" && effect.is_some())
        || matches!(role, Role::Image | Role::Drawing | Role::Table | Role::Dialog)
        || matches!(role, Role::Input | Role::TextArea | Role::Select)
        || node.value().as_element().is_some_and(|element| {
            of(element, "mark button hr iframe object embed video canvas meter progress")
        })
        || { inside }.any(|element| {
            attribute(element, "style").is_some_and(|style| style.contains("background"))
                || attribute(element, "bgcolor").is_some()
                || (of(element, "img svg video canvas iframe") && {
                    signs += 1;
                    signs > 1 || !is_sign(element)
                })
        })
}

/// Whether it is so small that it covers at most a letter.
fn is_thin(declared: &Declared) -> bool {
    let is_small =
        |at: usize| declared.size[at].is_some_and(|length| length.pixels(16.0, PAGE) <= 20.0);
    is_small(0) || is_small(1)
}

/// What the declarations of a rule could do to text, of the element or of a box beside its content.
fn could_do(applies: Applies, declared: &Declared, around: &State) -> VisibilityIssues {
    match applies {
        Applies::Generated => could_cover(declared),
        _ => could_hide(declared, around),
    }
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
        _ => {}
    }
    // Of what has several meanings only the first is shown.
    let parent = node.parent().and_then(|parent| parent.value().as_element());
    if parent.is_some_and(|parent| parent.name() == "semantics")
        && node.prev_siblings().any(|before| before.value().is_element())
    {
        state.gone = true;
    }
    role == Role::Dialog && attribute(element, "open").is_none()
}

fn is_style_sheet(element: &Element) -> bool {
    let is_sheet = attribute(element, "rel").is_some_and(|rel| {
        rel.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("stylesheet"))
    });
    is_sheet && attribute(element, "href").is_some_and(|address| !is_of_fonts(address))
}

/// Whether an attribute for a colour says nothing.
fn is_unset(value: &str) -> bool {
    matches!(value.trim(), "" | "transparent" | "inherit" | "none" | "auto")
}

/// Whether its `bgcolor` is a background; other elements ignore it.
fn takes_bgcolor(name: &str) -> bool {
    const NAMES: &str = "body table thead tbody tfoot tr td th col colgroup marquee";
    NAMES.split_ascii_whitespace().any(|known| known == name)
}
