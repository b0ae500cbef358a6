//! Removes parts of an item's text that say nothing about the code: parts of the form, version
//! tables, deep stack frames. Pure.

/// Frames kept of one stack trace: those nearest to the failure.
const FRAMES: usize = 3;
/// A line that only names a version is shorter.
const MAX_FACT_LEN: usize = 80;

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Sentences.
    Prose,
    /// Code, logs and output: between fences, indented like a trace, or folded.
    Quoted,
    /// A frame of a stack trace.
    Frame,
}

/// The text in parts of one kind each, without noise.
pub(crate) fn pieces(text: &str) -> Vec<(Part, String)> {
    let mut pieces: Vec<(Part, String)> = Vec::new();
    let (mut fenced, mut folded) = (false, 0usize);
    let mut trace: Vec<&str> = Vec::new();
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            fenced = !fenced;
            add(&mut pieces, Part::Quoted, "\n", true);
            continue;
        }
        let lower = trimmed.to_ascii_lowercase();
        folded += lower.matches("<details").count();
        folded = folded.saturating_sub(lower.matches("</details").count());
        if is_frame(trimmed) {
            trace.push(line);
            continue;
        }
        if !trace.is_empty() && is_source_of_frame(line, trimmed) {
            continue;
        }
        end_trace(&mut pieces, &mut trace);
        let quoted = fenced || folded > 0 || trimmed.starts_with('|');
        if is_fact(trimmed) || !quoted && is_form(trimmed) {
            continue;
        }
        add(&mut pieces, if quoted { Part::Quoted } else { Part::Prose }, line, false);
    }
    end_trace(&mut pieces, &mut trace);
    pieces.retain(|(_, text)| !text.trim().is_empty());
    pieces
}

/// Adds a line to the last part of its kind, or begins a new one.
fn add(pieces: &mut Vec<(Part, String)>, part: Part, line: &str, new: bool) {
    match pieces.last_mut() {
        Some((last, text)) if *last == part && !new => text.push_str(line),
        _ => pieces.push((part, line.to_owned())),
    }
}

/// Keeps the frames of a trace that are nearest to the failure.
fn end_trace(pieces: &mut Vec<(Part, String)>, trace: &mut Vec<&str>) {
    // Python writes the innermost frame last, all others first.
    let innermost_last = trace.first().is_some_and(|line| line.trim_start().starts_with("File \""));
    let skipped = if innermost_last { trace.len().saturating_sub(FRAMES) } else { 0 };
    for line in trace.drain(..).skip(skipped).take(FRAMES) {
        add(pieces, Part::Frame, line, false);
    }
}

/// Whether this line is a frame of a stack trace.
fn is_frame(line: &str) -> bool {
    let places = |line: &str| {
        line.contains(':') || line.contains('(') || line.contains(" in ") || line.contains('/')
    };
    let at = line.strip_prefix("at ").is_some_and(|rest| !rest.is_empty() && places(rest));
    let python = line.starts_with("File \"") && line.contains(", line ");
    let ruby = line.contains(".rb:") && line.contains(":in ");
    let go = line.contains(".go:") && line.contains(" +0x");
    let rust = line.split_once(": ").is_some_and(|(number, rest)| {
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) && rest.contains("::")
    });
    at || python || ruby || go || rust
}

/// Python and Rust write the source line, or its position, below each frame.
fn is_source_of_frame(line: &str, trimmed: &str) -> bool {
    line.starts_with("    ") && !trimmed.is_empty() && !trimmed.contains("Error")
}

/// Whether this line is part of the form and not of the report: a checkbox, a short heading, or the
/// placeholder for a missing answer.
fn is_form(line: &str) -> bool {
    let ticked = ["- [", "* [", "+ ["].iter().any(|mark| line.starts_with(mark))
        && line.get(4..5) == Some("]");
    let heading =
        line.starts_with('#') && line.trim_start_matches('#').starts_with(' ') && line.len() < 60;
    let bare = line.trim_matches(['_', '*', '.']).to_ascii_lowercase();
    ticked || heading || matches!(bare.as_str(), "no response" | "n/a" | "none")
}

/// Whether the line only names an installed version: `- Node: 12.1.0`.
fn is_fact(line: &str) -> bool {
    let line = line.trim_matches(['|', '-', '*', '_', '`', ' ']);
    if line.len() > MAX_FACT_LEN {
        return false;
    }
    let Some((key, value)) = line.split_once([':', '=', '|']) else { return false };
    let key_words = key.split_whitespace().count();
    let versions = value.split(|c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')' | '/'));
    let is_version = |word: &str| {
        let digits = word.trim_start_matches(['v', '^', '~', '>', '=', '`', '"', '\'']);
        let digits = digits.trim_end_matches(['`', '"', '\'', ';']);
        digits.contains('.') && digits.starts_with(|c: char| c.is_ascii_digit())
    };
    let words = value.split_whitespace().count();
    (1..=4).contains(&key_words) && words <= 6 && versions.filter(|v| is_version(v)).count() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, part: Part) -> String {
        pieces(text).into_iter().filter(|(own, _)| *own == part).map(|(_, text)| text).collect()
    }

    #[test]
    fn fences_folds_and_tables_are_quoted() {
        let text = "a\n```rust\nb\n```\nc\n<details>\nd\n</details>\n| e | f |\n";
        assert_eq!(of(text, Part::Prose), "a\nc\n</details>\n");
        let quoted = of(text, Part::Quoted);
        assert!(["b", "d", "| e"].iter().all(|word| quoted.contains(word)), "{quoted}");
    }

    #[test]
    fn the_form_is_not_the_report() {
        let text = "- [x] I searched\n### Steps to reproduce\nThe basket fails\n- [link](x) stays\n#1 stays\n_No response_\n";
        assert_eq!(of(text, Part::Prose), "The basket fails\n- [link](x) stays\n#1 stays\n");
    }

    #[test]
    fn versions_of_tools_say_nothing_and_sentences_with_a_number_stay() {
        let text = "- OS: Windows 10.0.19041\nNode version: v12.1.0\n| `@shop/core` | ^5.0.1 |\nTotal: the sum of 1.5 and 2 is wrong in the basket\n";
        assert_eq!(
            pieces(text),
            [(Part::Prose, "Total: the sum of 1.5 and 2 is wrong in the basket\n".to_owned())]
        );
    }

    #[test]
    fn a_trace_keeps_the_frames_where_it_happened() {
        let dotnet = "Oops\n   at A.B.One() in C:\\a.cs:line 1\n   at A.B.Two()\n   at A.B.Three()\n   at A.B.Four()\nend\n";
        assert!(of(dotnet, Part::Frame).contains("Three"));
        assert!(!of(dotnet, Part::Frame).contains("Four"));
        let python = "Traceback\n  File \"a.py\", line 1, in one\n    one()\n  File \"b.py\", line 2, in two\n    two()\n  File \"c.py\", line 3, in three\n    three()\n  File \"d.py\", line 4, in four\n    four()\nValueError: x\n";
        let frames = of(python, Part::Frame);
        assert!(!frames.contains("a.py") && frames.contains("d.py"), "{frames}");
        assert!(of(python, Part::Prose).contains("ValueError"));
        assert_eq!(of("look at this\nat noon", Part::Frame), "");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in "(\\PC|\n|```|<details>|at a:1\n){0,80}") {
            pieces(&text);
        }
    }
}
