//! Writes values to fields of an item: the part that all trackers share.

use serde::{Deserialize, Serialize};

use super::FetchError;
use crate::model::{FailureClass, Field, ItemFields, ItemId};

/// New values for fields of one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldWrite {
    pub id: ItemId,
    pub changes: Vec<FieldChange>,
}

/// A value for one field. Nothing that a person set meanwhile is overwritten: the field must still
/// have the expected value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    pub field: Field,
    /// The field's value as text; empty: it has none. Not compared for a tag, which is only added or
    /// removed.
    pub expected: String,
    /// Empty: the field is cleared. For tags, the tag.
    pub value: String,
    /// For tags: removed instead of added.
    #[serde(default)]
    pub remove: bool,
}

impl FieldChange {
    /// The change that takes this one back.
    #[must_use]
    pub fn reversed(&self) -> Self {
        match self.field.is_list() {
            true => Self { remove: !self.remove, ..self.clone() },
            false => {
                Self { expected: self.value.clone(), value: self.expected.clone(), ..self.clone() }
            }
        }
    }

    fn is_in_place(&self, now: &ItemFields) -> bool {
        match self.field.is_list() {
            true => now.has(self.field, &self.value) != self.remove,
            false => now.text(self.field) == self.value,
        }
    }
}

impl FieldWrite {
    /// The changes that are still to be made; an error if a person has set one of the fields
    /// meanwhile.
    pub(super) fn to_do(&self, now: &ItemFields) -> Result<Vec<&FieldChange>, FetchError> {
        let open: Vec<&FieldChange> =
            self.changes.iter().filter(|change| !change.is_in_place(now)).collect();
        let taken = open
            .iter()
            .find(|change| !change.field.is_list() && now.text(change.field) != change.expected);
        match taken {
            Some(change) => {
                let message = format!(
                    "the {} of item {} was changed in the meantime; nothing was written",
                    change.field.into_str(),
                    self.id
                );
                Err(FetchError::new(FailureClass::Gone, message))
            }
            None => Ok(open),
        }
    }
}

/// For a field that a kind of tracker cannot write.
pub(super) fn not_writable(id: ItemId, field: Field, why: &str) -> FetchError {
    let message = format!("the {} of item {id} cannot be written: {why}", field.into_str());
    FetchError::new(FailureClass::Gone, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_person_is_overwritten_and_what_is_there_is_not_written_again() {
        let change = |field, expected: &str, value: &str| FieldChange {
            field,
            expected: expected.into(),
            value: value.into(),
            remove: false,
        };
        let write = FieldWrite {
            id: ItemId(7),
            changes: vec![change(Field::Owner, "", "Ann"), change(Field::Tags, "", "ui")],
        };
        let fields = |owner: &str, tags: &[&str]| ItemFields {
            owner: Some(owner.to_owned()).filter(|owner| !owner.is_empty()),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..ItemFields::default()
        };
        assert_eq!(write.to_do(&fields("", &["a"])).unwrap().len(), 2);
        assert_eq!(write.to_do(&fields("Ann", &["UI"])).unwrap(), Vec::<&FieldChange>::new());
        assert!(write.to_do(&fields("Bob", &[])).is_err());
        let back = FieldWrite {
            changes: write.changes.iter().map(FieldChange::reversed).collect(),
            ..write
        };
        assert_eq!(back.to_do(&fields("Ann", &["ui"])).unwrap().len(), 2);
        assert_eq!(back.to_do(&fields("", &[])).unwrap().len(), 0);
        assert!(back.to_do(&fields("Bob", &["ui"])).is_err(), "a person took over");
    }
}
