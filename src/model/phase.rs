use serde::{Deserialize, Serialize};

/// Where an item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Phase {
    /// Work that waits for its turn.
    Pending,
    /// A session for it is running, or was when heartbeat died.
    Claimed,
    /// Finished; nothing to do until it changes.
    Done,
    /// Failed; there will be another attempt.
    Waiting,
    /// Left to people until it changes or is retried.
    Parked,
    /// Gone from the source.
    Vanished,
}
