//! Names of items as people write them. Keys in the state have the tracker's internal number
//! (`jira/10004`); every text and every argument has the name (`PARCEL-4`).

use std::collections::HashMap;

use serde_json::Value;

use super::lines::short_key;
use crate::model::{ItemKey, name_in};
use crate::store::{Store, StoreError};

/// Only items whose name is not their number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// By the key as it is stored.
    by_key: HashMap<String, String>,
    /// By the key as it is printed: `jira#10004`.
    by_short: HashMap<String, String>,
}

impl Names {
    pub async fn read(store: &Store) -> Result<Self, StoreError> {
        Ok(Self::of(store.items().addresses().await?))
    }

    pub fn of(addresses: Vec<(ItemKey, String)>) -> Self {
        let mut names = Self::default();
        for (key, url) in addresses {
            if let Some(name) = name_in(&url) {
                names.by_short.insert(short_key(&key), name.clone());
                names.by_key.insert(key.to_string(), name);
            }
        }
        names
    }

    pub fn name(&self, key: &ItemKey) -> String {
        self.by_key.get(key.as_str()).cloned().unwrap_or_else(|| short_key(key))
    }

    /// The key of an item with this name, in any case.
    pub fn key(&self, name: &str) -> Option<ItemKey> {
        let has_name = |(_, known): &(&String, &String)| known.eq_ignore_ascii_case(name);
        let found = self.by_key.iter().find(has_name);
        found.map(|(key, _)| ItemKey::from_stored(key.clone()))
    }

    /// A text with names in place of printed keys.
    pub fn in_text(&self, text: String) -> String {
        if self.by_short.is_empty() || !text.contains('#') {
            return text;
        }
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '#');
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(start) = rest.find(is_part) {
            let (before, word) = rest.split_at(start);
            let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
            let (word, after) = word.split_at(end);
            out.push_str(before);
            let bare = word.trim_end_matches('.');
            match self.by_short.get(bare) {
                Some(name) => {
                    out.push_str(name);
                    out.push_str(&word[bare.len()..]);
                }
                None => out.push_str(word),
            }
            rest = after;
        }
        out.push_str(rest);
        out
    }

    /// Adds `name` to every object that has the key of an item.
    pub fn add_to(&self, value: &mut Value) {
        if self.by_key.is_empty() {
            return;
        }
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| self.add_to(value)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|value| self.add_to(value));
                let key = ["key", "item"].iter().find_map(|field| fields.get(*field)?.as_str());
                if let Some(name) = key.and_then(|key| self.by_key.get(key)) {
                    fields.entry("name").or_insert_with(|| name.as_str().into());
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ItemId;

    fn names() -> Names {
        let jira =
            |id, name: &str| (ItemKey::new("jira", ItemId(id)), format!("https://x/browse/{name}"));
        Names::of(vec![jira(10_004, "PARCEL-4"), jira(1000, "PARCEL-40")])
    }

    #[test]
    fn printed_keys_become_names() {
        let text = "jira#10004 is like jira#1000, not jira#100 (jira#10004).".to_owned();
        let told = names().in_text(text);
        assert_eq!(told, "PARCEL-4 is like PARCEL-40, not jira#100 (PARCEL-4).");
        assert_eq!(names().key("parcel-4"), Some(ItemKey::new("jira", ItemId(10_004))));
        assert_eq!(names().key("PARCEL-5"), None);
    }

    #[test]
    fn objects_with_a_key_get_the_name() {
        let mut value = serde_json::json!([{ "key": "jira/1000" }, { "item": "ado/1", "x": [{ "item": "jira/10004" }] }]);
        names().add_to(&mut value);
        assert_eq!(value[0]["name"], "PARCEL-40");
        assert_eq!(value[1]["x"][0]["name"], "PARCEL-4");
        assert!(value[1].get("name").is_none());
    }
}
