//! heartbeat: a scheduled batch job that triages Azure DevOps work items and analyses the ones
//! that deserve it.

pub mod clean;
pub mod clock;
pub mod config;
pub mod context;
pub mod dedupe;
pub mod event;
pub mod exec;
pub mod fetch;
pub mod model;
pub mod schedule;
pub mod session;
pub mod store;
pub mod report;
