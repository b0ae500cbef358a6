//! What a query is made of: an item's words by where they stand. The program's runs, the command
//! line and the benchmarks all come this way.

use crate::model::{CleanField, CleanItem, Verdict};

/// What kind of text a field is; its words weigh accordingly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    /// What the reporter wrote: description, steps, criteria.
    Report,
    /// What the discussion added.
    Comment,
    /// What a program wrote about the machine it ran on.
    System,
}

/// An item as a query sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    /// One line.
    pub title: String,
    /// The long texts, in the item's order.
    pub texts: Vec<(TextKind, String)>,
    /// The area's path without the project, and the tags.
    pub labels: Vec<String>,
    /// Parts of the product that triage named.
    pub modules: Vec<String>,
    /// Search terms: English words and likely names in the code, from triage or given by hand.
    pub terms: Vec<String>,
}

impl Subject {
    /// Any text; its first line is the title.
    pub fn from_text(text: &str) -> Self {
        let (title, body) = text.split_once('\n').unwrap_or((text, ""));
        Self {
            title: title.to_owned(),
            texts: vec![(TextKind::Report, body.to_owned())],
            ..Self::default()
        }
    }

    /// A work item, with what triage said about it.
    pub fn of_item(clean: &CleanItem, verdict: Option<&Verdict>) -> Self {
        let texts = clean.fields.iter().map(|field| (kind_of(field), field.full.clone()));
        // The first part of an area path is the project's name, which every item shares.
        let areas = clean.facts.areas().filter_map(|path| path.split_once(['\\', '/']));
        let areas = areas.map(|(_, rest)| rest.to_owned());
        Self {
            title: clean.facts.title.clone(),
            texts: texts.collect(),
            labels: areas.chain(clean.facts.tags.iter().cloned()).collect(),
            modules: verdict.map(|verdict| verdict.modules.clone()).unwrap_or_default(),
            terms: verdict.map(|verdict| verdict.terms.clone()).unwrap_or_default(),
        }
    }

    /// The same with these search terms.
    #[must_use]
    pub fn with_terms(mut self, terms: impl IntoIterator<Item = String>) -> Self {
        self.terms.extend(terms);
        self
    }
}

/// `Microsoft.VSTS.TCM.SystemInfo` describes a machine; comments are named by the cleaner.
fn kind_of(field: &CleanField) -> TextKind {
    let name = field.label().to_ascii_lowercase();
    if field.is_comment() {
        TextKind::Comment
    } else if matches!(name.as_str(), "systeminfo" | "environment" | "foundinbuild" | "build") {
        TextKind::System
    } else {
        TextKind::Report
    }
}
