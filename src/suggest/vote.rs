//! Which values the evidence points to.

use std::collections::BTreeMap;

use crate::model::{Field, ItemFields};

/// Earlier items that vote.
pub const NEIGHBOURS: usize = 30;
/// Similarity of an item that is only recent.
const RECENT: f64 = 0.05;
/// Weight of the code's newest authors together.
const PEOPLE: f64 = 0.06;
/// Evidence below this much is weak however united it is.
const DOUBT: f64 = 0.01;
/// Weight of the reporter's last items together, for the owner: who reports something often owns it,
/// or has somebody who does.
const REPORTER: f64 = 0.1;
const REPORTED: usize = 5;
/// An item that is so many days old counts half: people move on faster than parts of a product.
const HALF_LIFE: f64 = 1_000.0;
const HALF_LIFE_OF_PEOPLE: f64 = 365.0;
/// Candidates per field.
const MAX: usize = 8;

/// An earlier item and how similar it is, from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbour<F = ItemFields> {
    pub similarity: f64,
    /// Days since it was created.
    pub age: f64,
    pub fields: F,
}

/// What is known about a new item besides its text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Most similar first.
    pub neighbours: Vec<Neighbour>,
    /// The last items of the same reporter, newest first.
    pub same_reporter: Vec<ItemFields>,
    /// The last items of the team, newest first.
    pub recent: Vec<ItemFields>,
    /// People who changed the code that the item points to, as the tracker knows them, with their
    /// shares.
    pub people: Vec<(String, f64)>,
    /// Lower case; people who have done nothing lately are not suggested. `None`: not known.
    pub active: Option<std::collections::BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub value: String,
    /// Share of the evidence, from 0 to 1.
    pub score: f64,
}

/// The values of a field that the evidence points to, the most likely first.
pub fn candidates(field: Field, evidence: &Evidence) -> Vec<Candidate> {
    let mut votes: BTreeMap<String, (String, f64)> = BTreeMap::new();
    let mut total = 0.0;
    let mut vote = |fields: &ItemFields, weight: f64| {
        let values = fields.values(field);
        // Most fields of a finished item are filled; one that is not says nothing. No tag is an
        // answer as well.
        if values.is_empty() && !field.is_list() {
            return;
        }
        total += weight;
        for value in values {
            votes.entry(value.to_lowercase()).or_insert_with(|| (value.clone(), 0.0)).1 += weight;
        }
    };
    let half_life = match field {
        Field::Owner | Field::Tags => HALF_LIFE_OF_PEOPLE,
        _ => HALF_LIFE,
    };
    for neighbour in &evidence.neighbours {
        let weight = 0.5_f64.powf(neighbour.age / half_life);
        vote(&neighbour.fields, neighbour.similarity.powi(2) * weight);
    }
    let shared = |fields: &[ItemFields], similarity: f64| {
        similarity.powi(2) / super::memory::count(fields.len().max(1))
    };
    for fields in &evidence.recent {
        vote(fields, shared(&evidence.recent, RECENT));
    }
    if field == Field::Owner {
        let owned = evidence.same_reporter.iter().filter(|fields| fields.owner.is_some());
        let owned: Vec<&ItemFields> = owned.take(REPORTED).collect();
        for fields in &owned {
            vote(fields, REPORTER / super::memory::count(owned.len()));
        }
        for (person, share) in &evidence.people {
            let fields = ItemFields { owner: Some(person.clone()), ..ItemFields::default() };
            vote(&fields, PEOPLE * share);
        }
    }
    let is_there = |name: &str| {
        field != Field::Owner || evidence.active.as_ref().is_none_or(|active| active.contains(name))
    };
    let mut found: Vec<Candidate> = votes
        .into_iter()
        .filter(|(name, _)| is_there(name))
        .map(|(_, (value, votes))| Candidate { value, score: votes / (total + DOUBT) })
        .collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.value.cmp(&b.value)));
    found.truncate(MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(similarity: f64, area: &str, owner: &str, tags: &[&str]) -> Neighbour {
        let filled = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let fields =
            ItemFields { area: filled(area), owner: filled(owner), tags, ..ItemFields::default() };
        Neighbour { similarity, age: 0.0, fields }
    }

    #[test]
    fn similar_items_outvote_many_that_are_less_so_and_who_left_is_not_named() {
        let mut evidence = Evidence {
            neighbours: vec![
                near(0.8, "Shop\\Cart", "Ann", &["ui"]),
                near(0.2, "Shop\\Search", "Bob", &[]),
                near(0.2, "Shop\\Search", "", &[]),
            ],
            ..Evidence::default()
        };
        let areas = candidates(Field::Area, &evidence);
        assert_eq!(areas[0].value, "Shop\\Cart");
        assert!(areas[0].score > 0.8 && areas[1].score < 0.2, "{areas:?}");
        assert_eq!(candidates(Field::Owner, &evidence)[0].value, "Ann");
        let tags = candidates(Field::Tags, &evidence);
        assert!(tags[0].value == "ui" && tags[0].score < 0.9, "no tag is a vote too: {tags:?}");
        evidence.active = Some(["bob".to_owned()].into());
        let owners = candidates(Field::Owner, &evidence);
        assert_eq!(owners.iter().map(|one| one.value.as_str()).collect::<Vec<_>>(), ["Bob"]);
        assert!(candidates(Field::Severity, &evidence).is_empty());
        // Who reported it says more than items that are alike but old.
        evidence.active = None;
        evidence.neighbours.iter_mut().for_each(|one| one.age = 2_000.0);
        let own = ItemFields { owner: Some("Cleo".into()), ..ItemFields::default() };
        evidence.same_reporter = vec![ItemFields::default(), own];
        assert_eq!(candidates(Field::Owner, &evidence)[0].value, "Cleo");
        assert_eq!(candidates(Field::Area, &evidence)[0].value, "Shop\\Cart");
    }
}
