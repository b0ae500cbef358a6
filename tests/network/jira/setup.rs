//! A simulated Jira, a client for it, and helpers.

use std::sync::Arc;
use std::time::Duration;

use heartbeat::clock::Clock;
use heartbeat::event::Sink;
use heartbeat::fetch::{
    Connection, FetchRequest, FixedCredential, InMemory, Page, Source as _, Tracker, connect,
};
use heartbeat::ports::SourceMemory;
use heartbeat::settings::{self, SourceKind};
use simulators::jira::{PROJECT, Simulator, SimulatorOptions};

use crate::fetch::setup::{Collected, QUICK};

/// The default configuration with the simulator's address.
pub fn config(simulator: &Simulator) -> settings::Source {
    let text = include_str!("../../../src/config/default.toml");
    let all: settings::Config = toml::from_str(text).expect("the defaults are valid");
    settings::Source {
        name: "jira".to_owned(),
        kind: SourceKind::Jira,
        base_url: simulator.base_url(),
        project: PROJECT.to_owned(),
        user: "bot@contoso.example".to_owned(),
        where_clause: "statusCategory != Done".to_owned(),
        request_timeout: Duration::from_secs(20),
        ..all.source
    }
}

pub struct Setup {
    pub simulator: Simulator,
    pub config: settings::Source,
    pub memory: Arc<InMemory>,
    pub clock: Clock,
    pub events: Arc<Collected>,
}

impl Setup {
    pub async fn new(options: SimulatorOptions) -> Self {
        let clock = options.clock.clone();
        let simulator = Simulator::start(options).await.expect("loopback");
        let config = config(&simulator);
        Self { simulator, config, memory: InMemory::shared(), clock, events: Arc::default() }
    }

    /// Both kinds of Jira.
    pub fn both(options: SimulatorOptions) -> [SimulatorOptions; 2] {
        [true, false].map(|is_cloud| SimulatorOptions { is_cloud, ..options.clone() })
    }

    /// A new client, as after a restart, with the same memory.
    pub fn source(&self) -> Tracker {
        self.source_with("not-a-secret")
    }

    /// The same with another credential.
    pub fn source_with(&self, secret: &str) -> Tracker {
        let memory = Arc::clone(&self.memory) as Arc<dyn SourceMemory>;
        let secret = secret.to_owned().into();
        let credential = Arc::new(FixedCredential::new(secret, "a constant of the test"));
        let connection =
            Connection { retry: QUICK, ..Connection::new(credential, self.clock.clone(), memory) };
        connect(&self.config, connection).expect("the configuration is valid")
    }

    /// The same behind its breaker.
    pub fn guarded(&self) -> Tracker {
        self.source().guarded(self.clock.clone(), Arc::clone(&self.events) as Arc<dyn Sink>)
    }

    /// Reads `limit` pages from the cursor on, stores them, and stops, as a run with enough work
    /// does.
    pub async fn read_some(&self, limit: usize) -> Vec<Page> {
        let source = self.guarded();
        let cursor = self.source().notebook().read().await.unwrap().cursor;
        let overlap = jiff::SignedDuration::try_from(self.config.overlap).unwrap();
        let changed_since = cursor.map(|cursor| cursor - overlap);
        let request = FetchRequest { changed_since, also: vec![] };
        let mut pages = source.open(request).await.unwrap();
        let mut read = Vec::new();
        while read.len() < limit
            && let Some(page) = pages.next().await.unwrap()
        {
            read.push(page);
        }
        pages.commit().await.unwrap();
        read
    }
}
