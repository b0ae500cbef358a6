//! What prompts and answers call items by: the tracker's own numbers, as long as they are different.

use crate::model::{Duplicate, ItemId, ItemKey, Verdict};

/// Where numbers begin that stand for an item whose own number another one has.
const FIRST_STAND_IN: i64 = 9_000_001;

/// The numbers of a batch. Two sources may use the same one: the first item keeps it, the others get
/// one that is free. The same keys in the same order always have the same numbers, so an answer can
/// be read again after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers(Vec<(ItemId, ItemKey)>);

impl Numbers {
    pub fn of<'a>(keys: impl IntoIterator<Item = &'a ItemKey>) -> Self {
        let keys: Vec<&ItemKey> = keys.into_iter().collect();
        let own: std::collections::HashSet<ItemId> =
            keys.iter().filter_map(|key| key.item_id()).collect();
        let mut used = std::collections::HashSet::new();
        let mut stand_in = (FIRST_STAND_IN..).map(ItemId).filter(|id| !own.contains(id));
        let mut numbers = Vec::with_capacity(keys.len());
        for key in keys {
            let id = key.item_id().filter(|id| !used.contains(id)).or_else(|| stand_in.next());
            let id = id.unwrap_or(ItemId(i64::MAX));
            used.insert(id);
            numbers.push((id, key.clone()));
        }
        Self(numbers)
    }

    /// In the order of the keys.
    pub fn ids(&self) -> impl Iterator<Item = ItemId> + '_ {
        self.0.iter().map(|(id, _)| *id)
    }

    /// The item that a number means.
    pub fn key(&self, id: ItemId) -> Option<&ItemKey> {
        self.0.iter().find(|(known, _)| *known == id).map(|(_, key)| key)
    }

    /// The verdict with the tracker's own numbers, and the item it is about. A number outside the
    /// batch stays if `is_known` says that it is an item of the same source.
    pub fn own(
        &self,
        mut verdict: Verdict,
        is_known: impl Fn(&ItemKey, ItemId) -> bool,
    ) -> Option<(ItemKey, Verdict)> {
        let item = self.key(verdict.id)?.clone();
        let own = |id: &ItemId| match self.key(*id) {
            Some(other) if other.source() == item.source() => other.item_id(),
            Some(_) => None,
            None => Some(*id).filter(|id| is_known(&item, *id)),
        };
        verdict.related = verdict.related.iter().filter_map(own).collect();
        let duplicates = std::mem::take(&mut verdict.duplicates).into_iter();
        verdict.duplicates = duplicates
            .filter_map(|duplicate| Some(Duplicate { id: own(&duplicate.id)?, ..duplicate }))
            .collect();
        verdict.id = item.item_id().unwrap_or(verdict.id);
        Some((item, verdict))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Complexity;

    #[test]
    fn items_of_two_sources_with_one_number_are_told_apart() {
        let keys = ["web/7", "server/7", "web/8", "server/9"];
        let keys = keys.map(|key| ItemKey::from_stored(key.into()));
        let numbers = Numbers::of(&keys);
        let ids: Vec<i64> = numbers.ids().map(|id| id.0).collect();
        assert_eq!(ids, [7, 9_000_001, 8, 9]);
        assert_eq!(numbers, Numbers::of(&keys), "after a crash as well");
        let verdict = Verdict {
            related: vec![ItemId(7), ItemId(9)],
            duplicates: [55, 66].map(|id| Duplicate { id: ItemId(id), why: String::new() }).into(),
            ..Verdict::new(ItemId(9_000_001), Complexity::Simple, "The same as before.")
        };
        let (item, own) = numbers.own(verdict, |_, id| id == ItemId(55)).unwrap();
        assert_eq!((item.as_str(), own.id), ("server/7", ItemId(7)));
        assert_eq!(own.related, [ItemId(9)], "7 is an item of the other source");
        assert_eq!(own.duplicates.iter().map(|other| other.id).collect::<Vec<_>>(), [ItemId(55)]);
    }
}
