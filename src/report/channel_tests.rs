//! Untrusted text in every output channel: whatever it contains, it stays plain text. It is also
//! cleaned on input; here it comes in raw.

use proptest::prelude::*;
use proptest::sample::select;

use serde_json::{Value, json};

use super::code_links::parts;
use super::digest::samples::report;
use super::digest::{Report, Scope};
use super::{html, markdown, terminal, webhook};
use crate::model::is_acting;
use crate::prompt::Fence;
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

/// A finding that fills every field of the schema with its own name.
fn filled(schema: &Value, name: &str) -> Value {
    match schema["type"].as_str().unwrap() {
        "string" => schema["enum"][0].as_str().map_or_else(|| name.into(), Into::into),
        "boolean" => true.into(),
        "integer" | "number" => 41.into(),
        "array" => Value::Array(vec![filled(&schema["items"], name)]),
        "object" => {
            let fields = schema["properties"].as_object().unwrap().iter();
            fields
                .map(|(field, schema)| (field.clone(), filled(schema, &format!("{name}-{field}"))))
                .collect()
        }
        other => panic!("{other}: say how it is filled"),
    }
}

/// Every field, also of objects in lists, as a path into [`filled`].
fn fields(schema: &Value, at: &str) -> Vec<String> {
    match schema["type"].as_str().unwrap() {
        "object" => {
            let all = schema["properties"].as_object().unwrap().iter();
            all.flat_map(|(field, schema)| fields(schema, &format!("{at}/{field}"))).collect()
        }
        "array" => fields(&schema["items"], &format!("{at}/0")),
        _ => vec![at.to_owned()],
    }
}

/// Another value of the same field.
fn changed(schema: &Value, value: &Value) -> Value {
    match value {
        Value::Bool(value) => (!value).into(),
        Value::Number(_) => 43.into(),
        Value::String(text) => schema["enum"].as_array().map_or_else(
            || format!("another {text}").into(),
            |words| words.iter().find(|word| *word != value).unwrap().clone(),
        ),
        other => panic!("{other}"),
    }
}

fn schema_at<'a>(schema: &'a Value, path: &str) -> &'a Value {
    path.split('/').skip(1).fold(schema, |schema, step| match step {
        "0" => &schema["items"],
        field => &schema["properties"][field],
    })
}

/// What each output says of a finding. The shared file is the HTML report of one finding; the digest
/// as a file is a report; the MCP server hands on the brief.
fn outputs(finding: &Value) -> Vec<(&'static str, String)> {
    let mut report = report("");
    report.findings[0].finding = serde_json::from_value(finding.clone()).unwrap();
    let (row, item) = (&report.findings[0], &report.open.first[0]);
    let shared = Report { scope: Scope::Finding { session: row.session }, ..report.clone() };
    let digest = report.clone().as_digest(vec!["stuck".into()], "https://heartbeat.example");
    let fence = Fence::new(uuid::Uuid::from_u128(7));
    let markdown_page = markdown::render(&report);
    vec![
        (
            "terminal",
            crate::report::paint::Paint::Plain.markdown(&crate::analyze::markdown(&row.finding)),
        ),
        ("Markdown", markdown_page),
        ("comment", crate::analyze::markdown(&row.finding)),
        ("HTML report", html::render(&report).unwrap()),
        ("shared file", html::render(&shared).unwrap()),
        ("digest", markdown::render(&digest)),
        ("brief", crate::brief::brief(item, row, "#42", &fence)),
        ("dashboard", serde_json::to_string(&parts(&row.finding, None)).unwrap()),
        ("JSON", serde_json::to_string(&report).unwrap()),
    ]
}

/// What a chat says of it: a few fields only.
fn messages(finding: &Value) -> Vec<(&'static str, String)> {
    let mut report = report("");
    report.findings[0].finding = serde_json::from_value(finding.clone()).unwrap();
    [("Slack", WebhookStyle::Slack), ("Teams", WebhookStyle::Teams)]
        .map(|(name, style)| (name, texts(&webhook::message(style, &report))))
        .into()
}

/// An output that does not change when a field changes does not show it.
#[test]
fn every_output_shows_every_field_of_the_schema() {
    let schema: Value = serde_json::from_str(crate::prompt::DEEP_SCHEMA).unwrap();
    let finding = filled(&schema, "words");
    let names = parts(&serde_json::from_value(finding.clone()).unwrap(), None);
    let brief: Vec<&str> =
        names.iter().filter(|part| part.brief).flat_map(|part| part.fields).copied().collect();
    assert_eq!(brief, ["summary", "risk", "effort", "confidence"]);
    let all = fields(&schema, "");
    assert!(all.len() >= 14, "{all:?}");
    for field in all {
        let mut other = finding.clone();
        let value = other.pointer_mut(&field).unwrap();
        *value = changed(schema_at(&schema, &field), value);
        let (before, after) = (outputs(&finding), outputs(&other));
        for ((output, before), (_, after)) in before.iter().zip(&after) {
            assert_ne!(before, after, "{output} does not show {field}");
        }
        if brief.contains(&field.trim_start_matches('/')) {
            for ((output, before), (_, after)) in messages(&finding).iter().zip(&messages(&other)) {
                assert_ne!(before, after, "{output} does not show {field}");
            }
        }
    }
}

/// The page's script shows each shape, and its template does.
#[test]
fn the_dashboard_and_the_report_know_every_shape() {
    let schema: Value = serde_json::from_str(crate::prompt::DEEP_SCHEMA).unwrap();
    let finding = serde_json::from_value(filled(&schema, "words")).unwrap();
    let script = include_str!("../web/page/finding.js");
    let shapes = json!(parts(&finding, None));
    for part in shapes.as_array().unwrap() {
        let shape = part["shape"].as_str().unwrap();
        assert!(script.contains(&format!("\n  {shape}: (")), "{shape}");
    }
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
        // A part without text is left out.
        prop_assume!(!words.is_empty());
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
    const ATTRIBUTES: [&str; 13] = [
        "aria-label",
        "charset",
        "class",
        "content",
        "href",
        "http-equiv",
        "lang",
        "name",
        "rel",
        "role",
        "scope",
        "style",
        "tabindex",
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
