//! `cargo run -p heartbeat-simulators -- github`: a simulated tracker to try a configuration on.

use std::io::{self, Write as _};

use clap::Parser;
use heartbeat_simulators::{github, jira};

/// A simulated tracker on loopback; Azure DevOps is in `heartbeat simulate ado`
#[derive(Parser)]
enum TrackerCommand {
    /// A GitHub server with two repositories and their issues
    Github(github::SimulatorOptions),
    /// A Jira server, Cloud or Data Center, with a project and its issues
    Jira(jira::SimulatorOptions),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    match TrackerCommand::parse() {
        TrackerCommand::Github(args) => {
            let ready = |simulator: &github::Simulator| {
                announce("github", &simulator.base_url(), github::REPOSITORY);
            };
            github::Simulator::run(args, ready).await
        }
        TrackerCommand::Jira(args) => {
            let ready = |simulator: &jira::Simulator| {
                announce("jira", &simulator.base_url(), jira::PROJECT);
            };
            jira::Simulator::run(args, ready).await
        }
    }
}

/// The address for scripts on standard output, and the command that uses it on standard error.
fn announce(kind: &str, address: &str, project: &str) {
    let advice = format!(
        "Try it: heartbeat init --kind {kind} --base-url {address} --project {project} --repository DIR\n\
         Ctrl-C stops it.\n"
    );
    // A closed stream is not an error.
    drop(writeln!(io::stdout(), "{address}"));
    drop(io::stderr().write_all(advice.as_bytes()));
}
