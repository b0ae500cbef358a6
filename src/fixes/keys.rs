//! Items with a key, such as `SHOP-12`, which differs from the tracker's internal number.

use std::collections::{HashMap, HashSet};

/// What commits call an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemName {
    /// `#12`.
    Number(i64),
    /// `#12` of a repository's own issues; may differ from the tracker's internal number.
    Issue {
        number: i64,
        /// Address without the scheme and in lower case: `github.com/contoso/shop/issues/`.
        pages: String,
    },
    /// `SHOP-12`.
    Key(String),
}

impl ItemName {
    /// From the address of its page: `…/browse/SHOP-12`, `…/issues/12`; otherwise its own number.
    pub fn of_page(url: &str, item: i64) -> Self {
        let page = url.split(['?', '#']).next().unwrap_or(url).trim_end_matches('/');
        let after = |mark: &str| page.rsplit_once(mark).map(|(_, name)| name);
        if let Some(key) = after("/browse/").filter(|key| is_key(key)) {
            return Self::Key(key.to_ascii_uppercase());
        }
        let number = after("/issues/").and_then(|number| number.parse().ok());
        match (number, page.split_once("://")) {
            (Some(number), Some((_, address))) => {
                let pages = address.trim_end_matches(|c: char| c.is_ascii_digit());
                Self::Issue { number, pages: pages.to_ascii_lowercase() }
            }
            (number, _) => Self::Number(number.unwrap_or(item)),
        }
    }

    /// The number that differs from the item's id, because another tracker counts it.
    pub fn has_other_number(&self, item: i64) -> bool {
        matches!(self, Self::Number(number) | Self::Issue { number, .. } if *number != item)
    }

    /// As people write it.
    pub fn text(&self) -> String {
        match self {
            Self::Number(number) | Self::Issue { number, .. } => format!("#{number}"),
            Self::Key(key) => key.clone(),
        }
    }
}

/// Items by their keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keys {
    by_key: HashMap<String, i64>,
    /// By the number in the key, where only one project has it.
    by_number: HashMap<i64, Option<i64>>,
    projects: HashSet<String>,
}

/// An item of these projects that is not one of the items looked for.
pub(super) const ANOTHER: i64 = 0;

impl Keys {
    pub fn insert(&mut self, key: &str, item: i64) {
        let parts = key.rsplit_once('-');
        self.projects.extend(parts.map(|(project, _)| project.to_ascii_uppercase()));
        if let Some(number) = parts.and_then(|(_, number)| number.parse().ok()) {
            self.by_number.entry(number).and_modify(|one| *one = None).or_insert(Some(item));
        }
        self.by_key.insert(key.to_ascii_uppercase(), item);
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The item whose key ends with this number, if it is the only one.
    pub(super) fn numbered(&self, number: i64) -> Option<i64> {
        self.by_number.get(&number).copied().flatten()
    }

    /// Finds item keys in a text, ignoring case: start, end and item of each; [`ANOTHER`] for other
    /// items of the same projects.
    pub(super) fn find(&self, text: &str) -> Vec<(usize, usize, i64)> {
        if self.is_empty() {
            return Vec::new();
        }
        let found = text.match_indices('-').filter_map(|(at, _)| self.around(text, at));
        found.collect()
    }

    /// The key with this hyphen.
    fn around(&self, text: &str, hyphen: usize) -> Option<(usize, usize, i64)> {
        let (before, after) = (&text[..hyphen], &text[hyphen + 1..]);
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let start = before
            .rfind(|c: char| !is_part(c))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let end = hyphen + 1 + digits;
        if digits == 0 || runs_on(&text[end..]) {
            return None;
        }
        let key = text[start..end].to_ascii_uppercase();
        let another = || self.projects.contains(&text[start..hyphen].to_ascii_uppercase());
        let item = self.by_key.get(&key).copied().or_else(|| another().then_some(ANOTHER))?;
        Some((start, end, item))
    }
}

/// Whether the text after a number makes it part of something else, as in `commons-io-2.5`.
pub(super) fn runs_on(after: &str) -> bool {
    let mut rest = after.chars();
    let next = rest.next();
    let is_version = next == Some('.') && rest.next().is_some_and(|c| c.is_ascii_digit());
    is_version || next.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn is_key(text: &str) -> bool {
    text.rsplit_once('-').is_some_and(|(project, number)| {
        project.starts_with(|c: char| c.is_ascii_alphabetic())
            && project.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_as_whole_words_whatever_their_case() {
        let mut keys = Keys::default();
        keys.insert("SHOP-12", 10_012);
        keys.insert("PAY_2-7", 10_700);
        keys.insert("PAY_2-12", 10_712);
        let items = |text: &str| keys.find(text).into_iter().map(|one| one.2).collect::<Vec<_>>();
        assert_eq!(items("SHOP-12: crash, shop-12 again"), [10_012, 10_012]);
        assert_eq!(items("feature/pay_2-7-crash ünd-SHOP-12"), [10_700, 10_012]);
        assert_eq!(items("XSHOP-12 SHOP-12a SHOP- -12 UTF-8"), [0; 0]);
        assert_eq!(items("SHOP-123: like SHOP-12"), [ANOTHER, 10_012]);
        assert_eq!(items("prepare my-shop-12.5, SHOP-12.5"), [0; 0]);
        assert_eq!(items("Fixes SHOP-12."), [10_012]);
        assert_eq!((keys.numbered(7), keys.numbered(12)), (Some(10_700), None));
        assert_eq!(Keys::default().find("SHOP-12"), []);
    }

    #[test]
    fn the_page_of_an_item_tells_its_name() {
        let name = |url: &str| ItemName::of_page(url, 99).text();
        assert_eq!(name("https://a.atlassian.net/browse/SHOP-12"), "SHOP-12");
        assert_eq!(name("https://jira.contoso.com/jira/browse/pay_2-7?x=1"), "PAY_2-7");
        assert_eq!(name("https://github.com/contoso/shop/issues/12"), "#12");
        assert_eq!(name("https://dev.azure.com/a/b/_workitems/edit/99"), "#99");
        assert_eq!(name(""), "#99");
        assert_eq!(name("https://a/browse/what"), "#99");
    }
}
