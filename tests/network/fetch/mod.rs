//! The Azure DevOps client against the simulator, over real sockets.

mod breaker;
pub mod canned;
mod completeness;
mod faults;
mod look_back;
mod odd_answers;
mod options;
mod proxy;
mod reading;
mod recordings;
pub mod setup;
mod surroundings;
mod tls;
mod writing;
