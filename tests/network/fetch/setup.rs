//! A simulator, a client for it, and helpers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use heartbeat::clock::Clock;
use heartbeat::event::{Event, Sink};
use heartbeat::fetch::FixedCredential;
use heartbeat::fetch::retry::RetryPolicy;
use heartbeat::fetch::{
    Connection, FetchError, FetchRequest, InMemory, Page, Source, Tracker, connect,
};
use heartbeat::ports::SourceMemory;
use heartbeat::settings;
use heartbeat::simulate::ado::{Simulator, SimulatorOptions};

/// Retries without waiting.
pub const QUICK: RetryPolicy =
    RetryPolicy { tries: 3, base: Duration::from_millis(1), cap: Duration::from_millis(2) };

/// The default configuration with the simulator's address.
pub fn config(simulator: &Simulator) -> settings::Source {
    let text = include_str!("../../../src/config/default.toml");
    let all: settings::Config = toml::from_str(text).expect("the defaults are valid");
    let mut source = all.source;
    source.base_url = simulator.base_url();
    source.project = simulator.project().to_owned();
    source.request_timeout = Duration::from_secs(20);
    source
}

pub fn credential() -> Arc<FixedCredential> {
    Arc::new(FixedCredential::new("not-a-secret".to_owned().into(), "a constant of the test"))
}

pub struct Setup {
    pub simulator: Simulator,
    pub config: settings::Source,
    pub memory: Arc<InMemory>,
    pub clock: Clock,
    pub events: Arc<Collected>,
}

#[derive(Default)]
pub struct Collected(Mutex<Vec<Event>>);

impl Collected {
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Sink for Collected {
    fn emit(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

impl Setup {
    pub async fn new(options: SimulatorOptions) -> Self {
        let clock = options.clock.clone();
        let simulator = Simulator::start(options).await.expect("loopback");
        let config = config(&simulator);
        Self { simulator, config, memory: InMemory::shared(), clock, events: Arc::default() }
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
        let connection = Connection::new(credential, self.clock.clone(), memory);
        connect(&self.config, Connection { retry: QUICK, ..connection })
            .expect("the configuration is valid")
    }

    /// The same behind its breaker.
    pub fn guarded(&self) -> Tracker {
        self.source().guarded(self.clock.clone(), Arc::clone(&self.events) as Arc<dyn Sink>)
    }
}

pub fn everything() -> FetchRequest {
    FetchRequest { changed_since: None, also: vec![] }
}

/// Reads all pages, as a run without limits does.
pub async fn read_all(source: &dyn Source, request: FetchRequest) -> Result<Vec<Page>, FetchError> {
    let mut pages = source.open(request).await?;
    let mut all = Vec::new();
    while let Some(page) = pages.next().await? {
        all.push(page);
    }
    pages.commit().await?;
    Ok(all)
}

pub fn ids(pages: &[Page]) -> Vec<i64> {
    pages.iter().flat_map(|page| &page.items).map(|item| item.id.0).collect()
}
