//! The cleaner as a program of its own: `clean [FILE] [--tight] [--markdown-field] [--stats]`.

use std::process::ExitCode;

use clap::Parser;
use heartbeat::cli::clean::{CleanArgs, run};

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    clean: CleanArgs,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = run(
        &arguments.clean,
        &mut std::io::stdin().lock(),
        &mut std::io::stdout().lock(),
        &mut std::io::stderr().lock(),
    );
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
