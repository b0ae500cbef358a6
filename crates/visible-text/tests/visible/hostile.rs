//! Hostile input: deep nesting of every container, floods, unfinished constructs, bombs.
//!
//! Counters inside the parser bound the time (tested there); here every family must pass without a
//! panic, with bounded and deterministic output.

use visible_text::{Cleaned, Options, Rendering, clean_both, clean_text};
use visible_text::{Format, UnclearTextPolicy};

const SIZE: usize = 60_000;

fn repeat(unit: &str) -> String {
    unit.repeat(SIZE / unit.len() + 1)
}

fn numbered(unit: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < SIZE {
        text.push_str(&unit(number));
        number += 1;
    }
    text
}

/// Every family by name.
fn families() -> Vec<(String, String)> {
    let containers = [
        "div",
        "span",
        "b",
        "a",
        "p",
        "ul",
        "ol",
        "li",
        "table",
        "blockquote",
        "font",
        "pre",
        "section",
        "svg",
        "math",
        "button",
        "form",
        "select",
        "details",
        "sup",
        "code",
        "dl",
        "q",
        "s",
        "template",
        "ruby",
        "h1",
        "center",
        "object",
        "marquee",
    ];
    let mut families: Vec<(String, String)> = Vec::new();
    for (at, name) in containers.into_iter().enumerate() {
        let text = if at % 2 == 0 { "x" } else { "" };
        families.push((format!("deep {name}"), repeat(&format!("<{name}>{text}"))));
    }
    let named = floods().into_iter().chain(tangles()).chain(late_floods());
    families.extend(named.map(|(name, text)| (name.to_owned(), text)));
    families
}

fn around(open: &str, unit: &str, close: &str) -> String {
    format!("{open}{}{close}", repeat(unit))
}

/// Too much of one kind.
fn floods() -> Vec<(&'static str, String)> {
    vec![
        ("lists in lists", repeat("<ul><li>x")),
        ("tables in tables", repeat("<table><tr><td>x")),
        ("attribute flood", format!("<p {}>x", numbered(|n| format!("a{n}=1 ")))),
        ("same attribute", around("<p ", "a=1 ", ">x")),
        ("open attribute", around("<p title=\"", "x<p>", "")),
        ("long attribute", around("<p title=\"", "x", "\">y")),
        ("open comment", around("a<!--", "x-", "")),
        ("empty comments", repeat("<!---->")),
        ("less-than flood", repeat("<")),
        ("ampersand flood", repeat("&")),
        ("entity bomb", repeat("&NotEqualTilde;")),
        ("unfinished entities", repeat("&NotEqualTilde")),
        ("last characters", repeat("&#x10FFFF;")),
        ("surrogates", repeat("&#xD800;")),
        ("huge spans", around("<table>", "<tr><td colspan=1000>x<td rowspan=65534>y", "")),
        (
            "absurd spans",
            around("<table>", "<tr><td colspan=99999999999999999999>x<td rowspan=-1>y", ""),
        ),
    ]
}

/// Mismatched and unterminated constructs.
fn tangles() -> Vec<(&'static str, String)> {
    vec![
        ("misnested formatting", repeat("<b><i><u></b></i></u>x")),
        ("adoption", repeat("<a><b><p></a></b>")),
        ("open formatting", numbered(|n| format!("<p><font color={n}>x"))),
        ("foster parents", around("<table>", "x<b>y", "")),
        ("zero bytes", repeat("a\0")),
        ("stray ends", around(&"<span>".repeat(400), "</x>", "")),
        ("stray paragraphs", repeat("</p>")),
        ("embedded picture", around("<img src=\"data:image/png;base64,", "iVBORw0KGgo", "\">x")),
        ("styles", around("<p style=\"", "color:red;", "\">x")),
        ("rules", around("<style>", ".a{color:red}", "</style><p class=a>x")),
        ("open rules", around("<style>", ".a{", "")),
        (
            "slow selectors",
            format!(
                "<style>{}</style>{}",
                ".a .a .a{color:red}".repeat(500),
                repeat("<p class=a>x")
            ),
        ),
        ("names", numbered(|n| format!("<t{n}>"))),
        ("ticks", around("<pre>", "`", "</pre>")),
        ("code spans", repeat("<code>`</code>")),
        ("long link", around("<a href=\"http://e/", "x", "\">t</a>")),
        ("pipes", around("<table><tr><td>", "|", "<td>x</table>")),
        ("breaks", repeat("x<br>")),
        ("hard spaces", repeat("&nbsp;")),
        ("invisible", repeat("a\u{200b}\u{202e}\u{e0041}")),
        ("one word", repeat("w")),
        ("plaintext", around("<plaintext>", "<b>", "")),
        ("scripts", around("<script>", "<!--<script>", "")),
        ("escaped style", around("<p style=\"", "\\64 ", "\">x")),
        ("brackets in style", around("<p style=\"", "(", "\">x")),
    ]
}

/// Attribute floods behind something that a scanner may mistake for the end of markup, and rules
/// that make every element search far.
fn late_floods() -> Vec<(&'static str, String)> {
    let flood = |start: &str| format!("{start}{}>x", numbered(|n| format!(" a{n}")));
    let many =
        |unit: &dyn Fn(usize) -> String, count: usize| (0..count).map(unit).collect::<String>();
    let classes = many(&|n| format!("c{n} "), 64);
    let ancestors = |rules: &str| {
        format!("<style>{rules}</style>{}", repeat(&format!("<div class='{classes}'>")))
    };
    vec![
        ("flood after an empty comment", flood("<!--><p")),
        ("flood after a short comment", flood("<!---><p")),
        ("flood after a bang comment", flood("<!-- x --!><p")),
        ("flood after a text area", flood("<textarea><p></textarea><p")),
        ("flood in a drawing's title", flood("<svg><title><p")),
        ("flood after a section", flood("<svg><![CDATA[<p]]><p")),
        ("flood after a script", flood("<script><!--<script></script><p></script><p")),
        ("flood in an end tag", flood("</p")),
        (
            "ancestors by classes",
            ancestors(&many(&|n| format!(".c{n} .c1 .c2 .x{n} .c3{{color:red}}"), 24)),
        ),
        (
            "ancestors by attributes",
            ancestors(&"[class~=c1] [class~=c2] [class*=z] *{color:red}".repeat(24)),
        ),
        (
            "siblings",
            format!("<style>{}</style>{}", "b~b~b~i{color:red}".repeat(40), repeat("<b></b>")),
        ),
        (
            "relatives",
            format!("<style>{}</style>{}", "b:has(~ i.x){color:red}".repeat(20), repeat("<b></b>")),
        ),
        ("nested brackets", around("<style>", ":is(", "</style><p>x")),
        ("nested functions", around("<p style='width:", "calc(", "'>x")),
        ("nested rules", around("<style>", "a{b ", "</style><p>x")),
        ("columns", around("<table>", "<col style='background:red'>", "<tr><td>x")),
        (
            "covers",
            repeat(
                "<div style='position:relative'>x<b style='position:absolute;inset:0;background:red'></b>",
            ),
        ),
    ]
}

fn clean(text: &str, format: Format, rendering: Rendering) -> Cleaned {
    clean_text(text, format, &Options { rendering, max_bytes: None, ..Options::default() })
}

#[test]
fn no_family_panics_or_blows_up_and_each_says_what_it_cut() {
    for (name, text) in families() {
        let (full, tight) = clean_both(&text, Format::Html, UnclearTextPolicy::LeaveOut);
        for cleaned in [full, tight] {
            let limit = 2 * text.len() + 8192;
            assert!(cleaned.text.len() <= limit, "{name}: {} bytes", cleaned.text.len());
            let says_so = cleaned.text.contains("bytes of input left out]");
            // Excess attributes contain no text, so they are removed without a mark.
            assert!(
                says_so
                    || cleaned.stats.cut_bytes == 0
                    || name == "same attribute"
                    || name.contains("flood"),
                "{name}"
            );
            assert_eq!(cleaned.stats.raw_bytes, text.len());
        }
    }
}

#[test]
fn the_same_input_gives_the_same_output() {
    for (name, text) in families().into_iter().step_by(7) {
        let once = clean(&text, Format::Html, Rendering::Full);
        let again = clean(&text, Format::Html, Rendering::Full);
        assert_eq!(once, again, "{name}");
    }
}

#[test]
fn other_formats_survive_as_well() {
    for (name, text) in families() {
        let formats =
            [Format::Markdown, Format::Plain, Format::TestSteps, Format::Adf, Format::Wiki];
        for format in formats {
            let cleaned = clean(&text, format, Rendering::Tight);
            assert!(cleaned.text.len() <= 2 * text.len() + 8192, "{name} as {format:?}");
        }
    }
    let steps = format!("<steps>{}", "<step><parameterizedString>&lt;div&gt;x".repeat(4_000));
    assert!(clean(&steps, Format::TestSteps, Rendering::Full).text.starts_with("1. x"));
}

#[test]
fn text_after_a_flood_of_attributes_or_a_big_picture_is_still_read() {
    for (name, text) in families() {
        if name.ends_with("attribute")
            || name.starts_with("attribute")
            || name == "embedded picture"
            || name == "styles"
        {
            let cleaned = clean(&format!("{text}</p><p>the end"), Format::Html, Rendering::Full);
            assert!(name == "open attribute" || cleaned.text.ends_with("the end"), "{name}");
        }
    }
}

#[test]
fn deep_nesting_is_cut_only_where_it_is_absurd() {
    let deep =
        |levels: usize| format!("{}deep words{}", "<div>".repeat(levels), "</div>".repeat(levels));
    let cleaned = clean(&deep(1_000), Format::Html, Rendering::Full);
    assert_eq!((cleaned.text.as_str(), cleaned.stats.cut_bytes), ("deep words", 0));
    assert!(clean(&deep(100_000), Format::Html, Rendering::Full).stats.cut_bytes > 0);
}
