//! A bounded summary of what a session read and said.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::text::clip;

/// Lines kept from the beginning, and the same number from the end.
const EACH_END: usize = 100;
/// Per line, in characters.
const MAX_LEN: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TranscriptKind {
    /// Text from the model.
    Said,
    /// The path of a file that was read.
    Read,
    /// The name of another tool that was called.
    Tool,
    /// A tool call that failed.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptLine {
    /// Since the session's start.
    pub after_ms: u64,
    pub kind: TranscriptKind,
    pub text: String,
}

/// The first and the last lines of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionTranscript {
    pub lines: VecDeque<TranscriptLine>,
    /// Number of lines dropped from the middle.
    #[serde(default)]
    pub left_out: u32,
}

impl SessionTranscript {
    /// Adds a line. When full, drops the oldest of the last lines.
    pub fn push(&mut self, after_ms: u64, kind: TranscriptKind, text: &str) {
        let text = clip(text.trim(), MAX_LEN);
        if text.is_empty() {
            return;
        }
        if self.lines.len() == 2 * EACH_END {
            self.lines.remove(EACH_END);
            self.left_out = self.left_out.saturating_add(1);
        }
        self.lines.push_back(TranscriptLine { after_ms, kind, text });
    }

    /// The texts, so that secrets can be removed from them.
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
        assert!(transcript.lines[0].text.chars().count() <= MAX_LEN + 1);
    }
}
