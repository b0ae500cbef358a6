//! The Azure DevOps client against the simulator, over real sockets.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod breaker;
mod canned;
mod completeness;
mod faults;
mod odd_answers;
mod options;
mod proxy;
mod reading;
mod recordings;
mod support;
mod tls;
mod writing;
