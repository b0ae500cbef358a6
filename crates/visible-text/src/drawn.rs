//! Formulas and diagrams in Markdown, which are displayed as a picture. Their source may contain
//! text that the picture does not show.

use pulldown_cmark::{CowStr, Event};

/// Commands that make text invisible or define new commands, and comments.
const IN_FORMULAS: &str = "phantom color \\def newcommand \\let \\smash lap{ \\hspace \\kern";

/// Words that style the parts of a diagram or are for screen readers, comments and click handlers.
const IN_DIAGRAMS: &str =
    "classDef style linkStyle themeVariables themeCSS accDescr accTitle color: opacity %% click";

/// How a text is displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drawn {
    Formula,
    Diagram,
}

impl Drawn {
    /// By the language of a code block; `None` if it is displayed as text.
    pub(super) fn by(language: &str) -> Option<Self> {
        let word = language.split([' ', ',', '{', '\t']).find(|word| !word.is_empty())?;
        match word.to_ascii_lowercase().as_str() {
            "math" => Some(Self::Formula),
            "mermaid" => Some(Self::Diagram),
            _ => None,
        }
    }

    /// Whether it may contain text that is not displayed.
    pub(super) fn hides(self, text: &str) -> bool {
        let is_remark = |(at, _): (usize, &str)| !text[..at].ends_with('\\');
        let words = if self == Self::Formula { IN_FORMULAS } else { IN_DIAGRAMS };
        words.split_ascii_whitespace().any(|word| text.contains(word))
            || (self == Self::Formula && text.match_indices('%').any(is_remark))
    }

    /// A text, as a drawing if it may contain what is not displayed: its visibility is unknown.
    pub(super) fn events<'a>(self, text: CowStr<'a>) -> Vec<Event<'a>> {
        let html = |html: &'static str| Event::InlineHtml(html.into());
        match self.hides(&text) {
            true => vec![html("<svg>"), Event::Text(text), html("</svg>")],
            false => vec![Event::Text(text)],
        }
    }
}
