//! What happens to an item that triage gave no usable verdict for.

use crate::model::{CleanItem, Complexity, Verdict};

/// Where an item without a verdict goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// To deep analysis: too urgent to wait for a person.
    Deep,
    /// To a person.
    Person,
}

/// The stated default for an item without a usable verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// Where it goes.
    pub destination: Destination,
    /// What is recorded in place of triage's word.
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

/// `1 - Critical` and `2 - High`, also in collections that have renamed one part of it.
fn is_high(severity: &str) -> bool {
    let severity = severity.trim().to_lowercase();
    severity.starts_with(['1', '2']) || severity.contains("high") || severity.contains("critical")
}
