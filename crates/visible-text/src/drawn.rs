//! Markdown blocks that are displayed as a picture: formulas and diagrams. Their source may contain
//! text that the picture does not show.

use pulldown_cmark::Event;

use super::markdown::count_words;

/// How a block is displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drawn {
    Formula,
    Diagram,
}

/// Commands that make text invisible, or define new commands.
const HIDING_COMMANDS: [&str; 9] =
    ["phantom", "color", "\\def", "newcommand", "\\let", "\\smash", "lap{", "\\hspace", "\\kern"];

/// Words of a diagram that style its parts, or are for screen readers.
const HIDING_WORDS: [&str; 9] = [
    "classDef",
    "style ",
    "linkStyle",
    "themeVariables",
    "themeCSS",
    "accDescr",
    "accTitle",
    "color:",
    "opacity",
];

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
        match self {
            Self::Formula => {
                let remark = |(before, _): (&str, &str)| !before.ends_with('\\');
                text.split('%').zip(text.split('%').skip(1)).any(remark)
                    || HIDING_COMMANDS.iter().any(|command| text.contains(command))
            }
            Self::Diagram => HIDING_WORDS.iter().any(|word| text.contains(word)),
        }
    }

    /// The displayed part of a block's text; the rest is counted.
    pub(super) fn shown(self, text: &str, hidden: &mut usize) -> String {
        if self.hides(text) {
            *hidden += count_words(text);
            let what = if self == Self::Formula { "formula" } else { "diagram" };
            return format!("[{what} left out: it may contain text that is not displayed]\n");
        }
        // Comments and click handlers.
        let is_unseen = |line: &&str| {
            let line = line.trim_start();
            self == Self::Diagram && (line.starts_with("%%") || line.starts_with("click "))
        };
        *hidden += text.lines().filter(is_unseen).map(count_words).sum::<usize>();
        text.split_inclusive('\n').filter(|line| !is_unseen(line)).collect()
    }
}

/// An inline formula as written between two signs.
pub(super) fn formula(text: &str, sign: &str, hidden: &mut usize) -> Event<'static> {
    let shown = Drawn::Formula.shown(text, hidden);
    Event::Text(match Drawn::Formula.hides(text) {
        true => shown.trim_end().to_owned().into(),
        false => format!("{sign}{shown}{sign}").into(),
    })
}
