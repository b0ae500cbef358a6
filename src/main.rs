//! The program: a keeper or a misbehaving agent if it was started as one, else the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = heartbeat::session::keeper::main_if_keeper() {
        return code;
    }
    if let Some(code) = heartbeat::simulate::hostile::main_if_hostile() {
        return code;
    }
    ExitCode::SUCCESS
}
