//! Tags in Markdown that take the text after them for their content and show none of it, such as a
//! `<style>` in a page that a reporter pasted.
//!
//! GitHub shows these tags as text (the "disallowed raw HTML" of its Markdown), and so all that stands
//! after them. Azure DevOps does not: text after one that nobody closes is left out with a mark, not
//! in silence.

use std::cell::Cell;

use pulldown_cmark::{CowStr, Event};

use super::markdown::count_words;

/// Written where such text begins.
const MARK: &str = " [doubtful text left out: it follows a tag that is not closed] ";

/// Elements that contain everything up to their end tag, and show none of it.
const NAMES: [&str; 7] = ["script", "style", "title", "iframe", "noembed", "noframes", "template"];

/// Puts a mark before the first of these tags without an end tag, and counts the words after it.
pub(super) fn marked<'a>(
    events: impl Iterator<Item = Event<'a>>,
    unclosed: Vec<&'static str>,
    words: &Cell<usize>,
) -> impl Iterator<Item = Event<'a>> {
    let mut is_swallowed = false;
    events.flat_map(move |event| {
        let begins = match &event {
            Event::Html(html) | Event::InlineHtml(html) if !is_swallowed => {
                begins_with(html, &unclosed)
            }
            Event::Text(text) | Event::Code(text) | Event::Html(text) if is_swallowed => {
                words.set(words.get() + count_words(text));
                false
            }
            _ => false,
        };
        is_swallowed |= begins;
        let mark = begins.then_some(Event::Text(CowStr::Borrowed(MARK)));
        mark.into_iter().chain([event])
    })
}

/// Those of the names that have no end tag in the text.
pub(super) fn unclosed(markdown: &str) -> Vec<&'static str> {
    if !markdown.contains('<') {
        return Vec::new();
    }
    let lower = markdown.to_ascii_lowercase();
    NAMES.into_iter().filter(|name| !lower.contains(&format!("</{name}"))).collect()
}

/// HTML with those tags as text that GitHub shows as text. What stands between the two tags of a
/// script or a style sheet is left out all the same: nobody wants to read it.
pub(super) fn shown<'a>(html: CowStr<'a>, unclosed: &[&str]) -> CowStr<'a> {
    const SHOWN: [&str; 7] =
        ["title", "textarea", "xmp", "iframe", "noembed", "noframes", "plaintext"];
    let is_shown = |rest: &str| {
        let name = rest.strip_prefix("</").or(rest.strip_prefix('<')).unwrap_or(rest);
        begins_name(name, &SHOWN) || begins_name(name, unclosed)
    };
    // A comment may contain anything.
    if html.trim_start().starts_with("<!--")
        || !html.match_indices('<').any(|(at, _)| is_shown(&html[at..]))
    {
        return html;
    }
    let mut text = String::with_capacity(html.len() + 16);
    let mut rest = &*html;
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        text.push_str(if is_shown(&rest[at..]) { "&lt;" } else { "<" });
        rest = &rest[at + 1..];
    }
    text.push_str(rest);
    text.into()
}

fn begins_with(html: &str, names: &[&str]) -> bool {
    html.trim_start().strip_prefix('<').is_some_and(|rest| begins_name(rest, names))
}

fn begins_name(rest: &str, names: &[&str]) -> bool {
    names.iter().any(|name| {
        let ends = rest.as_bytes().get(name.len()).is_none_or(|byte| !byte.is_ascii_alphanumeric());
        ends && rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
    })
}

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::{Options, clean_text};

    #[test]
    fn a_page_pasted_into_a_report_does_not_take_the_report_with_it() {
        let clean = |text: &str| clean_text(text, Format::RawMarkdown, &Options::default());
        for text in [
            "I get '<html><style>body { margin: 0 }\n\nWhat could be wrong?",
            "<style>\nbody { margin: 0 }\n\nWhat could be wrong?",
            "<p><Title >body { margin: 0 }</p>\n\nWhat could be wrong?",
        ] {
            let cleaned = clean(text);
            assert!(cleaned.text.contains("What could be wrong?"), "{}", cleaned.text);
            assert!(cleaned.text.contains("body { margin: 0 }"), "{}", cleaned.text);
            assert!(!cleaned.alarms.any(), "{text}");
        }
        let closed = clean("a <script>var b;</script><title>seen</title> c");
        assert!(!closed.text.contains("var b"), "{}", closed.text);
        assert!(closed.text.contains("seen"), "{}", closed.text);
        assert_eq!(clean("a\n\n<!-- <style> -->\n\n<styled>b</styled>").text, "a\n\nb");
    }

    #[test]
    fn text_after_a_mentioned_tag_is_left_out_with_a_mark() {
        let clean = |text: &str| clean_text(text, Format::Markdown, &Options::default());
        for text in ["The &lt;script&gt; tag fails", "A &lt;title&gt; is lost\n\nmore"] {
            let cleaned = clean(text);
            assert!(cleaned.text.contains("[doubtful text left out"), "{}", cleaned.text);
            assert!(cleaned.alarms.hidden_chars > 0, "{text}");
        }
        let closed = clean("A &lt;script&gt;1&lt;/script&gt; tag works");
        assert!(!closed.text.contains("left out"), "{}", closed.text);
        assert!(closed.text.contains("tag works"), "{}", closed.text);
    }
}
