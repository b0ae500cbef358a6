//! Model answers that fit `prompts/*.schema.json`, in one place for all tests that drive the real
//! CLI, which validates every answer against the schema.

use serde_json::{Value, json};

/// One triage verdict with every field that the schema requires.
pub fn verdict(id: i64, needs_deep_analysis: bool) -> Value {
    let complexity = if needs_deep_analysis { "moderate" } else { "simple" };
    json!({
        "id": id, "reason": format!("Item {id} was judged by the script."), "doubt": "",
        "needs_deep_analysis": needs_deep_analysis, "confidence": "high", "complexity": complexity,
        "modules": [], "terms": [], "related": [], "duplicates": [], "ask": "",
    })
}

/// Verdicts of which the first `deep` request an analysis.
pub fn verdicts(ids: impl IntoIterator<Item = i64>, deep: usize) -> Value {
    let entries = ids.into_iter().enumerate();
    json!({ "verdicts": entries.map(|(index, id)| verdict(id, index < deep)).collect::<Vec<_>>() })
}

/// A finding about these files with every field that the schema requires.
pub fn finding(paths: &[&str]) -> Value {
    let file = |path| json!({ "path": path, "role": "change", "reason": "sums up" });
    json!({
        "evidence": [], "patch": "", "patch_test": "",
        "summary": "The total is rounded twice.", "likely_causes": ["Rounding per line."],
        "files": paths.iter().map(file).collect::<Vec<_>>(), "suggested_change": "Round once.",
        "tests": [], "pitfalls": [], "risk": "low", "effort": "small", "confidence": "high",
        "not_checked": [], "open_questions": [],
    })
}
