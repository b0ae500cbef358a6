//! A work item as text for a prompt.

use super::budget::cut_to_tokens;
use crate::model::{CleanField, CleanItem, Links};

/// How much of an item is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The shortened texts, for triage.
    Tight,
    /// Everything a reader sees.
    Full,
}

/// The item in a few lines: facts, title, texts; within the budget. Not yet fenced.
pub fn item_text(item: &CleanItem, detail: Detail, max_tokens: u32) -> String {
    let mut lines = vec![one_line(&item.item.title), facts(item)];
    if item.alarms.hidden_chars > 0 {
        lines.push(format!(
            "[{} characters of text that a reader would not see were left out]",
            item.alarms.hidden_chars
        ));
    }
    for field in &item.fields {
        let text = match detail {
            Detail::Tight => &field.tight,
            Detail::Full => &field.full,
        };
        if !text.trim().is_empty() {
            lines.push(format!("{}: {}", label(field), text.trim()));
        }
    }
    cut_to_tokens(&lines.join("\n"), max_tokens)
}

fn facts(clean: &CleanItem) -> String {
    let item = &clean.item;
    let mut facts = vec![one_line(&item.item_type), one_line(&item.state)];
    facts.extend(item.priority.map(|priority| format!("priority {priority}")));
    facts.extend(
        item.severity.as_deref().map(|severity| format!("severity {}", one_line(severity))),
    );
    facts.extend(item.area_path.as_deref().map(one_line));
    if !item.tags.is_empty() {
        let tags: Vec<String> = item.tags.iter().map(|tag| one_line(tag)).collect();
        facts.push(format!("tags {}", tags.join(", ")));
    }
    facts.extend(item.parent.map(|parent| format!("parent {parent}")));
    facts.extend(links(item.links));
    facts.retain(|fact| !fact.is_empty());
    facts.join(" | ")
}

/// That there is more to look at, and of what kind.
fn links(links: Links) -> Option<String> {
    let kinds = [
        (links.items, "other items"),
        (links.development, "commits, builds or pull requests"),
        (links.pages, "web pages"),
        (links.files, "files"),
    ];
    let told: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(n, kind)| format!("{n} {kind}"))
        .collect();
    (!told.is_empty()).then(|| format!("links: {}", told.join(", ")))
}

/// `Microsoft.VSTS.TCM.ReproSteps` is `ReproSteps` to a reader; names with spaces are ours.
fn label(field: &CleanField) -> &str {
    match field.name.contains(' ') {
        true => &field.name,
        false => field.name.rsplit('.').next().unwrap_or(&field.name),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
