//! A tracker: one of a closed set of clients, with its circuit breaker if a run reads from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use super::ado::AdoSource;
use super::credential::Credential;
use super::field_write::{FieldWrite, not_writable};
use super::file::FileSource;
use super::github::GithubSource;
use super::guarded::{Guard, Watch};
use super::http::{Http, Turns};
use super::jira::JiraSource;
use super::pages::Reading;
use super::retry::RetryPolicy;
use super::write_back::{WriteBack, Written, ensure_writable};
use super::{
    AsOf, CurrentState, FetchError, FetchRequest, FinishedItem, FinishedRequest, InMemory,
    ItemFile, LinkedItem, Notebook, Pages, Source, filters,
};
use crate::clock::Clock;
use crate::event::Sink;
use crate::model::{
    Attachment, BoxFuture, FailureClass, ItemFields, ItemId, LinkedChange, LinkedContent,
};
use crate::ports::SourceMemory;
use crate::settings::{self, SourceAuth, SourceKind};

/// What a client needs besides its configuration.
#[derive(Clone)]
pub struct Connection {
    pub credential: Arc<dyn Credential>,
    pub clock: Clock,
    pub memory: Arc<dyn SourceMemory>,
    /// How reads are retried.
    pub retry: RetryPolicy,
    /// Shared by all clients of one process, so that an organisation gets one request at a time.
    pub turns: Turns,
}

impl Connection {
    /// With default retries, and its own turns.
    pub fn new(
        credential: Arc<dyn Credential>,
        clock: Clock,
        memory: Arc<dyn SourceMemory>,
    ) -> Self {
        let (retry, turns) = (RetryPolicy::default(), Turns::default());
        Self { credential, clock, memory, retry, turns }
    }
}

/// Results of the checks; each failure names its fix.
#[derive(Debug)]
pub struct Probe {
    /// The credential's account.
    pub account: Result<String, FetchError>,
    /// The project by the tracker's name for it.
    pub project: Result<String, FetchError>,
    /// Number of items that the query finds within the look-back.
    pub matching: Result<usize, FetchError>,
}

/// Attempts to write a field if somebody else changes the item at the same time.
const MAX_WRITES: u32 = 3;

/// A tracker of any kind.
#[derive(Clone)]
pub struct Tracker {
    client: Client,
    guard: Option<Arc<Guard>>,
}

/// The client of a tracker.
#[derive(Clone)]
pub(super) enum Client {
    Ado(Arc<AdoSource>),
    Github(Arc<GithubSource>),
    Jira(Arc<JiraSource>),
    File(Arc<FileSource>),
    /// Its configuration cannot be used: every read returns the reason.
    Unusable(FetchError),
}

/// Creates a client for the source in `config`; sends nothing.
pub fn connect(config: &settings::Source, connection: Connection) -> Result<Tracker, FetchError> {
    // A file has no query language: it applies the filters itself.
    let queried = &filters::in_where(config);
    let client = match config.kind {
        SourceKind::Ado => Client::Ado(Arc::new(AdoSource::connect(queried, &connection)?)),
        SourceKind::Github => Client::Github(Arc::new(GithubSource::connect(queried, connection)?)),
        SourceKind::Jira => Client::Jira(Arc::new(JiraSource::connect(queried, &connection)?)),
        SourceKind::File => Client::File(Arc::new(FileSource::connect(config, connection))),
    };
    Ok(Tracker { client, guard: None })
}

/// The same call to a client of any kind.
macro_rules! any {
    ($tracker:expr, $client:ident => $call:expr) => {
        match $tracker {
            Client::Ado($client) => $call,
            Client::Github($client) => $call,
            Client::Jira($client) => $call,
            Client::File($client) => $call,
            Client::Unusable(error) => Err(error.clone()),
        }
    };
}

impl Client {
    /// The connection, if it has one.
    fn http(&self) -> Option<(&settings::Source, &Http)> {
        match self {
            Self::Ado(ado) => Some((&ado.config, &ado.http)),
            Self::Github(github) => Some((&github.config, &github.http)),
            Self::Jira(jira) => Some((&jira.config, &jira.http)),
            Self::File(_) | Self::Unusable(_) => None,
        }
    }

    /// A hash of everything a user could change to make a rejected request work: configuration and
    /// credential. It reveals neither. Tokens that are renewed often are excluded.
    pub async fn configuration_fingerprint(&self) -> Option<String> {
        if let Self::File(file) = self {
            return Some(file.configuration_fingerprint());
        }
        let (config, http) = self.http()?;
        let settings = serde_json::to_string(config).unwrap_or_default();
        let secret = match config.auth {
            SourceAuth::Pat => http.secret().await.unwrap_or_default(),
            SourceAuth::Bearer | SourceAuth::App => SecretString::default(),
        };
        Some(short_hash([&settings, secret.expose_secret().trim()]))
    }

    /// Sends one cheap request without retries that checks the query: the circuit breaker's probe.
    pub async fn check(&self) -> Result<(), FetchError> {
        any!(self, client => client.check().await)
    }

    /// Checks that writing is allowed.
    async fn ensure_writable(&self, write: &WriteBack<'_>) -> Result<(), FetchError> {
        match self.http() {
            Some((_, http)) => ensure_writable(http, write).await,
            None => Ok(()),
        }
    }
}

pub(super) fn short_hash<const N: usize>(texts: [&str; N]) -> String {
    let hash = texts.iter().fold(Sha256::new(), Digest::chain_update);
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Tracker {
    /// A tracker whose configuration cannot be used.
    pub fn unusable(error: FetchError) -> Self {
        Self { client: Client::Unusable(error), guard: None }
    }

    /// The same behind its circuit breaker.
    #[must_use]
    pub fn guarded(self, clock: Clock, sink: Arc<dyn Sink>) -> Self {
        let guard = Guard { notebook: self.notebook(), clock, sink };
        Self { guard: Some(Arc::new(guard)), ..self }
    }

    /// What is remembered about this source.
    pub fn notebook(&self) -> Arc<Notebook> {
        let of_connection = || self.client.http().map(|(_, http)| Arc::clone(&http.notebook));
        match &self.client {
            Client::File(file) => Arc::clone(&file.notebook),
            _ => of_connection().unwrap_or_else(|| Notebook::new(InMemory::shared(), "")),
        }
    }

    fn counted(&self) -> Arc<AtomicU64> {
        self.client.http().map(|(_, http)| http.requests()).unwrap_or_default()
    }

    /// Requests sent since the start.
    pub fn requests(&self) -> u64 {
        self.counted().load(Ordering::Relaxed)
    }

    /// Sends one cheap request without retries that checks the query.
    pub async fn check(&self) -> Result<(), FetchError> {
        match &self.guard {
            Some(guard) => guard.check(&self.client).await,
            None => self.client.check().await,
        }
    }

    async fn start(&self, request: FetchRequest) -> Result<Reading, FetchError> {
        let watch = match &self.guard {
            Some(guard) => Some(Watch::new(Arc::clone(guard), guard.pass(&self.client).await?)),
            None => None,
        };
        let (requests, notebook) = (self.counted(), self.notebook());
        any!(&self.client, client => {
            let listing = Arc::clone(client).listing(&request);
            Ok(Reading::start(listing, request, notebook, requests, watch))
        })
    }

    /// Passes the breaker, asks, and records the result.
    async fn ask<T>(
        &self,
        question: impl Future<Output = Result<T, FetchError>>,
    ) -> Result<T, FetchError> {
        let Some(guard) = &self.guard else { return question.await };
        let setting = guard.pass(&self.client).await?;
        guard.record_result(question.await, setting).await
    }

    /// Writes a comment and a tag, once. Where the tracker has revisions, an item that has changed
    /// is a [`Conflict`](FailureClass::Conflict); an existing comment is recognised by its mark.
    pub async fn write_back(&self, write: &WriteBack<'_>) -> Result<Written, FetchError> {
        self.client.ensure_writable(write).await?;
        any!(&self.client, client => client.write(write).await)
    }

    /// Checks whether the write would be accepted; nothing is changed.
    pub async fn validate_write_back(&self, write: &WriteBack<'_>) -> Result<(), FetchError> {
        self.client.ensure_writable(write).await?;
        any!(&self.client, client => client.validate(write).await)
    }

    /// Writes values to fields, each only if it still has the expected value; what is there already
    /// is not written again.
    pub async fn set_fields(&self, write: &FieldWrite) -> Result<Written, FetchError> {
        for change in &write.changes {
            let why = match &self.client {
                Client::Github(_) => GithubSource::cannot_write(change.field),
                Client::Jira(_) => JiraSource::cannot_write(change.field),
                Client::Ado(_) | Client::File(_) | Client::Unusable(_) => None,
            };
            if let Some(why) = why {
                return Err(not_writable(write.id, change.field, why));
            }
        }
        let mut writes = 0;
        loop {
            let item = any!(&self.client, client => client.current(write.id).await)?;
            let open = write.to_do(&ItemFields::of(&item))?;
            if open.is_empty() {
                return Ok(Written { rev: item.rev, repeated: true });
            }
            writes += 1;
            match any!(&self.client, client => client.write_fields(&item, &open).await) {
                Err(error) if error.class == FailureClass::Conflict && writes < MAX_WRITES => {}
                written => return Ok(Written { rev: written?, repeated: false }),
            }
        }
    }

    /// Checks credential, project and query. Bypasses the breaker, since a user is asking.
    pub async fn probe(&self) -> Probe {
        let matching = match &self.client {
            Client::Github(_) => self.count().await,
            Client::Ado(ado) => ado.matching().await,
            Client::Jira(jira) => jira.matching().await,
            Client::File(file) => file.matching().await,
            Client::Unusable(error) => Err(error.clone()),
        };
        Probe {
            account: any!(&self.client, client => client.account().await),
            project: any!(&self.client, client => client.project_name().await),
            matching,
        }
    }

    /// How many items a read delivers, up to a thousand.
    async fn count(&self) -> Result<usize, FetchError> {
        let request = FetchRequest { changed_since: None, also: Vec::new() };
        let mut reading = self.start(request).await?;
        let mut count = 0;
        while count < 1_000
            && let Some(page) = reading.next().await?
        {
            count += page.items.len();
        }
        Ok(count)
    }
}

/// The answer of a client that has one: `Ok(None)` for a kind of tracker that has no such request.
macro_rules! some {
    ($tracker:expr, $($kind:ident)|+, $client:ident => $call:expr) => {
        Box::pin(async move {
            match &$tracker.client {
                $(Client::$kind($client) => $call.await.map(Some),)+
                _ => Ok(None),
            }
        })
    };
}

impl Source for Tracker {
    fn open(&self, request: FetchRequest) -> BoxFuture<'_, Result<Box<dyn Pages>, FetchError>> {
        Box::pin(async move { Ok(Box::new(self.start(request).await?) as Box<dyn Pages>) })
    }

    fn finished(
        &self,
        request: FinishedRequest,
    ) -> BoxFuture<'_, Result<Option<Vec<FinishedItem>>, FetchError>> {
        let found = some!(self, Ado | Github | Jira, client => client.finished(&request));
        Box::pin(self.ask(found as BoxFuture<'_, _>))
    }

    fn as_of(
        &self,
        ids: Vec<ItemId>,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<Vec<AsOf>>, FetchError>> {
        let items = some!(self, Ado | Github | Jira, client => client.as_of(&ids, at));
        Box::pin(self.ask(items as BoxFuture<'_, _>))
    }

    fn development_links(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<LinkedItem>>, FetchError>> {
        let links = some!(self, Ado | Github, client => client.development_links(&ids));
        Box::pin(self.ask(links as BoxFuture<'_, _>))
    }

    fn still_matching(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<ItemId>>, FetchError>> {
        Box::pin(async move {
            match &self.client {
                // A saved query cannot be limited to single items.
                Client::Ado(ado) if !ado.config.saved_query.is_empty() => Ok(None),
                Client::Unusable(_) => Ok(None),
                client => any!(client, client => client.still_matching(&ids).await.map(Some)),
            }
        })
    }

    fn current_states(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<CurrentState>>, FetchError>> {
        some!(self, Ado | Github | Jira | File, client => client.current_states(&ids))
    }

    fn linked_content(
        &self,
        id: ItemId,
    ) -> BoxFuture<'_, Result<Option<LinkedContent>, FetchError>> {
        Box::pin(async move {
            match &self.client {
                Client::Ado(ado) => ado.linked_content(id).await.map(Some),
                Client::Github(github) => github.linked_content(id).await,
                Client::Jira(jira) => jira.linked_content(id).await,
                Client::File(_) | Client::Unusable(_) => Ok(None),
            }
        })
    }

    fn attached_files(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<ItemFile>>, FetchError>> {
        some!(self, Ado | Jira, client => client.attached_files(&ids))
    }

    fn id_of(&self, name: String) -> BoxFuture<'_, Result<Option<ItemId>, FetchError>> {
        Box::pin(async move {
            match &self.client {
                Client::Github(github) => github.number_of(&name).await,
                Client::Jira(jira) => jira.number_of(&name).await,
                Client::Ado(_) | Client::File(_) | Client::Unusable(_) => Ok(None),
            }
        })
    }

    fn change(&self, change: LinkedChange) -> BoxFuture<'_, Result<LinkedChange, FetchError>> {
        Box::pin(async move {
            match &self.client {
                Client::Ado(ado) => ado.change(change).await,
                Client::Github(github) => github.change(change).await,
                Client::Jira(_) | Client::File(_) | Client::Unusable(_) => Ok(change),
            }
        })
    }

    fn attachment(
        &self,
        file: Attachment,
        limit: u64,
    ) -> BoxFuture<'_, Result<Vec<u8>, FetchError>> {
        Box::pin(async move { any!(&self.client, client => client.attachment(&file, limit).await) })
    }
}
