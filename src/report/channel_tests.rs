//! Words of trackers and agents on their way out, channel by channel: whatever they are, they stay
//! words. They are cleaned when they come in as well; here they come in raw.

use proptest::prelude::*;
use proptest::sample::select;

use super::digest::samples::report;
use super::{html, markdown, terminal, webhook};
use crate::model::{is_acting, plain_markdown};
use crate::settings::WebhookStyle;

/// What can act on a terminal, a reader, a browser, a chat or a comment.
const HOSTILE: [&str; 27] = [
    "\u{1b}[2J",
    "\u{1b}]8;;http://evil\u{7}",
    "\u{9b}31m",
    "\u{85}",
    "\0",
    "\r",
    "\u{8}",
    "\u{202e}",
    "\u{2066}",
    "\u{2069}",
    "\u{200f}",
    "\u{61c}",
    "\u{200b}",
    "\u{2060}",
    "\u{feff}",
    "\u{e0041}",
    "\u{2028}",
    "```\n",
    "\n~~~~ rust\n",
    "\n```js\ncode\n",
    "<script>alert(1)</script>",
    "<!channel>",
    "<@U1>",
    "<at>all</at>",
    "@everyone",
    "[x](javascript:alert(1))",
    "\n# heading\n",
];

fn foreign_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => select(HOSTILE.to_vec()).prop_map(str::to_owned),
        1 => "[a-z `~|*_<>&]{0,12}",
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 1..12).prop_map(|pieces| pieces.concat())
}

fn acting(text: &str) -> Vec<char> {
    text.chars().filter(|character| is_acting(*character)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn no_channel_passes_on_what_acts(words in foreign_text()) {
        let report = report(&words);
        let finding = &report.findings[0];
        let outputs = [
            ("Markdown report", markdown::render(&report)),
            ("HTML report", html::render(&report).unwrap()),
            ("Slack", webhook::message(WebhookStyle::Slack, &report)["text"].as_str().unwrap().to_owned()),
            ("Teams", texts(&webhook::message(WebhookStyle::Teams, &report))),
            ("comment", crate::analyze::markdown(&finding.finding)),
            ("terminal", terminal::text(&words)),
        ];
        for (channel, output) in outputs {
            prop_assert_eq!(acting(&output), Vec::<char>::new(), "{}: {:?}", channel, output);
            if !matches!(channel, "terminal") {
                prop_assert!(!output.contains("<script"), "{channel}: {output}");
                prop_assert!(!output.contains("<!channel>"), "{channel}: {output}");
                prop_assert!(!output.contains("<@U1>") && !output.contains("<at>"), "{channel}: {output}");
            }
            if matches!(channel, "Markdown report" | "comment") {
                let closed = plain_markdown(&output);
                prop_assert_eq!(&closed, &output, "{}: a fence is open at its end", channel);
                prop_assert!(!output.contains("](javascript"), "{channel}: {output}");
            }
        }
    }

    /// A fence in one finding must not swallow what follows it.
    #[test]
    fn what_follows_foreign_text_is_read_as_itself(words in foreign_text()) {
        let page = markdown::render(&report(&words));
        let mut before = String::new();
        for line in page.lines() {
            if line.starts_with("## ") || line.starts_with("#### Assessment") {
                prop_assert_eq!(&plain_markdown(&before), &before, "before {:?}", line);
            }
            before.push_str(line);
            before.push('\n');
        }
    }
}

/// All texts of a card, one per line.
fn texts(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => format!("{text}\n"),
        serde_json::Value::Array(values) => values.iter().map(texts).collect(),
        serde_json::Value::Object(fields) => fields.values().map(texts).collect(),
        _ => String::new(),
    }
}
