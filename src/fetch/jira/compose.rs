//! Converts a finding from Markdown to a Jira comment: a document on Cloud, wiki markup on Data
//! Center (pure). Names and brackets in it notify nobody.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use serde_json::{Value, json};

/// Appended to a finding that was too long for a comment.
const SHORTENED: &str = "\n\n[… shortened; the whole finding is in heartbeat's report]";

/// The document of a comment, with its mark as the last line.
pub fn adf(markdown: &str, mark: &str, longest: usize) -> Value {
    fitting(markdown, longest, |text| {
        let mut document = DocumentWriter::of(text);
        let mark = json!({ "type": "text", "text": mark, "marks": [{ "type": "em" }] });
        document.push(json!({ "type": "paragraph", "content": [mark] }));
        json!({ "type": "doc", "version": 1, "content": document })
    })
}

/// The wiki markup of a comment, with its mark as the last line.
pub fn wiki(markdown: &str, mark: &str, longest: usize) -> String {
    let text = fitting(markdown, longest, |text| {
        Value::from(format!("{}\n\n_{mark}_", Wiki::of(text).trim_end()))
    });
    text.as_str().unwrap_or_default().to_owned()
}

/// Cuts the text until the resulting comment is short enough.
fn fitting(markdown: &str, longest: usize, compose: impl Fn(&str) -> Value) -> Value {
    let mut length = markdown.len();
    let mut text = markdown.to_owned();
    loop {
        let made = compose(&text);
        if made.to_string().chars().count() <= longest || length < 16 {
            return made;
        }
        length = length / 4 * 3;
        while !markdown.is_char_boundary(length) {
            length -= 1;
        }
        text = format!("{}{SHORTENED}", &markdown[..length]);
    }
}

fn events(markdown: &str) -> Parser<'_> {
    Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH)
}

/// An open element of a document.
struct OpenElement {
    /// Empty: its content belongs to the surrounding element.
    kind: &'static str,
    attrs: Value,
    content: Vec<Value>,
    /// Opened by text where only elements are allowed.
    implied: bool,
}

/// A document under construction.
struct DocumentWriter {
    open: Vec<OpenElement>,
    marks: Vec<Value>,
}

impl DocumentWriter {
    fn of(markdown: &str) -> Vec<Value> {
        let root =
            OpenElement { kind: "doc", attrs: Value::Null, content: Vec::new(), implied: false };
        let mut document = Self { open: vec![root], marks: Vec::new() };
        for event in events(markdown) {
            document.take(event);
        }
        while document.open.len() > 1 {
            document.close();
        }
        document.open.pop().map(|root| root.content).unwrap_or_default()
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => {
                let link = self.marks.iter().find(|mark| mark["type"] == "link").cloned();
                let marks: Vec<Value> =
                    link.into_iter().chain([json!({ "type": "code" })]).collect();
                self.inline(json!({ "type": "text", "text": &*text, "marks": marks }));
            }
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.inline(json!({ "type": "hardBreak" })),
            Event::Rule if self.is_top() => {
                self.close_implied();
                self.add(json!({ "type": "rule" }));
            }
            _ => {}
        }
    }

    fn is_top(&self) -> bool {
        self.open.iter().all(|open| matches!(open.kind, "doc") || open.implied)
    }

    fn start(&mut self, tag: Tag<'_>) {
        let mark = match &tag {
            Tag::Strong => json!({ "type": "strong" }),
            Tag::Emphasis => json!({ "type": "em" }),
            Tag::Strikethrough => json!({ "type": "strike" }),
            Tag::Link { dest_url, .. } => {
                json!({ "type": "link", "attrs": { "href": &**dest_url } })
            }
            _ => Value::Null,
        };
        if !mark.is_null() {
            return self.marks.push(mark);
        }
        self.close_implied();
        let is_top = self.is_top();
        let (kind, attrs) = match tag {
            Tag::Heading { level, .. } if is_top => ("heading", json!({ "level": number(level) })),
            Tag::Paragraph | Tag::Heading { .. } => ("paragraph", Value::Null),
            Tag::BlockQuote(_) if is_top => ("blockquote", Value::Null),
            Tag::CodeBlock(kind) => ("codeBlock", json!({ "language": language(&kind) })),
            Tag::List(None) => ("bulletList", Value::Null),
            Tag::List(Some(first)) => ("orderedList", json!({ "order": first })),
            Tag::Item => ("listItem", Value::Null),
            Tag::Table(_) if is_top => ("table", Value::Null),
            Tag::TableHead | Tag::TableRow if self.in_table() => ("tableRow", Value::Null),
            Tag::TableCell if self.in_table() => ("tableCell", json!({})),
            _ => ("", Value::Null),
        };
        self.open.push(OpenElement { kind, attrs, content: Vec::new(), implied: false });
    }

    fn in_table(&self) -> bool {
        self.open.iter().any(|open| open.kind == "table")
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough | TagEnd::Link => {
                self.marks.pop();
            }
            _ => {
                self.close_implied();
                self.close();
            }
        }
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let in_code = self.open.last().is_some_and(|open| open.kind == "codeBlock");
        let mut node = json!({ "type": "text", "text": text });
        if !in_code && !self.marks.is_empty() {
            node["marks"] = json!(self.marks);
        }
        self.inline(node);
    }

    /// Text must be in a paragraph; opens one if needed.
    fn inline(&mut self, node: Value) {
        let holds_words =
            |open: &OpenElement| matches!(open.kind, "paragraph" | "heading" | "codeBlock");
        if !self.open.last().is_some_and(holds_words) {
            let (kind, attrs, content) = ("paragraph", Value::Null, Vec::new());
            self.open.push(OpenElement { kind, attrs, content, implied: true });
        }
        self.add(node);
    }

    fn add(&mut self, node: Value) {
        if let Some(open) = self.open.last_mut() {
            open.content.push(node);
        }
    }

    fn close_implied(&mut self) {
        if self.open.last().is_some_and(|open| open.implied) {
            self.close();
        }
    }

    fn close(&mut self) {
        if self.open.len() < 2 {
            return;
        }
        let Some(OpenElement { kind, attrs, mut content, .. }) = self.open.pop() else { return };
        if kind.is_empty() {
            return content.into_iter().for_each(|node| self.add(node));
        }
        if matches!(kind, "listItem" | "tableCell") && content.is_empty() {
            content.push(json!({ "type": "paragraph", "content": [] }));
        }
        let mut node = json!({ "type": kind, "content": content });
        if !attrs.is_null() {
            node["attrs"] = attrs;
        }
        self.add(node);
    }
}

const fn number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

fn language(kind: &CodeBlockKind<'_>) -> String {
    let CodeBlockKind::Fenced(name) = kind else { return String::new() };
    name.chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '#' | '-')).collect()
}

/// Wiki markup under construction.
#[derive(Default)]
struct Wiki {
    out: String,
    /// Markers of the open lists.
    lists: String,
    code: Option<(String, String)>,
    links: Vec<String>,
}

impl Wiki {
    fn of(markdown: &str) -> String {
        let mut wiki = Self::default();
        for event in events(markdown) {
            wiki.take(event);
        }
        wiki.out
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => match &mut self.code
            {
                Some((_, code)) => code.push_str(&text),
                None => self.out.push_str(&escaped(&text)),
            },
            Event::Code(text) => self.out.push_str(&format!("{{{{{}}}}}", escaped(&text))),
            Event::SoftBreak => self.out.push(' '),
            Event::HardBreak => self.out.push_str("\\\\\n"),
            Event::Rule => self.out.push_str("\n----\n"),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.new_line();
                self.out.push_str(&format!("h{}. ", number(level)));
            }
            Tag::BlockQuote(_) => self.out.push_str("{quote}\n"),
            Tag::CodeBlock(kind) => self.code = Some((language(&kind), String::new())),
            Tag::List(first) => self.lists.push(if first.is_some() { '#' } else { '*' }),
            Tag::Item => {
                self.new_line();
                self.out.push_str(&format!("{} ", self.lists));
            }
            Tag::TableHead | Tag::TableRow => self.out.push('|'),
            Tag::Strong => self.out.push('*'),
            Tag::Emphasis => self.out.push('_'),
            Tag::Strikethrough => self.out.push('-'),
            Tag::Link { dest_url, .. } => {
                self.links.push(dest_url.replace([']', '|'], ""));
                self.out.push('[');
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph if self.lists.is_empty() => self.out.push_str("\n\n"),
            TagEnd::Heading(_) => self.out.push('\n'),
            TagEnd::BlockQuote(_) => self.out.push_str("{quote}\n\n"),
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.new_line();
                if self.lists.is_empty() {
                    self.out.push('\n');
                }
            }
            TagEnd::TableCell => self.out.push('|'),
            TagEnd::TableHead | TagEnd::TableRow | TagEnd::Table => self.new_line(),
            TagEnd::Strong => self.out.push('*'),
            TagEnd::Emphasis => self.out.push('_'),
            TagEnd::Strikethrough => self.out.push('-'),
            TagEnd::Link => {
                let address = self.links.pop().unwrap_or_default();
                self.out.push_str(&format!("|{address}]"));
            }
            _ => {}
        }
    }

    /// Escapes a code end marker inside the code.
    fn end_code(&mut self) {
        let Some((language, code)) = self.code.take() else { return };
        self.new_line();
        let (begin, end) = match code.contains("{code") {
            false if language.is_empty() => ("{code}".to_owned(), "{code}"),
            false => (format!("{{code:{language}}}"), "{code}"),
            true => ("{noformat}".to_owned(), "{noformat}"),
        };
        let code = if end == "{noformat}" { code.replace("{noformat", "{ noformat") } else { code };
        self.out.push_str(&format!("{begin}\n{}\n{end}\n", code.trim_end_matches('\n')));
    }

    fn new_line(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }
}

/// Escapes markup characters: `[~name]` would notify a user.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = None;
    for character in text.chars() {
        let is_sign = matches!(
            character,
            '{' | '}' | '[' | ']' | '|' | '*' | '_' | '^' | '~' | '+' | '!' | '\\'
        );
        // Hyphens within words and numbers are not markup.
        let is_stroke = character == '-' && before.is_none_or(char::is_whitespace);
        if is_sign || is_stroke {
            out.push('\\');
        }
        out.push(character);
        before = Some(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clean;
    use crate::fetch::write_back::is_ours;
    use crate::model::Format;

    const FINDING: &str = "## Likely cause\n\nThe route takes `events[0]` for granted, see \
        [docs](https://e.com/x) and @ann, [~bob].\n\n- first **bold**\n- second\n  1. inner\n\n\
        ```rust\nlet a = {code};\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted\n";
    const MARK: &str = "heartbeat ref 0123456789ab";

    fn shown(raw: &str, format: Format) -> String {
        clean::clean_text(raw, format, &clean::Options::default()).text
    }

    #[test]
    fn a_finding_reads_the_same_in_both_forms() {
        let document = adf(FINDING, MARK, 32_000).to_string();
        let (cloud, server) =
            (shown(&document, Format::Adf), shown(&wiki(FINDING, MARK, 32_000), Format::Wiki));
        for part in [
            "## Likely cause",
            "`events[0]` for granted, see [docs](https://e.com/x) and @ann, [~bob].",
            "- first bold",
            "  1. inner",
            "let a = {code};",
            "| 1 | 2 |",
            "> quoted",
        ] {
            assert!(cloud.contains(part), "{part} in {cloud}");
            assert!(server.contains(part), "{part} in {server}");
        }
        assert!(is_ours(&cloud) && is_ours(&server), "{cloud}\n{server}");
        assert!(!document.contains("mention"));
    }

    #[test]
    fn long_findings_are_shortened_and_keep_their_mark() {
        let long = "A line with *signs* and [brackets].\n\n".repeat(3_000);
        let document = adf(&long, MARK, 32_000).to_string();
        assert!(document.chars().count() <= 32_000, "{}", document.len());
        let text = wiki(&long, MARK, 32_000);
        assert!(
            text.chars().count() <= 32_000
                && text.contains("shortened")
                && text.ends_with(&format!("_{MARK}_"))
        );
        assert!(is_ours(&shown(&document, Format::Adf)));
    }

    proptest::proptest! {
        #[test]
        fn any_text_becomes_a_comment(text in "(\\PC|[\\n#>*`|\\[\\]-]){0,200}") {
            let document = adf(&text, MARK, 32_000);
            proptest::prop_assert_eq!(&document["type"], "doc");
            let end = format!("_{MARK}_");
            proptest::prop_assert!(wiki(&text, MARK, 32_000).ends_with(&end));
        }
    }
}
