//! Sessions on other hosts, put together from one configuration. Without the feature `fleet` the
//! same functions say that this heartbeat was built without it.

#[cfg(feature = "fleet")]
mod with;
#[cfg(not(feature = "fleet"))]
mod without;

#[cfg(feature = "fleet")]
pub use with::{FleetRun, cancel, look, worker};
#[cfg(not(feature = "fleet"))]
pub use without::{FleetRun, cancel, look, worker};

/// One thing that was looked at for `heartbeat doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetCheck {
    /// Its stable name.
    pub name: &'static str,
    /// What was found; an error is a failure.
    pub found: Result<String, String>,
    /// Something that is worth a warning or names the way out of a failure.
    pub fix: Option<String>,
}

/// What a run needs, and what it says where there is none.
pub const NOT_BUILT: &str = "this heartbeat was built without the feature `fleet`: build it with \
                             `cargo build --release --features fleet`, or empty [fleet] address";
