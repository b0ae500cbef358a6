//! Operating heartbeat with the real binary: doctor, service, reports, logs, progress files, kill.

mod world;

mod alarms;
mod daemon;
mod doctor;
mod events;
mod feedback;
mod hooks;
mod http;
mod kill;
mod mcp;
mod packaging;
mod pause;
mod ping;
mod report;
mod schemas;
mod service;
mod terminal;
mod terms;
