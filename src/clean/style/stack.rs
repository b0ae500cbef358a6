//! What is painted over other text: a positioned element, or one with a layer of its own, covers
//! text before it that is outside the normal flow.

use super::boxes::{Impact, Slots};
use super::computed::Computed;
use super::declaration::{Position, Slot, Value};
use super::seen::Verdict;
use crate::model::{VisibilityIssue, VisibilityIssues};

/// Maximum elements with a positive `z-index` that are compared with all others.
const MAX_RAISED: usize = 8;

/// The box outside the normal flow that contains a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Afloat {
    pub(super) at: u32,
    /// It floats: lines flow around it, backgrounds of blocks do not.
    pub(super) floats: bool,
}

/// The elements that paint over others, as far as they matter at the end.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// The last element that paints, in a layer of its own or in a line.
    last: Option<u32>,
    last_in_line: Option<u32>,
    /// The last element with a layer of its own in which something is painted; in a block only.
    last_stack: Option<u32>,
    last_block_stack: Option<u32>,
    raised: Vec<u32>,
    has_many_raised: bool,
}

impl Layers {
    /// Whether any element paints in a layer of its own.
    pub(super) fn any(&self) -> bool {
        self.last.is_some()
    }

    /// Notes what the element at `at` paints.
    pub(super) fn note(&mut self, impact: Impact, style: &Computed, at: u32) {
        if !impact.paints {
            return;
        }
        if style.layered {
            self.last = Some(at);
        }
        if impact.in_line {
            self.last_in_line = Some(at);
        }
        self.last_stack = self.last_stack.max(style.stack);
        if !impact.in_line {
            self.last_block_stack = self.last_block_stack.max(style.stack);
        }
        if let Some(raised) = style.raised.filter(|raised| !self.raised.contains(raised)) {
            match self.raised.len() < MAX_RAISED {
                true => self.raised.push(raised),
                false => self.has_many_raised = true,
            }
        }
    }

    /// Doubts all text that may be covered.
    pub(super) fn apply(&self, verdicts: &mut [Verdict]) {
        if [self.last, self.last_in_line, self.last_stack].iter().all(Option::is_none) {
            return;
        }
        let covered = VisibilityIssues::of(VisibilityIssue::Covered);
        for at in 0..verdicts.len() {
            let verdict = verdicts[at];
            let is_before = |last: Option<u32>| last.is_some_and(|last| (last as usize) > at);
            if (verdict.is_shrunk && is_before(self.last))
                || (verdict.spills && is_before(self.last_in_line))
                || verdict.afloat.is_some_and(|afloat| self.covers(afloat, verdicts))
            {
                verdicts[at].doubt(covered);
            }
        }
    }

    /// Whether something is painted over a box outside the normal flow.
    fn covers(&self, afloat: Afloat, verdicts: &[Verdict]) -> bool {
        let next = |at: u32| verdicts.get(at as usize).map_or(u32::MAX, |verdict| verdict.next);
        let end = next(afloat.at);
        let last = if afloat.floats { self.last_block_stack } else { self.last_stack };
        let is_apart = |raised: u32| {
            !(raised..next(raised)).contains(&afloat.at) && !(afloat.at..end).contains(&raised)
        };
        last.is_some_and(|last| last >= end)
            || self.has_many_raised
            || self.raised.iter().any(|raised| is_apart(*raised))
    }
}

impl Computed {
    /// Notes whether the element has a layer of its own, or is outside the normal flow.
    pub(super) fn apply_layers(
        &mut self,
        slots: &Slots,
        position: Position,
        in_flex: bool,
        at: u32,
    ) {
        let height = match slots.get(Slot::ZIndex) {
            Some(Value::Number(height)) => Some(height),
            _ => None,
        };
        let is_moved = [Slot::TranslateX, Slot::TranslateY]
            .into_iter()
            .any(|slot| slots.length(slot).is_some());
        let is_pale =
            matches!(slots.get(Slot::Opacity), Some(Value::Number(opacity)) if opacity < 1.0);
        let has_layer = position != Position::Static
            || is_moved
            || is_pale
            || slots.flag(Slot::Stacks)
            || slots.has_doubts
            || (in_flex && height.is_some());
        if has_layer {
            self.stack = Some(at);
            self.layered = true;
            if height.is_some_and(|height| height > 0.0) {
                self.raised = self.raised.or(Some(at));
            }
        }
        if position == Position::Absolute {
            self.afloat = Some(Afloat { at, floats: false });
        } else if slots.flag(Slot::Float) {
            self.afloat = Some(Afloat { at, floats: true });
        }
    }
}
