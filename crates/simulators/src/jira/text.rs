//! Long texts, which the service returns as documents in one version of its API and as wiki markup
//! in the other.

use serde_json::{Value, json};

/// A text in both formats.
#[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
pub struct JiraText {
    /// Null if empty.
    pub adf: Value,
    pub wiki: String,
}

impl JiraText {
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
