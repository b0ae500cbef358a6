//! Validates `[[rules]]`, each rule and all together.

use super::validate::ConfigChecker;
use crate::model::Usd;
use crate::settings::{Config, RuleSettings};

pub(super) fn check(checker: &mut ConfigChecker<'_>, config: &Config) {
    for (n, rule) in config.rules.iter().enumerate() {
        let section = format!("rules[{}]", n + 1);
        one(checker, config, rule, &section);
        checker.require(
            !(rule.fits_all() && n + 1 < config.rules.len()),
            &section,
            "a rule without conditions matches every item, so the rules after it never apply; put it \
             last",
        );
    }
}

fn one(checker: &mut ConfigChecker<'_>, config: &Config, rule: &RuleSettings, section: &str) {
    let key = |name: &str| format!("{section}.{name}");
    let known: Vec<&str> = config.sources().iter().map(|source| source.name.as_str()).collect();
    checker.require(
        rule.source.is_empty() || known.contains(&rule.source.as_str()),
        &key("source"),
        &format!("write the name of a source: {}", known.join(", ")),
    );
    checker.require(
        !rule.changes().is_empty() || checker.has_refused(section),
        section,
        "the rule changes nothing; add model, effort, max_cost, timeout, write_back or triage_only",
    );
    checker.require(
        !(rule.triage_only && (rule.model.is_some() || rule.max_cost.is_some())),
        &key("triage_only"),
        "no analysis starts, so model and max_cost have no effect; remove them or triage_only",
    );
    if let Some(model) = &rule.model {
        let named = !model.trim().is_empty();
        checker.require(named, &key("model"), "write a model's name, such as \"sonnet\"");
    }
    if let Some(cost) = rule.max_cost {
        let allowed = "write an amount of US dollars above zero";
        checker.require(cost > Usd::ZERO, &key("max_cost"), allowed);
        checker.require_consistent(
            cost <= config.budget.per_run,
            [&key("max_cost"), "budget.per_run"],
            "no session of this rule could ever start; raise the run's budget or lower this",
        );
    }
    if let Some(timeout) = rule.timeout {
        checker.require_consistent(
            config.timeouts.stall <= timeout,
            [&key("timeout"), "timeouts.stall"],
            "a hung session would not be detected before its timeout; make timeouts.stall shorter",
        );
    }
}
