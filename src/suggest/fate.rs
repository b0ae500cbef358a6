//! What people did with a suggestion.

use jiff::{SignedDuration, Timestamp};

use crate::model::{Fate, ItemFields, Suggestion};

/// After this long without a change a suggestion counts as ignored, and one that heartbeat wrote as
/// kept.
const WAIT: SignedDuration = SignedDuration::from_hours(14 * 24);

/// The fate of an open suggestion, from the item's fields as they are now. `written`: heartbeat
/// wrote the value itself, so finding it there tells nothing about a person until time has passed.
pub fn fate(
    suggestion: &Suggestion,
    now_set: &ItemFields,
    (made_at, now): (Timestamp, Timestamp),
    written: bool,
) -> Fate {
    let over = now.duration_since(made_at) >= WAIT;
    let field = suggestion.field;
    let is_there = now_set.has(field, &suggestion.value);
    let unchanged = now_set.text(field) == suggestion.before;
    match (is_there, written) {
        (true, false) => Fate::Kept,
        (true, true) if over => Fate::Kept,
        (true, true) => Fate::Open,
        (false, true) => Fate::Changed,
        // Other tags than this one are no answer to it.
        (false, false) if unchanged || field.is_list() => match over {
            true => Fate::Ignored,
            false => Fate::Open,
        },
        (false, false) => Fate::Changed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ChosenBy, Field, ItemKey};

    #[test]
    fn a_value_that_heartbeat_wrote_is_nobodys_answer_until_it_has_stayed() {
        let suggestion = Suggestion {
            key: ItemKey::from_stored("ado/1".into()),
            field: Field::Area,
            value: "Shop\\Cart".into(),
            before: "Shop".into(),
            area: "Shop\\Cart".into(),
            by: ChosenBy::History,
            score: 0.9,
            record: None,
            shown: true,
            fate: Fate::Open,
        };
        let set = |area: &str| ItemFields { area: Some(area.into()), ..ItemFields::default() };
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (soon, late) = ("2026-01-02T00:00:00Z", "2026-02-01T00:00:00Z");
        let at = |now: &str| (start, now.parse().unwrap());
        let judged =
            |area: &str, now: &str, written| fate(&suggestion, &set(area), at(now), written);
        assert_eq!(judged("Shop\\Cart", soon, false), Fate::Kept);
        assert_eq!(judged("Shop\\Cart", soon, true), Fate::Open);
        assert_eq!(judged("Shop\\Cart", late, true), Fate::Kept);
        assert_eq!(judged("Shop\\Search", soon, false), Fate::Changed);
        assert_eq!(judged("Shop", soon, true), Fate::Changed, "a person took it back");
        assert_eq!(judged("Shop", soon, false), Fate::Open);
        assert_eq!(judged("Shop", late, false), Fate::Ignored);
    }
}
