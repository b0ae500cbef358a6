//! Alarms: signs that a text contains content that a machine reads and a person does not see.

use serde::{Deserialize, Serialize};

/// Why it cannot be decided whether a reader sees a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum VisibilityIssue {
    /// A box, a mask or a clip path may cut it off.
    Clipped,
    /// May be positioned outside the page: position, transform, margin, indent.
    Moved,
    /// Another element may lie on top of it.
    Covered,
    /// Depends on a picture, a filter or a colour that we do not evaluate.
    Painted,
    /// A size or a spacing outside the usual range.
    Sized,
    /// Depends on an animation.
    Animated,
    /// A property or a value we do not know.
    UnknownStyle,
    /// A value computed elsewhere: `var()`, `calc()`, `env()`, `attr()`.
    Computed,
    /// A selector we cannot match.
    Selector,
    /// A condition we cannot decide: `@media`, `@supports`, `@container`, `@scope`.
    Condition,
    /// A style sheet or a font from elsewhere.
    Remote,
    /// CSS that cannot be read as a browser reads it.
    Malformed,
    /// An element whose content we do not evaluate: `svg`, `marquee`, parts of MathML.
    Element,
    /// The work limit for one text was reached.
    Budget,
    /// The time limit for a page of items was reached.
    Time,
    /// In nearly the colour of a light page: the author's page may be dark.
    Pale,
}

impl VisibilityIssue {
    /// In the order of their bits.
    pub const ALL: [Self; 16] = [
        Self::Clipped,
        Self::Moved,
        Self::Covered,
        Self::Painted,
        Self::Sized,
        Self::Animated,
        Self::UnknownStyle,
        Self::Computed,
        Self::Selector,
        Self::Condition,
        Self::Remote,
        Self::Malformed,
        Self::Element,
        Self::Budget,
        Self::Time,
        Self::Pale,
    ];

    /// A short phrase for reports and prompts.
    pub fn to_text(self) -> &'static str {
        match self {
            Self::Clipped => "may be clipped",
            Self::Moved => "may be off the page",
            Self::Covered => "may be covered",
            Self::Painted => "unknown background or filter",
            Self::Sized => "unusual size or spacing",
            Self::Animated => "animated",
            Self::UnknownStyle => "unknown style",
            Self::Computed => "computed style value",
            Self::Selector => "unknown selector",
            Self::Condition => "unknown style condition",
            Self::Remote => "remote style sheet or font",
            Self::Malformed => "malformed style",
            Self::Element => "drawing or embedded element",
            Self::Budget => "work limit reached",
            Self::Time => "time limit reached",
            Self::Pale => "in the colour of a light page",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct VisibilityIssues(u16);

impl VisibilityIssues {
    pub const NONE: Self = Self(0);

    pub const fn of(doubt: VisibilityIssue) -> Self {
        Self(1 << doubt as u16)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The union of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn add(&mut self, doubt: VisibilityIssue) {
        *self = self.and(Self::of(doubt));
    }

    pub const fn has(self, doubt: VisibilityIssue) -> bool {
        self.0 & Self::of(doubt).0 != 0
    }

    pub fn iter(self) -> impl Iterator<Item = VisibilityIssue> {
        VisibilityIssue::ALL.into_iter().filter(move |doubt| self.has(*doubt))
    }

    /// The reasons, separated by commas.
    pub fn to_text(self) -> String {
        self.iter().map(VisibilityIssue::to_text).collect::<Vec<_>>().join(", ")
    }
}

impl Extend<VisibilityIssue> for VisibilityIssues {
    fn extend<I: IntoIterator<Item = VisibilityIssue>>(&mut self, doubts: I) {
        doubts.into_iter().for_each(|doubt| self.add(doubt));
    }
}

impl FromIterator<VisibilityIssue> for VisibilityIssues {
    fn from_iter<I: IntoIterator<Item = VisibilityIssue>>(doubts: I) -> Self {
        doubts.into_iter().fold(Self::NONE, |set, doubt| set.and(Self::of(doubt)))
    }
}

impl Serialize for VisibilityIssues {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for VisibilityIssues {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<VisibilityIssue>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// How much an alarm deserves a person's attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Usual in real texts: a label for screen readers, a soft hyphen, an unusual style.
    Note,
    /// Words that are certainly hidden, or a message in characters that nobody sees.
    Alarm,
}

impl Tier {
    pub fn to_text(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Alarm => "alarm",
        }
    }
}

/// Fewer hidden words are labels and leftovers of editors.
const ALARMING_WORDS: usize = 3;

/// What to do with text whose visibility is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnclearTextPolicy {
    /// Keep it, with one marker before the first of it in a text.
    #[default]
    MarkAndKeep,
    /// Remove it and put a marker in its place.
    LeaveOut,
}

/// What cleaning found in a text that a person may not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Alarms {
    /// Characters hidden from a reader (by style or attribute), removed.
    pub hidden_chars: usize,
    /// Words that are certainly hidden, among them. Comments do not count: templates have them.
    #[serde(default)]
    pub hidden_words: usize,
    /// Characters in a colour close to that of a light page, treated like doubtful ones.
    pub low_contrast_chars: usize,
    /// Zero-width, bidirectional-control, tag and control characters, removed.
    pub invisible_chars: usize,
    /// Those among them that can spell a message: runs of tag characters and variation selectors.
    #[serde(default)]
    pub smuggled_chars: usize,
    /// Characters whose visibility is not known: replaced by a marker, or kept behind one.
    #[serde(default)]
    pub doubtful_chars: usize,
    #[serde(default)]
    pub doubts: VisibilityIssues,
}

impl Alarms {
    pub fn any(self) -> bool {
        self != Self::default()
    }

    /// `None` if there is nothing to tell.
    pub fn tier(self) -> Option<Tier> {
        let is_alarm = self.hidden_words >= ALARMING_WORDS || self.smuggled_chars > 0;
        self.any().then_some(if is_alarm { Tier::Alarm } else { Tier::Note })
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            hidden_chars: self.hidden_chars + other.hidden_chars,
            hidden_words: self.hidden_words + other.hidden_words,
            low_contrast_chars: self.low_contrast_chars + other.low_contrast_chars,
            invisible_chars: self.invisible_chars + other.invisible_chars,
            smuggled_chars: self.smuggled_chars + other.smuggled_chars,
            doubtful_chars: self.doubtful_chars + other.doubtful_chars,
            doubts: self.doubts.and(other.doubts),
        }
    }

    /// One line: how many characters of each kind, and why.
    pub fn to_text(self) -> String {
        let doubtful = match self.doubts.is_empty() {
            true => "doubtful".to_owned(),
            false => format!("doubtful ({})", self.doubts.to_text()),
        };
        let parts: Vec<String> = [
            (self.hidden_chars, "hidden"),
            (self.low_contrast_chars, "low-contrast"),
            (self.invisible_chars, "invisible"),
            (self.doubtful_chars, &doubtful),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{count} {kind}"))
        .collect();
        format!("{} characters", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_add_up_and_travel_by_name() {
        let mut doubts = VisibilityIssues::of(VisibilityIssue::Moved);
        doubts.add(VisibilityIssue::Time);
        assert!(doubts.has(VisibilityIssue::Time) && !doubts.has(VisibilityIssue::Clipped));
        assert_eq!(doubts.to_text(), "may be off the page, time limit reached");
        let text = serde_json::to_string(&doubts).unwrap();
        assert_eq!(text, r#"["moved","time"]"#);
        assert_eq!(serde_json::from_str::<VisibilityIssues>(&text).unwrap(), doubts);
        assert_eq!(
            VisibilityIssue::ALL.into_iter().collect::<VisibilityIssues>().iter().count(),
            VisibilityIssue::ALL.len()
        );
    }

    #[test]
    fn three_hidden_words_or_a_message_are_an_alarm_and_the_rest_is_a_note() {
        let tier = |hidden_words, smuggled_chars, invisible_chars| {
            let alarms =
                Alarms { hidden_words, smuggled_chars, invisible_chars, ..Alarms::default() };
            alarms.tier()
        };
        assert_eq!(tier(0, 0, 0), None);
        assert_eq!(tier(2, 0, 5), Some(Tier::Note));
        assert_eq!((tier(3, 0, 0), tier(0, 4, 4)), (Some(Tier::Alarm), Some(Tier::Alarm)));
    }

    #[test]
    fn an_alarm_says_how_much_and_why() {
        let alarms = Alarms {
            hidden_chars: 3,
            doubtful_chars: 7,
            doubts: VisibilityIssues::of(VisibilityIssue::Clipped),
            ..Alarms::default()
        };
        assert_eq!(alarms.to_text(), "3 hidden, 7 doubtful (may be clipped) characters");
        assert!(alarms.any() && !Alarms::default().any());
    }
}
