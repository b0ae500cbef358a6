//! The real binary against the simulators: the complete job, its commands, bad disks, kills.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, prints figures, and starts what it is about"
)]

mod accuracy;
mod backtest;
mod backtest_bad_input;
mod backtest_links;
mod backtest_public;
mod backtest_sources;
mod backtest_tracker;
mod backtest_suggestions;
mod bad_disk;
mod configurations;
mod fault_points;
mod file_source;
mod job;
mod linked_commits;
mod live;
mod neighbours;
mod operate;
mod provider_worlds;
mod publishing;
mod reload;
mod repositories;
mod several_code_bases;
mod stale;
mod terms;
mod trackers;
mod try_out;
