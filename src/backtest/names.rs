//! Which items commits may name, and how.

use std::collections::{HashMap, HashSet};

use crate::fixes::{ItemName, Keys, Link, Numbers, Rules};

/// The items that are looked for, by what commits call them.
#[derive(Debug, Default)]
pub struct Names {
    items: HashSet<i64>,
    numbers: HashMap<i64, i64>,
    keys: Keys,
}

impl Names {
    /// Each item with its name; of two with the same name the first is meant.
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

    /// The rules with what is known of these items.
    pub fn complete(&self, rules: Rules) -> Rules {
        // Where all items have keys, a number is something else.
        let only_keys = self.numbers.is_empty() && !self.keys.is_empty();
        let numbers = if only_keys { Numbers::Nothing } else { rules.numbers };
        Rules { numbers, keys: self.keys.clone(), ..rules }
    }

    pub fn contains(&self, item: i64) -> bool {
        self.items.contains(&item)
    }

    /// The item that a message means, if it is looked for.
    pub fn meant(&self, link: Link) -> Option<Link> {
        let by_key = || self.items.contains(&link.item) && !self.keys.is_empty();
        let item = self.numbers.get(&link.item).copied();
        let item = item.or_else(|| by_key().then_some(link.item))?;
        Some(Link { item, ..link })
    }
}
