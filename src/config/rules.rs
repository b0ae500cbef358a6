//! What is wrong with `[[rules]]`, one by one and together.

use super::validate::Rules;
use crate::model::Usd;
use crate::settings::{Config, Rule};

pub(super) fn check(rules: &mut Rules<'_>, config: &Config) {
    for (n, rule) in config.rules.iter().enumerate() {
        let section = format!("rules[{}]", n + 1);
        one(rules, config, rule, &section);
        rules.require(
            !(rule.fits_all() && n + 1 < config.rules.len()),
            &section,
            "a rule without conditions fits every item, so the rules after it never apply; put it \
             last",
        );
    }
}

fn one(rules: &mut Rules<'_>, config: &Config, rule: &Rule, section: &str) {
    let key = |name: &str| format!("{section}.{name}");
    let known: Vec<&str> = config.sources().iter().map(|source| source.name.as_str()).collect();
    rules.require(
        rule.source.is_empty() || known.contains(&rule.source.as_str()),
        &key("source"),
        &format!("write the name of a source: {}", known.join(", ")),
    );
    rules.require(
        !rule.changes().is_empty() || rules.has_refused(section),
        section,
        "the rule changes nothing; add model, effort, max_cost, timeout, write_back or triage_only",
    );
    rules.require(
        !(rule.triage_only && (rule.model.is_some() || rule.max_cost.is_some())),
        &key("triage_only"),
        "no analysis starts, so model and max_cost would have no effect; remove them or this",
    );
    if let Some(model) = &rule.model {
        let named = !model.trim().is_empty();
        rules.require(named, &key("model"), "write a model's name, such as \"sonnet\"");
    }
    if let Some(cost) = rule.max_cost {
        let allowed = "write an amount of US dollars above zero";
        rules.require(cost > Usd::ZERO, &key("max_cost"), allowed);
        rules.agree(
            cost <= config.budget.per_run,
            [&key("max_cost"), "budget.per_run"],
            "no session of this rule could ever start; raise the run's budget or lower this",
        );
    }
    if let Some(timeout) = rule.timeout {
        rules.agree(
            config.timeouts.stall <= timeout,
            [&key("timeout"), "timeouts.stall"],
            "a hung session would not be detected before its timeout; make the stall shorter",
        );
    }
}
