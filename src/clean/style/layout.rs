//! Position and visible size of a box: position, margins, sizes, overflow and clips.

use super::boxes::{BoxKind, Drag, Frame, Impact, Slots, bits};
use super::computed::{Computed, PAGE_WIDTH};
use super::declaration::{Overflow, Position, Slot, Value};
use super::length::Length;
use crate::model::VisibilityIssue;

/// A box moved this far to the left or up is off the page.
const OFF_PAGE: f32 = -500.0;
/// A box moved this far to the right or down is beyond scrolling.
const FAR_AWAY: f32 = 4000.0;

/// A margin below this moves the text after it away.
pub(super) const DRAGGING: f32 = -60.0;

/// A narrower clipping box may have no room for all items next to each other.
const NARROW: f32 = 800.0;

/// Properties that move text within its box, or the box itself.
const ASIDE: u64 = bits([
    Slot::MarginTop,
    Slot::MarginRight,
    Slot::MarginBottom,
    Slot::MarginLeft,
    Slot::PaddingTop,
    Slot::PaddingRight,
    Slot::PaddingBottom,
    Slot::PaddingLeft,
    Slot::TextIndent,
]);

impl Computed {
    pub(super) fn position(&mut self, slots: &Slots) -> Position {
        match slots.get(Slot::Position) {
            Some(Value::Position(position)) => position,
            Some(Value::Inherit) => {
                self.doubts.add(VisibilityIssue::Moved);
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
    pub(super) fn apply_place(
        &mut self,
        slots: &Slots,
        position: Position,
        kind: BoxKind,
        in_flex: bool,
        at: u32,
    ) {
        if position == Position::Static
            && !slots.has(bits([Slot::ZIndex, Slot::TranslateX, Slot::TranslateY]))
        {
            return;
        }
        let behind_all = matches!(slots.get(Slot::ZIndex), Some(Value::Number(z)) if z < 0.0);
        if (position != Position::Static || in_flex) && behind_all {
            self.doubts.add(VisibilityIssue::Covered);
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
            if position == Position::Absolute && slots.flag(Slot::Fixed) {
                // Nobody can scroll to what is outside the window, and its size is not known.
                self.doubts.add(VisibilityIssue::Moved);
            }
            if position == Position::Absolute && self.clip_room.is_some() {
                self.doubts.add(VisibilityIssue::Clipped);
            }
            self.positioned = Some(at);
            self.gone |= is_off;
        }
        if kind != BoxKind::Inline {
            self.apply_translation(slots, position, offsets);
        }
    }

    /// Returns whether the offsets move it off the page.
    pub(super) fn place_by_offsets(
        &mut self,
        position: Position,
        offsets: [Option<Length>; 4],
    ) -> bool {
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
        match position {
            Position::Absolute => (self.shift, self.rise) = (left.unwrap_or(self.shift), 0.0),
            _ => {
                self.move_by(left.or(right.map(|right| -right)).unwrap_or(0.0));
                self.raise_by(top.or(bottom.map(|bottom| -bottom)).unwrap_or(0.0));
            }
        }
        let moves_in_clip =
            self.clip_room.is_some() && pixels.iter().flatten().any(|by| by.abs() > 1.0);
        if !passes && !is_off {
            self.doubts.add(VisibilityIssue::Moved);
        }
        if moves_in_clip {
            self.doubts.add(VisibilityIssue::Clipped);
        }
        is_off && !self.doubts.has(VisibilityIssue::Moved)
    }

    pub(super) fn apply_translation(
        &mut self,
        slots: &Slots,
        position: Position,
        offsets: [Option<Length>; 4],
    ) {
        for (slot, offset) in [(Slot::TranslateX, offsets[0]), (Slot::TranslateY, offsets[1])] {
            let Some(by) = slots.length(slot) else { continue };
            self.displaced |= by.pixels(1.0, 1.0) != 0.0;
            self.layered = true;
            let centres = position == Position::Absolute
                && self.room >= 300.0
                && by == Length::Share(-0.5)
                && matches!(offset, Some(Length::Share(share)) if (0.4..=0.6).contains(&share));
            let pixels = by.pixels(self.font_px, PAGE_WIDTH);
            match slot {
                _ if centres => {}
                Slot::TranslateX => self.move_by(pixels),
                _ => self.raise_by(pixels),
            }
            if centres || pixels.abs() <= 5.0 {
                continue;
            }
            if pixels <= OFF_PAGE && !matches!(by, Length::Share(_)) || pixels >= FAR_AWAY {
                self.gone |= !self.doubts.has(VisibilityIssue::Moved);
            }
            self.doubts.add(VisibilityIssue::Moved);
        }
    }

    pub(super) fn apply_margins(&mut self, slots: &Slots, kind: BoxKind, impact: &mut Impact) {
        if !slots.has(ASIDE) {
            self.room = self.room.max(0.0);
            return;
        }
        let sides = [Slot::MarginLeft, Slot::MarginRight, Slot::MarginTop, Slot::MarginBottom];
        let (font, room) = (self.font_px, if self.room > 0.0 { self.room } else { PAGE_WIDTH });
        let pixels =
            |slot: Slot| slots.length(slot).map_or(0.0, |length| length.pixels(font, room));
        let [left, right, top, bottom] = sides.map(pixels);
        let (top, bottom) = if kind == BoxKind::Inline { (0.0, 0.0) } else { (top, bottom) };
        let [inner_left, inner_right, inner_top, inner_bottom] =
            [Slot::PaddingLeft, Slot::PaddingRight, Slot::PaddingTop, Slot::PaddingBottom]
                .map(pixels);
        if [left, top].into_iter().any(|margin| margin <= OFF_PAGE) {
            // The base of a percentage depends on the surrounding boxes.
            let is_share = [Slot::MarginLeft, Slot::MarginTop]
                .into_iter()
                .any(|slot| matches!(slots.length(slot), Some(Length::Share(_))));
            self.gone |= !is_share && !self.doubts.has(VisibilityIssue::Moved);
            self.doubts.add(VisibilityIssue::Moved);
        }
        let usual = |margin: f32, low: f32| (low..=400.0).contains(&margin);
        if !(usual(left, -30.0) && usual(right, -30.0) && usual(top, -12.0) && usual(bottom, -12.0))
        {
            self.doubts.add(VisibilityIssue::Moved);
        }
        let paddings = [inner_left, inner_right, inner_top, inner_bottom];
        if paddings.into_iter().any(|padding| padding > 400.0) {
            self.doubts.add(VisibilityIssue::Sized);
        }
        if [left, right, top, bottom].into_iter().any(|margin| margin < -4.0) {
            impact.pulls = true;
            self.displaced = true;
            self.confined_to = None;
            if self.clip_room.is_some() {
                self.doubts.add(VisibilityIssue::Clipped);
            }
            if self.rtl {
                self.doubts.add(VisibilityIssue::Moved);
            }
        }
        let indent = pixels(Slot::TextIndent);
        if kind != BoxKind::Inline && indent <= OFF_PAGE {
            self.gone |= !self.doubts.has(VisibilityIssue::Moved);
        }
        if indent < -(left.max(0.0) + inner_left) - 30.0
            || indent > 400.0
            || (indent > 40.0 && self.clip_room.is_some())
        {
            self.doubts.add(VisibilityIssue::Moved);
        }
        self.move_by(left + inner_left);
        self.raise_by(top);
        let taken = left.max(0.0) + right.max(0.0) + inner_left + inner_right;
        // Moved by more than half of its clipping box.
        if self.clip_room.is_some_and(|clip| taken > clip / 2.0) {
            self.doubts.add(VisibilityIssue::Clipped);
        }
        self.room = (self.room - taken).max(0.0);
        if self.rtl && inner_left + inner_right > 100.0 {
            self.shrunk = true;
        }
    }

    /// How its negative margins move the text after it.
    pub(super) fn drags(&self, slots: &Slots, kind: BoxKind, is_beside: bool) -> Option<Drag> {
        let room = if self.room > 0.0 { self.room } else { PAGE_WIDTH };
        let is_far = |slot: Slot| {
            slots.length(slot).is_some_and(|length| length.pixels(self.font_px, room) < DRAGGING)
        };
        let is_in_line = is_beside || matches!(kind, BoxKind::Inline | BoxKind::InlineBlock);
        if kind != BoxKind::Inline && (is_far(Slot::MarginTop) || is_far(Slot::MarginBottom)) {
            Some(Drag::Page)
        } else if is_in_line && (is_far(Slot::MarginLeft) || is_far(Slot::MarginRight)) {
            Some(Drag::Line)
        } else {
            None
        }
    }

    /// The sum of its negative margins.
    pub(super) fn pulls(&self, slots: &Slots, kind: BoxKind, is_beside: bool, impact: &mut Impact) {
        let pull = |slot: Slot| {
            let length = slots.length(slot);
            length.map_or(0.0, |length| length.pixels(self.font_px, PAGE_WIDTH).min(0.0))
        };
        if is_beside || matches!(kind, BoxKind::Inline | BoxKind::InlineBlock) {
            impact.pull_back = pull(Slot::MarginLeft) + pull(Slot::MarginRight);
        }
        if kind != BoxKind::Inline {
            impact.pull_up = pull(Slot::MarginTop) + pull(Slot::MarginBottom);
        }
    }

    pub(super) fn apply_sizes(
        &mut self,
        slots: &Slots,
        kind: BoxKind,
        is_fitted: bool,
        frame: &mut Frame,
    ) {
        self.is_fixed_table |= slots.flag(Slot::FixedTable);
        if matches!(kind, BoxKind::Inline | BoxKind::Table | BoxKind::TablePart | BoxKind::Cell) {
            if kind != BoxKind::Inline {
                self.share_table_room();
            }
            self.squeeze_cell(slots, kind, frame);
            return;
        }
        if frame.width.is_some_and(|width| width > 2600.0)
            || frame.height.is_some_and(|height| height > 20_000.0)
        {
            self.doubts.add(VisibilityIssue::Sized);
        }
        if let Some(width) = frame.width {
            self.shrunk |= width < 100.0;
            // Content wider than its clipping box ends outside of it.
            if self.clip_room.is_some_and(|clip| width > clip + 1.0) {
                self.doubts.add(VisibilityIssue::Clipped);
            }
            if self.rtl && width < 300.0 {
                self.doubts.add(VisibilityIssue::Moved);
            }
            self.room = width;
        } else if is_fitted {
            self.room = 0.0;
        }
        self.shrunk |= frame.height.is_some();
    }

    /// Items of a flex box are next to each other, also beyond the edge of a narrow clipping box.
    pub(super) fn doubt_in_clipped_flex(&mut self, in_flex: bool) {
        if in_flex && self.clip_room.is_some_and(|clip| clip < NARROW) {
            self.doubts.add(VisibilityIssue::Clipped);
        }
    }

    /// Cells share the width of a table by their own rules.
    pub(super) fn share_table_room(&mut self) {
        self.room = if self.is_fixed_table { self.column_room } else { self.room.min(200.0) };
    }

    pub(super) fn apply_overflow(&mut self, frame: &Frame, kind: BoxKind) {
        if kind == BoxKind::Inline || frame.overflow == Overflow::Visible {
            return;
        }
        let is_table = matches!(kind, BoxKind::Table | BoxKind::TablePart | BoxKind::Cell);
        if frame.is_tiny() && !is_table {
            // Content that leaves the box is still visible in its padding.
            match frame.is_padded || !self.doubts.is_empty() {
                true => self.doubts.add(VisibilityIssue::Clipped),
                false => self.gone = true,
            }
            return;
        }
        if frame.overflow == Overflow::Scrolls {
            let is_small = frame.width.is_some_and(|width| width < 100.0)
                || frame.height.is_some_and(|height| height < 100.0);
            if is_small || frame.has_unknown_size {
                self.doubts.add(VisibilityIssue::Clipped);
            }
            self.clip_room = Some(self.clip_room.unwrap_or(f32::MAX));
            return;
        }
        let is_cut = match is_table {
            true => {
                self.nowrap || frame.is_squeezed || (self.is_fixed_table && self.column_room <= 0.0)
            }
            false => frame.height.is_some() || self.room <= 0.0 || frame.has_unknown_size,
        };
        if is_cut {
            self.doubts.add(VisibilityIssue::Clipped);
        }
        let room = if is_table && !self.is_fixed_table { f32::MAX } else { self.room };
        self.clip_room = Some(self.clip_room.map_or(room, |outer| outer.min(room)));
    }

    pub(super) fn apply_clips(&mut self, slots: &Slots, out_of_flow: bool, kind: BoxKind) {
        if out_of_flow {
            self.gone |= slots.flag(Slot::Clip);
            self.note_doubt(slots.get(Slot::Clip));
        }
        self.gone |= kind != BoxKind::Inline && slots.flag(Slot::ContentVisibility);
    }
}
