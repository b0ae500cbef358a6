//! An item and the configuration in the terms of the ranking.

use code_context::{Subject, TextKind, Weights};

use crate::model::{CleanField, CleanItem, Verdict};
use crate::settings::Ranking;

/// A work item, with triage's verdict.
pub fn subject_of(clean: &CleanItem, verdict: Option<&Verdict>) -> Subject {
    let texts = clean.fields.iter().map(|field| (kind_of(field), field.full.clone()));
    // The first part of an area path is the project's name, which every item shares.
    let areas = clean.facts.areas().filter_map(|path| path.split_once(['\\', '/']));
    let areas = areas.map(|(_, rest)| rest.to_owned());
    Subject {
        title: clean.facts.title.clone(),
        texts: texts.collect(),
        labels: areas.chain(clean.facts.tags.iter().cloned()).collect(),
        modules: verdict.map(|verdict| verdict.modules.clone()).unwrap_or_default(),
        terms: verdict.map(|verdict| verdict.terms.clone()).unwrap_or_default(),
    }
}

/// `Microsoft.VSTS.TCM.SystemInfo` describes a machine; the cleaner names comments.
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

/// The measured weights, with the languages of `[ranking]`.
pub fn weights_of(ranking: &Ranking) -> Weights {
    Weights::of(&ranking.prefer, &ranking.set_aside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::estimate_tokens;

    #[test]
    fn the_default_configuration_weighs_as_measured() {
        let default = toml::from_str::<crate::settings::Config>(crate::config::DEFAULT_TOML);
        assert_eq!(weights_of(&default.unwrap().ranking), Weights::default());
    }

    /// A context that counts its tokens differently would not fit into the prompt's limits.
    #[test]
    fn the_crate_counts_tokens_as_the_prompts_do() {
        for text in ["", "a", "four", "fünf!", "a longer text of several words"] {
            assert_eq!(code_context::estimate_tokens(text), estimate_tokens(text), "{text}");
        }
    }
}
