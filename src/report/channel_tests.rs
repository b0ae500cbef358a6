//! Untrusted text in every output channel: whatever it contains, it stays plain text. It is also
//! cleaned on input; here it comes in raw.

use proptest::prelude::*;
use proptest::sample::select;

use super::digest::samples::report;
use super::{html, markdown, terminal, webhook};
use crate::model::is_acting;
use crate::settings::WebhookStyle;

/// Text that could act on a terminal, a reader, a browser, a chat or a comment.
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
            match channel {
                "terminal" => {}
                "Markdown report" | "comment" => {
                    prop_assert_eq!(foreign_markup(&output), Vec::<String>::new(), "{}", channel);
                }
                _ => {
                    for markup in ["<script", "<!channel>", "<@U1>", "<at>"] {
                        prop_assert!(!output.contains(markup), "{channel}: {output}");
                    }
                }
            }
        }
    }

    /// A code fence in one finding must not swallow what follows, according to another parser.
    #[test]
    fn what_follows_foreign_text_is_read_as_itself(words in foreign_text()) {
        let headings = headings(&markdown::render(&report(&words)));
        for own in ["Findings", "Where to look", "Suggested change", "Assessment", "Open questions"] {
            prop_assert!(headings.iter().any(|heading| heading == own), "{}: {:?}", own, headings);
        }
    }
}

/// HTML, images and links outside the tracker, as a parser sees the page.
fn foreign_markup(page: &str) -> Vec<String> {
    use pulldown_cmark::{Event, Parser, Tag};
    let is_own = |address: &str| address.starts_with("https://dev.azure.com/");
    let foreign = |event: &Event<'_>| match event {
        Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::Image { .. }) => true,
        Event::Start(Tag::Link { dest_url, .. }) => !is_own(dest_url),
        _ => false,
    };
    Parser::new(page).filter(foreign).map(|event| format!("{event:?}")).collect()
}

fn headings(page: &str) -> Vec<String> {
    use pulldown_cmark::{Event, Parser, Tag, TagEnd};
    let (mut found, mut open) = (Vec::new(), false);
    for event in Parser::new(page) {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                open = true;
                found.push(String::new());
            }
            Event::End(TagEnd::Heading(_)) => open = false,
            Event::Text(text) if open => found.last_mut().unwrap().push_str(&text),
            _ => {}
        }
    }
    found
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
