//! Compares with what a browser painted of several hundred constructs: hidden text never comes out
//! without an alarm, and no visible text is lost when doubtful text is kept.

use heartbeat::clean::{Cleaned, Options, clean_text};
use heartbeat::model::{Format, UnclearTextPolicy};

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
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/visibility");
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}.jsonl")).unwrap();
    let names = ["painted", "blind", "modern", "gaps", "outside", "together"];
    let lines = names.map(read).concat();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_a_browser_does_not_paint_never_comes_out_in_silence() {
    let mut hidden = 0;
    for case in cases().into_iter().filter(|case| case.painted <= HIDDEN) {
        hidden += 1;
        let left_out = case.cleaned(UnclearTextPolicy::LeaveOut);
        assert!(!left_out.text.contains(WORD), "{} -> {}", case.html, left_out.text);
        let kept = case.cleaned(UnclearTextPolicy::MarkAndKeep);
        assert!(!kept.text.contains(WORD) || kept.alarms.any(), "{} -> {}", case.html, kept.text);
    }
    assert!(hidden >= 1_800, "{hidden} hidden cases");
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
