//! Formulas and diagrams in Markdown, which are displayed as a picture. Their source may contain
//! text that the picture does not show.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Tag, TagEnd};

/// Commands that make text invisible or define new commands, and comments.
const IN_FORMULAS: &str = "phantom color \\def newcommand \\let \\smash lap{ \\hspace \\kern";

/// Words that style the parts of a diagram or are for screen readers, comments and click handlers.
const IN_DIAGRAMS: &str =
    "classDef style linkStyle themeVariables themeCSS accDescr accTitle color: opacity %% click";

/// Makes drawings of the formulas and diagrams that may contain what is not displayed, so that they
/// are marked. Some trackers take code after a dollar sign for a formula.
pub(super) fn marked<'a>(
    events: impl Iterator<Item = Event<'a>>,
    has_dollars: bool,
) -> impl Iterator<Item = Event<'a>> {
    let (mut drawn, mut after_dollar) = (None, false);
    events.flat_map(move |event| {
        let follows_dollar = std::mem::take(&mut after_dollar);
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(ref language))) => {
                drawn = Drawn::by(language);
            }
            Event::End(TagEnd::CodeBlock) => drawn = None,
            Event::InlineMath(text) => return Drawn::Formula.events(format!("${text}$").into()),
            Event::DisplayMath(text) => return Drawn::Formula.events(format!("$${text}$$").into()),
            Event::Code(text) if follows_dollar && Drawn::Formula.hides(&text) => {
                return Drawn::Formula.events(text);
            }
            Event::Text(text) => match drawn {
                Some(drawn) => return drawn.events(text),
                None => {
                    after_dollar = has_dollars && text.ends_with('$');
                    return vec![Event::Text(text)];
                }
            },
            _ => {}
        }
        vec![event]
    })
}

/// How a text is displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drawn {
    Formula,
    Diagram,
}

impl Drawn {
    /// By the language of a code block; `None` if it is displayed as text.
    fn by(language: &str) -> Option<Self> {
        let word = language.split([' ', ',', '{', '\t']).find(|word| !word.is_empty())?;
        match word.to_ascii_lowercase().as_str() {
            "math" => Some(Self::Formula),
            "mermaid" => Some(Self::Diagram),
            _ => None,
        }
    }

    /// Whether it may contain text that is not displayed.
    fn hides(self, text: &str) -> bool {
        let is_remark = |(at, _): (usize, &str)| !text[..at].ends_with('\\');
        let words = if self == Self::Formula { IN_FORMULAS } else { IN_DIAGRAMS };
        words.split_ascii_whitespace().any(|word| text.contains(word))
            || (self == Self::Formula && text.match_indices('%').any(is_remark))
    }

    /// A text, as a drawing if it may contain what is not displayed: its visibility is unknown.
    fn events<'a>(self, text: CowStr<'a>) -> Vec<Event<'a>> {
        let html = |html: &'static str| Event::InlineHtml(html.into());
        match self.hides(&text) {
            true => vec![html("<svg>"), Event::Text(text), html("</svg>")],
            false => vec![Event::Text(text)],
        }
    }
}
