//! Identifier newtypes, so that one kind cannot be passed for another.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The tracker's number of a work item; unique within one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemId(pub i64);

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Primary key of an item in the state: the source's configured name and the item's number, as
/// `name/123`.
///
/// The project is not part of it: an item that moves to another project keeps its number and its
/// history.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemKey(String);

impl ItemKey {
    pub fn new(source: &str, id: ItemId) -> Self {
        Self(format!("{source}/{id}"))
    }

    #[must_use]
    pub fn of_same_source(&self, id: ItemId) -> Self {
        Self::new(self.0.rsplit_once('/').map_or(self.0.as_str(), |(source, _)| source), id)
    }

    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The source's configured name; the whole key if it is malformed.
    pub fn source(&self) -> &str {
        self.0.split_once('/').map_or(self.0.as_str(), |(source, _)| source)
    }

    /// The tracker's number; `None` if the key is malformed.
    pub fn item_id(&self) -> Option<ItemId> {
        self.0.rsplit_once('/').and_then(|(_, n)| n.parse().ok()).map(ItemId)
    }
}

impl fmt::Display for ItemKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

uuid_id!(
    /// One run of the job: a scheduled tick or one `--once`. Time-ordered.
    RunId
);
impl SessionId {
    /// The short id that people see and type: the last eight digits, which are random. The first
    /// digits are the time, which sessions started together share.
    pub fn short(self) -> String {
        self.0.simple().to_string().split_off(24)
    }
}

uuid_id!(
    /// One supervised agent session. Time-ordered; also passed to the agent as `--session-id`.
    SessionId
);
