//! What small steps do together: many harmless declarations, one inside the other, can make text
//! too small to read or remove it.

use super::boxes::{BoxKind, Frame, Slots};
use super::computed::{Computed, UNREADABLE_PX};
use super::declaration::{Slot, Value};
use crate::model::VisibilityIssue;

/// Text that became smaller than this in several steps may be unreadable.
const SMALLEST_PX: f32 = 5.0;
/// The words of a narrower cell may not fit.
const NARROW_CELL: f32 = 60.0;

impl Computed {
    /// The next smaller size, as of `<small>`; some browsers stop at six pixels, others do not.
    pub(super) fn make_smaller(&mut self, factor: f32) {
        let smaller = self.font_px * factor;
        if smaller < SMALLEST_PX && self.font_px >= UNREADABLE_PX {
            self.doubts.add(VisibilityIssue::Sized);
        }
        self.font_px = smaller.max(self.font_px.min(SMALLEST_PX));
    }

    /// `zoom` applies to all content, so that nested ones multiply.
    pub(super) fn apply_zoom(&mut self, slots: &Slots) {
        let Some(Value::Number(zoom)) = slots.get(Slot::Zoom) else { return };
        self.zoom *= zoom;
        if self.zoom < 1.0 && self.font_px * self.zoom < SMALLEST_PX {
            self.doubts.add(VisibilityIssue::Sized);
        }
    }

    /// A collapsed row or group of rows is removed, whatever the visibility of its content.
    pub(super) fn leave_collapsed(&mut self, kind: BoxKind) {
        self.gone |= self.collapsed && kind == BoxKind::TablePart;
    }

    /// Only the largest width makes a cell narrower than its words.
    pub(super) fn squeeze_cell(&mut self, slots: &Slots, kind: BoxKind, frame: &mut Frame) {
        if kind != BoxKind::Cell {
            return;
        }
        let Some(most) = slots.length(Slot::MaxWidth) else { return };
        let most = most.pixels(self.font_px, self.room);
        frame.is_squeezed = most < NARROW_CELL;
        self.room = self.room.min(most);
    }

    /// Spacing of lines, letters and words.
    pub(super) fn apply_spacing(&mut self, slots: &Slots) {
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
            self.doubts.add(VisibilityIssue::Sized);
        }
        self.shrunk |= tight;
    }
}
