//! The GitHub client against the simulator, over real sockets.

mod app;
mod completeness;
mod faults;
mod reading;
mod recordings;
mod setup;
mod surroundings;
mod writing;
