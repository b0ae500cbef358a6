//! `[[rules]]`: different settings for some items. Only the first rule that matches an item
//! applies.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Config, human};
use crate::model::{Usd, WorkItem, is_within_area};

/// A condition that is not set matches every item; a setting that is not set keeps its configured
/// value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RuleSettings {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub area: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub item_type: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tag: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub priority: Vec<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Usd>,
    #[serde(with = "human::optional_duration", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_back: Option<bool>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub triage_only: bool,
}

impl RuleSettings {
    fn matches(&self, item: &WorkItem) -> bool {
        let same = |wanted: &str, is: &str| wanted.to_lowercase() == is.to_lowercase();
        let any = |wanted: &str, fits: &dyn Fn() -> bool| wanted.is_empty() || fits();
        any(&self.source, &|| self.source == item.key.source())
            && any(&self.area, &|| item.areas().any(|area| is_within_area(area, &self.area)))
            && any(&self.item_type, &|| same(&self.item_type, &item.item_type))
            && any(&self.tag, &|| item.tags.iter().any(|tag| same(&self.tag, tag)))
            && (self.priority.is_empty()
                || item.priority.is_some_and(|priority| self.priority.contains(&priority)))
    }

    /// Whether it has no condition and so matches every item.
    pub fn fits_all(&self) -> bool {
        let texts = [&self.source, &self.area, &self.item_type, &self.tag];
        texts.iter().all(|text| text.is_empty()) && self.priority.is_empty()
    }

    /// What it changes, as text; empty if nothing.
    pub fn changes(&self) -> String {
        let parts = [
            self.triage_only.then(|| "triage only".to_owned()),
            self.model.as_ref().map(|model| format!("model {model}")),
            self.effort.as_ref().map(|effort| format!("effort {effort}")),
            self.max_cost.map(|cost| format!("at most {cost}")),
            self.timeout.map(|timeout| format!("time limit {}", human::format_duration(timeout))),
            self.write_back.map(|on| (if on { "write-back" } else { "no write-back" }).to_owned()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl Config {
    /// The first rule that matches the item, with its name.
    pub fn rule_for(&self, item: &WorkItem) -> Option<(String, &RuleSettings)> {
        let found = self.rules.iter().enumerate().find(|(_, rule)| rule.matches(item));
        found.map(|(n, rule)| match rule.name.as_str() {
            "" => (format!("rules[{}]", n + 1), rule),
            name => (name.to_owned(), rule),
        })
    }

    /// Looks up a rule by the name that [`Config::rule_for`] returned.
    pub fn rule_named(&self, name: &str) -> Option<&RuleSettings> {
        let named = |(n, rule): &(usize, &RuleSettings)| match rule.name.as_str() {
            "" => name == format!("rules[{}]", n + 1),
            own => own == name,
        };
        self.rules.iter().enumerate().find(named).map(|(_, rule)| rule)
    }

    /// This configuration with the item's rule applied.
    pub fn for_item(self: &Arc<Self>, item: &WorkItem) -> Arc<Self> {
        let Some((_, rule)) = self.rule_for(item) else { return Arc::clone(self) };
        let mut own = Self::clone(self);
        let analyze = &mut own.analyze;
        if let Some(model) = &rule.model {
            analyze.model.clone_from(model);
        }
        if let Some(effort) = &rule.effort {
            analyze.effort.clone_from(effort);
        }
        analyze.max_cost = rule.max_cost.unwrap_or(analyze.max_cost);
        analyze.timeout = rule.timeout.unwrap_or(analyze.timeout);
        Arc::new(own)
    }

    /// Whether the item's finding is written to the tracker.
    pub fn writes_back(&self, item: &WorkItem) -> bool {
        let by_rule = self.rule_for(item).and_then(|(_, rule)| rule.write_back);
        let by_source = || self.source_of(&item.key).is_some_and(|source| source.write_back);
        by_rule.unwrap_or_else(by_source)
    }

    /// Whether findings of this source may be written to its tracker, by its own setting or a rule.
    pub fn may_write_back(&self, source: &super::Source) -> bool {
        let by_rule = |rule: &RuleSettings| {
            rule.write_back == Some(true) && (rule.source.is_empty() || rule.source == source.name)
        };
        source.write_back || self.rules.iter().any(by_rule)
    }
}
