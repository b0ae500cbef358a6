//! Untrusted text in every output channel: whatever it contains, it stays plain text. It is also
//! cleaned on input; here it comes in raw.

use proptest::prelude::*;
use proptest::sample::select;

use super::digest::samples::report;
use super::{html, markdown, terminal, webhook};
use crate::model::is_acting;
use crate::settings::WebhookStyle;

/// Text that could act on a terminal, a reader, a browser, a chat or a comment.
const HOSTILE: [&str; 34] = [
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
    "<img src=x onerror=alert(1)>",
    "![i](http://evil/i.png)",
    "`a <i class=x> b`",
    "`a | <img src=x>` | b\n",
    "\n-|-|-\n",
    "\n1. one\n   - two\n",
    "\n<div onclick=x>\n",
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

    /// Whatever the prose of a finding contains, its elements are the few that are built from it.
    #[test]
    fn no_element_or_attribute_comes_from_foreign_text(words in foreign_text()) {
        let page = html::render(&report(&words)).unwrap();
        prop_assert_eq!(foreign_elements(&page), Vec::<String>::new(), "{}", page);
        prop_assert_eq!(acting(&page), Vec::<char>::new());
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
    use pulldown_cmark::{Event, Options, Parser, Tag};
    let is_own = |address: &str| address.starts_with("https://dev.azure.com/");
    let foreign = |event: &Event<'_>| match event {
        Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::Image { .. }) => true,
        Event::Start(Tag::Link { dest_url, .. }) => !is_own(dest_url),
        _ => false,
    };
    // Trackers have tables, which split code at `|`; files are also shown by programs without them.
    let pages = [Options::empty(), Options::ENABLE_TABLES];
    let events = pages.into_iter().flat_map(|options| Parser::new_ext(page, options));
    events.filter(foreign).map(|event| format!("{event:?}")).collect()
}

/// Elements and attributes of a page that are not the report's own.
fn foreign_elements(page: &str) -> Vec<String> {
    const OWN: &str = " a article b body br code div em footer h1 h2 h3 h4 head header hr html i li \
                       main meta ol p pre section span strong style table tbody td th thead title tr ul \
                       blockquote ";
    const ATTRIBUTES: [&str; 10] = [
        "charset",
        "class",
        "content",
        "href",
        "http-equiv",
        "lang",
        "name",
        "rel",
        "scope",
        "style",
    ];
    let parsed = scraper::Html::parse_document(page);
    let mut found = Vec::new();
    for element in parsed.root_element().descendent_elements() {
        let name = element.value().name();
        if !OWN.contains(&format!(" {name} ")) {
            found.push(name.to_owned());
        }
        for (attribute, value) in element.value().attrs() {
            let is_number = attribute == "start" && value.parse::<u64>().is_ok();
            if !(ATTRIBUTES.contains(&attribute) || is_number) || value.contains("alert") {
                found.push(format!("{name} {attribute}={value}"));
            }
        }
    }
    found
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
