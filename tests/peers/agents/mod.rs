//! The real CLIs of Codex and Copilot under the real supervisor, on a loopback API: what their
//! contracts warn of, each as a test.
//!
//! Needs the CLIs at `$HEARTBEAT_REAL_CODEX` and `$HEARTBEAT_REAL_COPILOT`; says so and passes when
//! one is not there.

pub mod bench;
mod bounds;
mod confined;
mod endings;
