//! The Azure DevOps client against the simulator, over real sockets.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod reading;
mod support;
