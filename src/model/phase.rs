use serde::{Deserialize, Serialize};

/// Processing state of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Phase {
    /// Waits to be processed.
    Pending,
    /// A session for it is running, or was when heartbeat crashed.
    Claimed,
    /// Finished; no work until it changes.
    Done,
    /// Failed; will be retried.
    Waiting,
    /// Not retried until it changes or a person requeues it.
    Parked,
    /// No longer in the source.
    Vanished,
}
