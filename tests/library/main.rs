//! The modules through their public functions: at most files, no session, no socket.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, prints figures, and starts what it is about"
)]

mod agent_transcripts;
mod architecture;
mod bounded_memory;
mod config_credential;
mod config_load;
mod config_sources;
mod docs;
mod evidence;
mod fix_links;
mod fleet_checkout;
mod fleet_simulation;
mod stream_properties;
mod injection;
mod layout;
mod other_kinds;
mod prompts;
mod rules;
mod scripted_agent;
mod transcripts;
