//! heartbeat: a scheduled batch job that triages Azure DevOps work items and analyses the ones
//! that deserve it.

pub mod model;
pub mod event;
pub mod clock;
pub mod config;
pub mod schedule;
pub mod fetch;
pub mod clean;
pub mod dedupe;
pub mod prompt;
pub mod triage;
pub mod context;
pub mod analyze;
pub mod session;
pub mod store;
pub mod report;
pub mod run;
pub mod simulate;
pub mod exec;
pub mod app;
pub mod cli;
