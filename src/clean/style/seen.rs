//! What is known about one element when its tree has been judged.

use super::boxes::Flow;
use super::computed::Sight;
use super::declaration::TextSpace;
use crate::clean::element::Role;
use crate::model::Doubts;

/// What is known about one element.
#[derive(Debug, Clone, Copy)]
pub(in crate::clean) struct Verdict {
    /// The part it plays in the text.
    pub(in crate::clean) role: Role,
    /// Is its text seen?
    pub(in crate::clean) sight: Sight,
    /// Why nobody can say.
    pub(in crate::clean) doubts: Doubts,
    /// The element after it and all that is in it.
    pub(in crate::clean) next: u32,
    /// Characters that an unbroken word may have before it is cut off.
    pub(in crate::clean) longest_word: u16,
    /// What becomes of white space.
    pub(in crate::clean) space: TextSpace,
    /// How it flows.
    pub(in crate::clean) flow: Flow,
    /// Is it hidden with all that is in it?
    pub(in crate::clean) is_gone: bool,
    /// Is the text struck out?
    pub(in crate::clean) line_through: bool,
    /// Is the border turned off, as editors do when they abuse a quote for indenting?
    pub(in crate::clean) border_none: bool,
    /// Is this the span in which Word keeps an item's marker?
    pub(in crate::clean) is_word_marker: bool,
    /// Level of a list item written by Word as a paragraph, from 1; 0 for others.
    pub(in crate::clean) word_list_level: u8,
    /// Does it give its text less room than it needs?
    pub(super) is_shrunk: bool,
}

impl Verdict {
    /// On an element of which no text is read, with all that is in it.
    pub(super) fn unread(next: u32) -> Self {
        Self {
            role: Role::Nothing,
            sight: Sight::Hidden,
            doubts: Doubts::NONE,
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

    /// Makes its text doubtful, unless it is hidden anyway.
    pub(super) fn doubt(&mut self, doubts: Doubts) {
        if doubts.is_empty() || self.sight == Sight::Hidden {
            return;
        }
        self.sight = Sight::Doubtful;
        self.doubts = self.doubts.and(doubts);
    }
}
