//! Operating heartbeat with the real binary: doctor, service, reports, logs, progress files, kill.

mod world;

mod daemon;
mod doctor;
mod events;
mod feedback;
mod http;
mod kill;
mod packaging;
mod report;
mod service;
mod terminal;
mod terms;
