//! Identifiers as types of their own, so that one can never be passed for another.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The number a tracker gives a work item; unique within one collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemId(pub i64);

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What the state is keyed by: the source's configured name and the item's number, as `name/123`.
///
/// The project is not part of it: an item that moves to another project keeps its number and its
/// history.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemKey(String);

impl ItemKey {
    /// The key of item `id` in the source called `source`.
    pub fn new(source: &str, id: ItemId) -> Self {
        Self(format!("{source}/{id}"))
    }

    /// The key of another item of the same source.
    #[must_use]
    pub fn of_same_source(&self, id: ItemId) -> Self {
        Self::new(self.0.rsplit_once('/').map_or(self.0.as_str(), |(source, _)| source), id)
    }

    /// A key as it was stored.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The configured name of the source; the whole key if it is not well formed.
    pub fn source(&self) -> &str {
        self.0.split_once('/').map_or(self.0.as_str(), |(source, _)| source)
    }

    /// The tracker's number in this key, if the key is well formed.
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
    /// One run of the job: a tick that fired, or one `--once`. Time-ordered.
    RunId
);
impl SessionId {
    /// The handle that people see and type: the last eight digits, which are random. The first ones
    /// are the time, which sessions that start together share.
    pub fn short(self) -> String {
        self.0.simple().to_string().split_off(24)
    }
}

uuid_id!(
    /// One supervised agent session. Time-ordered, and the `--session-id` the agent is given.
    SessionId
);
