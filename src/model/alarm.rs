//! Alarms: signs that a text shows a machine what a person does not see, and why.

use serde::{Deserialize, Serialize};

/// Why nobody can say whether a reader sees a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Doubt {
    /// A box, a mask or a clip path may cut it off.
    Clipped,
    /// It may stand outside the page: position, transform, margin, indent.
    Moved,
    /// Another element may lie on top of it.
    Covered,
    /// A picture, a filter or a colour we do not evaluate decides what is painted.
    Painted,
    /// A size or a spacing outside the usual range.
    Sized,
    /// An animation decides.
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
    /// The budget of work for one text was spent.
    Budget,
    /// The time for a page of items was over.
    Time,
}

impl Doubt {
    /// All of them, in the order of their bits.
    pub const ALL: [Self; 15] = [
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
    ];

    /// The reason in a few plain words.
    pub fn words(self) -> &'static str {
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
        }
    }
}

/// A set of doubts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Doubts(u16);

impl Doubts {
    /// No doubt.
    pub const NONE: Self = Self(0);

    /// A set of one.
    pub const fn of(doubt: Doubt) -> Self {
        Self(1 << doubt as u16)
    }

    /// Is there no doubt?
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Adds one.
    pub fn add(&mut self, doubt: Doubt) {
        *self = self.and(Self::of(doubt));
    }

    /// Is this one among them?
    pub const fn has(self, doubt: Doubt) -> bool {
        self.0 & Self::of(doubt).0 != 0
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = Doubt> {
        Doubt::ALL.into_iter().filter(move |doubt| self.has(*doubt))
    }

    /// The reasons, separated by commas.
    pub fn words(self) -> String {
        self.iter().map(Doubt::words).collect::<Vec<_>>().join(", ")
    }
}

impl FromIterator<Doubt> for Doubts {
    fn from_iter<I: IntoIterator<Item = Doubt>>(doubts: I) -> Self {
        doubts.into_iter().fold(Self::NONE, |set, doubt| set.and(Self::of(doubt)))
    }
}

impl Serialize for Doubts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Doubts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Doubt>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// What to do with text of which nobody can say whether a reader sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubtful {
    /// Leave it out, with a mark in its place.
    #[default]
    LeaveOut,
    /// Keep it, with a mark before it.
    MarkAndKeep,
}

/// Signs that a text tries to show a machine what a person does not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Alarms {
    /// Characters of text hidden from a reader (by style or attribute) and left out.
    pub hidden_chars: usize,
    /// Characters whose colour is nearly that of a light page; a mark stands in their place.
    pub low_contrast_chars: usize,
    /// Zero-width, bidirectional-control, tag and control characters left out.
    pub invisible_chars: usize,
    /// Characters of text of which nobody can say whether a reader sees it; a mark stands in
    /// their place, or before them when they are kept.
    #[serde(default)]
    pub doubtful_chars: usize,
    /// Why that text is doubtful.
    #[serde(default)]
    pub doubts: Doubts,
}

impl Alarms {
    /// Whether there is anything to report.
    pub fn any(self) -> bool {
        self != Self::default()
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            hidden_chars: self.hidden_chars + other.hidden_chars,
            low_contrast_chars: self.low_contrast_chars + other.low_contrast_chars,
            invisible_chars: self.invisible_chars + other.invisible_chars,
            doubtful_chars: self.doubtful_chars + other.doubtful_chars,
            doubts: self.doubts.and(other.doubts),
        }
    }

    /// The alarm in one line: what was left out, how many characters of it, and why.
    pub fn words(self) -> String {
        let doubtful = match self.doubts.is_empty() {
            true => "doubtful".to_owned(),
            false => format!("doubtful ({})", self.doubts.words()),
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
        let mut doubts = Doubts::of(Doubt::Moved);
        doubts.add(Doubt::Time);
        assert!(doubts.has(Doubt::Time) && !doubts.has(Doubt::Clipped));
        assert_eq!(doubts.words(), "may be off the page, time limit reached");
        let text = serde_json::to_string(&doubts).unwrap();
        assert_eq!(text, r#"["moved","time"]"#);
        assert_eq!(serde_json::from_str::<Doubts>(&text).unwrap(), doubts);
        assert_eq!(Doubt::ALL.into_iter().collect::<Doubts>().iter().count(), Doubt::ALL.len());
    }

    #[test]
    fn an_alarm_says_how_much_and_why() {
        let alarms = Alarms {
            hidden_chars: 3,
            doubtful_chars: 7,
            doubts: Doubts::of(Doubt::Clipped),
            ..Alarms::default()
        };
        assert_eq!(alarms.words(), "3 hidden, 7 doubtful (may be clipped) characters");
        assert!(alarms.any() && !Alarms::default().any());
    }
}
