//! `simulators github`.

use std::io;

use super::{ActiveFault, Simulator, SimulatorOptions};

#[derive(Debug, Clone, clap::Args)]
pub struct SimulateGithubArgs {
    /// Port on loopback; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Issues in the first repository, parcel/tracking; the first 8 are always the same
    #[arg(long, default_value_t = 24)]
    pub items: usize,
    /// Seed of the issues beyond the first 8
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The only token to accept; without this, any token is accepted
    #[arg(long)]
    pub token: Option<String>,
    /// Inject a fault, optionally for one kind of request and a number of times, such as
    /// secondary403@issues*2; may be repeated
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<ActiveFault>,
    /// Number pages with `page=2` and `rel="last"`, like older servers, instead of `after=`
    #[arg(long)]
    pub counts_pages: bool,
}

/// Serves until the task is cancelled; calls `ready` when it is up.
pub async fn run(args: SimulateGithubArgs, ready: impl FnOnce(&Simulator)) -> io::Result<()> {
    let options = SimulatorOptions {
        port: args.port,
        items: args.items,
        seed: args.seed,
        token: args.token,
        faults: args.faults,
        counts_pages: args.counts_pages,
        ..SimulatorOptions::default()
    };
    let mut simulator = Simulator::start(options).await?;
    ready(&simulator);
    simulator.serving.ended().await
}
