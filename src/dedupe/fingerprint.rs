//! The fingerprint of the text in the prompt: stable across runs and platforms.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::model::{CleanItem, WorkItem};
use crate::settings::WatchedField;

/// Everything except the item that changes an analysis.
#[derive(Debug, Clone, Copy)]
pub struct FingerprintInputs<'a> {
    /// Current version of the prompts.
    pub prompt_version: &'a str,
    /// Configured models of triage and deep analysis. Used only if `watch` includes them.
    pub models: &'a [&'a str],
    /// Further fields whose change makes an item work.
    pub watch: &'a [WatchedField],
}

/// Prefix of current fingerprints. Older ones are plain hashes that depend on the models.
const FORM: &str = "2:";

/// Whether a stored fingerprint has an older form and cannot be compared.
pub fn is_older_form(fingerprint: &str) -> bool {
    !fingerprint.starts_with(FORM)
}

/// Hash of title, type and clean texts, the prompts' version and watched fields. Each part is
/// hashed with its length, so that no two different items have the same input.
pub fn fingerprint(item: &CleanItem, inputs: &FingerprintInputs<'_>) -> String {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    part(inputs.prompt_version);
    part(&item.facts.item_type);
    part(&item.facts.title);
    for field in &item.fields {
        part(&field.name);
        part(&field.full);
    }
    let mut watched = inputs.watch.to_vec();
    watched.sort_unstable();
    watched.dedup();
    for field in watched {
        part(&format!("{field:?}"));
        match field {
            WatchedField::Model => inputs.models.iter().for_each(|model| part(model)),
            field => part(&watched_value(item, field)),
        }
    }
    hex(&hash.finalize())
}

/// For an item whose texts could not be cleaned: hashes its raw texts, so that an edit is noticed.
pub fn raw_fingerprint(item: &WorkItem) -> String {
    let comments = item.comments.iter().map(|comment| &comment.raw);
    let texts = item.texts.iter().map(|text| &text.raw).chain(comments);
    let mut hash = Sha256::new();
    for text in std::iter::once(&item.title).chain(texts) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from(FORM), |mut text, byte| {
        // Writing to a string cannot fail.
        let _: std::fmt::Result = write!(text, "{byte:02x}");
        text
    })
}

fn watched_value(item: &CleanItem, field: WatchedField) -> String {
    let item = &item.facts;
    let optional = |text: &Option<String>| text.clone().unwrap_or_default();
    match field {
        // Not a field of the item.
        WatchedField::Model => String::new(),
        WatchedField::State => item.state.clone(),
        WatchedField::Priority => item.priority.map(|p| p.to_string()).unwrap_or_default(),
        WatchedField::Severity => optional(&item.severity),
        WatchedField::AssignedTo => optional(&item.assigned_to),
        WatchedField::AreaPath => optional(&item.area_path),
        WatchedField::IterationPath => optional(&item.iteration_path),
        WatchedField::Tags => {
            let mut tags = item.tags.clone();
            tags.sort_unstable();
            tags.join("; ")
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::{Alarms, CleanField, ItemId, ItemKey, Links, TextStats};

    pub(crate) fn item(id: i64, text: &str) -> CleanItem {
        let item = WorkItem {
            key: ItemKey::new("ado", ItemId(id)),
            id: ItemId(id),
            rev: 1,
            item_type: "Bug".into(),
            title: "Title".into(),
            state: "Active".into(),
            changed_at: "2026-11-16T08:00:00Z".parse().unwrap(),
            created_at: None,
            priority: Some(2),
            severity: None,
            area_path: None,
            more_areas: Vec::new(),
            handle: None,
            finished: None,
            iteration_path: None,
            assigned_to: None,
            reporter: None,
            tags: vec!["a".into()],
            parent: None,
            links: Links::default(),
            url: String::new(),
            texts: Vec::new(),
            comments: Vec::new(),
        };
        let field =
            CleanField { name: "System.Description".into(), full: text.into(), tight: text.into() };
        let (alarms, stats) = (Alarms::default(), TextStats::default());
        CleanItem { facts: item, fields: vec![field], alarms, stats }
    }

    const INPUTS: FingerprintInputs<'_> =
        FingerprintInputs { prompt_version: "v1", models: &["haiku", "sonnet"], watch: &[] };

    #[test]
    fn it_is_the_same_on_every_platform_and_for_ever() {
        assert_eq!(
            fingerprint(&item(1, "text"), &INPUTS),
            "2:9b63273393914a31dd4845b0bfcf8dc7c73b61fc511eb81d606538f2142371cc"
        );
    }

    #[test]
    fn what_does_not_reach_the_prompt_does_not_matter() {
        let before = item(1, "text");
        let mut after = before.clone();
        after.facts.rev = 9;
        after.facts.tags.push("heartbeat".into());
        after.facts.state = "Resolved".into();
        after.facts.priority = Some(1);
        after.facts.links.items = 3;
        assert_eq!(fingerprint(&before, &INPUTS), fingerprint(&after, &INPUTS));
    }

    #[test]
    fn a_change_of_model_matters_only_if_it_is_watched() {
        let item = item(1, "text");
        let other = FingerprintInputs { models: &["opus", "sonnet"], ..INPUTS };
        assert_eq!(fingerprint(&item, &INPUTS), fingerprint(&item, &other));
        let watch = [WatchedField::Model];
        let (before, after) = (
            FingerprintInputs { watch: &watch, ..INPUTS },
            FingerprintInputs { watch: &watch, ..other },
        );
        assert_ne!(fingerprint(&item, &before), fingerprint(&item, &after));
    }

    #[test]
    fn watched_fields_matter_whatever_their_order() {
        let before = item(1, "text");
        let mut after = before.clone();
        after.facts.priority = Some(1);
        let one = [WatchedField::Priority, WatchedField::Tags];
        let other = [WatchedField::Tags, WatchedField::Priority];
        let (one, other) = (
            FingerprintInputs { watch: &one, ..INPUTS },
            FingerprintInputs { watch: &other, ..INPUTS },
        );
        assert_ne!(fingerprint(&before, &one), fingerprint(&after, &one));
        assert_eq!(fingerprint(&before, &one), fingerprint(&before, &other));
    }

    #[test]
    fn text_moved_from_one_field_to_the_next_is_another_item() {
        let mut a = item(1, "ab");
        let mut b = item(1, "a");
        a.fields.push(CleanField { name: "x".into(), full: "c".into(), tight: String::new() });
        b.fields.push(CleanField { name: "x".into(), full: "bc".into(), tight: String::new() });
        assert_ne!(fingerprint(&a, &INPUTS), fingerprint(&b, &INPUTS));
    }
}
