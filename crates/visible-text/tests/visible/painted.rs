//! Compares with what a browser painted of three thousand constructs: hidden text hardly ever comes
//! out without a mark, and no visible text is lost.
//!
//! Declarations are judged one by one, without a layout: a few of the tricks that need one come out.
//! That is the price of a judge that can be read; the bound is here.

use visible_text::{Cleaned, Options, clean_text};
use visible_text::{Format, UnclearTextPolicy};

const WORD: &str = "gorubimak";
/// With fewer changed pixels the word was hidden.
const HIDDEN: u64 = 15;

#[derive(serde::Deserialize)]
struct Case {
    html: String,
    painted: u64,
    #[serde(default)]
    markdown: bool,
}

impl Case {
    fn cleaned(&self, doubtful: UnclearTextPolicy) -> Cleaned {
        let format = if self.markdown { Format::Markdown } else { Format::Html };
        let options = Options { doubtful, ..Options::default() };
        clean_text(&self.html.replace("MARK", WORD), format, &options)
    }
}

fn cases() -> Vec<Case> {
    const NAMES: [&str; 9] =
        ["painted", "blind", "modern", "gaps", "outside", "together", "fresh", "workday", "mixed"];
    NAMES.into_iter().flat_map(read).collect()
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> Vec<T> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/visibility");
    let lines = std::fs::read_to_string(format!("{folder}/{name}.jsonl")).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Hidden cases of a hundred that may come out without a mark.
const MAX_UNMARKED: f64 = 3.0;

#[test]
fn what_a_browser_does_not_paint_hardly_ever_comes_out_unmarked() {
    let (mut hidden, mut unmarked) = (0, Vec::new());
    // A closed section is text.
    let is_section = |case: &Case| case.html.contains("<details");
    for case in cases().into_iter().filter(|case| case.painted <= HIDDEN && !is_section(case)) {
        hidden += 1;
        let kept = case.cleaned(UnclearTextPolicy::MarkAndKeep);
        let is_out = kept.text.contains(WORD) && !kept.text.contains("[may be hidden: ");
        if is_out {
            unmarked.push(case.html);
        }
    }
    assert!(hidden >= 1_800, "{hidden} hidden cases");
    let share = 100.0 * unmarked.len() as f64 / f64::from(hidden);
    assert!(share <= MAX_UNMARKED, "{share} % unmarked:\n{}", unmarked.join("\n"));
}

/// What people paste, with the words of it that a browser paints.
#[derive(serde::Deserialize)]
struct Pasted {
    id: String,
    text: String,
    #[serde(default)]
    markdown: bool,
    words: Vec<String>,
}

/// Pasted texts of a hundred that may be marked. Three are wanted; texts in drawings, which need a
/// layout, and pictures behind text are one more.
const MAX_MARKED: f64 = 4.0;

#[test]
fn what_people_paste_is_kept_and_hardly_ever_marked() {
    // Joiners and selectors between letters stay or go with their script.
    let letters = |text: &str| -> String {
        let is_between = |c: &char| {
            matches!(c, '\u{200b}'..='\u{200f}' | '\u{ad}' | '\u{feff}' | '\u{fe0e}' | '\u{fe0f}')
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
        };
        text.chars().filter(|c| !is_between(c)).collect()
    };
    let pasted: Vec<Pasted> = read("pasted");
    let mut marked = Vec::new();
    for Pasted { id, text, markdown, words } in &pasted {
        let format = if *markdown { Format::RawMarkdown } else { Format::Html };
        let cleaned = clean_text(text, format, &Options::default());
        let shown = letters(&cleaned.text);
        for word in words {
            assert!(shown.contains(&letters(word)), "{id}: {word} is lost of {}", cleaned.text);
        }
        if !cleaned.alarms.doubts.is_empty() {
            marked.push(id.as_str());
        }
    }
    assert!(pasted.len() >= 200, "{} texts", pasted.len());
    let share = 100.0 * marked.len() as f64 / pasted.len() as f64;
    assert!(share <= MAX_MARKED, "{share} % marked: {}", marked.join(", "));
}

#[test]
fn what_a_browser_paints_is_kept() {
    let mut visible = 0;
    for case in cases().into_iter().filter(|case| case.painted > HIDDEN) {
        visible += 1;
        let kept = case.cleaned(UnclearTextPolicy::MarkAndKeep);
        assert!(kept.text.contains(WORD), "{} -> {}", case.html, kept.text);
    }
    assert!(visible >= 700, "{visible} visible cases");
}
