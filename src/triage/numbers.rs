//! What prompts and answers call items by: the tracker's own numbers, as long as they are different.

use std::collections::HashSet;

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
        Self(Vec::new()).and(keys)
    }

    /// The same with numbers for more items; those that have one keep it.
    #[must_use]
    pub fn and<'a>(mut self, keys: impl IntoIterator<Item = &'a ItemKey>) -> Self {
        let mut known: HashSet<ItemKey> = self.0.iter().map(|(_, key)| key.clone()).collect();
        let mut used: HashSet<ItemId> = self.ids().collect();
        let keys: Vec<&ItemKey> =
            keys.into_iter().filter(|key| known.insert((*key).clone())).collect();
        let own: HashSet<ItemId> = keys.iter().filter_map(|key| key.item_id()).collect();
        let taken = used.clone();
        let mut stand_in =
            (FIRST_STAND_IN..).map(ItemId).filter(|id| !own.contains(id) && !taken.contains(id));
        for key in keys {
            let id = key.item_id().filter(|id| !used.contains(id)).or_else(|| stand_in.next());
            let id = id.unwrap_or(ItemId(i64::MAX));
            used.insert(id);
            self.0.push((id, key.clone()));
        }
        self
    }

    /// In the order of the keys.
    pub fn ids(&self) -> impl Iterator<Item = ItemId> + '_ {
        self.0.iter().map(|(id, _)| *id)
    }

    /// The item that a number means.
    pub fn key(&self, id: ItemId) -> Option<&ItemKey> {
        self.0.iter().find(|(known, _)| *known == id).map(|(_, key)| key)
    }

    /// The number of an item.
    pub fn id(&self, key: &ItemKey) -> Option<ItemId> {
        self.0.iter().find(|(_, known)| known == key).map(|(id, _)| *id)
    }

    /// The verdict with the trackers' own numbers, and the item it is about. Numbers that mean
    /// nothing here are left out.
    pub fn own(&self, mut verdict: Verdict) -> Option<(ItemKey, Verdict)> {
        let item = self.key(verdict.id)?.clone();
        let (here, elsewhere): (Vec<ItemKey>, Vec<ItemKey>) = verdict
            .related
            .iter()
            .filter_map(|id| self.key(*id).cloned())
            .partition(|other| other.source() == item.source());
        verdict.related = here.iter().filter_map(ItemKey::item_id).collect();
        verdict.related_elsewhere = elsewhere;
        let meant = |duplicate: Duplicate| {
            let other = self.key(duplicate.id)?;
            let source = other.source();
            let source = (source != item.source()).then(|| source.to_owned());
            Some(Duplicate { id: other.item_id()?, source, ..duplicate })
        };
        let duplicates = std::mem::take(&mut verdict.duplicates).into_iter();
        verdict.duplicates = duplicates.filter_map(meant).collect();
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
        let known = ["server/55", "web/9", "server/7"].map(|key| ItemKey::from_stored(key.into()));
        let all = numbers.clone().and(&known);
        assert_eq!(all.ids().take(4).collect::<Vec<_>>(), numbers.ids().collect::<Vec<_>>());
        let more: Vec<i64> = all.ids().skip(4).map(|id| id.0).collect();
        assert_eq!(more, [55, 9_000_002], "the last one has its number already");
        let duplicate = |id| Duplicate { id: ItemId(id), why: String::new(), source: None };
        let verdict = Verdict {
            related: vec![ItemId(7), ItemId(9)],
            duplicates: [55, 9_000_002, 66].map(duplicate).into(),
            ..Verdict::new(ItemId(9_000_001), Complexity::Simple, "The same as before.")
        };
        let (item, own) = all.own(verdict).unwrap();
        assert_eq!((item.as_str(), own.id), ("server/7", ItemId(7)));
        assert_eq!(own.related, [ItemId(9)], "7 is an item of the other source");
        let related: Vec<String> =
            own.related_keys(&item).iter().map(ToString::to_string).collect();
        assert_eq!(related, ["server/9", "web/7"]);
        let duplicates: Vec<String> =
            own.duplicates.iter().map(|other| other.key(&item).to_string()).collect();
        assert_eq!(duplicates, ["server/55", "web/9"]);
    }
}
