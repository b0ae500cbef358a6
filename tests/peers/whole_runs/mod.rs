//! The real binary with the real agent CLI: a simulated tracker on one side, a loopback Messages
//! API on the other.
//!
//! Needs the CLI at `$HEARTBEAT_REAL_CLAUDE`; prints a message and passes if it is missing.

mod blame;
mod evidence;
mod kills;
mod kinds;
mod limits;
mod login;
mod money;
mod outage;
mod pictures;
mod reading;
mod replay;
mod settings;
mod whole_run;
mod world;
