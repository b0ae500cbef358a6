//! The tracker's JSON as types: tolerant of what is missing, ignorant of what is not needed.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::fields::{FieldValue, Fields};

/// Answer of a query.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryResult {
    /// The instant the rows were true at, by the server's clock.
    pub as_of: Option<String>,
    /// Rows of a flat query.
    pub work_items: Option<Vec<Reference>>,
    /// Rows of a tree or one-hop query.
    pub work_item_relations: Option<Vec<Link>>,
}

/// A row of a flat query.
#[derive(Debug, Deserialize)]
pub struct Reference {
    /// The item's number.
    pub id: i64,
}

/// A row of a link query; roots have no source.
#[derive(Debug, Deserialize)]
pub struct Link {
    /// The end above.
    pub source: Option<Reference>,
    /// The end below.
    pub target: Option<Reference>,
}

impl QueryResult {
    /// Ids of all rows in their order, each once.
    pub fn ids(&self) -> Vec<i64> {
        let flat = self.work_items.iter().flatten().map(|row| row.id);
        let linked = self.work_item_relations.iter().flatten();
        let linked = linked.flat_map(|link| [&link.source, &link.target]).flatten();
        let mut seen = std::collections::HashSet::new();
        flat.chain(linked.map(|end| end.id)).filter(|id| seen.insert(*id)).collect()
    }
}

/// A list answer; what cannot be read under `errorPolicy: omit` is `null`.
#[derive(Debug, Deserialize)]
pub struct Listing<T> {
    /// The entries.
    pub value: Vec<Option<T>>,
}

/// A work item. Every field may be missing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The number; nothing can be done without it.
    pub id: i64,
    /// Revision counter.
    pub rev: Option<i64>,
    /// Values by reference name; a field without value is absent.
    pub fields: Option<Fields>,
    /// Which long texts are Markdown; empty or missing: none.
    pub multiline_fields_format: Option<HashMap<String, String>>,
}

/// Answer of the comments resource, new and old shape.
#[derive(Debug, Deserialize)]
pub struct Comments {
    /// The entries.
    #[serde(default, alias = "value")]
    pub comments: Vec<CommentEntry>,
}

/// One comment, new and old shape.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommentEntry {
    /// The text as it was written.
    #[serde(default)]
    pub text: String,
    /// `markdown` or `html`; missing on older servers, which only know HTML.
    pub format: Option<String>,
    /// Who.
    #[serde(alias = "revisedBy")]
    pub created_by: Option<FieldValue>,
    /// When.
    #[serde(alias = "revisedDate")]
    pub created_date: Option<String>,
    /// Deleted ones keep their place.
    #[serde(default)]
    pub is_deleted: bool,
}

/// A field the collection has.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// Such as `System.Title`.
    pub reference_name: String,
    /// `html`, `plainText`, `string`, …
    #[serde(default, rename = "type")]
    pub kind: String,
}

/// A saved query, for its id.
#[derive(Debug, Deserialize)]
pub struct SavedQuery {
    /// The id.
    pub id: String,
    /// A folder is no query.
    #[serde(default, rename = "isFolder")]
    pub is_folder: bool,
}

/// One entry of the server's list of resources.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Location {
    /// `wit`.
    pub area: String,
    /// Such as `workItemsBatch`.
    pub resource_name: String,
    /// Its own version, the `N` of `-preview.N`.
    pub resource_version: u32,
    /// Highest version served.
    pub max_version: String,
    /// Highest version that is not a preview; `0.0`: none.
    pub released_version: String,
}

/// One batch of the revision stream. The key is `values`, unlike everywhere else.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Revisions {
    /// The revisions.
    pub values: Vec<Item>,
    /// Where to go on; opaque.
    pub continuation_token: Option<String>,
    /// Present even on the last batch, so never a reason to go on.
    pub next_link: Option<String>,
    /// The stream ends here for now.
    #[serde(default)]
    pub is_last_batch: bool,
}

/// Reads JSON. A text with half of a surrogate pair, which no Rust string can hold, or with bytes
/// that are not UTF-8 is mended with replacement characters instead of being given up.
pub fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    // Looking through the whole once is quicker than through each text on its own.
    let text = String::from_utf8_lossy(body);
    serde_json::from_str(&text)
        .or_else(|first| serde_json::from_str(&mend(&text)).map_err(|_| first.to_string()))
}

/// Replaces `\uD800`…`\uDFFF` escapes that are not part of a pair.
fn mend(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match surrogate(rest) {
            None => rest.chars().take(2).map(char::len_utf8).sum(),
            Some(Half::High) if matches!(rest.get(6..).and_then(surrogate), Some(Half::Low)) => 12,
            Some(_) => {
                out.push('\u{FFFD}');
                rest = &rest[6..];
                continue;
            }
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

enum Half {
    High,
    Low,
}

/// Which half of a pair the escape at the beginning of `text` is, if it is one.
fn surrogate(text: &str) -> Option<Half> {
    let hex = text.strip_prefix("\\u")?.get(..4)?;
    match u32::from_str_radix(hex, 16).ok()? {
        0xD800..=0xDBFF => Some(Half::High),
        0xDC00..=0xDFFF => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn half_a_surrogate_pair_costs_one_character_and_not_the_batch() {
        let body =
            br#"{"a":"x\ud83dy","b":"\udc00","c":"\ud83d\ude00","d":"\\ud83d","e":"\u0000"}"#;
        let map: HashMap<String, String> = from_json(body).unwrap();
        assert_eq!(map["a"], "x\u{FFFD}y");
        assert_eq!(map["b"], "\u{FFFD}");
        assert_eq!(map["c"], "😀");
        assert_eq!(map["d"], "\\ud83d");
        assert_eq!(map["e"], "\0");
        let body = b"\xEF\xBB\xBF{\"a\":\"\xFFz\"}";
        let map: HashMap<String, String> = from_json(body).unwrap();
        assert_eq!(map["a"], "\u{FFFD}z");
    }

    #[test]
    fn truncated_escapes_are_an_error_and_not_a_panic() {
        for body in
            ["\"\\", "\"\\u", "\"\\ud8", "\"\\ud83d", "\"\\ud83d\\", "\"é\\ud83d\\u00\"", "{"]
        {
            assert!(from_json::<String>(body.as_bytes()).is_err(), "{body}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_and_no_bytes_make_it_panic(
            text in r#"(\\u[dD][89abcdefABCDEF][0-9a-f]{2}|\\|"|[a-z😀é]|\\u00|\\n){0,40}"#,
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..60),
        ) {
            let quoted = format!("\"{text}\"");
            let _either = from_json::<Value>(quoted.as_bytes());
            let _either = from_json::<Value>(&bytes);
            let mended = mend(&quoted);
            proptest::prop_assert_eq!(mend(&mended), mended.clone());
        }

        #[test]
        fn whole_texts_come_through_unchanged(text in "\\PC*") {
            let json = serde_json::to_vec(&text).unwrap();
            proptest::prop_assert_eq!(from_json::<String>(&json).unwrap(), text.clone());
            let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            let mended = mend(&format!("\"{escaped}\""));
            proptest::prop_assert_eq!(serde_json::from_str::<String>(&mended).unwrap(), text);
        }
    }

    #[test]
    fn ids_of_link_queries_come_once_each() {
        let body = br#"{"queryType":"tree","asOf":"2026-01-01T00:00:00Z","workItemRelations":[
            {"target":{"id":7}},{"rel":"x","source":{"id":7},"target":{"id":9}},
            {"rel":null,"source":null,"target":{"id":9}}]}"#;
        let result: QueryResult = from_json(body).unwrap();
        assert_eq!(result.ids(), [7, 9]);
    }
}
