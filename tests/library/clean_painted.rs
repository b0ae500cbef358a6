//! What a browser painted of several hundred constructs decides: hidden text never comes out without
//! an alarm, and no visible text is lost when doubtful text is kept.

use heartbeat::clean::{Options, clean_text};
use heartbeat::model::{Doubtful, Format};

const WORD: &str = "gorubimak";
/// Fewer changed pixels than this and the word was hidden.
const HIDDEN: u64 = 15;

#[derive(serde::Deserialize)]
struct Case {
    html: String,
    painted: u64,
}

fn cases() -> Vec<Case> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/visibility");
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}.jsonl")).unwrap();
    let lines = [read("painted"), read("blind")].concat();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_a_browser_does_not_paint_never_comes_out_in_silence() {
    let mut hidden = 0;
    for case in cases().into_iter().filter(|case| case.painted <= HIDDEN) {
        hidden += 1;
        let html = case.html.replace("MARK", WORD);
        let left_out = clean_text(&html, Format::Html, &Options::default());
        assert!(!left_out.text.contains(WORD), "{html} -> {}", left_out.text);
        let options = Options { doubtful: Doubtful::MarkAndKeep, ..Options::default() };
        let kept = clean_text(&html, Format::Html, &options);
        assert!(!kept.text.contains(WORD) || kept.alarms.any(), "{html} -> {}", kept.text);
    }
    assert!(hidden >= 1_000, "{hidden} hidden cases");
}

#[test]
fn what_a_browser_paints_is_kept() {
    let mut visible = 0;
    for case in cases().into_iter().filter(|case| case.painted > HIDDEN) {
        visible += 1;
        let html = case.html.replace("MARK", WORD);
        let options = Options { doubtful: Doubtful::MarkAndKeep, ..Options::default() };
        let kept = clean_text(&html, Format::Html, &options);
        assert!(kept.text.contains(WORD), "{html} -> {}", kept.text);
    }
    assert!(visible >= 450, "{visible} visible cases");
}
