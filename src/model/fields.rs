//! The fields of a work item that a team fills in while it triages, and suggested values for them.

use serde::{Deserialize, Serialize};

use super::{ItemKey, WorkItem};

/// A field that triage can suggest a value for.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Field {
    Area,
    Type,
    Priority,
    Severity,
    Tags,
    Owner,
}

impl Field {
    pub const ALL: [Self; 6] =
        [Self::Area, Self::Type, Self::Priority, Self::Severity, Self::Tags, Self::Owner];

    /// An item can have several values of it.
    pub const fn is_list(self) -> bool {
        matches!(self, Self::Tags)
    }

    /// What a single value of it is called.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tags => "tag",
            other => other.into_str(),
        }
    }
}

/// The values of an item's fields at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ItemFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub area: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub item_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Who reported it, where the tracker tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reporter: Option<String>,
}

impl ItemFields {
    pub fn of(item: &WorkItem) -> Self {
        let filled = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        Self {
            area: filled(&item.area_path),
            item_type: Some(item.item_type.clone()).filter(|name| !name.is_empty()),
            priority: item.priority.map(|priority| priority.to_string()),
            severity: filled(&item.severity),
            tags: item.tags.clone(),
            owner: filled(&item.assigned_to),
            reporter: filled(&item.reporter),
        }
    }

    /// The values of a field: at most one unless it is a list.
    pub fn values(&self, field: Field) -> &[String] {
        let single = match field {
            Field::Area => &self.area,
            Field::Type => &self.item_type,
            Field::Priority => &self.priority,
            Field::Severity => &self.severity,
            Field::Owner => &self.owner,
            Field::Tags => return &self.tags,
        };
        single.as_slice()
    }

    pub fn set(&mut self, field: Field, values: Vec<String>) {
        let single = match field {
            Field::Area => &mut self.area,
            Field::Type => &mut self.item_type,
            Field::Priority => &mut self.priority,
            Field::Severity => &mut self.severity,
            Field::Owner => &mut self.owner,
            Field::Tags => {
                self.tags = values;
                return;
            }
        };
        *single = values.into_iter().next().filter(|value| !value.is_empty());
    }

    pub fn has(&self, field: Field, value: &str) -> bool {
        self.values(field).iter().any(|own| own.eq_ignore_ascii_case(value))
    }

    /// As one text, for a reader or to compare.
    pub fn text(&self, field: Field) -> String {
        self.values(field).join(", ")
    }
}

/// Who chose a suggested value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ChosenBy {
    /// The team's earlier items alone; triage agreed or was not asked.
    History,
    /// Triage, which preferred it to what earlier items suggest.
    Triage,
}

/// What became of a suggestion.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Fate {
    Open,
    /// A person set this value, or left what heartbeat had written.
    Kept,
    /// A person chose another value.
    Changed,
    /// Nobody touched the field.
    Ignored,
}

/// How often suggestions like this one were right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackRecord {
    pub right: u32,
    pub of: u32,
}

impl TrackRecord {
    pub fn precision(self) -> f64 {
        f64::from(self.right) / f64::from(self.of.max(1))
    }

    /// In whole percent.
    pub fn percent(self) -> u32 {
        (200 * self.right + self.of).checked_div(2 * self.of).unwrap_or(0)
    }
}

/// A suggested value for one field of an item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suggestion {
    pub key: ItemKey,
    pub field: Field,
    pub value: String,
    /// The field's value when it was suggested; empty if there was none.
    pub before: String,
    /// The area whose record counts for it.
    pub area: String,
    pub by: ChosenBy,
    /// Share of the evidence for this value, from 0 to 1.
    pub score: f64,
    /// How often such suggestions were right on this team's items; `None`: not known, so it is not
    /// shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<TrackRecord>,
    /// Right often enough to be shown.
    pub shown: bool,
    pub fate: Fate,
}

impl Suggestion {
    /// `right in 87 % of your last 400 items`
    pub fn figure(&self) -> Option<String> {
        let record = self.record?;
        Some(format!("right in {} % of your last {} items", record.percent(), record.of))
    }
}
