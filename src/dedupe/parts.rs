//! The parts of an item as read by triage, to tell later what changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::CleanItem;

/// Longer values are stored as hashes.
const MAX_VALUE_LEN: usize = 120;
const COMMENTS: &str = "comments";

/// Short values as they are, long texts as hashes, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemParts {
    values: BTreeMap<String, String>,
    texts: BTreeMap<String, String>,
}

impl ItemParts {
    pub fn of(clean: &CleanItem) -> Self {
        let item = &clean.facts;
        let values = [
            ("title", Some(item.title.clone())),
            ("type", Some(item.item_type.clone())),
            ("state", Some(item.state.clone())),
            ("priority", item.priority.map(|priority| priority.to_string())),
            ("severity", item.severity.clone()),
            ("area", item.area_path.clone()),
            ("parent", item.parent.map(|parent| parent.to_string())),
        ];
        let values = values.into_iter().filter_map(|(name, value)| {
            Some((name.to_owned(), value?.chars().take(MAX_VALUE_LEN).collect()))
        });
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        for field in &clean.fields {
            let name = if field.is_comment() { COMMENTS } else { field.label() };
            let text = texts.entry(name.to_owned()).or_default();
            text.push_str(&short_hash(&field.full));
            text.push(' ');
        }
        Self { values: values.collect(), texts }
    }

    /// Differences from `earlier`, one short phrase each.
    pub fn changes_since(&self, earlier: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        for name in names(&self.values, &earlier.values) {
            let (now, before) = (self.values.get(name), earlier.values.get(name));
            match before {
                before if before == now => {}
                Some(before) => changes.push(format!("{name} was \"{before}\"")),
                None => changes.push(format!("{name} was not set")),
            }
        }
        for name in names(&self.texts, &earlier.texts) {
            let (now, before) = (self.texts.get(name), earlier.texts.get(name));
            changes.extend(match (now, before) {
                (now, before) if now == before => None,
                (now, before) if name == COMMENTS => new_comments(now, before),
                (Some(_), Some(_)) => Some(format!("{name} edited")),
                (Some(_), None) => Some(format!("{name} added")),
                (None, _) => Some(format!("{name} removed")),
            });
        }
        changes
    }
}

fn new_comments(now: Option<&String>, before: Option<&String>) -> Option<String> {
    let known: Vec<&str> =
        before.map(|known| known.split_whitespace().collect()).unwrap_or_default();
    let new =
        now.into_iter().flat_map(|now| now.split_whitespace()).filter(|one| !known.contains(one));
    match new.count() {
        0 => None,
        1 => Some("1 new comment".to_owned()),
        count => Some(format!("{count} new comments")),
    }
}

fn names<'a>(
    a: &'a BTreeMap<String, String>,
    b: &'a BTreeMap<String, String>,
) -> std::collections::BTreeSet<&'a str> {
    a.keys().chain(b.keys()).map(String::as_str).collect()
}

fn short_hash(text: &str) -> String {
    Sha256::digest(text).iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CleanField, ItemId};

    fn item() -> CleanItem {
        let mut item = super::super::fingerprint::tests::item(1, "");
        item.facts.title = "Total is wrong".to_owned();
        item.fields = vec![text("Microsoft.VSTS.TCM.ReproSteps", "open it")];
        item
    }

    fn text(name: &str, text: &str) -> CleanField {
        CleanField { name: name.to_owned(), full: text.to_owned(), tight: String::new() }
    }

    #[test]
    fn what_changed_is_said_in_short_phrases() {
        let before = ItemParts::of(&item());
        assert_eq!(before.changes_since(&before), Vec::<String>::new());
        let mut now = item();
        now.facts.title = "Total is wrong by a cent".to_owned();
        now.facts.parent = Some(ItemId(7));
        now.fields = vec![
            text("Microsoft.VSTS.TCM.ReproSteps", "open it and look"),
            text("System.Description", "new"),
            text("comment by Jane", "same here"),
            text("comment by Joe", "and here"),
        ];
        let changes = ItemParts::of(&now).changes_since(&before);
        let expected = [
            "parent was not set",
            "title was \"Total is wrong\"",
            "Description added",
            "ReproSteps edited",
            "2 new comments",
        ];
        assert_eq!(changes, expected);
        let back = before.changes_since(&ItemParts::of(&now));
        assert!(back.contains(&"Description removed".to_owned()), "{back:?}");
        assert!(!back.iter().any(|change| change.contains("comment")), "{back:?}");
    }

    #[test]
    fn a_long_text_is_kept_as_a_few_bytes() {
        let mut long = item();
        long.fields[0].full = "word ".repeat(10_000);
        long.facts.title = "t".repeat(5_000);
        let stored = serde_json::to_string(&ItemParts::of(&long)).unwrap();
        assert!(stored.len() < 500, "{}", stored.len());
        assert_eq!(serde_json::from_str::<ItemParts>(&stored).unwrap(), ItemParts::of(&long));
    }
}
