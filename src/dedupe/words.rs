//! The words of an item in the index of all items, and which of them to search for.
//!
//! Words are in lower case and without common endings, so that `Crashes` finds `crashed`. Scripts
//! without spaces are indexed by pairs of characters.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::model::CleanItem;

/// Indexed part of an item's texts, in bytes; what two reports of one problem share is near the
/// top.
const MAX_TEXT_LEN: usize = 1_500;
/// Longer ones are hashes and encoded data.
const MAX_WORD_LEN: usize = 40;
/// Endings that are removed if at least [`MIN_STEM_LEN`] characters are left.
const ENDINGS: [&str; 5] = ["ing", "ed", "es", "s", "ly"];
const MIN_STEM_LEN: usize = 3;
/// Words in a search, most specific first.
const MAX_TERMS: usize = 48;
/// Weight of a title word relative to a text word.
const TITLE_WEIGHT: u32 = 2;

/// The indexed words of an item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemWords {
    /// Separated by spaces.
    pub title: String,
    pub text: String,
}

impl ItemWords {
    pub fn of(item: &CleanItem) -> Self {
        let mut text = String::new();
        for field in item.fields.iter().filter(|field| !field.is_comment()) {
            text.push_str(beginning(&field.full, MAX_TEXT_LEN - text.len()));
            text.push('\n');
            if text.len() >= MAX_TEXT_LEN {
                break;
            }
        }
        Self { title: words(&item.facts.title).join(" "), text: words(&text).join(" ") }
    }

    /// Of a text that is not an item; its first line counts as title.
    pub fn of_text(text: &str) -> Self {
        let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
        let rest = beginning(rest, MAX_TEXT_LEN);
        Self { title: words(title).join(" "), text: words(rest).join(" ") }
    }

    /// For an item of which only the title is known.
    pub fn of_title(title: &str) -> Self {
        Self { title: words(title).join(" "), text: String::new() }
    }

    /// A hash of the words.
    pub fn print(&self) -> String {
        let hash = Sha256::new().chain_update(&self.title).chain_update("\n");
        let hash = hash.chain_update(&self.text).finalize();
        hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The distinct words, each with its weight in a search.
    pub fn weighted(&self) -> BTreeMap<&str, u32> {
        let mut weighted: BTreeMap<&str, u32> =
            self.text.split(' ').map(|word| (word, 1)).collect();
        weighted.extend(self.title.split(' ').map(|word| (word, TITLE_WEIGHT)));
        weighted.remove("");
        weighted
    }

    /// The words to search for, with their weights: those that few of the `total` items have.
    /// `holders` returns how many have a word. Words that half of the items have are useless.
    pub fn terms(&self, total: u64, holders: impl Fn(&str) -> u64) -> Vec<(&str, u32)> {
        let mut rated: Vec<(f64, &str, u32)> = Vec::new();
        for (word, weight) in self.weighted() {
            let holders = holders(word);
            // One holder is the item itself.
            if holders > 1 && holders.saturating_mul(2) < total.max(8) {
                rated.push((f64::from(weight) * rarity(total, holders), word, weight));
            }
        }
        rated.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        rated.into_iter().take(MAX_TERMS).map(|(_, word, weight)| (word, weight)).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of items")]
fn rarity(total: u64, holders: u64) -> f64 {
    let (total, holders) = (total as f64, holders as f64);
    ((total - holders + 0.5) / (holders + 0.5)).max(1.0).ln()
}

fn beginning(text: &str, longest: usize) -> &str {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        let mut spaced = String::new();
        let mut unspaced: Option<char> = None;
        for c in run.chars() {
            if is_written_without_spaces(c) {
                push_word(&mut words, &mut spaced);
                match unspaced {
                    Some(before) => words.push(format!("{before}{c}")),
                    None => words.push(c.to_string()),
                }
                unspaced = Some(c);
            } else {
                unspaced = None;
                // The lower case of some characters is a letter and a mark.
                spaced.extend(c.to_lowercase().filter(|c| c.is_alphanumeric()));
            }
        }
        push_word(&mut words, &mut spaced);
    }
    words
}

fn push_word(words: &mut Vec<String>, word: &mut String) {
    let word = std::mem::take(word);
    if !word.is_empty() && word.len() <= MAX_WORD_LEN {
        words.push(stem(&word).to_owned());
    }
}

fn stem(word: &str) -> &str {
    let shorter = ENDINGS.iter().filter_map(|ending| word.strip_suffix(ending));
    let mut long_enough = shorter.filter(|stem| stem.chars().count() >= MIN_STEM_LEN);
    long_enough.next().unwrap_or(word)
}

/// Han, Hiragana, Katakana and Thai.
fn is_written_without_spaces(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0e7f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::CleanField;

    #[test]
    fn words_lose_case_and_endings_and_long_ones_are_left_out() {
        assert_eq!(words("Crashes, crashed; CRASHING!"), ["crash", "crash", "crash"]);
        assert_eq!(words("is gas IDs a1b2 foo_bar"), ["is", "gas", "ids", "a1b2", "foo", "bar"]);
        assert_eq!(words(&"x".repeat(41)), Vec::<String>::new());
        assert_eq!(words("登录失败 API"), ["登", "登录", "录失", "失败", "api"]);
        assert_eq!(words("Größe überläuft"), ["größe", "überläuft"]);
    }

    #[test]
    fn comments_and_what_stands_far_down_are_not_indexed() {
        let mut item = super::super::fingerprint::tests::item(1, "");
        item.facts.title = "Totals differ".to_owned();
        let field = |name: &str, full: String| CleanField {
            name: name.to_owned(),
            full,
            tight: String::new(),
        };
        item.fields = vec![
            field("System.Description", format!("first {} last", "word ".repeat(400))),
            field("comment by Jane", "discussion".to_owned()),
        ];
        let indexed = ItemWords::of(&item);
        assert_eq!(indexed.title, "total differ");
        assert!(indexed.text.starts_with("first word") && !indexed.text.contains("last"));
        assert!(!indexed.text.contains("discussion"));
        assert_ne!(indexed.print(), ItemWords::of_title("Totals differ").print());
    }

    #[test]
    fn a_search_uses_rare_words_first_and_none_that_half_of_the_items_have() {
        let item = ItemWords { title: "page blank".to_owned(), text: "the nonce the".to_owned() };
        let holders = |word: &str| match word {
            "the" => 90,
            "page" => 40,
            "blank" => 5,
            _ => 2,
        };
        assert_eq!(item.terms(100, holders), [("blank", 2), ("nonce", 1), ("page", 2)]);
        assert_eq!(item.terms(100, |_| 1), [], "words that only it has find nothing");
        let long: Vec<String> = (0..500).map(|n| format!("w{n}")).collect();
        let long = ItemWords { title: String::new(), text: long.join(" ") };
        assert_eq!(long.terms(100, |_| 2).len(), MAX_TERMS);
    }

    proptest! {
        /// Search terms contain only letters and digits, no query syntax.
        #[test]
        fn any_text_makes_plain_words(text in "\\PC{0,200}") {
            for word in words(&text) {
                prop_assert!(!word.is_empty() && word.chars().all(char::is_alphanumeric), "{word:?}");
            }
        }
    }
}
