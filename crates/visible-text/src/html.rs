//! HTML fields: parsed and judged once, rendered as often as needed.

use super::parse::{self, Parsed};
use super::sight::{self, Look, Verdict};
use super::{Cleaned, Rendering, walk};
use crate::{TextStats, UnclearTextPolicy};

pub(super) struct Page {
    parsed: Parsed,
    verdicts: Vec<Verdict>,
    raw_bytes: usize,
    steps: u64,
}

impl Page {
    /// Parses a field, within limits.
    pub(super) fn read(raw: &str) -> Self {
        Self::judged(parse::parse(raw, parse::FIELD_WORK), raw.len(), Look::Styled)
    }

    /// Parses one of many small texts, within lower limits.
    pub(super) fn read_snippet(raw: &str) -> Self {
        Self::judged(parse::parse(raw, parse::SNIPPET_WORK), raw.len(), Look::Styled)
    }

    /// Parses HTML that was generated from a text of `raw_bytes`.
    pub(super) fn read_made(html: &str, raw_bytes: usize, look: Look) -> Self {
        // Markdown grows when converted to HTML; the allowed work does not.
        Self::judged(parse::parse_made(html, raw_bytes), raw_bytes, look)
    }

    fn judged(parsed: Parsed, raw_bytes: usize, look: Look) -> Self {
        let (verdicts, matching) = sight::judge(&parsed, look);
        let steps = parsed.work + matching;
        Self { parsed, verdicts, raw_bytes, steps }
    }

    /// Renders it. The text is never longer than about twice the input.
    pub(super) fn render(&self, rendering: Rendering, doubtful: UnclearTextPolicy) -> Cleaned {
        let limit = 2 * self.raw_bytes + 4096;
        let rendered = walk::render(&self.parsed, &self.verdicts, rendering, doubtful, limit);
        let cut_bytes = self.parsed.cut_bytes + rendered.overflow;
        let mut text = rendered.text;
        if cut_bytes > 0 {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.push_str(&format!("[… {cut_bytes} bytes of input left out]"));
        }
        let cut_bytes = cut_bytes + self.parsed.flood_bytes;
        let stats = TextStats { cut_bytes, ..TextStats::default() };
        Cleaned { text, alarms: rendered.alarms, stats, steps: self.steps }
    }
}

/// Converts HTML to text.
pub(super) fn clean(raw: &str, rendering: Rendering, doubtful: UnclearTextPolicy) -> Cleaned {
    Page::read(raw).render(rendering, doubtful)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(html: &str) -> String {
        clean(html, Rendering::Full, UnclearTextPolicy::LeaveOut).text
    }

    fn tight(html: &str) -> String {
        clean(html, Rendering::Tight, UnclearTextPolicy::LeaveOut).text
    }

    #[test]
    fn words_stay_apart_and_together_as_a_browser_shows_them() {
        for (html, text) in [
            ("<div>one</div><div>two</div>", "one\ntwo"),
            ("<p>one</p><p>two</p>", "one\n\ntwo"),
            ("one<b>two</b> <i>three</i> , four", "onetwo three , four"),
            ("<span> a </span><span> b </span>", "a b"),
            ("a<br>b<br><br>c<br>", "a\nb\n\nc"),
            ("<div>a<br></div><div><br></div><div>b</div>", "a\n\nb"),
            ("line\nbroken\n  source", "line broken source"),
            ("<div style='display:inline'>a</div><div style='display:inline'>b</div>", "ab"),
            ("<span style='display:block'>a</span>b", "a\nb"),
            ("<div style='white-space:pre-wrap'>a\n  b</div>", "a\n  b"),
            ("x<wbr>y<o:p></o:p>z", "xyz"),
            ("a&nbsp;&nbsp;&nbsp;b", "a b"),
            ("<div>&nbsp;&nbsp;&nbsp; if x:</div>", "    if x:"),
        ] {
            assert_eq!(full(html), text, "{html}");
        }
    }

    #[test]
    fn structure_becomes_markdown() {
        for (html, text) in [
            ("<h2>Title</h2>text", "## Title\ntext"),
            ("<ul><li>a<li>b<ol><li>c</ol></ul>d", "- a\n- b\n  1. c\nd"),
            ("<ul><li>a</li><ul><li>b</li></ul><li>c</li></ul>", "- a\n  - b\n- c"),
            ("<ol type=a start=2><li>x<li>y</ol>", "b. x\nc. y"),
            ("<ul><li><ul><li>inner</ul></ul>", "  - inner"),
            ("<blockquote>a<br>b</blockquote>", "> a\n> b"),
            (
                "<pre><code class=language-rs>fn a() {\n\n    b();\n}\n</code></pre>",
                "```rs\nfn a() {\n\n    b();\n}\n```",
            ),
            ("<pre>```</pre>", "````\n```\n````"),
            ("use <code>a_b</code> and <code>c`d</code>", "use `a_b` and ``c`d``"),
            ("<s>old</s> new", "~~old~~ new"),
            ("10<sup>2</sup> 1<sup>st</sup>", "10<sup>2</sup> 1st"),
            ("<dl><dt>k<dd>v</dl>", "k\n  v"),
            ("a<hr>b", "a\n---\nb"),
            ("<input type=checkbox checked>done", "[x] done"),
        ] {
            assert_eq!(full(html), text, "{html}");
        }
    }

    #[test]
    fn tables_with_data_become_rows_and_others_do_not() {
        for (html, text) in [
            (
                "<table><tr><th>a<th>b<tr><td>1<td>x|y</table>",
                "| a | b |\n|---|---|\n| 1 | x\\|y |",
            ),
            ("<table><tr><td>a<td>b<tr><td><td>c</table>", "| a | b |\n| | c |"),
            (
                "<table><tr><td>a<br>b<td><ul><li>c<li>d</ul><tr><td>e<td>f</table>",
                "| a<br>b | - c<br>- d |\n| e | f |",
            ),
            ("<table><tr><td rowspan=2>a<td>b<tr><td>c</table>", "| a | b |\n| | c |"),
            (
                "<table><tr><td colspan=2>a<td>b<tr><td>1<td>2<td>3</table>",
                "| a | | b |\n| 1 | 2 | 3 |",
            ),
            ("<table><tr><td><p>a<p>b</table>", "a\n\nb"),
            ("<table role=presentation><tr><td>a<td>b</table>", "a\nb"),
            ("<table><tr><td>x<td><table><tr><td>a<td>b</table></table>", "x\n| a | b |"),
        ] {
            assert_eq!(full(html), text, "{html}");
        }
    }

    #[test]
    fn links_and_pictures_keep_what_is_worth_it() {
        for (html, text) in [
            ("<a href='https://e.com/x'> docs </a>.", "[docs](https://e.com/x) ."),
            ("<a href='https://e.com/'>https://e.com</a>", "https://e.com"),
            ("<a href='#top'>up</a> <a href='javascript:x'>go</a>", "up go"),
            (
                "<a href='https://e.com/x'><img src=a.png alt=Logo></a>",
                "[image: Logo](https://e.com/x)",
            ),
            ("<a href='https://e.com/x'>a<div>b</div></a>", "a\nb (https://e.com/x)"),
            ("<a href='https://e.com/x'></a>", ""),
            ("<img src='https://e.com/t.gif' width=1 height=1>", ""),
            ("<img alt='🙂' src=x>", "🙂"),
            ("<a href='#' data-vss-mention='version:2.0,6011f8b0'>@Jane Doe</a>", "@Jane Doe"),
            (
                "<a href='https://e.com/_workitems/edit/7' data-vss-mention='version:1.0'>#7</a>",
                "#7",
            ),
        ] {
            assert_eq!(full(html), text, "{html}");
        }
    }

    #[test]
    fn text_in_the_colour_of_the_page_leaves_a_mark() {
        let html = "a <b style='color:#fff'>x <i>y</i></b> b";
        let cleaned = clean(html, Rendering::Full, UnclearTextPolicy::LeaveOut);
        assert_eq!(cleaned.text, "a [left out, may be hidden: in the colour of a light page] b");
        assert_eq!(cleaned.alarms.low_contrast_chars, 2);
        let on_dark = "<p style='background:#036;color:white'>seen</p>";
        assert_eq!(full(on_dark), "seen");
        let on_picture = "<p style='background:url(x.png)'><b style='color:white'>seen?</b></p>";
        assert_eq!(full(on_picture), "[left out, may be hidden: unknown background or filter]");
        assert_eq!(
            full("<p style='color:#fff'><a href=/x>a link has its own colour</a></p>"),
            "[a link has its own colour](/x)"
        );
    }

    #[test]
    fn the_tight_rendering_shortens() {
        assert_eq!(
            tight("<a href='https://e.com/x'>docs</a> <img src=a.png> <code>c</code>"),
            "docs [image] c"
        );
        let rows = "<tr><td>a<td>b".repeat(9);
        assert_eq!(
            tight(&format!("<table>{rows}</table>")),
            format!("{}… 3 rows", "a | b\n".repeat(6))
        );
        let lines: String = (0..20).map(|n| format!("l{n}\n")).collect();
        assert_eq!(
            tight(&format!("<pre>{lines}</pre>")),
            "l0\nl1\nl2\nl3\nl4\nl5\n… 12 lines\nl18\nl19"
        );
    }

    #[test]
    fn what_word_and_outlook_leave_behind_is_gone() {
        let html = "<!--[if gte mso 9]><xml><w:x>1</w:x></xml><![endif]--><p class=MsoListParagraph \
            style='mso-list:l0 level2 lfo1'><![if !supportLists]><span style='mso-list:Ignore'>·\
            <span style='font:7.0pt \"Times New Roman\"'>&nbsp;&nbsp; </span></span><![endif]>Item<o:p></o:p></p>";
        assert_eq!(full(html), "  - Item");
    }
}
