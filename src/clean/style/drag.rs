//! Boxes with negative margins, which move the text after them off the page, and text that its own box
//! pushes out.

use ego_tree::NodeRef;
use scraper::Node;

use super::boxes::{BoxKind, Drag};
use super::computed::Computed;
use super::declaration::Slot;
use super::element_style::{is_cut_line, is_named};
use super::verdict::{Frame, Judge, MAX_COVERS};
use crate::clean::element::Role;
use crate::model::{VisibilityIssue, VisibilityIssues};

/// The most that may be beside the text of a form control, in pixels.
const MOST_BESIDE: f32 = 60.0;

/// Text that another box moved away.
pub(super) struct Dragged {
    /// The elements around the box: their own text may follow it.
    around: Vec<usize>,
    /// The first element after it.
    from: usize,
    /// The block in which it ends; `None` for the whole page.
    within: Option<usize>,
}

impl Judge<'_> {
    /// The text of a form control beside wide edges, or outside a dark box, may be out of sight.
    pub(super) fn doubt_pushed_out(
        &self,
        node: NodeRef<'_, Node>,
        role: Role,
        kind: BoxKind,
        around: &Computed,
        style: &mut Computed,
    ) {
        let pixels = |slot: Slot| {
            self.slots.length(slot).map_or(0.0, |length| length.pixels(style.font_px, 300.0))
        };
        let edges = [Slot::PaddingLeft, Slot::PaddingRight, Slot::PaddingTop, Slot::PaddingBottom];
        let beside = edges.map(pixels).iter().sum::<f32>() + pixels(Slot::TextIndent).abs();
        let is_control = matches!(role, Role::Input | Role::TextArea | Role::Select);
        // Its text does not leave it, unlike that of other boxes.
        let is_closed = is_control || is_named(node, "marquee");
        if is_closed && style.shrunk {
            style.doubts.add(VisibilityIssue::Clipped);
        }
        if is_control && (beside > MOST_BESIDE || self.slots.flag(Slot::WideBorder)) {
            style.doubts.add(VisibilityIssue::Clipped);
        }
        let is_table = matches!(kind, BoxKind::Table | BoxKind::TablePart | BoxKind::Cell);
        let widths = [Slot::Width, Slot::MaxWidth].map(|slot| self.slots.length(slot));
        let width = widths
            .into_iter()
            .flatten()
            .map(|length| length.pixels(style.font_px, around.room.max(1.0)))
            .reduce(f32::min)
            .filter(|_| !is_table && !matches!(kind, BoxKind::Inline | BoxKind::Contents));
        let is_narrow = is_table && style.is_fixed_table && style.nowrap;
        style.keep_in_dark_box(around, width, is_narrow);
        self.doubt_spilled(node, kind, style);
        if is_cut_line(node, style) {
            style.doubts.add(VisibilityIssue::Clipped);
        }
    }

    /// Notes what the element at `at` moves, given the open elements around it.
    pub(super) fn note_drag(&mut self, drag: Drag, frames: &[Frame<'_>], at: usize) {
        if self.dragged.len() >= MAX_COVERS {
            self.field.add(VisibilityIssue::Moved);
            return;
        }
        let mut dragged = Dragged { around: Vec::new(), from: at + 1, within: None };
        for frame in frames.iter().rev() {
            dragged.around.push(frame.at);
            let verdict = self.verdicts[frame.at];
            let is_inline = verdict.role.is_inline() && !verdict.flow.is_block(false);
            if drag == Drag::Line && !is_inline {
                dragged.within = Some(frame.at);
                break;
            }
        }
        self.dragged.push(dragged);
    }

    /// Makes all moved text doubtful.
    pub(super) fn doubt_dragged(&mut self) {
        let moved = VisibilityIssues::of(VisibilityIssue::Moved);
        for dragged in std::mem::take(&mut self.dragged) {
            for at in dragged.around {
                self.verdicts[at].doubt(moved);
            }
            let all = self.verdicts.len();
            let end = dragged.within.map_or(all, |at| self.verdicts[at].next as usize);
            for verdict in self.verdicts.iter_mut().take(end).skip(dragged.from) {
                verdict.doubt(moved);
            }
        }
    }
}
