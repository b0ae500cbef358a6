//! `heartbeat simulate ado`.

use std::io;

use super::{ActiveFault, Simulator, SimulatorOptions};

#[derive(Debug, Clone, clap::Args)]
pub struct SimulateAdoArgs {
    /// Port on loopback; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Items in the backlog; the first 24 are always the same
    #[arg(long, default_value_t = 24)]
    pub items: usize,
    /// Seed of the items beyond the first 24
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The only token to accept; without this, any token is accepted
    #[arg(long)]
    pub token: Option<String>,
    /// Path before the project, as on an Azure DevOps Server: tfs/DefaultCollection
    #[arg(long, default_value = "contoso")]
    pub collection: String,
    /// Inject a fault, optionally for one kind of request and a number of times, such as
    /// throttled429@wiql*2; may be repeated
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<ActiveFault>,
}

/// Serves until the task is cancelled; calls `ready` when it is up.
pub async fn run(args: SimulateAdoArgs, ready: impl FnOnce(&Simulator)) -> io::Result<()> {
    let options = SimulatorOptions {
        port: args.port,
        items: args.items,
        seed: args.seed,
        token: args.token,
        faults: args.faults,
        collection: args.collection,
        ..SimulatorOptions::default()
    };
    let mut simulator = Simulator::start(options).await?;
    ready(&simulator);
    simulator.serving.ended().await
}
