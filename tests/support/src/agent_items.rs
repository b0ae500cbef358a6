//! Work items for tests of prompts and answers.

use heartbeat::model::{
    Alarms, CleanField, CleanItem, ItemId, ItemKey, Links, TextStats, Verdict, WorkItem,
};
use heartbeat::prompt::Fence;

/// A fixed fence: random in real runs, constant in snapshots.
pub fn fence() -> Fence {
    Fence::new(uuid::Uuid::from_u128(0x0199_0000_0000_7000_8123_4567_89ab_cdef))
}

pub fn item(id: i64, title: &str, text: &str) -> CleanItem {
    CleanItem {
        facts: WorkItem {
            key: ItemKey::new("ado", ItemId(id)),
            id: ItemId(id),
            rev: 3,
            item_type: "Bug".to_owned(),
            title: title.to_owned(),
            state: "Active".to_owned(),
            changed_at: "2026-11-01T10:00:00Z".parse().unwrap(),
            created_at: None,
            priority: Some(2),
            severity: Some("2 - High".to_owned()),
            area_path: Some("Contoso\\Billing".to_owned()),
            more_areas: Vec::new(),
            handle: None,
            finished: None,
            iteration_path: None,
            assigned_to: None,
            reporter: None,
            tags: vec!["invoice".to_owned()],
            parent: None,
            links: Links::default(),
            url: format!("https://tracker.example/{id}"),
            texts: Vec::new(),
            comments: Vec::new(),
        },
        fields: vec![CleanField {
            name: "System.Description".to_owned(),
            full: text.to_owned(),
            tight: text.to_owned(),
        }],
        alarms: Alarms::default(),
        stats: TextStats::default(),
    }
}

/// A verdict that triage might return for the item.
pub fn verdict(id: i64) -> Verdict {
    Verdict {
        needs_deep_analysis: true,
        modules: vec!["Billing".to_owned()],
        related: vec![ItemId(7)],
        terms: vec!["invoice total".to_owned(), "sum_lines".to_owned()],
        ..Verdict::new(
            ItemId(id),
            heartbeat::model::Complexity::Moderate,
            "Where does the total lose a cent against the sum of the lines?",
        )
    }
}
