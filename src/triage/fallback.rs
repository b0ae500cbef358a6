//! The default for items without a usable triage verdict.

use crate::model::{CleanItem, Complexity, Verdict};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// Too urgent to wait for a person.
    Deep,
    Person,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    pub destination: Destination,
    /// Stored instead of triage's verdict.
    pub verdict: Verdict,
}

/// Deep analysis for priority 1 and 2 and for severity critical or high; a person for the rest.
pub fn fallback(item: &CleanItem) -> Fallback {
    let urgent = item.facts.priority.is_some_and(|priority| priority <= 2)
        || item.facts.severity.as_deref().is_some_and(is_high);
    let (destination, reason) = match urgent {
        true => (Destination::Deep, "Triage gave no usable verdict; analysed for its priority."),
        false => (Destination::Person, "Triage gave no usable verdict; left to a person."),
    };
    let verdict = Verdict {
        needs_deep_analysis: urgent,
        ..Verdict::new(item.facts.id, Complexity::Moderate, reason)
    };
    Fallback { destination, verdict }
}

/// Matches `1 - Critical` and `2 - High`, also if one of the two parts was renamed.
fn is_high(severity: &str) -> bool {
    let severity = severity.trim().to_lowercase();
    severity.starts_with(['1', '2']) || severity.contains("high") || severity.contains("critical")
}
