//! Operating heartbeat with the real binary: doctor, service, reports, logs, progress files, kill.
#![cfg(target_os = "linux")]

mod support;

mod daemon;
mod doctor;
mod events;
mod kill;
mod packaging;
mod report;
mod service;
