//! Operating heartbeat with the real binary: doctor, service, reports, logs, progress files, kill.

mod world;

mod alarms;
mod daemon;
mod doctor;
mod events;
mod feedback;
mod http;
mod kill;
mod packaging;
mod pause;
mod report;
mod service;
mod terminal;
mod terms;
