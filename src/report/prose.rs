//! The prose of a finding as HTML: code, lists, emphasis and line breaks. Pure.
//!
//! Every element is one of a few that this module builds, and none has an attribute from the text.

use minijinja::Value;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd, html};

use crate::model::{mask, unmask};

/// Escaped; a template writes it as it is. A single paragraph is only its content.
pub fn prose(text: &str) -> Value {
    let masked = mask(text);
    let mut events: Vec<Event<'_>> = Parser::new(&masked).filter_map(own).collect();
    let paragraphs = events.iter().filter(|event| **event == Event::Start(Tag::Paragraph)).count();
    let is_single = paragraphs == 1
        && events.first() == Some(&Event::Start(Tag::Paragraph))
        && events.last() == Some(&Event::End(TagEnd::Paragraph));
    if is_single {
        events.pop();
        events.remove(0);
    }
    let mut out = String::with_capacity(text.len());
    html::push_html(&mut out, events.into_iter());
    Value::from_safe_string(out)
}

/// The event as it is shown; links, images and HTML are masked, so their source is read as text.
fn own(event: Event<'_>) -> Option<Event<'_>> {
    Some(match event {
        Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
            Event::Text(unmask(&text).into())
        }
        Event::Code(text) => Event::Code(unmask(&text).into()),
        Event::SoftBreak | Event::HardBreak => Event::HardBreak,
        Event::Rule => Event::Rule,
        Event::Start(tag) => Event::Start(match tag {
            Tag::Paragraph | Tag::Heading { .. } => Tag::Paragraph,
            // The language would become an attribute.
            Tag::CodeBlock(_) => Tag::CodeBlock(CodeBlockKind::Indented),
            Tag::BlockQuote(_) => Tag::BlockQuote(None),
            Tag::List(_) | Tag::Item | Tag::Emphasis | Tag::Strong => tag,
            _ => return None,
        }),
        Event::End(tag) => Event::End(match tag {
            TagEnd::Paragraph | TagEnd::Heading(_) => TagEnd::Paragraph,
            TagEnd::BlockQuote(_) => TagEnd::BlockQuote(None),
            TagEnd::CodeBlock
            | TagEnd::List(_)
            | TagEnd::Item
            | TagEnd::Emphasis
            | TagEnd::Strong => tag,
            _ => return None,
        }),
        _ => return None,
    })
}
