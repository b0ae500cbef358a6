//! The names by which commits refer to items.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::fixes::{ItemName, Keys, Link, Numbers, Rules, have_same_name};

/// The items to find in commits, by the name that commits use for them.
#[derive(Debug, Default)]
pub struct Names {
    items: HashSet<i64>,
    numbers: HashMap<i64, i64>,
    keys: Keys,
    /// Addresses of the items' pages, if they are issues of repositories.
    pages: BTreeSet<String>,
}

impl Names {
    /// Collects the items; if two have the same name, it refers to the first.
    pub fn of<'a>(items: impl Iterator<Item = (i64, &'a ItemName)>) -> Self {
        let mut names = Self::default();
        for (item, name) in items {
            names.items.insert(item);
            match name {
                ItemName::Number(number) => {
                    names.numbers.entry(*number).or_insert(item);
                }
                ItemName::Issue { number, pages } => {
                    names.numbers.entry(*number).or_insert(item);
                    names.pages.insert(pages.clone());
                }
                ItemName::Key(key) => names.keys.insert(key, item),
            }
        }
        names
    }

    /// Completes the rules with the keys and pages of these items.
    pub fn complete(&self, rules: Rules) -> Rules {
        let Rules { numbers, issue_pages, .. } = &rules;
        // If all items have keys, a bare number is not an item.
        let only_keys = self.numbers.is_empty() && !self.keys.is_empty();
        let of_this = |own: &String| self.pages.iter().any(|pages| have_same_name(own, pages));
        let of_another = !self.pages.is_empty() && !issue_pages.iter().all(of_this);
        let numbers = match numbers {
            _ if only_keys => Numbers::Nothing,
            // The issues of another repository: here, a bare number is a pull request.
            Numbers::Items if of_another => Numbers::OtherHost,
            numbers => *numbers,
        };
        let own = issue_pages.iter().filter(|_| numbers == Numbers::Items);
        let issue_pages = own.chain(&self.pages).cloned().collect();
        Rules { numbers, issue_pages, keys: self.keys.clone(), ..rules }
    }

    pub fn contains(&self, item: i64) -> bool {
        self.items.contains(&item)
    }

    /// The item that a link in a message refers to, if it is one of these.
    pub fn resolve(&self, link: Link) -> Option<Link> {
        let by_key = || self.items.contains(&link.item) && !self.keys.is_empty();
        let item = self.numbers.get(&link.item).copied();
        let item = item.or_else(|| by_key().then_some(link.item))?;
        Some(Link { item, ..link })
    }
}
