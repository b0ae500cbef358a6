//! Builds the parts for sessions on other hosts from one configuration. Without the feature `fleet`
//! the same functions report that this heartbeat was built without it.

#[cfg(feature = "fleet")]
mod with;
#[cfg(not(feature = "fleet"))]
mod without;

#[cfg(feature = "fleet")]
pub use with::{FleetRun, cancel, check_fleet, public_key, worker};
#[cfg(not(feature = "fleet"))]
pub use without::{FleetRun, cancel, check_fleet, public_key, worker};

/// A check of `heartbeat doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetCheck {
    /// Stable name.
    pub name: &'static str,
    /// An error is a failure.
    pub found: Result<String, String>,
    /// A warning, or the remedy for a failure.
    pub fix: Option<String>,
}

/// Message of a build without the feature.
pub const NOT_BUILT: &str = "this heartbeat was built without the feature `fleet`: build it with \
                             `cargo build --release --features fleet`, or remove [fleet] address";
