//! What is known about one element after its tree was judged.

use super::boxes::Flow;
use super::computed::Sight;
use super::declaration::TextSpace;
use crate::clean::element::Role;
use crate::model::VisibilityIssues;

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
