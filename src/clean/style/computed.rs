//! What the declarations on the way down the tree add up to: is this text seen, and how does it
//! flow? Values inside the ranges of real text pass; what is certainly out of sight is hidden; all
//! between is doubtful.

use super::color::Color;
use super::declaration::{
    Declaration, Display, Overflow, Position, Property, SLOTS, Slot, TextSpace, Value,
};
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
/// A box moved this far to the left or upwards is off the page.
const OFF_PAGE: f32 = -500.0;
/// A box moved this far to the right or downwards is beyond any scrolling.
const FAR_AWAY: f32 = 4000.0;
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

/// The kind of box an element makes when nothing else is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BoxKind {
    Inline,
    InlineBlock,
    Block,
    Table,
    TablePart,
    Cell,
    Contents,
}

/// How an element flows, as far as its style has a say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::clean) struct Flow {
    /// The declared display, if any.
    pub(in crate::clean) display: Option<Display>,
    /// Taken out of the line: floating, or placed absolutely.
    pub(in crate::clean) blockified: bool,
    /// Is the box no bigger than a speck?
    pub(in crate::clean) tiny: bool,
}

impl Flow {
    /// Does an element of the inline kind stand on lines of its own?
    pub(in crate::clean) fn is_block(self, in_flex: bool) -> bool {
        in_flex
            || self.blockified
            || matches!(self.display, Some(Display::Block | Display::Flex | Display::TablePart))
    }

    /// Does an element of the block kind stand in the line?
    pub(in crate::clean) fn is_inline(self) -> bool {
        !self.blockified
            && matches!(
                self.display,
                Some(
                    Display::Inline | Display::InlineBlock | Display::TableCell | Display::Contents
                )
            )
    }
}

/// The declared values of one element; the last word on each property counts.
#[derive(Debug)]
pub(super) struct Slots {
    known: [Option<Value>; SLOTS],
    others: Vec<(u32, Value)>,
    is_empty: bool,
}

impl Default for Slots {
    fn default() -> Self {
        Self { known: [None; SLOTS], others: Vec::new(), is_empty: true }
    }
}

impl Slots {
    /// Forgets everything, to be used for the next element.
    pub(super) fn clear(&mut self) {
        if !self.is_empty {
            self.known = [None; SLOTS];
            self.others.clear();
            self.is_empty = true;
        }
    }

    /// Takes a declaration over those before it.
    pub(super) fn set(&mut self, declaration: &Declaration) {
        self.is_empty = false;
        match declaration.property {
            Property::Known(slot) => self.known[slot as usize] = Some(declaration.value),
            Property::Other(name) => {
                self.others.retain(|(known, _)| *known != name);
                self.others.push((name, declaration.value));
            }
        }
    }

    pub(super) fn get(&self, slot: Slot) -> Option<Value> {
        self.known[slot as usize]
    }

    pub(super) fn flag(&self, slot: Slot) -> bool {
        self.get(slot) == Some(Value::Flag(true))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    fn length(&self, slot: Slot) -> Option<Length> {
        match self.get(slot)? {
            Value::Length(length) => Some(length),
            _ => None,
        }
    }

    fn doubts(&self) -> impl Iterator<Item = Doubt> {
        self.others.iter().filter_map(|(_, value)| match value {
            Value::Doubt(doubt) => Some(*doubt),
            _ => None,
        })
    }
}

/// What an element does to the text of others.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Impact {
    /// It paints more than its letters.
    pub(super) paints: bool,
    /// It reaches beyond its box: an outline, a shadow.
    pub(super) reaches_out: bool,
    /// It pulls its neighbours over one another.
    pub(super) pulls: bool,
}

/// What an element hands down to its children.
#[derive(Debug, Clone, Copy)]
pub(super) struct Computed {
    /// Hidden by a property that no child can undo.
    gone: bool,
    /// `visibility`, which a child can undo.
    invisible: bool,
    pub(super) opacity: f32,
    pub(super) font_px: f32,
    color: Color,
    fill: Option<Color>,
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
    is_fixed_table: bool,
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
        fill: None,
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
        if color.alpha <= 0.0 {
            return;
        }
        self.behind = color.over(self.behind);
        if kind != BoxKind::Inline {
            self.block_behind = self.behind;
        }
        if color.alpha >= 1.0 {
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
        let mut flow = Flow::default();
        let mut impact = Impact::default();
        if let Some(Value::Display(display)) = slots.get(Slot::Display) {
            flow.display = Some(display);
        }
        if flow.display == Some(Display::None) {
            self.gone = true;
            return (flow, impact);
        }
        self.apply_text(slots);
        self.doubts = slots.doubts().fold(self.doubts, |set, doubt| set.and(Doubts::of(doubt)));
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
        self.apply_sizes(slots, kind, in_flex || flow.blockified, &mut frame);
        self.apply_overflow(&frame, kind);
        self.apply_clips(slots, out_of_flow, kind);
        self.apply_background(slots, kind, flow.blockified, &frame, &mut impact);
        self.apply_effects(slots, kind, &mut impact);
        (flow, impact)
    }

    /// Properties of text, which are inherited.
    fn apply_text(&mut self, slots: &Slots) {
        if slots.is_empty() {
            return;
        }
        let parent_font = self.font_px;
        match slots.get(Slot::FontSize) {
            Some(Value::Length(size)) => self.font_px = size.font_size(parent_font),
            Some(Value::Initial) => self.font_px = 16.0,
            Some(Value::Doubt(doubt)) => self.doubts.add(doubt),
            _ => {}
        }
        if self.font_px > 200.0 {
            self.doubts.add(Doubt::Sized);
        }
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
        for slot in [
            Slot::LineHeight,
            Slot::LetterSpacing,
            Slot::WordSpacing,
            Slot::WhiteSpace,
            Slot::Visibility,
            Slot::Direction,
        ] {
            self.note_doubt(slots.get(slot));
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

    fn apply_colors(&mut self, slots: &Slots) {
        match slots.get(Slot::Color) {
            Some(Value::Color(color)) => self.color = color,
            Some(Value::Initial) => self.color = Color::BLACK,
            other => self.note_doubt(other),
        }
        match slots.get(Slot::TextFill) {
            Some(Value::Color(color)) => self.fill = Some(color),
            Some(Value::Initial | Value::CurrentColor) => self.fill = None,
            other => self.note_doubt(other),
        }
        for slot in [Slot::Stroke, Slot::TextShadow] {
            match slots.get(slot) {
                Some(Value::Flag(outlined)) => self.is_outlined |= outlined,
                other => self.note_doubt(other),
            }
        }
    }

    fn note_doubt(&mut self, value: Option<Value>) {
        if let Some(Value::Doubt(doubt)) = value {
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
            other => self.note_doubt(other),
        }
        if self.opacity < UNSEEN_OPACITY {
            self.gone = true;
        }
    }

    fn position(&mut self, slots: &Slots) -> Position {
        match slots.get(Slot::Position) {
            Some(Value::Position(position)) => position,
            Some(Value::Inherit) => {
                self.doubts.add(Doubt::Moved);
                Position::Relative
            }
            Some(Value::Doubt(doubt)) => {
                self.doubts.add(doubt);
                self.displaced = true;
                self.confined_to = None;
                Position::Relative
            }
            _ => Position::Static,
        }
    }

    /// `position`, its offsets and `translate`.
    fn apply_place(
        &mut self,
        slots: &Slots,
        position: Position,
        kind: BoxKind,
        in_flex: bool,
        at: u32,
    ) {
        let behind_all = matches!(slots.get(Slot::ZIndex), Some(Value::Number(z)) if z < 0.0);
        if (position != Position::Static || in_flex) && behind_all {
            self.doubts.add(Doubt::Covered);
        }
        let offsets =
            [Slot::Left, Slot::Top, Slot::Right, Slot::Bottom].map(|slot| slots.length(slot));
        if position != Position::Static {
            self.layered = true;
            for slot in [Slot::Left, Slot::Top, Slot::Right, Slot::Bottom, Slot::ZIndex] {
                self.note_doubt(slots.get(slot));
            }
            let is_off = self.place_by_offsets(position, offsets);
            let moved = position == Position::Absolute
                || offsets.iter().flatten().any(|offset| offset.pixels(1.0, 1.0) != 0.0);
            if moved {
                self.displaced = true;
                let fills = offsets
                    .iter()
                    .all(|offset| offset.is_some_and(|offset| offset.pixels(16.0, 400.0) >= 0.0))
                    && slots.get(Slot::Width).is_none()
                    && slots.get(Slot::Height).is_none();
                self.confined_to =
                    self.positioned.filter(|_| fills && position == Position::Absolute);
            }
            if position == Position::Absolute && self.clip_room.is_some() {
                self.doubts.add(Doubt::Clipped);
            }
            self.positioned = Some(at);
            self.gone |= is_off;
        }
        if kind != BoxKind::Inline {
            self.apply_translation(slots, position, offsets);
        }
    }

    /// Returns whether the offsets put it off the page.
    fn place_by_offsets(&mut self, position: Position, offsets: [Option<Length>; 4]) -> bool {
        let pixels =
            offsets.map(|offset| offset.map(|offset| offset.pixels(self.font_px, PAGE_WIDTH)));
        let [left, top, right, bottom] = pixels;
        let is_off = [left, top].into_iter().flatten().any(|by| by <= OFF_PAGE || by >= FAR_AWAY)
            || [right, bottom].into_iter().flatten().any(|by| by.abs() >= FAR_AWAY);
        let within = |value: Option<f32>, low: f32, high: f32| {
            value.is_none_or(|value| (low..=high).contains(&value))
        };
        let passes = match position {
            Position::Absolute => {
                let share = |at: usize, most: f32| match offsets[at] {
                    Some(Length::Share(share)) => (0.0..=most).contains(&share),
                    _ => within(pixels[at], 0.0, 400.0),
                };
                share(0, 0.6)
                    && share(1, 1.0)
                    && (right.is_none() || (left.is_some() && share(2, 0.5)))
                    && (bottom.is_none() || (top.is_some() && share(3, 0.5)))
            }
            _ => {
                within(left, -30.0, 400.0)
                    && within(top, -5.0, 400.0)
                    && within(right, -400.0, 30.0)
                    && within(bottom, -400.0, 5.0)
            }
        };
        let moves_in_clip =
            self.clip_room.is_some() && pixels.iter().flatten().any(|by| by.abs() > 1.0);
        if !passes && !is_off {
            self.doubts.add(Doubt::Moved);
        }
        if moves_in_clip {
            self.doubts.add(Doubt::Clipped);
        }
        is_off && !self.doubts.has(Doubt::Moved)
    }

    fn apply_translation(
        &mut self,
        slots: &Slots,
        position: Position,
        offsets: [Option<Length>; 4],
    ) {
        for (slot, offset) in [(Slot::TranslateX, offsets[0]), (Slot::TranslateY, offsets[1])] {
            self.note_doubt(slots.get(slot));
            let Some(by) = slots.length(slot) else { continue };
            self.displaced |= by.pixels(1.0, 1.0) != 0.0;
            self.layered = true;
            let centres = position == Position::Absolute
                && self.room >= 300.0
                && by == Length::Share(-0.5)
                && matches!(offset, Some(Length::Share(share)) if (0.4..=0.6).contains(&share));
            let pixels = by.pixels(self.font_px, PAGE_WIDTH);
            if centres || pixels.abs() <= 5.0 {
                continue;
            }
            if pixels <= OFF_PAGE && !matches!(by, Length::Share(_)) || pixels >= FAR_AWAY {
                self.gone = !self.doubts.has(Doubt::Moved);
            }
            self.doubts.add(Doubt::Moved);
        }
    }

    fn apply_margins(&mut self, slots: &Slots, kind: BoxKind, impact: &mut Impact) {
        if slots.is_empty() {
            return;
        }
        let sides = [Slot::MarginLeft, Slot::MarginRight, Slot::MarginTop, Slot::MarginBottom];
        for slot in sides.into_iter().chain([
            Slot::PaddingLeft,
            Slot::PaddingRight,
            Slot::PaddingTop,
            Slot::PaddingBottom,
            Slot::TextIndent,
        ]) {
            self.note_doubt(slots.get(slot));
        }
        let (font, room) = (self.font_px, if self.room > 0.0 { self.room } else { PAGE_WIDTH });
        let pixels =
            |slot: Slot| slots.length(slot).map_or(0.0, |length| length.pixels(font, room));
        let [left, right, top, bottom] = sides.map(pixels);
        let (top, bottom) = if kind == BoxKind::Inline { (0.0, 0.0) } else { (top, bottom) };
        let [inner_left, inner_right, inner_top, inner_bottom] =
            [Slot::PaddingLeft, Slot::PaddingRight, Slot::PaddingTop, Slot::PaddingBottom]
                .map(pixels);
        if [left, top].into_iter().any(|margin| margin <= OFF_PAGE) {
            self.gone = !self.doubts.has(Doubt::Moved);
            self.doubts.add(Doubt::Moved);
        }
        let usual = |margin: f32, low: f32| (low..=400.0).contains(&margin);
        if !(usual(left, -30.0) && usual(right, -30.0) && usual(top, -12.0) && usual(bottom, -12.0))
        {
            self.doubts.add(Doubt::Moved);
        }
        if [inner_left, inner_right, inner_top, inner_bottom]
            .into_iter()
            .any(|padding| padding > 400.0)
        {
            self.doubts.add(Doubt::Sized);
        }
        if [left, right, top, bottom].into_iter().any(|margin| margin < -4.0) {
            impact.pulls = true;
            self.displaced = true;
            self.confined_to = None;
            if self.clip_room.is_some() {
                self.doubts.add(Doubt::Clipped);
            }
            if self.rtl {
                self.doubts.add(Doubt::Moved);
            }
        }
        let indent = pixels(Slot::TextIndent);
        if kind != BoxKind::Inline && indent <= OFF_PAGE {
            self.gone = !self.doubts.has(Doubt::Moved);
        }
        if indent < -(left.max(0.0) + inner_left) - 30.0
            || indent > 400.0
            || (indent > 40.0 && self.clip_room.is_some())
        {
            self.doubts.add(Doubt::Moved);
        }
        let taken = left.max(0.0) + right.max(0.0) + inner_left + inner_right;
        self.room = (self.room - taken).max(0.0);
        if self.rtl && inner_left + inner_right > 100.0 {
            self.shrunk = true;
        }
    }

    fn apply_sizes(&mut self, slots: &Slots, kind: BoxKind, is_fitted: bool, frame: &mut Frame) {
        for slot in [Slot::Width, Slot::Height, Slot::MaxWidth, Slot::MaxHeight] {
            self.note_doubt(slots.get(slot));
        }
        self.is_fixed_table |= slots.flag(Slot::FixedTable);
        if matches!(kind, BoxKind::Inline | BoxKind::Table | BoxKind::TablePart | BoxKind::Cell) {
            if kind != BoxKind::Inline {
                // Cells share the room of a table by rules of their own.
                self.room = if self.is_fixed_table { 0.0 } else { self.room.min(200.0) };
            }
            return;
        }
        if frame.width.is_some_and(|width| width > 2600.0)
            || frame.height.is_some_and(|height| height > 20_000.0)
        {
            self.doubts.add(Doubt::Sized);
        }
        if let Some(width) = frame.width {
            self.shrunk |= width < 100.0;
            if self.rtl && width < 300.0 {
                self.doubts.add(Doubt::Moved);
            }
            self.room = width;
        } else if is_fitted {
            self.room = 0.0;
        }
        self.shrunk |= frame.height.is_some();
    }

    fn apply_overflow(&mut self, frame: &Frame, kind: BoxKind) {
        if kind == BoxKind::Inline || frame.overflow == Overflow::Visible {
            return;
        }
        let is_table = matches!(kind, BoxKind::Table | BoxKind::TablePart | BoxKind::Cell);
        if frame.is_tiny() && !is_table {
            // What leaves the box is still seen in its padding.
            match frame.is_padded {
                true => self.doubts.add(Doubt::Clipped),
                false => self.gone = true,
            }
            return;
        }
        if frame.overflow == Overflow::Scrolls {
            let is_small = frame.width.is_some_and(|width| width < 100.0)
                || frame.height.is_some_and(|height| height < 100.0);
            if is_small || frame.has_unknown_size {
                self.doubts.add(Doubt::Clipped);
            }
            self.clip_room = Some(self.clip_room.unwrap_or(f32::MAX));
            return;
        }
        let is_cut = match is_table {
            true => self.is_fixed_table || self.nowrap || frame.width.is_some() && self.nowrap,
            false => frame.height.is_some() || self.room <= 0.0 || frame.has_unknown_size,
        };
        if is_cut {
            self.doubts.add(Doubt::Clipped);
        }
        let room = if is_table { f32::MAX } else { self.room };
        self.clip_room = Some(self.clip_room.map_or(room, |outer| outer.min(room)));
    }

    fn apply_clips(&mut self, slots: &Slots, out_of_flow: bool, kind: BoxKind) {
        if out_of_flow {
            self.gone |= slots.flag(Slot::Clip);
            self.note_doubt(slots.get(Slot::Clip));
        }
        self.note_doubt(slots.get(Slot::ClipPath));
        self.gone |= kind != BoxKind::Inline && slots.flag(Slot::ContentVisibility);
        self.note_doubt(slots.get(Slot::ContentVisibility));
    }

    fn apply_background(
        &mut self,
        slots: &Slots,
        kind: BoxKind,
        is_out: bool,
        frame: &Frame,
        impact: &mut Impact,
    ) {
        if kind != BoxKind::Inline && self.behind != self.block_behind {
            // The background of an inline element does not lie behind the blocks in it.
            self.perhaps_behind = Some(self.block_behind);
        }
        if (is_out || self.displaced) && self.behind != self.page {
            self.perhaps_behind = Some(self.page);
        }
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
        impact.paints |= color.alpha * self.opacity > 0.05;
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

    fn apply_effects(&mut self, slots: &Slots, kind: BoxKind, impact: &mut Impact) {
        for slot in [Slot::Outline, Slot::BoxShadow, Slot::TextShadow] {
            impact.reaches_out |= matches!(slots.get(slot), Some(Value::Doubt(_)));
        }
        impact.paints |= slots.flag(Slot::WideBorder);
        for doubt in slots.doubts() {
            self.displaced |= matches!(doubt, Doubt::Moved | Doubt::Animated | Doubt::UnknownStyle);
            self.layered = true;
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

fn kind_of(usual: BoxKind, flow: Flow, in_flex: bool) -> BoxKind {
    let declared = match flow.display {
        Some(Display::Inline) => BoxKind::Inline,
        Some(Display::InlineBlock) => BoxKind::InlineBlock,
        Some(Display::TableCell) => BoxKind::Cell,
        Some(Display::TablePart) => BoxKind::TablePart,
        Some(Display::Contents) => return BoxKind::Contents,
        Some(Display::Block | Display::Flex | Display::None) => BoxKind::Block,
        None => usual,
    };
    match declared {
        BoxKind::Inline if flow.blockified || in_flex => BoxKind::Block,
        other => other,
    }
}

/// The size of one element's box, as far as declared.
struct Frame {
    width: Option<f32>,
    height: Option<f32>,
    overflow: Overflow,
    has_unknown_size: bool,
    is_padded: bool,
}

impl Frame {
    fn new(slots: &Slots, style: &Computed, kind: BoxKind) -> Self {
        let overflow = match (slots.get(Slot::OverflowX), slots.get(Slot::OverflowY)) {
            (None, None) => Overflow::Visible,
            (Some(Value::Overflow(Overflow::Clips)), _)
            | (_, Some(Value::Overflow(Overflow::Clips))) => Overflow::Clips,
            (Some(Value::Overflow(Overflow::Scrolls)), _)
            | (_, Some(Value::Overflow(Overflow::Scrolls))) => Overflow::Scrolls,
            (Some(Value::Inherit | Value::Doubt(_)), _)
            | (_, Some(Value::Inherit | Value::Doubt(_))) => Overflow::Clips,
            _ => Overflow::Visible,
        };
        let size = |slots_of: [Slot; 2], whole: f32| {
            let sizes = slots_of.map(|slot| match slots.length(slot) {
                Some(Length::Share(_)) if whole <= 0.0 => None,
                Some(length) => Some(length.pixels(style.font_px, whole)),
                None => None,
            });
            match sizes {
                [Some(one), Some(other)] => Some(one.min(other)),
                [one, other] => one.or(other),
            }
        };
        let is_unknown = |slot: Slot| {
            let is_share = matches!(slots.length(slot), Some(Length::Share(_)));
            let is_height = matches!(slot, Slot::Height | Slot::MaxHeight);
            matches!(slots.get(slot), Some(Value::Doubt(_) | Value::Inherit))
                || (is_share && (is_height || style.room <= 0.0))
        };
        let has_unknown_size = [Slot::Width, Slot::Height, Slot::MaxWidth, Slot::MaxHeight]
            .into_iter()
            .any(is_unknown);
        let applies = kind != BoxKind::Inline;
        Self {
            width: size([Slot::Width, Slot::MaxWidth], style.room).filter(|_| applies),
            height: size([Slot::Height, Slot::MaxHeight], 0.0).filter(|_| applies),
            overflow,
            has_unknown_size,
            is_padded: [Slot::PaddingRight, Slot::PaddingBottom].into_iter().any(|slot| {
                slots.get(slot).is_some_and(|value| value != Value::Length(Length::Px(0.0)))
            }),
        }
    }

    fn is_tiny(&self) -> bool {
        let nothing = |size: Option<f32>| size.is_some_and(|size| size <= 0.0);
        let speck = |size: Option<f32>| size.is_some_and(|size| size <= 1.0);
        nothing(self.width) || nothing(self.height) || (speck(self.width) && speck(self.height))
    }
}
