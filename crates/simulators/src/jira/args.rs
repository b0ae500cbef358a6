//! `simulators jira`.

use std::io;

use super::{ActiveFault, Simulator, SimulatorOptions};

#[derive(Debug, Clone, clap::Args)]
pub struct SimulateJiraArgs {
    /// Port on loopback; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Issues in the project PARCEL; the first 8 are always the same
    #[arg(long, default_value_t = 24)]
    pub items: usize,
    /// Seed of the issues beyond the first 8
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The only token to accept; without this, any token is accepted
    #[arg(long)]
    pub token: Option<String>,
    /// Act as a Data Center server: version 2 of the API, numbered pages, wiki markup
    #[arg(long)]
    pub server: bool,
    /// Inject a fault, optionally for one kind of request and a number of times, such as
    /// throttled429@search*2; may be repeated
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<ActiveFault>,
}

/// Serves until the task is cancelled; calls `ready` when it is up.
pub async fn run(args: SimulateJiraArgs, ready: impl FnOnce(&Simulator)) -> io::Result<()> {
    let options = SimulatorOptions {
        port: args.port,
        items: args.items,
        seed: args.seed,
        token: args.token,
        is_cloud: !args.server,
        faults: args.faults,
        ..SimulatorOptions::default()
    };
    let mut simulator = Simulator::start(options).await?;
    ready(&simulator);
    simulator.serving.ended().await
}
