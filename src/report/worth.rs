//! How much a finding is worth reading now. Every list of findings has this order.

use crate::model::{Confidence, Opinion, Risk};
use crate::store::FindingRow;

/// Risk, confidence and the item's priority multiply; what is answered, fixed or outdated sinks, and
/// what nothing in the code supports is last.
pub fn worth(row: &FindingRow) -> f64 {
    let risk = match row.finding.risk {
        Risk::High => 9.0,
        Risk::Medium => 3.0,
        Risk::Low => 1.0,
    };
    let confidence = match row.finding.confidence {
        Confidence::High => 1.0,
        Confidence::Medium => 0.8,
        Confidence::Low => 0.5,
    };
    let priority = match row.priority {
        Some(..=1) => 2.0,
        Some(2) => 1.4,
        Some(3) | None => 1.0,
        Some(4..) => 0.7,
    };
    let answered = match row.feedback.as_ref().map(|feedback| feedback.opinion) {
        Some(Opinion::Wrong | Opinion::Done) => 0.02,
        Some(Opinion::Useful) => 0.3,
        None => 1.0,
    };
    let fixed = if row.fix.is_some() { 0.05 } else { 1.0 };
    let outdated = if row.stale.is_some() { 0.7 } else { 1.0 };
    // Below everything else, whatever it says of itself.
    let unproven = if row.finding.is_unproven() { 1e-6 } else { 1.0 };
    risk * confidence * priority * answered * fixed * outdated * unproven
}

/// The most worthwhile first; among equals the newest.
pub fn sort(rows: &mut [FindingRow]) {
    rows.sort_by(|a, b| {
        worth(b).total_cmp(&worth(a)).then_with(|| b.created_at.cmp(&a.created_at))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::digest::samples::report;

    #[test]
    fn risk_confidence_and_priority_decide_and_what_is_answered_is_last() {
        let one = FindingRow { feedback: None, ..report("words").findings[0].clone() };
        let row = |name: &str, risk, confidence, priority| {
            let mut row = FindingRow { title: name.into(), priority, ..one.clone() };
            (row.finding.risk, row.finding.confidence) = (risk, confidence);
            row
        };
        let mut rows = vec![
            row("low", Risk::Low, Confidence::High, Some(1)),
            row("doubtful", Risk::High, Confidence::Low, Some(3)),
            row("urgent", Risk::High, Confidence::High, Some(1)),
            FindingRow {
                feedback: report("x").findings[0].feedback.clone(),
                ..row("answered", Risk::High, Confidence::High, Some(1))
            },
            row("sure", Risk::High, Confidence::High, None),
        ];
        sort(&mut rows);
        let names: Vec<&str> = rows.iter().map(|row| row.title.as_str()).collect();
        assert_eq!(names, ["urgent", "sure", "doubtful", "low", "answered"]);
    }
}
