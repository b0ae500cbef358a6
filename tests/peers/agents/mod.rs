//! The real CLIs of Codex and Copilot under the real supervisor, on a loopback API: each risk in
//! their contracts as a test.
//!
//! Needs the CLIs at `$HEARTBEAT_REAL_CODEX` and `$HEARTBEAT_REAL_COPILOT`; prints a message and
//! passes if one is missing.

pub mod bench;
mod bounds;
mod confined;
mod endings;
mod gateway;
mod sandbox;
