//! The corpus of hostile work items.

use std::path::Path;

use heartbeat::model::CleanItem;
use serde_json::Value;

use crate::agent_items::{fence, item};

/// One hostile item, with what a fooled model might return.
#[derive(Debug, Clone)]
pub struct Attack {
    /// Name in the corpus.
    pub name: String,
    /// With the real nonce in it.
    pub text: String,
    /// Not cleaned, which is the worst case.
    pub item: CleanItem,
    /// A forged triage answer.
    pub answer: Option<Value>,
    /// Paths of a forged finding.
    pub finding_files: Option<Vec<String>>,
    /// The summary of a forged finding.
    pub finding_summary: Option<String>,
}

impl Attack {
    pub fn id(&self) -> i64 {
        self.item.facts.id.0
    }
}

/// The whole corpus, numbered from 5001.
pub fn attacks() -> Vec<Attack> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/injection/items.json");
    let nonce = fence().tag().replace("data-", "");
    let corpus = std::fs::read_to_string(path).expect("the corpus").replace("{{NONCE}}", &nonce);
    let corpus: Vec<Value> = serde_json::from_str(&corpus).expect("a list");
    corpus.iter().zip(5001..).map(|(entry, id)| attack(entry, id)).collect()
}

fn attack(entry: &Value, id: i64) -> Attack {
    let text = |key: &str| entry[key].as_str().map(str::to_owned);
    let texts = |key: &str| {
        let list = entry[key].as_array()?;
        Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
    };
    let body = text("text").expect("every attack has a text");
    let mut item = item(id, &text("title").expect("and a title"), &body);
    item.facts.tags = texts("tags").unwrap_or_default();
    item.facts.area_path = text("area").or(item.facts.area_path);
    item.facts.severity = text("severity").or(item.facts.severity);
    item.facts.item_type = text("item_type").unwrap_or(item.facts.item_type);
    let answer = entry.get("answer").map(|answer| {
        let answer = answer.to_string().replace("\"SELF\"", &id.to_string());
        serde_json::from_str(&answer).expect("still JSON")
    });
    Attack {
        name: text("name").expect("and a name"),
        text: body,
        item,
        answer,
        finding_files: texts("finding_files"),
        finding_summary: text("finding_summary"),
    }
}
