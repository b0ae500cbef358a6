//! Properties that hold for any text.

use proptest::prelude::*;
use visible_text::{Format, Options, Rendering, UnclearTextPolicy, clean_both, clean_text};

/// What may be hidden is left out, so that a test sees what was taken for visible.
const CAREFUL: Options =
    Options { rendering: Rendering::Full, doubtful: UnclearTextPolicy::LeaveOut, max_bytes: None };

const PIECES: &[&str] = &[
    "<div>",
    "</div>",
    "<p>",
    "</p>",
    "<b>",
    "</b>",
    "<i>",
    "<a href=x>",
    "</a>",
    "<ul>",
    "<ol>",
    "<li>",
    "</li>",
    "</ul>",
    "<table>",
    "<tr>",
    "<td colspan=3>",
    "<th rowspan=9>",
    "</table>",
    "<pre>",
    "</pre>",
    "<code>",
    "</code>",
    "<br>",
    "<hr>",
    "<img src=a.png alt=pic>",
    "<h2>",
    "</h2>",
    "<blockquote>",
    "</blockquote>",
    "<span style='color:red'>",
    "</span>",
    "<s>",
    "</s>",
    "<q>",
    "</q>",
    "<sup>",
    "</sup>",
    "word",
    " ",
    "\n",
    "&nbsp;",
    "&lt;",
    "<",
    ">",
    "&",
    "\"",
    "'",
    "`",
    "|",
    "[",
    "](",
    "\u{200b}",
    "\u{202e}",
    "\0",
    "é",
    "修",
    "👍🏽",
    "<!--",
    "-->",
    "<script>",
    "</script>",
    "<style>",
    "</style>",
    "<svg>",
    "</svg>",
    "<select>",
    "<option>",
    "<details>",
    "<template>",
    "</template>",
    "<p style='mso-list:l0 level2 lfo1'>",
    "<input type=checkbox>",
    "style=\"display:none\"",
    "<p style=\"",
    "<textarea>",
    "<plaintext>",
    "<dd>",
    "<frameset>",
];

/// Parts that cannot swallow or recolour what follows.
const TAME: &[&str] = &[
    "<div>",
    "</div>",
    "<p>",
    "</p>",
    "<b>",
    "</b>",
    "<i>",
    "<ul>",
    "<li>",
    "</ul>",
    "<table>",
    "<tr>",
    "<td>",
    "</table>",
    "<pre>",
    "</pre>",
    "<code>",
    "</code>",
    "<br>",
    "<h2>",
    "</h2>",
    "<blockquote>",
    "<span style='color:red;font-size:20px'>",
    "</span>",
    "word",
    " ",
    "<dl>",
    "<dd>",
    "<q>",
    "<s>",
    "&amp;",
];

const MARKUP: &[&str] = &[
    "h1. ",
    "* ",
    "## ",
    "|",
    "||",
    "{code}",
    "{code:java}",
    "{noformat}",
    "{quote}",
    "{panel}",
    "{panel:title=x}",
    "{color:red}",
    "{color:white}",
    "{color}",
    "[a|https://e.com]",
    "[~ann]",
    "[",
    "]",
    "!p.png!",
    "{{",
    "}}",
    "*b*",
    "_i_",
    "-s-",
    "\\\\",
    "\\",
    "\n",
    "\r\n",
    "word",
    " ",
    "----",
    "bq. ",
    "é😀",
];

/// Names used in documents, and others.
const NAMES: &str = "type|content|text|attrs|marks|version|level|color|href|timestamp|[a-z]{3}";
const KINDS: &[&str] = &[
    "doc",
    "paragraph",
    "text",
    "heading",
    "bulletList",
    "orderedList",
    "listItem",
    "codeBlock",
    "table",
    "tableRow",
    "tableCell",
    "tableHeader",
    "panel",
    "expand",
    "mention",
    "emoji",
    "date",
    "status",
    "inlineCard",
    "media",
    "mediaSingle",
    "taskItem",
    "hardBreak",
    "rule",
    "placeholder",
    "extension",
    "link",
    "textColor",
    "code",
    "white",
    "\u{202e}",
];

/// Any JSON, much of it similar to a document.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        prop::sample::select(KINDS).prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 60, 5, |inner| {
        let node = (prop::sample::select(KINDS), prop::collection::vec(inner.clone(), 0..4))
            .prop_map(|(kind, content)| serde_json::json!({ "type": kind, "content": content }));
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(NAMES, inner, 0..5).prop_map(Value::from_iter),
            node,
        ]
    })
}

fn soup(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(pieces), 0..60).prop_map(|parts| parts.concat())
}

fn full(html: &str) -> String {
    clean_text(html, Format::Html, &CAREFUL).text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_panics_grows_or_keeps_what_nobody_sees(html in soup(PIECES), max in 0_usize..400) {
        for format in [Format::Html, Format::Markdown, Format::TestSteps] {
            let (one, other) = clean_both(&html, format, UnclearTextPolicy::LeaveOut);
            for cleaned in [&one, &other] {
                prop_assert!(cleaned.text.len() <= 2 * html.len() + 8192);
                let unseen = cleaned.text.contains(['\u{200b}', '\u{202e}', '\0']);
                prop_assert!(!unseen);
            }
            let options = Options { rendering: Rendering::Full, max_bytes: Some(max), ..Options::default() };
            let trimmed = clean_text(&html, format, &options);
            prop_assert!(trimmed.text.len() <= max.max(120), "{}", trimmed.text);
        }
    }

    #[test]
    fn any_json_is_a_document(document in any_json()) {
        let raw = document.to_string();
        let (one, other) = clean_both(&raw, Format::Adf, UnclearTextPolicy::LeaveOut);
        for cleaned in [&one, &other] {
            prop_assert!(cleaned.text.len() <= 2 * raw.len() + 8192);
        }
        // Truncated anywhere, the part before the cut is read.
        let end = (0..=raw.len() / 2).rev().find(|at| raw.is_char_boundary(*at)).unwrap_or(0);
        clean_text(&raw[..end], Format::Adf, &Options::default());
    }

    #[test]
    fn any_markup_is_a_text(raw in soup(MARKUP)) {
        let (one, other) = clean_both(&raw, Format::Wiki, UnclearTextPolicy::LeaveOut);
        for cleaned in [&one, &other] {
            prop_assert!(cleaned.text.len() <= 2 * raw.len() + 8192);
            prop_assert!(!cleaned.text.contains("</"), "{}", cleaned.text);
        }
    }

    #[test]
    fn any_text_at_all_is_taken(html in any::<String>()) {
        full(&html);
        clean_text(&html, Format::Adf, &Options::default());
        clean_text(&html, Format::Wiki, &Options::default());
        clean_text(&html, Format::Markdown, &Options::default());
        clean_text(&html, Format::TestSteps, &Options::default());
    }

    #[test]
    fn hidden_text_stays_hidden_wherever_it_stands(
        before in soup(TAME),
        after in soup(TAME),
        how in prop::sample::select(&[
            "style='display:none'", "style='visibility:hidden'", "hidden", "style='font-size:0'",
            "style='opacity:0'", "style='color:transparent'", "style='DISPLAY: none !important'",
            "style='position:absolute;left:-9999px'", "style='background:#fff;color:#fefefe'",
        ][..]),
        name in prop::sample::select(&["div", "span", "p", "b", "li"][..]),
    ) {
        let html = format!("{before}<{name} {how}>secret</{name}>{after}");
        let cleaned = clean_text(&html, Format::Html, &CAREFUL);
        prop_assert!(!cleaned.text.contains("secret"), "{html} -> {}", cleaned.text);
        prop_assert!(cleaned.alarms.any(), "{html}");
    }

    #[test]
    fn shown_text_is_kept_wherever_it_stands(before in soup(TAME), after in soup(TAME)) {
        let html = format!("{before}evident{after}");
        prop_assert!(full(&html).contains("evident"), "{html} -> {}", full(&html));
    }

    #[test]
    fn text_without_markup_keeps_its_words(words in prop::collection::vec("[a-zA-Z0-9_.*#-]{1,12}", 0..40)) {
        let text = words.join(" ");
        prop_assert_eq!(full(&text), text.clone());
    }
}

#[test]
fn code_next_to_code_stays_whole_inside_other_marks() {
    for (html, expected) in [
        ("<p><code>one</code><code>two</code></p>", "`onetwo`"),
        ("<p><code>one</code><q><code>two</code></q></p>", "`one`\"`two`\""),
        ("<p><code>one</code><s><code>two</code></s> x</p>", "`one`~~`two`~~ x"),
    ] {
        let cleaned = clean_text(html, Format::Html, &Options::default());
        assert_eq!(cleaned.text, expected, "{html}");
    }
}
