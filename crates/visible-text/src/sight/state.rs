//! What an element passes on to its children, and what declarations do to it.

use ego_tree::NodeRef;
use ego_tree::iter::Edge;
use scraper::Node;
use scraper::node::Element;

use super::color::Color;
use super::declared::{Declared, Display, Position, TextSpace};
use super::inline::read_inline;
use super::length::Length;
use super::lists::{Effect, INHERITED};
use super::paint::Paint;
use super::variables::Names;
use crate::element::{Role, attribute};
use crate::{VisibilityIssue, VisibilityIssues};

/// Smaller text cannot be read, in pixels.
const UNREADABLE_PX: f32 = 2.5;

/// Text with a smaller colour difference to its background is invisible.
const UNSEEN_DISTANCE: f32 = 0.127;

/// Small text needs more.
const UNSEEN_SMALL: f32 = 0.4;

pub(super) const UNSEEN_OPACITY: f32 = 0.06;

/// Beyond the edge of the page by this many pixels, nobody finds it.
const FAR: f32 = -300.0;

/// A negative margin of more pixels moves text over other text.
const PULL: f32 = -18.0;

/// An indent of more pixels to the left takes words off the page.
const INDENT: f32 = -65.0;

/// A box in which something is pushed by more pixels may clip it.
const PUSH: f32 = 60.0;

/// Characters counted to see whether a text fits its box.
const MAX_COUNTED: f32 = 4_000.0;

/// Elements looked at for the same.
const MAX_INSIDE: usize = 100;

/// What cannot make letters visible that have no colour.
const HARMLESS_TO_CLEAR: [VisibilityIssue; 5] = [
    VisibilityIssue::Clipped,
    VisibilityIssue::Moved,
    VisibilityIssue::Covered,
    VisibilityIssue::Painted,
    VisibilityIssue::Sized,
];

/// The width of a page, in pixels.
pub(super) const PAGE: f32 = 1_000.0;

/// Whether a reader sees a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    Shown,
    /// In nearly the colour of a light page, without a background of its own.
    Pale,
    Doubtful,
    Hidden,
}

/// What an element passes on to its children.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub(super) gone: bool,
    pub(super) invisible: bool,
    pub(super) opacity: f32,
    pub(super) font_px: f32,
    pub(super) color: Color,
    pub(super) fill: Option<Color>,
    /// Whether text and link colours are those of the page.
    pub(super) is_default_color: bool,
    pub(super) link: Color,
    /// The colour behind the text.
    pub(super) behind: Color,
    pub(super) own_background: bool,
    /// Whether what is behind the text is unknown.
    pub(super) is_unknown_paint: bool,
    /// Whether the colour of the text is unknown.
    pub(super) is_unknown_color: bool,
    /// How much what is behind the text differs from place to place.
    pub(super) spread: f32,
    /// Variables that the text declares further out.
    pub(super) variables: Names,
    pub(super) outlined: bool,
    pub(super) zoom: f32,
    pub(super) space: TextSpace,
    pub(super) nowrap: bool,
    pub(super) rtl: bool,
    /// Text is moved to the right by this many pixels, as in a list.
    pub(super) indent_room: f32,
    /// Whether a box further out clips what leaves it, and its width.
    pub(super) clipped: Option<f32>,
    /// Whether light text may stand outside of its dark box.
    pub(super) spills: bool,
    /// Whether something further out is positioned, and could bring text back onto the page.
    pub(super) positioned: Option<u32>,
    pub(super) width: f32,
    pub(super) doubts: VisibilityIssues,
    pub(super) inherited: [Option<VisibilityIssue>; INHERITED.len()],
}

impl State {
    pub(super) const PAGE: Self = Self {
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
        variables: 0,
        outlined: false,
        zoom: 1.0,
        space: TextSpace::Collapse,
        nowrap: false,
        rtl: false,
        indent_room: 0.0,
        clipped: None,
        spills: false,
        positioned: None,
        width: PAGE,
        doubts: VisibilityIssues::NONE,
        inherited: [None; INHERITED.len()],
    };

    pub(super) fn set_color(&mut self, color: Color) {
        self.color = color;
        self.is_default_color = false;
        self.is_unknown_color = false;
    }

    pub(super) fn paint(&mut self, color: Color) {
        if color.alpha() > 0.0 {
            self.behind = color.over(self.behind);
            self.own_background = true;
            if color.alpha() >= 1.0 {
                self.is_unknown_paint = false;
                self.spread = 0.0;
                self.spills = false;
            }
        }
    }

    /// Whether text here is visible, and if that is unknown, why.
    pub(super) fn sight(&self) -> (Sight, VisibilityIssues) {
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
        if self.spills && is_light(color) {
            doubts.add(VisibilityIssue::Clipped);
        }
        if !doubts.is_empty() {
            return (Sight::Doubtful, doubts);
        }
        let least = if self.font_px < 7.0 { UNSEEN_SMALL } else { UNSEEN_DISTANCE };
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

/// Whether it is hardly visible on a white page.
pub(super) fn is_light(color: Color) -> bool {
    color.over(Color::WHITE).distance(Color::WHITE) < 0.2
}

/// What declarations that may or may not apply could do to text.
pub(super) fn could_hide(declared: &Declared, around: &State) -> VisibilityIssues {
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
pub(super) fn could_cover(declared: &Declared) -> VisibilityIssues {
    let is_lifted = declared.position == Some(Position::Absolute)
        || declared.effects.iter().any(|(name, effect)| *name != "content" && effect.is_some())
        || declared.margin.iter().flatten().any(|side| side.pixels(16.0, 100.0) < PULL)
        || declared.size.iter().flatten().any(|size| size.pixels(16.0, 100.0) > 300.0);
    match is_lifted && declared.display != Some(Display::None) {
        true => VisibilityIssues::of(VisibilityIssue::Covered),
        false => VisibilityIssues::NONE,
    }
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
    pub(super) fn apply_to(
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

    /// The colours of rules that apply for certain. Returns whether there are any.
    pub(super) fn take_colors(&mut self, declared: &Declared) -> bool {
        self.apply_paint(declared, Kind { is_block: true, is_cell: false, fits: true });
        declared.color.or(declared.fill).or(declared.background).is_some() || declared.picture
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
        self.variables |= declared.variables;
        if declared.uses & self.variables != 0 {
            self.doubts.add(VisibilityIssue::Computed);
        }
        self.outlined |= declared.outlined;
        self.apply_paint(declared, kind);
        for (name, effect) in &declared.effects {
            let inherited = INHERITED.iter().position(|known| known == name);
            match (inherited, *effect) {
                // The height of a line is that of its block: raised text has none of its own.
                (Some(0), Some(_)) if !kind.is_block => {}
                (Some(at), Some(Effect::May(issue))) => self.inherited[at] = Some(issue),
                (Some(at), _) => self.inherited[at] = None,
                // Only a positioned box is clipped by it.
                _ if *name == "clip" && declared.position != Some(Position::Absolute) => {}
                (None, Some(Effect::Hides)) => self.gone = true,
                (None, Some(Effect::May(issue))) => self.doubts.add(issue),
                (None, Some(Effect::Covers(issue))) => {
                    self.doubts.add(issue);
                    covers.push(issue);
                }
                (None, None) => {}
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
        let among = |paint: Option<Paint>| paint.map(|paint| paint.among(self.variables));
        let (color, fill) = (among(declared.color), among(declared.fill));
        let background = among(declared.background);
        match color {
            Some(Paint::Color(color)) => self.set_color(color),
            Some(Paint::Initial) => self.set_color(Color::BLACK),
            Some(Paint::Unknown | Paint::Undeclared(..)) => self.is_unknown_color = true,
            Some(Paint::Current | Paint::Unset) | None => {}
        }
        match fill {
            Some(Paint::Color(color)) => self.fill = Some(color),
            Some(Paint::Current | Paint::Initial) => self.fill = None,
            Some(Paint::Unknown | Paint::Undeclared(..)) => self.is_unknown_color = true,
            Some(Paint::Unset) | None => {}
        }
        if declared.clips_to_text {
            return self.fill_letters(declared);
        }
        match background {
            Some(Paint::Color(_) | Paint::Current) if is_flat => {}
            Some(Paint::Color(color)) => self.paint(color),
            Some(Paint::Current) => self.paint(self.color),
            Some(Paint::Unknown | Paint::Undeclared(..)) => self.is_unknown_paint = true,
            Some(Paint::Unset | Paint::Initial) | None => {}
        }
        let gradient = declared.gradient.filter(|_| !declared.picture_placed && !is_flat);
        if let Some((color, other)) = gradient.filter(|_| declared.picture) {
            self.paint(color);
            self.spread = color.distance(other);
        } else {
            self.is_unknown_paint |= declared.picture;
        }
    }

    /// A background in the shape of the letters is their colour where their own lets it through.
    fn fill_letters(&mut self, declared: &Declared) {
        let letters = self.fill.unwrap_or(self.color);
        let through = match declared.background {
            _ if declared.picture => declared.gradient,
            Some(Paint::Color(color)) => Some((color, color)),
            _ => None,
        };
        let is_seen =
            |color: Color| color.over(self.behind).distance(self.behind) > 2.0 * UNSEEN_DISTANCE;
        match through.filter(|(color, other)| is_seen(*color) && is_seen(*other)) {
            _ if letters.alpha() >= 1.0 => {}
            // A colour of their own that is further inside covers it again.
            Some((color, _)) if self.fill.is_none() => self.set_color(letters.over(color)),
            Some((color, _)) => self.fill = Some(letters.over(color)),
            None => {
                self.outlined = true;
                self.doubts.add(VisibilityIssue::Painted);
            }
        }
    }

    /// Positions, margins and indents.
    #[expect(clippy::too_many_lines, reason = "one step after the other over the same few values")]
    fn apply_place(&mut self, declared: &Declared, place: u32, covers: &mut Vec<VisibilityIssue>) {
        let px = |length: &Option<Length>| length.map_or(0.0, |l| l.pixels(self.font_px, PAGE));
        let inset = [0, 1, 2, 3].map(|at| px(&declared.inset[at]));
        let mut margin = [0, 1, 2, 3].map(|at| px(&declared.margin[at]));
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
                } else if self.positioned.is_none()
                    || declared.behind_others
                    || self.clipped.is_some()
                    || !inset.iter().chain(&margin).all(|side| (-12.0..=60.0).contains(side))
                {
                    // Only in a corner of its card it is where a reader looks.
                    self.doubts.add(VisibilityIssue::Moved);
                }
            }
            Some(Position::Relative) => {
                if declared.behind_others && self.own_background {
                    self.doubts.add(VisibilityIssue::Covered);
                }
                if is_unknown(&inset) || inset.iter().any(|side| side.abs() > 12.0) {
                    self.doubts.add(VisibilityIssue::Moved);
                    covers.push(VisibilityIssue::Covered);
                }
            }
            Some(Position::Static) | None => {}
        }
        if matches!(declared.position, Some(Position::Absolute | Position::Relative)) {
            self.positioned = Some(place);
        }
        // A list that is pulled to the left by what its padding or its indent gives back stays in
        // place; what it paints would cover its neighbour.
        if margin[3] < 0.0 && declared.background.is_none() && !declared.picture {
            margin[3] = (margin[3] + padding[3].max(0.0) + self.indent_room).min(0.0);
        }
        // What is computed below it or beside it does not move it.
        if margin[0].is_nan() || margin[3].is_nan() {
            self.doubts.add(VisibilityIssue::Computed);
        } else if margin.iter().any(|side| *side < PULL) {
            self.doubts.add(VisibilityIssue::Moved);
            covers.push(VisibilityIssue::Covered);
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
        if is_tiny(declared) && !kind.is_cell {
            if (clips || scrolls) && !declared.has_least {
                self.gone = true;
            } else if self.clipped.is_some() || is_light(self.fill.unwrap_or(self.color)) || clips {
                self.doubts.add(VisibilityIssue::Sized);
            }
            return;
        }
        if clips || needs_box {
            if clips && (!kind.fits || declared.squeezed) {
                self.doubts.add(VisibilityIssue::Clipped);
            }
            self.spills |= !kind.fits;
            let px = |at: usize| declared.size[at].map(|l| l.pixels(self.font_px, self.width));
            if clips || px(0).or(px(1)).is_some() {
                self.clipped = Some(px(0).or(px(2)).unwrap_or(self.width));
            }
        }
    }
}

/// The declared width (0) or height (1) of a box in pixels, or its maximum if that is less.
fn limit(declared: &Declared, at: usize, font: f32, whole: f32) -> Option<f32> {
    let px = |length: Length| match length {
        Length::Share(share) if whole <= 0.0 && share > 0.0 => None,
        length => Some(length.pixels(font, whole)),
    };
    let sizes = [declared.size[at], declared.size[at + 2]];
    sizes.into_iter().flatten().filter_map(px).reduce(f32::min)
}

/// Whether a box has no room for any text.
pub(super) fn is_tiny(declared: &Declared) -> bool {
    [0, 1].into_iter().any(|at| limit(declared, at, 16.0, 0.0).is_some_and(|size| size <= 1.0))
}

/// Whether the text of an element fits into the declared size of its box, by its length.
fn fits(node: NodeRef<'_, Node>, declared: &Declared, state: &State) -> bool {
    let is_bounded = declared.clips.contains(&Some(true))
        || declared.clips_paint
        || declared.background.is_some();
    // Of several boxes in a row the last may stand outside of it.
    let boxes = node.children().filter(|child| child.value().is_element());
    let is_row = declared.display == Some(Display::Flex)
        && declared.clips.contains(&Some(true))
        && declared.size[0].is_some()
        && declared.line_clamp.is_none();
    if declared.size.contains(&Some(Length::Unknown)) || (is_row && boxes.count() > 1) {
        return !is_bounded;
    }
    let font = declared.font.map_or(state.font_px, |font| font.font_size(state.font_px));
    let width = limit(declared, 0, font, state.width);
    let clamped = declared.line_clamp.map(|lines| lines * font * 1.2);
    let above = declared.padding[0].map_or(0.0, |padding| padding.pixels(font, state.width));
    let height = limit(declared, 1, font, 0.0).map(|height| height - above);
    let height = height.into_iter().chain(clamped).reduce(f32::min);
    let nowrap = declared.nowrap.unwrap_or(state.nowrap);
    if !is_bounded || (width.is_none() && height.is_none() && !nowrap) {
        return true;
    }
    let keeps_lines = declared.space.unwrap_or(state.space) != TextSpace::Collapse;
    let Some(extent) = extent(node, nowrap, keeps_lines) else { return false };
    let letter = font * 0.6;
    let width = width.unwrap_or(state.width).min(state.width);
    let (longest, lines) = match nowrap {
        true => (extent.longest_line, extent.lines),
        false => (
            extent.longest_word,
            (extent.characters * letter / width.max(1.0)).ceil() + (extent.lines - 1.0).min(40.0),
        ),
    };
    // The letters stand in the middle of a high line.
    let line = declared.line_height.map_or(font * 1.2, |line| line.pixels(font, font));
    let first = font * 0.9 + (line - font * 1.2).max(0.0) / 2.0;
    longest * letter <= width
        && height.is_none_or(|height| height >= first + (lines - 1.0) * line + extent.above)
}

/// How much room the text of an element takes.
#[derive(Default)]
struct Extent {
    characters: f32,
    /// As far as the markup ends them.
    lines: f32,
    longest_word: f32,
    /// In characters.
    longest_line: f32,
    /// What margins, paddings and sizes inside put above text, in pixels.
    above: f32,
}

/// `None` if there is too much of it, or a box of its own in a line that is not broken.
#[expect(clippy::cast_precision_loss, reason = "a few thousand characters")]
fn extent(node: NodeRef<'_, Node>, nowrap: bool, keeps_lines: bool) -> Option<Extent> {
    let mut found = Extent::default();
    let (mut line, mut elements) = (0.0_f32, 0_usize);
    for edge in node.traverse().skip(1) {
        let (inner, opens) = match edge {
            Edge::Open(inner) => (inner, true),
            Edge::Close(inner) => (inner, false),
        };
        match inner.value() {
            Node::Text(text) if opens => {
                for word in text.split_whitespace() {
                    let length = word.chars().count() as f32;
                    // A line is counted with its first word.
                    found.lines += f32::from(u8::from(line <= 0.0));
                    line += length + 1.0;
                    found.characters += length + 1.0;
                    found.longest_word = found.longest_word.max(length);
                    found.longest_line = found.longest_line.max(line);
                }
                if keeps_lines {
                    let ends = text.trim().bytes().filter(|byte| *byte == b'\n').count();
                    found.lines += ends as f32;
                }
            }
            Node::Element(element) if inner != node => {
                let role = Role::of(element);
                let is_box = matches!(role, Role::Image | Role::Input | Role::Table | Role::Rule)
                    || role == Role::Drawing
                    || element.name() == "mspace"
                    || makes_a_box(element.name());
                let mut is_line = !role.is_inline();
                if opens {
                    elements += 1;
                    // A picture in a line is at least as high as the line.
                    found.above += if is_box { 20.0 } else { 0.0 };
                    found.lines += f32::from(u8::from(role == Role::Break && line <= 0.0));
                    if is_line && !matches!(element.name(), "div" | "section" | "tbody" | "tr") {
                        // It has a margin.
                        found.lines += 1.0;
                    }
                    is_line |= found.add_style(inner, element)?;
                }
                if is_line || role == Role::Break {
                    line = 0.0;
                }
                if nowrap && is_box {
                    return None;
                }
            }
            _ => {}
        }
        if found.characters > MAX_COUNTED || elements > MAX_INSIDE {
            return None;
        }
    }
    found.lines = found.lines.max(1.0);
    Some(found)
}

impl Extent {
    /// What the style of an element inside puts above its text. Returns whether it is a line of its
    /// own, `None` if that is computed.
    fn add_style(&mut self, node: NodeRef<'_, Node>, element: &Element) -> Option<bool> {
        let Some(style) = attribute(element, "style") else { return Some(false) };
        let mut declared = Declared::default();
        let list = read_inline(style, &mut declared);
        declared.apply(&list);
        if declared.display == Some(Display::None) || declared.position == Some(Position::Absolute)
        {
            return Some(false);
        }
        let px = |length: Option<Length>| length.map_or(0.0, |l| l.pixels(16.0, PAGE));
        // One that holds text has the height of its line already.
        let is_text = |node: NodeRef<'_, Node>| {
            node.value().as_text().is_some_and(|text| !text.trim().is_empty())
        };
        let own_line = if node.descendants().any(is_text) { 20.0 } else { 0.0 };
        let line = declared.line_height.map_or(0.0, |line| line.pixels(16.0, 16.0) - 24.0);
        let parts = [
            px(declared.margin[0]) + px(declared.margin[2]),
            px(declared.padding[0]) + px(declared.padding[2]),
            px(declared.size[1]) - own_line,
            px(declared.font) - 16.0,
            line,
        ];
        if parts.iter().any(|part| part.is_nan()) {
            return None;
        }
        self.above += parts.iter().filter(|part| **part > 2.0).sum::<f32>();
        self.above += if declared.has_least || declared.wide_border { 20.0 } else { 0.0 };
        Some(declared.display.is_some_and(|display| {
            matches!(display, Display::Block | Display::Flex | Display::TablePart)
        }))
    }
}

/// Whether an element without readable text has a box.
pub(super) fn makes_a_box(name: &str) -> bool {
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
pub(super) fn is_block(role: Role, declared: &Declared, in_flex: bool) -> bool {
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
