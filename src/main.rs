//! The `heartbeat` binary: a keeper or a misbehaving stand-in if it was started as one, else the
//! command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Both fork and must be single-threaded: they are decided before anything else starts.
    heartbeat::session::keeper::main_if_keeper()
        .or_else(heartbeat::simulate::hostile::main_if_hostile)
        .unwrap_or_else(heartbeat::cli::main)
}
