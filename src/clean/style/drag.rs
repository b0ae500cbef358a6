//! Boxes with negative margins, which move the text after them off the page.

use super::boxes::Drag;
use super::verdict::{Frame, Judge, MAX_COVERS};
use crate::model::{VisibilityIssue, VisibilityIssues};

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
