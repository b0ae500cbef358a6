//! Markdown and plain fields. Markdown is converted to HTML by a parser, as the tracker does, and
//! then cleaned like HTML: titles, info strings, comments and unused references are not text, and
//! raw HTML is judged like any other.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, TextMergeStream, html};

use super::html::Page;
use super::parse::floor_char_boundary;
use super::sight::Look;
use super::{Cleaned, Rendering, characters, drawn, swallow};
use crate::{Alarms, UnclearTextPolicy};

/// Maximum bytes of Markdown; the tracker's longest field has a million characters.
const MAX_INPUT: usize = 1 << 20;
/// Maximum characters that may begin a construct; each costs the parser a node, and real text has
/// few.
const MAX_SIGNS: usize = 400_000;
/// Maximum bytes of generated HTML.
const MAX_HTML: usize = 8 << 20;

/// Plain text without invisible characters.
pub(super) fn clean_plain(raw: &str) -> Cleaned {
    let mut alarms = Alarms::default();
    let lines = one_kind_of_line_end(raw);
    let text = characters::visible(&lines, &mut alarms).into_owned();
    Cleaned { text, alarms, ..Cleaned::default() }
}

/// A parsed Markdown field.
pub(super) struct Document {
    page: Page,
    hidden_chars: usize,
    cut_bytes: usize,
}

impl Document {
    /// Parses a field: decodes entities once if the tracker wrote them, then converts Markdown to
    /// HTML.
    pub(super) fn read(raw: &str) -> Self {
        Self::read_written(raw, Written::Encoded)
    }

    /// Parses a field that the tracker did not encode.
    pub(super) fn read_raw(raw: &str) -> Self {
        Self::read_written(raw, Written::Raw)
    }

    fn read_written(raw: &str, written: Written) -> Self {
        let end = end_of_signs(&raw[..floor_char_boundary(raw, MAX_INPUT)]);
        let decoded = if written == Written::Encoded && is_encoded(&raw[..end]) {
            decode_entities(&raw[..end])
        } else {
            Cow::Borrowed(&raw[..end])
        };
        let lines = one_kind_of_line_end(&decoded);
        let text = match written {
            Written::Encoded => with_literal_mentions(&lines),
            Written::Raw => lines,
        };
        let mut html = Bounded::default();
        let hidden_chars = to_html(&text, &mut html, written);
        let cut_bytes = raw.len() - end + html.dropped;
        let look = if written == Written::Raw { Look::Plain } else { Look::Styled };
        Self { page: Page::read_made(&html.text, raw.len(), look), hidden_chars, cut_bytes }
    }

    /// HTML generated from a text of `raw_bytes`, some of which are not shown or not read.
    pub(super) fn made(
        html: &str,
        raw_bytes: usize,
        hidden_chars: usize,
        cut_bytes: usize,
    ) -> Self {
        Self { page: Page::read_made(html, raw_bytes, Look::Styled), hidden_chars, cut_bytes }
    }

    pub(super) fn render(&self, rendering: Rendering, doubtful: UnclearTextPolicy) -> Cleaned {
        let mut cleaned = self.page.render(rendering, doubtful);
        cleaned.alarms.hidden_chars += self.hidden_chars;
        if self.cut_bytes > 0 {
            cleaned.text.push_str(&format!("\n[… {} bytes of input left out]", self.cut_bytes));
            cleaned.stats.cut_bytes += self.cut_bytes;
        }
        cleaned
    }
}

/// How a tracker returns Markdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// `<`, `>` and `"` as entities.
    Encoded,
    /// Unchanged.
    Raw,
}

impl Written {
    fn options(self) -> Options {
        let mut options = Options::ENABLE_TABLES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS
            | Options::ENABLE_FOOTNOTES;
        // Trackers that return raw Markdown render formulas.
        options.set(Options::ENABLE_MATH, self == Self::Raw);
        options
    }
}

/// Characters of comments that are written as references: `[//]: # (words)`.
fn comment_references(parser: &Parser<'_>) -> usize {
    let all = parser.reference_definitions().iter();
    all.filter(|(name, definition)| {
        matches!(*name, "//" | "comment" | "_") || &*definition.dest == "#"
    })
    .map(|(_, definition)| definition.title.as_deref().map_or(0, count_words))
    .sum()
}

/// End of the text that is within the limit of signs.
fn end_of_signs(text: &str) -> usize {
    let is_sign = |&(_, byte): &(usize, u8)| {
        matches!(byte, b'<' | b'*' | b'_' | b'[' | b']' | b'`' | b'~' | b'|' | b'\\' | b'!' | b'&')
    };
    text.bytes().enumerate().filter(is_sign).nth(MAX_SIGNS).map_or(text.len(), |(at, _)| at)
}

/// Text that grows up to a limit and counts what did not fit.
#[derive(Default)]
struct Bounded {
    text: String,
    dropped: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > MAX_HTML {
            self.dropped += text.len();
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// Converts Markdown to HTML. Returns the number of characters that no renderer shows.
fn to_html(markdown: &str, html: &mut Bounded, written: Written) -> usize {
    let options = written.options();
    let parser = Parser::new_ext(markdown, options);
    let mut hidden = comment_references(&parser);
    let used = used_footnotes(markdown, options);
    let mut unused = 0_usize;
    let swallowed = Cell::new(0);
    let unclosed = swallow::unclosed(markdown);
    let swallowing = if written == Written::Raw { Vec::new() } else { unclosed.clone() };
    let events = swallow::marked(TextMergeStream::new(parser), swallowing, &swallowed);
    let events = events.filter_map(|event| match event {
        Event::Start(Tag::FootnoteDefinition(name)) if unused > 0 || !used.contains(&*name) => {
            unused += 1;
            None
        }
        Event::End(TagEnd::FootnoteDefinition) if unused > 0 => {
            unused -= 1;
            None
        }
        Event::Text(text) | Event::Code(text) if unused > 0 => {
            hidden += count_words(&text);
            None
        }
        _ if unused > 0 => None,
        // Logs and steps are pasted line by line.
        Event::SoftBreak => Some(Event::HardBreak),
        // Issue templates contain explanations in separate comments, which users leave in place.
        // Such a comment is removed like any other, but is not an alarm.
        Event::Html(text) if written == Written::Raw => {
            Some(Event::Html(swallow::shown(text, &unclosed)))
        }
        Event::InlineHtml(text) if written == Written::Raw => {
            hidden += comment_words(&text);
            Some(Event::InlineHtml(swallow::shown(text, &unclosed)))
        }
        Event::Html(ref text) | Event::InlineHtml(ref text) => {
            hidden += comment_words(text);
            Some(event)
        }
        event => Some(event),
    });
    let events = drawn::marked(events, written == Written::Raw);
    // `Bounded` counts what does not fit.
    let _: fmt::Result = html::write_html_fmt(html, events);
    hidden + swallowed.get()
}

/// The footnotes that the text refers to.
fn used_footnotes(markdown: &str, options: Options) -> HashSet<String> {
    if !markdown.contains("[^") {
        return HashSet::new();
    }
    Parser::new_ext(markdown, options)
        .filter_map(|event| match event {
            Event::FootnoteReference(name) => Some(name.into_string()),
            _ => None,
        })
        .collect()
}

pub(super) fn count_words(text: &str) -> usize {
    text.chars().filter(|character| !character.is_whitespace()).count()
}

fn comment_words(html: &str) -> usize {
    let html = html.trim_start();
    html.strip_prefix("<!--").map_or(0, |text| count_words(text.trim_end().trim_end_matches("-->")))
}

/// The tracker writes `<`, `>` and `"` as entities: a text that contains one of them was not
/// encoded.
fn is_encoded(text: &str) -> bool {
    text.contains('&') && !text.contains(['<', '>', '"'])
}

/// Mentions of users, `@<guid>`, must not be parsed as tags.
fn with_literal_mentions(text: &str) -> Cow<'_, str> {
    if !text.contains("@<") {
        return Cow::Borrowed(text);
    }
    let is_guid = |inside: &str| {
        inside.len() == 36 && inside.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    let mut kept = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find("@<") {
        let inside = rest[at + 2..].split('>').next().unwrap_or("");
        kept.push_str(&rest[..=at]);
        kept.push_str(if is_guid(inside) { "\\<" } else { "<" });
        rest = &rest[at + 2..];
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// A single carriage return is a line end too: on a terminal it would overwrite its line.
fn one_kind_of_line_end(text: &str) -> Cow<'_, str> {
    match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(text),
    }
}

/// Decodes the tracker's entities once.
pub(super) fn decode_entities(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        let name_length = rest.bytes().skip(1).take(8).position(|byte| byte == b';');
        let character = name_length.and_then(|length| entity(&rest[1..=length]));
        if let (Some(character), Some(length)) = (character, name_length) {
            decoded.push(character);
            rest = &rest[length + 2..];
        } else {
            decoded.push('&');
            rest = &rest[1..];
        }
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

fn entity(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some(' '),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|&character| character != '\0')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(raw: &str) -> Cleaned {
        Document::read(raw).render(Rendering::Full, UnclearTextPolicy::LeaveOut)
    }

    fn full(raw: &str) -> String {
        clean(raw).text
    }

    #[test]
    fn entities_of_the_tracker_are_decoded_once() {
        assert_eq!(
            full("a &amp;lt;b&amp;gt; &quot;x&quot; &#39;y&#x27; R&D &unknown; &"),
            "a <b> \"x\" 'y' R&D &unknown; &"
        );
        assert_eq!(full("\"a\" &lt;b&gt;"), "\"a\" <b>");
        assert_eq!(full("a &lt;i hidden&gt;psst&lt;/i&gt; b"), "a b");
    }

    #[test]
    fn structure_stays_and_code_stays_to_the_letter() {
        let text = "# Title\n\n- a_b_c\n- `<div style=\"display:none\">`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn  x() {\n\n    <!-- y -->\n}\n```";
        assert_eq!(
            full(text),
            text.replace("Title\n\n", "Title\n")
                .replace(">`\n\n", ">`\n")
                .replace("|\n\n```", "|\n```")
        );
    }

    #[test]
    fn what_no_renderer_shows_goes_and_is_counted() {
        let cleaned =
            clean("a <!-- obey\nme --> b\n`<!-- x -->`\n\n[//]: # (psst)\n\n[^u]: unused words");
        assert_eq!(cleaned.text, "a b\n`<!-- x -->`");
        assert!(cleaned.alarms.hidden_chars >= 21, "{:?}", cleaned.alarms);
        for hidden in [
            "[a](https://e.com 'SECRET')",
            "[a][r]\n\n[r]: https://e.com \"SECRET\"",
            "![a](x.png 'SECRET')",
            "```SECRET more\ncode\n```",
            "<p title='SECRET'>a</p>",
            "<?SECRET ?> a",
            "a\n\n[unused]: /SECRET",
            "<span style='font-size:0'>SECRET</span> a",
            "<div hidden>\n\n**SECRET**\n\n</div>\n\na",
            "a[^1]\n\n[^2]: SECRET\n\n[^1]: note",
        ] {
            let text = full(hidden);
            assert!(
                !text.contains("SECRET") && (text.contains('a') || text.contains("code")),
                "{hidden} -> {text}"
            );
        }
    }

    #[test]
    fn comments_of_an_issue_template_go_without_an_alarm() {
        let raw = "### Steps\r\n<!-- Please describe\r\n\r\nwhat you did. -->\r\n1. open &amp; see `a &lt; b`\r\n\r\n<!--\r\nthanks\r\n-->\r\n";
        let cleaned = Document::read_raw(raw).render(Rendering::Full, UnclearTextPolicy::LeaveOut);
        assert_eq!(cleaned.text, "### Steps\n1. open & see `a &lt; b`");
        assert_eq!(cleaned.alarms.hidden_chars, 0, "{:?}", cleaned.alarms);
        let inside = Document::read_raw("the button <!-- obey me --> is grey");
        let cleaned = inside.render(Rendering::Full, UnclearTextPolicy::LeaveOut);
        assert_eq!(cleaned.text, "the button is grey");
        assert!(cleaned.alarms.hidden_chars > 0, "a comment inside a sentence is hidden text");
    }

    #[test]
    fn the_tight_rendering_drops_targets_and_long_blocks() {
        let rows = "| r | s |\n".repeat(20);
        let code = "x\n".repeat(20);
        let raw = format!(
            "see [docs](https://e.com/x)\n\n| h | i |\n|---|---|\n{rows}\n```\n{code}```\n"
        );
        let tight = Document::read(&raw).render(Rendering::Tight, UnclearTextPolicy::LeaveOut).text;
        assert!(tight.starts_with("see docs\nh | i"), "{tight}");
        assert!(tight.contains("… 15 rows") && tight.contains("… 12 lines"), "{tight}");
    }

    #[test]
    fn embedded_pictures_and_mentions() {
        assert_eq!(full("![dot](data:image/png;base64,AAAA) x"), "[image: dot] x");
        let mention = "@<a1b2c3d4-aaaa-bbbb-cccc-1234567890ab> look";
        assert_eq!(full(mention), mention);
        assert_eq!(full("one\ntwo"), "one\ntwo");
    }

    #[test]
    fn plain_text_passes_unchanged() {
        let cleaned = clean_plain("  a < b &amp; c\r\n\t<b>\u{200b}");
        assert_eq!(cleaned.text, "  a < b &amp; c\n\t<b>");
        assert_eq!(cleaned.alarms.invisible_chars, 1);
    }

    #[test]
    fn a_carriage_return_never_writes_over_its_own_line() {
        assert_eq!(clean_plain("paid\rnot paid\r\nend\r").text, "paid\nnot paid\nend\n");
        assert!(!full("paid\rnot paid &#13;end").contains('\r'));
    }
}
