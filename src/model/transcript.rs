//! What a session read and said, in short: enough to follow it later, bounded whatever the agent does.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::text::clip;

/// Lines kept from the beginning, and as many from the end.
const EACH_END: usize = 100;
/// Longest text of a line, in characters.
const LONGEST: usize = 1_000;

/// What a line tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TranscriptKind {
    /// Text of the model.
    Said,
    /// A file was read: its path.
    Read,
    /// Another tool was called: its name.
    Tool,
    /// A tool call failed: what it was.
    Failed,
}

/// One line of a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptLine {
    /// Since the start of the session.
    pub after_ms: u64,
    pub kind: TranscriptKind,
    pub text: String,
}

/// The first and the last lines of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionTranscript {
    pub lines: VecDeque<TranscriptLine>,
    /// Lines in the middle that were not kept.
    #[serde(default)]
    pub left_out: u32,
}

impl SessionTranscript {
    /// Adds a line; beyond the bound, the oldest of the last lines goes.
    pub fn push(&mut self, after_ms: u64, kind: TranscriptKind, text: &str) {
        let text = clip(text.trim(), LONGEST);
        if text.is_empty() {
            return;
        }
        if self.lines.len() == 2 * EACH_END {
            self.lines.remove(EACH_END);
            self.left_out = self.left_out.saturating_add(1);
        }
        self.lines.push_back(TranscriptLine { after_ms, kind, text });
    }

    /// Its texts, for whoever takes secrets out of them.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.lines.iter_mut().map(|line| &mut line.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_are_kept_and_the_rest_is_counted() {
        let mut transcript = SessionTranscript::default();
        for number in 0..1_000 {
            transcript.push(number, TranscriptKind::Said, &format!("line {number}"));
        }
        assert_eq!(transcript.lines.len(), 2 * EACH_END);
        assert_eq!(transcript.left_out, 800);
        let text = |place: usize| transcript.lines[place].text.as_str();
        assert_eq!(
            (text(0), text(99), text(100), text(199)),
            ("line 0", "line 99", "line 900", "line 999")
        );
    }

    #[test]
    fn a_line_is_short_and_an_empty_one_is_none() {
        let mut transcript = SessionTranscript::default();
        transcript.push(0, TranscriptKind::Said, "  ");
        transcript.push(0, TranscriptKind::Said, &"x".repeat(1 << 20));
        assert_eq!(transcript.lines.len(), 1);
        assert!(transcript.lines[0].text.chars().count() <= LONGEST + 1);
    }
}
