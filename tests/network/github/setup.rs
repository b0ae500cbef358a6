//! A simulated GitHub, a client for it, and helpers.

use std::sync::Arc;
use std::time::Duration;

use heartbeat::clock::Clock;
use heartbeat::event::Sink;
use heartbeat::fetch::{Connection, FetchRequest, FixedCredential, InMemory, Tracker, connect};
use heartbeat::model::{ItemId, SourceRecord};
use heartbeat::settings::{self, SourceKind};
use simulators::github::{REPOSITORY, Simulator, SimulatorOptions};

use crate::fetch::setup::{Collected, QUICK, read_all};

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
        let text = include_str!("../../../src/config/default.toml");
        let all: settings::Config = toml::from_str(text).expect("the defaults are valid");
        let mut config = all.source;
        config.name = "gh".into();
        config.kind = SourceKind::Github;
        config.base_url = simulator.base_url();
        config.project = REPOSITORY.into();
        config.where_clause = String::new();
        config.request_timeout = Duration::from_secs(20);
        Self { simulator, config, memory: InMemory::shared(), clock, events: Arc::default() }
    }

    /// The same without a limit and with this many issues.
    pub async fn of(items: usize) -> Self {
        Self::new(SimulatorOptions { items, limit: None, ..SimulatorOptions::default() }).await
    }

    /// A new client, as after a restart, with the same memory.
    pub fn source(&self) -> Tracker {
        self.source_with("ghp_not_a_secret")
    }

    pub fn source_with(&self, secret: &str) -> Tracker {
        let secret = FixedCredential::new(secret.to_owned().into(), "a constant of the test");
        let memory = Arc::clone(&self.memory) as _;
        let connection = Connection::new(Arc::new(secret), self.clock.clone(), memory);
        connect(&self.config, Connection { retry: QUICK, ..connection })
            .expect("the configuration is valid")
    }

    /// The same behind its breaker.
    pub fn guarded(&self) -> Tracker {
        self.source().guarded(self.clock.clone(), Arc::clone(&self.events) as Arc<dyn Sink>)
    }

    pub async fn remembered(&self) -> SourceRecord {
        self.source().notebook().read().await.unwrap()
    }

    /// The request of the next run, as its state would make it.
    pub async fn next_request(&self) -> FetchRequest {
        let overlap = jiff::SignedDuration::try_from(self.config.overlap).unwrap();
        let cursor = self.remembered().await.cursor;
        let changed_since = cursor.map(|cursor| cursor.checked_sub(overlap).unwrap());
        FetchRequest { changed_since, also: vec![] }
    }

    /// What a later run delivers. The service has whole seconds, and a run leaves the second in
    /// which it begins to the next one.
    pub async fn read_later(&self) -> Vec<i64> {
        let now = self.clock.now().as_second();
        let is_over = || async { (self.clock.now().as_second() > now).then_some(()) };
        support::until("the next second", is_over).await;
        self.read(self.next_request().await).await
    }

    /// Numbers that a read with a new client delivers.
    pub async fn read(&self, request: FetchRequest) -> Vec<i64> {
        let pages = read_all(&self.source(), request).await.unwrap();
        crate::fetch::setup::ids(&pages)
    }
}

pub fn also(ids: &[i64]) -> FetchRequest {
    let also = ids.iter().map(|id| ItemId(*id)).collect();
    FetchRequest { changed_since: Some(jiff::Timestamp::now()), also }
}
