//! The words before a number.

use super::phrases::{
    COUNTED, DEFERRING, DENYING, FILLERS, NOUNS, NUMBERED, OWNERS, PREPOSITIONS, PURPOSES,
    RESOLVING, SENSES, Sense,
};

/// Few things are counted so far.
const LARGE: i64 = 100;

/// How many words before the number a negation reaches.
const REACH: usize = 7;

/// The words before a number.
pub struct Said {
    /// In lower case, single spaces, without fillers at the end.
    text: String,
    /// The word directly before the number, fillers included.
    last: String,
    /// A full stop ends the sentence before the number.
    after_sentence: bool,
    /// The words are negated.
    pub denied: bool,
    /// The sentence says that something is resolved.
    resolves: bool,
    /// The sentence is about other work.
    pub defers: bool,
}

impl Said {
    pub fn before(before: &str) -> Self {
        let lower = own_words(before).to_lowercase();
        let mut words = words_of(&lower);
        let last = words.last().copied().unwrap_or_default().to_owned();
        while words.len() > 1 && words.last().is_some_and(|last| FILLERS.contains(last)) {
            words.pop();
        }
        // "It must not crash, fix #12" denies nothing.
        let clause = words_of(lower.rsplit([',', ';', ':']).next().unwrap_or(&lower));
        let denied =
            clause[clause.len().saturating_sub(REACH)..].iter().any(|w| DENYING.contains(w));
        let resolves = resolves(&words);
        let defers = words.iter().any(|word| DEFERRING.contains(word));
        let after_sentence = words.is_empty() && before.contains(char::is_alphabetic);
        Self { text: words.join(" "), last, after_sentence, denied, resolves, defers }
    }

    /// Nothing precedes it: the number begins the line.
    pub fn is_start(&self) -> bool {
        self.text.is_empty()
    }

    /// Nothing but a noun such as `issue` says what the number is.
    pub fn is_noun(&self) -> bool {
        self.ends_with(NOUNS)
    }

    /// A noun such as `issue` directly precedes the number.
    fn has_noun(&self) -> bool {
        NOUNS.contains(&self.last.as_str())
    }

    /// The number counts something: `step #2`, `RFC 7231`.
    pub fn counts(&self, number: i64) -> bool {
        let last = self.last.as_str();
        NUMBERED.contains(&last) || (COUNTED.contains(&last) && number < LARGE)
    }

    pub fn sense(&self) -> Sense {
        match self.text.as_str() {
            "for" => return Sense::Belongs,
            "branch" => return Sense::Branch,
            _ => {}
        }
        match SENSES.iter().find(|(phrases, _)| self.ends_with(phrases)) {
            Some((_, Sense::Reports)) if self.resolves => Sense::Resolves,
            Some((_, sense)) => *sense,
            None if self.resolves && self.ends_with(OWNERS) => Sense::Resolves,
            None => Sense::Unclear,
        }
    }

    /// `… to fix #12`.
    pub fn states_purpose(&self) -> bool {
        self.ends_with(PURPOSES)
    }

    /// The item is part of a story about something else, as in `the refactoring in #12` or `from
    /// neovim #12`. `ends_line`: nothing follows the number.
    pub fn is_story(&self, ends_line: bool) -> bool {
        if self.after_sentence {
            return !ends_line;
        }
        let is_part = self.ends_with(PREPOSITIONS) && !self.has_noun();
        let names_another = self.text.rsplit(' ').nth(1) == Some("from");
        self.is_start() || is_part || names_another
    }

    fn ends_with(&self, phrases: &[&str]) -> bool {
        let ends = |phrase: &&str| {
            let rest = self.text.strip_suffix(phrase);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(' '))
        };
        phrases.iter().any(ends)
    }
}

/// "It was fixed" is about the past.
fn resolves(words: &[&str]) -> bool {
    let is_past = |before: Option<&&str>| {
        before.is_some_and(|word| matches!(*word, "was" | "were" | "been" | "is" | "are"))
    };
    let resolving = |at: usize| RESOLVING.contains(&words[at]);
    (0..words.len()).any(|at| resolving(at) && !is_past(at.checked_sub(1).map(|at| &words[at])))
}

/// The words of the number's own sentence, or of its own brackets.
fn own_words(before: &str) -> &str {
    if before.trim_end().ends_with(['.', ';', '!', '?']) {
        return "";
    }
    // A full stop ends the earlier sentence.
    let sentence = before.rsplit(". ").next().unwrap_or(before);
    // "Not generated (fix #12)": brackets have words of their own, if any.
    match sentence.rsplit_once('(') {
        Some((_, inside)) if !inside.contains(')') && inside.contains(char::is_alphabetic) => {
            inside
        }
        _ => sentence,
    }
}

pub fn words_of(lower: &str) -> Vec<&str> {
    let words = lower.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.filter(|word| !word.is_empty() && *word != "x").collect()
}
