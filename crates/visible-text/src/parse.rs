//! A bounded parse: scraper's tree, built by html5ever, with a counter of the work.
//!
//! html5ever follows the HTML standard, and some of the standard's steps scan every open element.
//! Nesting, misnested formatting and stray end tags can therefore cost quadratic time: half a
//! megabyte of `<div>` takes more than a minute. The parser queries its sink about each element it
//! visits, so the sink can count; input is fed in small pieces and stops when the count exceeds
//! what a reasonable document of that size needs. Counters and not clocks, so that the same input
//! always gives the same output.

use html5ever::interface::TreeSink;
use scraper::node::Element;
use scraper::{Html, Node};

use super::feed::{Feeder, WORK_PER_BYTE};

/// Steps allowed for a field of any size.
pub(super) const FIELD_WORK: u64 = 2_000_000;
/// Steps allowed for one of many small texts.
pub(super) const SNIPPET_WORK: u64 = 100_000;

/// Attribute that replaces those removed from a tag with too many.
pub(super) const CUT_ATTRIBUTES: &str = "heartbeat-cut-attributes";

/// A tree, and how much of the input it contains.
pub(super) struct Parsed {
    pub(super) html: Html,
    /// Bytes of input that were not parsed.
    pub(super) cut_bytes: usize,
    /// Bytes of removed attributes.
    pub(super) flood_bytes: usize,
    pub(super) work: u64,
    /// Whether there is a `<style>` or a `<link>`.
    pub(super) has_style: bool,
    /// Approximate number of elements.
    pub(super) elements: usize,
    /// The attributes of a `<body>` tag, on an element of another name.
    pub(super) body: Option<Element>,
}

/// Parses `input` as the body of a page. Allows `base_work` steps, and more by its length.
pub(super) fn parse(input: &str, base_work: u64) -> Parsed {
    let allowed = base_work + WORK_PER_BYTE * input.len() as u64;
    parse_within(input, allowed)
}

/// The same for HTML generated from a text of `raw_bytes`.
pub(super) fn parse_made(input: &str, raw_bytes: usize) -> Parsed {
    let allowed = FIELD_WORK + WORK_PER_BYTE * raw_bytes as u64;
    parse_within(input, allowed)
}

/// Parses any markup with html5ever.
pub(super) fn parse_within(input: &str, allowed: u64) -> Parsed {
    let mut feeder = Feeder::new(input, allowed);
    feeder.run();
    let Feeder { tokenizer, fed, flood_bytes, body, .. } = feeder;
    tokenizer.end();
    let counted = tokenizer.sink.builder.sink;
    let has_style = counted.has_style.get();
    let elements = counted.depths.borrow().len();
    let work = counted.work.get();
    Parsed {
        html: counted.finish(),
        cut_bytes: input.len() - fed,
        flood_bytes,
        work,
        has_style,
        elements,
        body: body.as_deref().and_then(body_element),
    }
}

/// Parses the attributes of a `<body>` tag, which the parser drops in a fragment.
fn body_element(attributes: &str) -> Option<Element> {
    let html = Html::parse_fragment(&format!("<div {attributes}"));
    html.tree.values().filter_map(Node::as_element).find(|element| element.name() == "div").cloned()
}

/// The last character boundary at or before `at`.
pub(super) fn floor_char_boundary(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    (0..=at).rev().find(|&index| text.is_char_boundary(index)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::feed::{MAX_NODES, PIECE};
    use super::*;

    #[test]
    fn work_is_bounded_on_everything_that_is_quadratic_in_the_standard() {
        let formatting: String = (0..300).map(|n| format!("<b x={n}>")).collect();
        for (start, unit) in [
            ("", "<div>"),
            ("", "<b><p>x</b>"),
            ("", "<table><tr><td>"),
            ("", "<a><b><p></a></b>"),
            ("<table>", "x<b>y"),
            (&*"<span>".repeat(500), "</x>"),
            (&*"<div>".repeat(500), "<p></p>"),
            (&formatting, "<b x=1></b>"),
            ("", "<"),
        ] {
            let input = format!("{start}{}", unit.repeat(300_000 / unit.len()));
            let parsed = parse(&input, FIELD_WORK);
            let allowed = FIELD_WORK + WORK_PER_BYTE * input.len() as u64;
            // One piece may exceed the limit before the next check.
            assert!(parsed.work <= 2 * allowed, "{unit}: {} of {allowed}", parsed.work);
            let nodes = parsed.html.tree.nodes().count() as u64;
            assert!(nodes <= u64::from(MAX_NODES) + PIECE as u64 * 600, "{unit}: {nodes} nodes");
        }
    }

    #[test]
    fn real_markup_needs_a_fraction_of_what_is_allowed() {
        let item = "<div style='color:red'><ul><li><b>a</b> <a href=x>b</a></li></ul></div>";
        let table = "<table><tr><td>cell &amp; more</td><td>x</td></tr></table><p>text<br></p>";
        let input = format!("{item}{table}").repeat(500);
        let parsed = parse(&input, FIELD_WORK);
        assert_eq!(parsed.cut_bytes, 0);
        assert!(parsed.work < 4 * input.len() as u64, "{} for {}", parsed.work, input.len());
    }

    #[test]
    fn attributes_that_nobody_reads_are_kept_only_for_a_style_sheet() {
        let attributes = |html: &str| -> Vec<String> {
            let parsed = parse(html, FIELD_WORK);
            let elements = parsed.html.tree.values().filter_map(|node| node.as_element());
            elements.flat_map(|element| element.attrs().map(|(name, _)| name.to_owned())).collect()
        };
        assert_eq!(attributes("<p title=x onclick=y class=z>text</p>"), ["class"]);
        assert_eq!(attributes("<p title=x>text</p><STYLE></STYLE>"), ["title"]);
    }

    #[test]
    fn a_flood_of_attributes_is_cut_wherever_the_tokenizer_meets_it() {
        let flood: String = (0..2_000).map(|n| format!(" a{n}")).collect();
        for start in [
            "<p",
            "<!--><p",
            "<!-- x --!><p",
            "<!---><p",
            "<textarea><p></textarea><p",
            "<style><p</style><p",
            "<script><!--<script></script><p></script><p",
            "<svg><title><p",
            "<svg><style><p",
            "<svg><![CDATA[<p]]><p",
            "<![CDATA[<p]]><p",
            "<title></title><p",
            "</p",
            "<textarea></textarea",
            "<math><mtext><p",
        ] {
            let parsed = parse(&format!("{start}{flood}>end"), FIELD_WORK);
            let most =
                parsed.html.tree.values().filter_map(Node::as_element).map(|e| e.attrs.len()).max();
            assert!(
                parsed.flood_bytes > 0 && most.unwrap_or(0) <= 70,
                "{start}: {}",
                parsed.flood_bytes
            );
        }
    }

    #[test]
    fn boundaries_are_found() {
        assert_eq!(floor_char_boundary("aé", 2), 1);
        assert_eq!(floor_char_boundary("aé", 1), 1);
        assert_eq!(floor_char_boundary("aé", 9), 3);
        assert_eq!(floor_char_boundary("é", 1), 0);
    }
}
