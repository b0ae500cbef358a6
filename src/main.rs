//! The `heartbeat` binary: a keeper or a misbehaving stand-in if it was started as one, else the
//! command line.

use std::process::ExitCode;

use heartbeat::{cli, process, session, simulate};

fn main() -> ExitCode {
    // Both fork and must be single-threaded: they are decided before anything else starts.
    let other_role = session::keeper::main_if_keeper().or_else(simulate::hostile::main_if_hostile);
    if let Some(ended) = other_role {
        return ended;
    }
    // What is read into memory from here on may be a secret.
    process::protect_from_inspection();
    cli::main(process::own_environment())
}
