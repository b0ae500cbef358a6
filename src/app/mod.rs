//! The composition root: the only place that names concrete edges.
//!
//! [`Setting`] is everything one run needs, built from one configuration. `running` performs runs
//! and dry runs, `daemon` follows the schedule, `demo` replaces tracker and agent by simulators.

pub mod after_run;
pub mod backtest;
pub mod backtest_triage;
pub mod undo;
mod credential;
pub mod daemon;
pub mod demo;
mod digest;
mod early;
pub mod error;
pub mod exit;
pub mod fleet;
mod integrity;
pub mod later_fixes;
mod lifecycle;
mod logfile;
mod logging;
mod notify;
pub mod past_analysis;
mod pings;
mod plain_writer;
pub mod running;
mod secrets;
pub mod selftest;
mod setting;
mod signals;
mod silence;
mod stale;
mod startup;
mod telemetry;
mod temporary;
mod timetable;
mod trackers;
pub mod verify;
pub mod waker;
pub mod web;

pub use credential::ConfiguredCredential;
pub use notify::Notifier;
pub use setting::{Overrides, Setting, StartOptions, load_request, owner_of, state_folder};
pub use signals::Signals;
pub use telemetry::Telemetry;
pub use temporary::TemporaryFolder;

/// Makes this process the reaper of stray processes that its keepers might leave. Without it, the
/// strays of a killed keeper are still found by their markers.
fn guard_children() {
    if let Err(error) = crate::session::become_outer_reaper() {
        tracing::warn!(%error, "cannot become a subreaper; stray processes are found by their \
                                environment marker only");
    }
}
