//! Long texts, which the service returns as documents in one version of its API and as wiki markup
//! in the other.

use serde_json::{Value, json};

/// A text in both formats.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Text {
    /// Null if empty.
    pub adf: Value,
    pub wiki: String,
}

/// A part of an initial text.
#[derive(Debug, Clone, Copy)]
pub enum Block {
    Words(&'static str),
    Heading(&'static str),
    List(&'static [&'static str]),
    Code(&'static str, &'static str),
    Warning(&'static str),
    Table(&'static [&'static [&'static str]]),
    /// The person, and the text for them.
    Mention(&'static str, &'static str),
    Picture(&'static str),
}

impl Text {
    pub fn of(blocks: &[Block]) -> Self {
        if blocks.is_empty() {
            return Self::default();
        }
        let content: Vec<Value> = blocks.iter().map(Block::adf).collect();
        let wiki: Vec<String> = blocks.iter().map(Block::wiki).collect();
        Self { adf: document(content), wiki: wiki.join("\r\n\r\n") }
    }

    /// Converts wiki markup; each line becomes a block.
    pub fn from_wiki(text: &str) -> Self {
        let content = text.lines().map(paragraph).collect();
        Self { adf: document(content), wiki: text.to_owned() }
    }

    /// Converts a document to markup.
    pub fn from_adf(adf: &Value) -> Self {
        Self { adf: adf.clone(), wiki: words(adf) }
    }

    pub fn is_empty(&self) -> bool {
        self.adf.is_null() && self.wiki.is_empty()
    }

    /// In the format of this API version.
    pub fn shown(&self, version: u8) -> Value {
        match version {
            _ if self.is_empty() => Value::Null,
            3 => self.adf.clone(),
            _ => json!(self.wiki),
        }
    }
}

fn document(content: Vec<Value>) -> Value {
    json!({ "type": "doc", "version": 1, "content": content })
}

fn text(words: &str) -> Value {
    json!({ "type": "text", "text": words })
}

fn paragraph(words: &str) -> Value {
    let content: Vec<Value> = if words.is_empty() { vec![] } else { vec![text(words)] };
    json!({ "type": "paragraph", "content": content })
}

/// The text of a document, one line per block, limited in depth.
fn words(adf: &Value) -> String {
    let mut out = String::new();
    let mut left = vec![adf];
    while let Some(node) = left.pop() {
        if let Some(words) = node["text"].as_str() {
            out.push_str(words);
        }
        if matches!(node["type"].as_str(), Some("paragraph" | "heading" | "codeBlock" | "listItem"))
        {
            out.push('\n');
        }
        left.extend(node["content"].as_array().into_iter().flatten().rev());
    }
    out.trim().to_owned()
}

impl Block {
    fn adf(&self) -> Value {
        match self {
            Self::Words(words) => paragraph(words),
            Self::Heading(words) => {
                json!({ "type": "heading", "attrs": { "level": 3 }, "content": [text(words)] })
            }
            Self::List(items) => {
                let item =
                    |words: &&str| json!({ "type": "listItem", "content": [paragraph(words)] });
                let items: Vec<Value> = items.iter().map(item).collect();
                json!({ "type": "orderedList", "attrs": { "order": 1 }, "content": items })
            }
            Self::Code(language, code) => json!({
                "type": "codeBlock", "attrs": { "language": language }, "content": [text(code)] }),
            Self::Warning(words) => json!({
                "type": "panel", "attrs": { "panelType": "warning" }, "content": [paragraph(words)] }),
            Self::Table(rows) => {
                let cell = |(kind, words): (&str, &&str)| {
                    json!({
                    "type": kind, "attrs": {}, "content": [paragraph(words)] })
                };
                let row = |(at, cells): (usize, &&[&str])| {
                    let kind = if at == 0 { "tableHeader" } else { "tableCell" };
                    let cells: Vec<Value> = cells.iter().map(|words| cell((kind, words))).collect();
                    json!({ "type": "tableRow", "content": cells })
                };
                let rows: Vec<Value> = rows.iter().enumerate().map(row).collect();
                json!({ "type": "table", "attrs": { "layout": "default" }, "content": rows })
            }
            Self::Mention(name, words) => json!({ "type": "paragraph", "content": [
                { "type": "mention", "attrs": { "id": "5b10ac8d82e05b22cc7d4ef5", "text": format!("@{name}") } },
                text(&format!(" {words}")) ] }),
            Self::Picture(name) => json!({ "type": "mediaSingle", "attrs": { "layout": "center" },
                "content": [{ "type": "media", "attrs": { "type": "file", "alt": name,
                    "id": "9f1f2d1c-2222-4222-8333-444455556666", "collection": "" } }] }),
        }
    }

    fn wiki(&self) -> String {
        match self {
            Self::Words(words) => (*words).to_owned(),
            Self::Heading(words) => format!("h3. {words}"),
            Self::List(items) => {
                items.iter().map(|words| format!("# {words}")).collect::<Vec<_>>().join("\r\n")
            }
            Self::Code(language, code) => {
                format!("{{code:{language}}}\r\n{}\r\n{{code}}", code.replace('\n', "\r\n"))
            }
            Self::Warning(words) => format!("{{panel:bgColor=#ffebe6}}\r\n{words}\r\n{{panel}}"),
            Self::Table(rows) => {
                let row = |(at, cells): (usize, &&[&str])| {
                    let bar = if at == 0 { "||" } else { "|" };
                    format!("{bar}{}{bar}", cells.join(bar))
                };
                rows.iter().enumerate().map(row).collect::<Vec<_>>().join("\r\n")
            }
            Self::Mention(name, words) => {
                format!("[~{}] {words}", name.to_lowercase().replace(' ', "."))
            }
            Self::Picture(name) => format!("!{name}|thumbnail!"),
        }
    }
}
