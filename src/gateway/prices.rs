//! List prices of common models, for sessions whose model the user has not priced.

use std::collections::BTreeMap;

use crate::settings::Price;

/// The month of the list. The entries of Claude 5.5 are those that Claude Code 2.1.325 itself uses.
pub const AS_OF: &str = "2026-06";

const fn openai(input: f64, cached: f64, output: f64) -> Price {
    Price { input, cached_input: Some(cached), cache_write: None, output }
}

/// Reading the cache costs a tenth of the input, writing it a quarter more.
const fn anthropic(input: f64, output: f64) -> Price {
    Price { input, cached_input: Some(input / 10.0), cache_write: Some(input * 1.25), output }
}

/// What a model costs whose price nobody knows: no listed one costs more.
pub const DEAREST: Price = anthropic(15.0, 75.0);

/// By the beginning of the model's name; the longest match counts. US dollars per million tokens.
const LIST: [(&str, Price); 22] = [
    ("claude-haiku-5-5", anthropic(0.1, 0.5)),
    ("claude-sonnet-5-5", anthropic(2.0, 10.0)),
    ("claude-opus-4-8", anthropic(5.0, 25.0)),
    ("claude-opus-4-6", anthropic(5.0, 25.0)),
    ("claude-opus-4-5", anthropic(5.0, 25.0)),
    ("claude-opus-4", anthropic(15.0, 75.0)),
    ("claude-sonnet-4", anthropic(3.0, 15.0)),
    ("claude-haiku-4-5", anthropic(1.0, 5.0)),
    ("claude-3-7-sonnet", anthropic(3.0, 15.0)),
    ("claude-3-5-haiku", anthropic(0.8, 4.0)),
    ("gpt-5.2", openai(1.75, 0.175, 14.0)),
    ("gpt-5.1", openai(1.25, 0.125, 10.0)),
    ("gpt-5-mini", openai(0.25, 0.025, 2.0)),
    ("gpt-5-nano", openai(0.05, 0.005, 0.4)),
    ("gpt-5", openai(1.25, 0.125, 10.0)),
    ("gpt-4.1-mini", openai(0.4, 0.1, 1.6)),
    ("gpt-4.1-nano", openai(0.1, 0.025, 0.4)),
    ("gpt-4.1", openai(2.0, 0.5, 8.0)),
    ("gpt-4o-mini", openai(0.15, 0.075, 0.6)),
    ("gpt-4o", openai(2.5, 1.25, 10.0)),
    ("o4-mini", openai(1.1, 0.275, 4.4)),
    ("o3", openai(2.0, 0.5, 8.0)),
];

/// The list price of a model; `None` if it is not in the list. `claude-opus-4` also stands for
/// `claude-opus-4-1`, but not for `claude-opus-4x`.
pub fn listed(model: &str) -> Option<Price> {
    let model = model.rsplit('/').next().unwrap_or(model);
    let is_of = |name: &str| {
        model.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let found = LIST.iter().filter(|(name, _)| is_of(name)).max_by_key(|(name, _)| name.len());
    found.map(|(_, price)| *price)
}

/// The price of a requested model: the user's, or else the list's. The user may have priced it
/// under the name in the configuration, such as an alias.
pub fn price_of(
    users: &BTreeMap<String, Price>,
    requested: &str,
    configured: &str,
) -> Option<Price> {
    let own = users.get(requested).or_else(|| users.get(configured)).copied();
    own.or_else(|| listed(requested))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_counts_and_the_users_price_before_it() {
        assert_eq!(listed("claude-opus-4-5-20251101").unwrap().output, 25.0);
        assert_eq!(listed("claude-opus-4-1-20250805").unwrap().output, 75.0);
        assert_eq!(listed("gpt-4o-mini-2024-07-18").unwrap().input, 0.15);
        assert_eq!(listed("openai/gpt-5").unwrap().input, 1.25);
        assert_eq!(listed("claude-opus-45"), None);
        assert_eq!(listed("llama3"), None);
        let users = BTreeMap::from([("sonnet".to_owned(), openai(1.0, 1.0, 1.0))]);
        assert_eq!(price_of(&users, "claude-sonnet-4-5", "sonnet").unwrap().output, 1.0);
        assert_eq!(price_of(&users, "claude-sonnet-4-5", "haiku").unwrap().output, 15.0);
        assert!(LIST.iter().all(|(_, price)| price.is_sound()));
        let is_dearest =
            |price: &Price| price.input <= DEAREST.input && price.output <= DEAREST.output;
        assert!(LIST.iter().all(|(_, price)| is_dearest(price)));
    }
}
