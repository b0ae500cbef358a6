//! heartbeat: a scheduled batch job that triages Azure DevOps work items and analyses the ones
//! that deserve it.

pub mod analyze;
pub mod clean;
pub mod clock;
pub mod config;
pub mod context;
pub mod dedupe;
pub mod event;
pub mod exec;
pub mod fetch;
pub mod model;
<<<<<<< HEAD
pub mod schedule;
pub mod session;
pub mod store;
pub mod report;
=======
pub mod prompt;
pub mod session;
pub mod triage;
>>>>>>> df9a812 (prompt, triage, analyze: what is asked, how it is fenced, how the answer is checked)
