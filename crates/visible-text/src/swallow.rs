//! Tags in Markdown that nobody closes, such as a `<script>` that the text only mentions: a browser takes
//! all text after one for its content and shows none of it. That text is left out with a mark, not in silence.

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
    markdown: &str,
    words: &Cell<usize>,
) -> impl Iterator<Item = Event<'a>> {
    let unclosed = unclosed(markdown);
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
fn unclosed(markdown: &str) -> Vec<&'static str> {
    if !markdown.contains('<') {
        return Vec::new();
    }
    let lower = markdown.to_ascii_lowercase();
    NAMES.into_iter().filter(|name| !lower.contains(&format!("</{name}"))).collect()
}

fn begins_with(html: &str, names: &[&str]) -> bool {
    let Some(rest) = html.trim_start().strip_prefix('<') else { return false };
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    names.iter().any(|name| rest[..end].eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::{Options, clean_text};

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
