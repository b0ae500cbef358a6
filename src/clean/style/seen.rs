//! What is known about one element after its tree was judged.

use super::boxes::Flow;
use super::color::Color;
use super::computed::{Computed, Sight, UNREADABLE_PX};
use super::declaration::TextSpace;
use super::stack::Afloat;
use crate::clean::element::Role;
use crate::model::{VisibilityIssue, VisibilityIssues};

/// Text with a smaller colour difference to its background is invisible.
const UNSEEN_DISTANCE: f32 = 0.127;
/// Small text needs more, by its size in pixels.
const SMALL_TEXT: [(f32, f32); 2] = [(6.0, 0.55), (8.0, 0.25)];

#[derive(Debug, Clone, Copy)]
pub(in crate::clean) struct Verdict {
    /// Its role in the text.
    pub(in crate::clean) role: Role,
    /// Whether its text is visible.
    pub(in crate::clean) sight: Sight,
    /// Why that is unknown.
    pub(in crate::clean) doubts: VisibilityIssues,
    /// Index of the next element after its content.
    pub(in crate::clean) next: u32,
    /// Longest unbroken word, in characters, before it is clipped.
    pub(in crate::clean) longest_word: u16,
    /// How white space is handled.
    pub(in crate::clean) space: TextSpace,
    pub(in crate::clean) flow: Flow,
    /// Whether it is hidden with all its content.
    pub(in crate::clean) is_gone: bool,
    /// Whether the text is struck through.
    pub(in crate::clean) line_through: bool,
    /// Whether the border is turned off, as editors do when they use a quote for indenting.
    pub(in crate::clean) border_none: bool,
    /// Whether this is the span with a Word list marker.
    pub(in crate::clean) is_word_marker: bool,
    /// Level of a list item written by Word as a paragraph, from 1; 0 for others.
    pub(in crate::clean) word_list_level: u8,
    /// Whether its text has less room than it needs.
    pub(super) is_shrunk: bool,
    /// Whether its text certainly leaves its box.
    pub(super) spills: bool,
    /// The box outside the normal flow that contains it.
    pub(super) afloat: Option<Afloat>,
}

impl Verdict {
    /// For an element whose text is not read, with all its content.
    pub(super) fn unread(next: u32) -> Self {
        Self {
            role: Role::Nothing,
            sight: Sight::Hidden,
            doubts: VisibilityIssues::NONE,
            next,
            longest_word: 0,
            space: TextSpace::Collapse,
            flow: Flow::default(),
            is_gone: true,
            line_through: false,
            border_none: false,
            is_word_marker: false,
            word_list_level: 0,
            is_shrunk: false,
            spills: false,
            afloat: None,
        }
    }

    /// Makes its text doubtful, unless it is already hidden.
    pub(super) fn doubt(&mut self, doubts: VisibilityIssues) {
        if doubts.is_empty() || self.sight == Sight::Hidden {
            return;
        }
        self.sight = Sight::Doubtful;
        self.doubts = self.doubts.and(doubts);
    }
}

impl Computed {
    /// Whether text here is visible, and if that is unknown, why.
    pub(super) fn sight(&self) -> (Sight, VisibilityIssues) {
        if self.gone || self.invisible {
            return (Sight::Hidden, VisibilityIssues::NONE);
        }
        let may_grow =
            self.doubts.has(VisibilityIssue::Moved) || self.doubts.has(VisibilityIssue::Sized);
        if self.font_px < UNREADABLE_PX && !may_grow {
            return (Sight::Hidden, VisibilityIssues::NONE);
        }
        if !self.doubts.is_empty() {
            return (Sight::Doubtful, self.doubts);
        }
        let small = SMALL_TEXT.iter().find(|(px, _)| self.font_px < *px);
        let least = small.map_or(UNSEEN_DISTANCE, |(_, least)| *least);
        let color = self.fill.unwrap_or(self.color);
        let is_seen_on =
            |behind: Color| color.over(behind).distance(behind) * self.opacity >= least;
        let painted = (Sight::Doubtful, VisibilityIssues::of(VisibilityIssue::Painted));
        let is_default = self.is_default_color && self.fill.is_none();
        if is_default && is_seen_on(self.behind) && self.behind.distance_to_text() < least {
            return painted;
        }
        // The stroke covers part of the letters.
        if self.is_stroked
            && self.stroke.is_some_and(|line| line.over(self.behind).distance(self.behind) < least)
        {
            return painted;
        }
        match (is_seen_on(self.behind), self.perhaps_behind) {
            (true, None) => (Sight::Shown, VisibilityIssues::NONE),
            (true, Some(other)) if is_seen_on(other) => (Sight::Shown, VisibilityIssues::NONE),
            (true, Some(_)) => painted,
            (false, _) if self.is_outlined => painted,
            (false, Some(other)) if is_seen_on(other) => painted,
            (false, _) if self.own_background => (Sight::Hidden, VisibilityIssues::NONE),
            (false, _) => (Sight::LowContrast, VisibilityIssues::NONE),
        }
    }
}
