//! The names by which commits refer to items.

use std::collections::{HashMap, HashSet};

use crate::fixes::{ItemName, Keys, Link, Numbers, Rules};

/// The items to find in commits, by the name that commits use for them.
#[derive(Debug, Default)]
pub struct Names {
    items: HashSet<i64>,
    numbers: HashMap<i64, i64>,
    keys: Keys,
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
                ItemName::Key(key) => names.keys.insert(key, item),
            }
        }
        names
    }

    /// Completes the rules with the keys of these items.
    pub fn complete(&self, rules: Rules) -> Rules {
        // If all items have keys, a bare number is not an item.
        let only_keys = self.numbers.is_empty() && !self.keys.is_empty();
        let numbers = if only_keys { Numbers::Nothing } else { rules.numbers };
        Rules { numbers, keys: self.keys.clone(), ..rules }
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
