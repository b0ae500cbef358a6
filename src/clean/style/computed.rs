//! What the declarations on the way down the tree add up to: is this text seen, and how does it
//! flow? Values inside the ranges of real text pass; what is certainly out of sight is hidden; all
//! between is doubtful.

use super::boxes::{BoxKind, Flow, Frame, Impact, Slots, bits, kind_of};
use super::color::Color;
use super::declaration::{Display, Position, Slot, TextSpace, Value};
use super::length::Length;
use crate::model::{Doubt, Doubts};

/// Text smaller than this cannot be read.
const UNREADABLE_PX: f32 = 2.5;
/// Less opacity than this is as good as none.
const UNSEEN_OPACITY: f32 = 0.06;
/// Text whose colour differs less from what is behind it is not seen.
const UNSEEN_DISTANCE: f32 = 0.12;
/// Small text needs more, by its size in pixels.
const SMALL_TEXT: [(f32, f32); 2] = [(6.0, 0.55), (8.0, 0.25)];
/// The narrowest window that readers use.
pub(super) const PAGE_WIDTH: f32 = 900.0;

/// Can a reader see the text?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::clean) enum Sight {
    /// Yes.
    Shown,
    /// Only on a background other than the usual light one.
    LowContrast,
    /// Nobody can say.
    Doubtful,
    /// No.
    Hidden,
}

/// What an element hands down to its children.
#[derive(Debug, Clone, Copy)]
pub(super) struct Computed {
    /// Hidden by a property that no child can undo.
    pub(super) gone: bool,
    /// `visibility`, which a child can undo.
    invisible: bool,
    pub(super) opacity: f32,
    pub(super) font_px: f32,
    color: Color,
    /// What links are painted in.
    pub(super) link: Color,
    fill: Option<Color>,
    /// The colour of the line around the letters, and whether there is one.
    stroke: Option<Color>,
    is_stroked: bool,
    /// Has the text a shadow or an outline of its own?
    is_outlined: bool,
    /// What is behind the text, and behind the nearest block, and behind everything.
    behind: Color,
    block_behind: Color,
    page: Color,
    /// What may be behind it instead.
    perhaps_behind: Option<Color>,
    own_background: bool,
    pub(super) space: TextSpace,
    pub(super) nowrap: bool,
    pub(super) rtl: bool,
    /// Pixels of width that are surely there; 0 when nobody knows.
    pub(super) room: f32,
    /// The same for the box that clips it.
    pub(super) clip_room: Option<f32>,
    pub(super) is_fixed_table: bool,
    /// The narrowest column of a table with fixed columns; 0 when nobody knows.
    pub(super) column_room: f32,
    /// Does it stand elsewhere than the flow would put it?
    pub(super) displaced: bool,
    /// The element that a displaced one cannot leave.
    pub(super) confined_to: Option<u32>,
    /// The nearest element that is positioned.
    pub(super) positioned: Option<u32>,
    /// Is it painted above the text before it?
    pub(super) layered: bool,
    /// Is its box perhaps smaller than its text?
    pub(super) shrunk: bool,
    pub(super) doubts: Doubts,
}

impl Computed {
    /// What a page starts with.
    pub(super) const PAGE: Self = Self {
        gone: false,
        invisible: false,
        opacity: 1.0,
        font_px: 16.0,
        color: Color::BLACK,
        link: Color::LINK,
        fill: None,
        stroke: None,
        is_stroked: false,
        is_outlined: false,
        behind: Color::WHITE,
        block_behind: Color::WHITE,
        page: Color::WHITE,
        perhaps_behind: None,
        own_background: false,
        space: TextSpace::Collapse,
        nowrap: false,
        rtl: false,
        room: PAGE_WIDTH,
        clip_room: None,
        is_fixed_table: false,
        column_room: 0.0,
        displaced: false,
        confined_to: None,
        positioned: None,
        layered: false,
        shrunk: false,
        doubts: Doubts::NONE,
    };

    /// Is everything below hidden for good?
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Hides everything below, for good.
    pub(super) fn hide(&mut self) {
        self.gone = true;
    }

    /// A text colour that is not declared: of a link, of `<font>`.
    pub(super) fn set_color(&mut self, color: Color) {
        self.color = color;
    }

    /// A background that is not declared: of `bgcolor`, of `<mark>`.
    pub(super) fn paint(&mut self, color: Color, kind: BoxKind) {
        if color.alpha() <= 0.0 {
            return;
        }
        self.behind = color.over(self.behind);
        if kind != BoxKind::Inline {
            self.block_behind = self.behind;
        }
        if color.alpha() >= 1.0 {
            self.perhaps_behind = None;
        }
        self.own_background = true;
    }

    /// From here on this is the page: its background is behind everything.
    pub(super) fn begin_page(&mut self) {
        self.page = self.behind;
        self.block_behind = self.behind;
    }

    /// Takes an element's declarations into account.
    pub(super) fn apply(
        &mut self,
        slots: &Slots,
        kind: BoxKind,
        in_flex: bool,
        at: u32,
    ) -> (Flow, Impact) {
        if slots.is_empty() {
            self.apply_usual(kind, in_flex);
            return (Flow::default(), Impact::default());
        }
        let mut flow = Flow::default();
        let mut impact = Impact::default();
        if let Some(Value::Display(display)) = slots.get(Slot::Display) {
            flow.display = Some(display);
        }
        if flow.display == Some(Display::None) {
            self.gone = true;
            return (flow, impact);
        }
        self.note_doubts(slots);
        self.apply_text(slots);
        let position = self.position(slots);
        let floats = slots.flag(Slot::Float);
        let out_of_flow = position == Position::Absolute;
        flow.blockified = floats || out_of_flow;
        let kind = kind_of(kind, flow, in_flex);
        if kind == BoxKind::Contents {
            return (flow, impact);
        }
        self.apply_opacity(slots);
        let mut frame = Frame::new(slots, self, kind);
        flow.tiny = frame.is_tiny();
        self.apply_place(slots, position, kind, in_flex, at);
        self.apply_margins(slots, kind, &mut impact);
        self.doubt_in_clipped_flex(in_flex);
        self.apply_sizes(slots, kind, in_flex || flow.blockified, &mut frame);
        self.apply_overflow(&frame, kind);
        self.apply_clips(slots, out_of_flow, kind);
        self.apply_background(slots, kind, flow.blockified, &frame, &mut impact);
        self.apply_effects(slots, kind, &mut impact);
        (flow, impact)
    }

    /// The same for an element about which nothing is declared: most are.
    fn apply_usual(&mut self, kind: BoxKind, in_flex: bool) {
        let kind = kind_of(kind, Flow::default(), in_flex);
        self.doubt_in_clipped_flex(in_flex);
        self.leave_line(kind, false);
        match kind {
            BoxKind::Table | BoxKind::TablePart | BoxKind::Cell => self.share_table_room(),
            BoxKind::Inline => {}
            _ if in_flex => self.room = 0.0,
            _ => {}
        }
        self.layered |= kind == BoxKind::InlineBlock;
    }

    /// Properties of text, which are inherited.
    fn apply_text(&mut self, slots: &Slots) {
        let parent_font = self.font_px;
        match slots.get(Slot::FontSize) {
            Some(Value::Length(size)) => {
                self.font_px = size.font_size(parent_font);
                // Some browsers keep sizes that follow from others readable.
                let is_relative = !matches!(size, Length::Px(_));
                if is_relative && self.font_px > 0.0 && self.font_px < UNREADABLE_PX {
                    self.doubts.add(Doubt::Sized);
                }
            }
            Some(Value::Initial) => self.font_px = 16.0,
            _ => {}
        }
        if self.font_px > 200.0 {
            self.doubts.add(Doubt::Sized);
        }
        if slots.has(bits([Slot::LineHeight, Slot::LetterSpacing, Slot::WordSpacing])) {
            self.apply_spacing(slots);
        }
        match slots.get(Slot::Visibility) {
            Some(Value::Flag(hidden)) => self.invisible = hidden,
            Some(Value::Initial) => self.invisible = false,
            _ => {}
        }
        match slots.get(Slot::WhiteSpace) {
            Some(Value::Space(space, nowrap)) => (self.space, self.nowrap) = (space, nowrap),
            Some(Value::Initial) => (self.space, self.nowrap) = (TextSpace::Collapse, false),
            _ => {}
        }
        match slots.get(Slot::Direction) {
            Some(Value::Flag(rtl)) => self.rtl = rtl,
            Some(Value::Initial) => self.rtl = false,
            _ => {}
        }
        self.apply_colors(slots);
    }

    /// The room between lines, letters and words.
    fn apply_spacing(&mut self, slots: &Slots) {
        let ems = |slot: Slot| {
            slots
                .length(slot)
                .map(|length| length.pixels(self.font_px, self.font_px) / self.font_px.max(1.0))
        };
        let bad_height = ems(Slot::LineHeight).is_some_and(|height| !(0.5..=8.0).contains(&height));
        let tight = ems(Slot::LineHeight).is_some_and(|height| height < 0.9);
        let bad_letters =
            ems(Slot::LetterSpacing).is_some_and(|space| !(-0.08..=1.5).contains(&space));
        let bad_words = ems(Slot::WordSpacing).is_some_and(|space| !(-0.2..=3.0).contains(&space));
        if bad_height || bad_letters || bad_words {
            self.doubts.add(Doubt::Sized);
        }
        self.shrunk |= tight;
    }

    fn apply_colors(&mut self, slots: &Slots) {
        match slots.get(Slot::Color) {
            Some(Value::Color(color)) => self.color = color,
            Some(Value::Initial) => self.color = Color::BLACK,
            _ => {}
        }
        match slots.get(Slot::TextFill) {
            Some(Value::Color(color)) => self.fill = Some(color),
            Some(Value::Initial | Value::CurrentColor) => self.fill = None,
            _ => {}
        }
        match slots.get(Slot::StrokeColor) {
            Some(Value::Color(color)) => self.stroke = Some(color),
            Some(Value::Initial | Value::CurrentColor) => self.stroke = None,
            _ => {}
        }
        self.is_stroked |= slots.flag(Slot::Stroke);
        for slot in [Slot::Stroke, Slot::TextShadow] {
            self.is_outlined |= slots.flag(slot);
        }
    }

    /// Takes over every doubt; those that depend on the position wait for it.
    fn note_doubts(&mut self, slots: &Slots) {
        if !slots.has_doubts {
            return;
        }
        let depends = |slot: usize| {
            let depending = [
                Slot::Left,
                Slot::Top,
                Slot::Right,
                Slot::Bottom,
                Slot::ZIndex,
                Slot::Clip,
                Slot::Outline,
                Slot::BoxShadow,
            ];
            depending.iter().any(|known| *known as usize == slot)
        };
        let known = slots.known().filter(|(slot, _)| !depends(*slot));
        for doubt in known.filter_map(|(_, value)| value.doubt()) {
            self.doubts.add(doubt);
        }
        for doubt in slots.doubts() {
            self.doubts.add(doubt);
        }
    }

    pub(super) fn note_doubt(&mut self, value: Option<Value>) {
        if let Some(doubt) = value.and_then(Value::doubt) {
            self.doubts.add(doubt);
        }
    }

    fn apply_opacity(&mut self, slots: &Slots) {
        match slots.get(Slot::Opacity) {
            Some(Value::Number(opacity)) => {
                self.layered |= opacity < 1.0;
                self.opacity *= opacity.clamp(0.0, 1.0);
            }
            Some(Value::Inherit) => self.opacity *= self.opacity,
            _ => {}
        }
        if self.opacity < UNSEEN_OPACITY {
            self.gone = true;
        }
    }

    fn apply_background(
        &mut self,
        slots: &Slots,
        kind: BoxKind,
        is_out: bool,
        frame: &Frame,
        impact: &mut Impact,
    ) {
        self.leave_line(kind, is_out);
        for slot in [Slot::BackgroundImage, Slot::BackgroundClip, Slot::BackgroundColor] {
            if let Some(Value::Doubt(doubt)) = slots.get(slot) {
                self.doubts.add(doubt);
                impact.paints = true;
            }
        }
        let color = match slots.get(Slot::BackgroundColor) {
            Some(Value::Color(color)) => color,
            Some(Value::CurrentColor) => self.color,
            Some(Value::Inherit) => {
                self.doubts.add(Doubt::Painted);
                return;
            }
            _ => return,
        };
        impact.paints |= color.alpha() * self.opacity > 0.05;
        let below = self.behind;
        self.paint(color, kind);
        let is_partial = frame.height.is_some() || frame.width.is_some_and(|width| width < 200.0);
        if is_partial
            && kind != BoxKind::Inline
            && kind != BoxKind::Cell
            && self.behind.distance(below) > 0.05
        {
            self.perhaps_behind = Some(below);
        }
    }

    /// What may be behind a box instead of what is behind the line it stands in.
    fn leave_line(&mut self, kind: BoxKind, is_out: bool) {
        if kind != BoxKind::Inline && self.behind != self.block_behind {
            // The background of an inline element does not lie behind the blocks in it.
            self.perhaps_behind = Some(self.block_behind);
        }
        if (is_out || self.displaced) && self.behind != self.page {
            self.perhaps_behind = Some(self.page);
        }
    }

    fn apply_effects(&mut self, slots: &Slots, kind: BoxKind, impact: &mut Impact) {
        for slot in [Slot::Outline, Slot::BoxShadow, Slot::TextShadow] {
            impact.reaches_out |= matches!(slots.get(slot), Some(Value::Doubt(_)));
        }
        impact.paints |= slots.flag(Slot::WideBorder);
        for doubt in slots.doubts() {
            self.displaced |= matches!(doubt, Doubt::Moved | Doubt::Animated | Doubt::UnknownStyle);
            self.layered = true;
            impact.reaches_out |= doubt == Doubt::Covered;
            impact.paints |= matches!(doubt, Doubt::Painted | Doubt::UnknownStyle);
            self.confined_to = None;
        }
        self.layered |= kind == BoxKind::InlineBlock;
    }

    /// Is text here seen, and if nobody can say, why not?
    pub(super) fn sight(&self) -> (Sight, Doubts) {
        if self.gone || self.invisible {
            return (Sight::Hidden, Doubts::NONE);
        }
        let may_grow = self.doubts.has(Doubt::Moved) || self.doubts.has(Doubt::Sized);
        if self.font_px < UNREADABLE_PX && !may_grow {
            return (Sight::Hidden, Doubts::NONE);
        }
        if !self.doubts.is_empty() {
            return (Sight::Doubtful, self.doubts);
        }
        let small = SMALL_TEXT.iter().find(|(px, _)| self.font_px < *px);
        let least = small.map_or(UNSEEN_DISTANCE, |(_, least)| *least);
        let color = self.fill.unwrap_or(self.color);
        let is_seen_on =
            |behind: Color| color.over(behind).distance(behind) * self.opacity >= least;
        let painted = (Sight::Doubtful, Doubts::of(Doubt::Painted));
        // The line eats into the letters.
        if self.is_stroked
            && self.stroke.is_some_and(|line| line.over(self.behind).distance(self.behind) < least)
        {
            return painted;
        }
        match (is_seen_on(self.behind), self.perhaps_behind) {
            (true, None) => (Sight::Shown, Doubts::NONE),
            (true, Some(other)) if is_seen_on(other) => (Sight::Shown, Doubts::NONE),
            (true, Some(_)) => painted,
            (false, _) if self.is_outlined => painted,
            (false, Some(other)) if is_seen_on(other) => painted,
            (false, _) if self.own_background => (Sight::Hidden, Doubts::NONE),
            (false, _) => (Sight::LowContrast, Doubts::NONE),
        }
    }
}
