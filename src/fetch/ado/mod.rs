//! Azure DevOps Services and Server.
//!
//! The default way of reading is one query for the ids that changed and then batches of items;
//! for big collections there is the revision stream. One request is on its way at a time, success
//! is JSON with a 2xx that is not 203, and every failure has a class with its own action.
//!
//! What is honoured and where: addresses, versions and headers in `http`, `client` and `version`;
//! the query language and its limits in `query` and `pages`; texts, identities and dates
//! in `decode`; finished items, their past texts and their links to commits in `look_back`; failures in `failure`; limits and "not before" in `http` and the notebook; writing
//! in `write_back`; the revision stream in `reporting`.
//!
//! Items are read as they are now and not `asOf` the query: an edit in between is read early
//! instead of late, and the cursor never passes the time of the query, so none is missed.
//!
//! Out of scope, with the reason: service hooks (they cannot reach a private machine, and lose
//! events on probation, so polling has to exist anyway); NTLM and Kerberos (the HTTP client does
//! not speak them; Server accepts personal access tokens); TFS 2018 and older (no batch resource);
//! where the links of every item lead (`relations` and a choice of fields exclude each other, so it
//! would cost a second answer with every field; the parent and the number of links by kind are
//! read, and the rest only for items that are analysed, see `surroundings`) and hashing them (a link moves neither revision nor date, and says nothing new about the
//! item itself); checking the names of states (a misspelt one finds nothing, and the probe
//! tells how many items were found); the recycle bin (what is gone is told as vanished); comments
//! by their own resource when writing (a patch with a tested revision can be repeated, a comment
//! cannot); `$batch` (one patch per finding is all there is to write); `X-HTTP-Method-Override` (a
//! proxy that refuses PATCH is told by its answer); `bypassRules` and `suppressNotifications` (they
//! need rights nobody should give us).
//!
//! What reading costs beside a loop that only downloads: `benches/README.md`.

mod decode;
mod failure;
mod fields;
mod http;
mod look_back;
mod pages;
mod probe;
mod query;
mod read;
mod reporting;
mod surroundings;
mod version;
mod wire;
mod write_back;

use std::sync::Arc;

use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};

pub use decode::saved_item;

use self::http::{Call, Transport};
use super::http::Repeat;
use super::retry::RetryPolicy;
use super::{
    AsOf, Connection, Credential, CurrentState, FailureClass, FetchError, FetchRequest,
    FinishedItem, FinishedRequest, ItemFile, LinkedItem, Notebook, Pages, Probe,
    Source as SourceTrait, Tracker, WriteBack, Written,
};
use crate::clock::Clock;
use crate::model::{Attachment, BoxFuture, ItemId, LinkedChange, Surroundings};
use crate::ports::SourceMemory;
use crate::settings::{self, SourceAuth, SourceMode};

/// One project of one organisation or collection.
#[derive(Clone)]
pub struct AdoSource(Arc<Inner>);

/// What every part of the client shares.
struct Inner {
    config: settings::Source,
    transport: Transport,
    notebook: Arc<Notebook>,
    fields: read::Fields,
}

impl AdoSource {
    /// A client for the source in `config`. Nothing is sent yet.
    pub fn new(
        config: &settings::Source,
        credential: Arc<dyn Credential>,
        clock: Clock,
        memory: Arc<dyn SourceMemory>,
    ) -> Result<Self, FetchError> {
        Self::with_retry(config, credential, clock, memory, RetryPolicy::default())
    }

    /// The same with another policy for repeated reads.
    pub fn with_retry(
        config: &settings::Source,
        credential: Arc<dyn Credential>,
        clock: Clock,
        memory: Arc<dyn SourceMemory>,
        retry: RetryPolicy,
    ) -> Result<Self, FetchError> {
        Self::connect(config, Connection { retry, ..Connection::new(credential, clock, memory) })
    }

    /// The same with everything a client needs.
    pub fn connect(config: &settings::Source, connection: Connection) -> Result<Self, FetchError> {
        if config.project.trim().is_empty() {
            let message = "source.project is empty; set it to the project to watch";
            return Err(FetchError::new(FailureClass::Config, message));
        }
        if config.mode == SourceMode::Reporting && !config.saved_query.is_empty() {
            let message = "source.saved_query cannot be used with source.mode = \"reporting\"; \
                           put its condition into source.where";
            return Err(FetchError::new(FailureClass::Config, message));
        }
        let notebook = Notebook::new(Arc::clone(&connection.memory), &config.name);
        let transport = Transport::new(config, &connection, Arc::clone(&notebook))?;
        let config = config.clone();
        let fields = read::Fields::new(&config, transport.base_url());
        Ok(Self(Arc::new(Inner { config, transport, notebook, fields })))
    }

    /// The notes shared with the circuit breaker.
    pub fn notebook(&self) -> Arc<Notebook> {
        Arc::clone(&self.0.notebook)
    }

    /// Requests sent since the start.
    pub fn requests(&self) -> u64 {
        self.0.transport.requests()
    }

    /// Asks about the past.
    async fn look_back<T>(
        &self,
        question: impl Future<Output = Result<T, super::failure::Failure>>,
    ) -> Result<Option<T>, FetchError> {
        self.0.transport.load_agreed_versions().await?;
        let answer = question.await;
        answer.map(Some).map_err(|failure| failure.into_error(self.0.transport.now()))
    }
}

impl Inner {
    /// A short hash that changes with the configuration or credential and reveals neither. Bearer
    /// tokens are excluded: they are renewed all the time.
    async fn configuration_fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(serde_json::to_vec(&self.config).unwrap_or_default());
        if self.config.auth == SourceAuth::Pat
            && let Ok(secret) = self.transport.secret().await
        {
            hash.update(secret.expose_secret().trim());
        }
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl SourceTrait for AdoSource {
    fn open(&self, request: FetchRequest) -> BoxFuture<'_, Result<Box<dyn Pages>, FetchError>> {
        Box::pin(async move {
            self.0.transport.load_agreed_versions().await?;
            let pages = pages::AdoPages::new(Arc::clone(&self.0), request);
            Ok(Box::new(pages) as Box<dyn Pages>)
        })
    }

    fn configuration_fingerprint(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { Some(self.0.configuration_fingerprint().await) })
    }

    fn current_states(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<CurrentState>>, FetchError>> {
        Box::pin(async move {
            self.0.transport.load_agreed_versions().await?;
            let read = self.0.current_states(&ids).await;
            read.map(Some).map_err(|failure| failure.into_error(self.0.transport.now()))
        })
    }

    /// A saved query cannot be limited to single items.
    fn still_matching(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<ItemId>>, FetchError>> {
        Box::pin(async move {
            if !self.0.config.saved_query.is_empty() {
                return Ok(None);
            }
            self.0.transport.load_agreed_versions().await?;
            let text = query::query_of_ids(&ids, &self.0.config.where_clause);
            let asked = self.0.ask_text(&text, None, Repeat::Never).await;
            let rows = asked.map_err(|failure| failure.into_error(self.0.transport.now()))?;
            Ok(Some(rows.ids.into_iter().map(ItemId).collect()))
        })
    }

    fn finished(
        &self,
        request: FinishedRequest,
    ) -> BoxFuture<'_, Result<Option<Vec<FinishedItem>>, FetchError>> {
        Box::pin(async move { self.look_back(self.0.finished(request)).await })
    }

    fn as_of(
        &self,
        ids: Vec<ItemId>,
        at: jiff::Timestamp,
    ) -> BoxFuture<'_, Result<Option<Vec<AsOf>>, FetchError>> {
        Box::pin(async move { self.look_back(self.0.items_as_of(&ids, at)).await })
    }

    fn development_links(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<LinkedItem>>, FetchError>> {
        Box::pin(async move { self.look_back(self.0.development_links(&ids)).await })
    }

    fn surroundings(&self, id: ItemId) -> BoxFuture<'_, Result<Option<Surroundings>, FetchError>> {
        Box::pin(async move {
            self.0.transport.load_agreed_versions().await?;
            let read = self.0.surroundings(id).await;
            read.map(Some).map_err(|failure| failure.into_error(self.0.transport.now()))
        })
    }

    fn attached_files(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<ItemFile>>, FetchError>> {
        Box::pin(async move { self.look_back(self.0.attached_files(&ids)).await })
    }

    fn change(&self, change: LinkedChange) -> BoxFuture<'_, Result<LinkedChange, FetchError>> {
        Box::pin(async move {
            let read = self.0.change(change).await;
            read.map_err(|failure| failure.into_error(self.0.transport.now()))
        })
    }

    fn attachment(
        &self,
        file: Attachment,
        limit: u64,
    ) -> BoxFuture<'_, Result<Vec<u8>, FetchError>> {
        Box::pin(async move {
            let read = self.0.attachment(&file, limit).await;
            read.map_err(|failure| failure.into_error(self.0.transport.now()))
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async move {
            self.0.transport.load_agreed_versions().await?;
            self.0.check().await.map_err(|failure| failure.into_error(self.0.transport.now()))
        })
    }
}

impl Tracker for AdoSource {
    fn notebook(&self) -> Arc<Notebook> {
        self.notebook()
    }

    fn requests(&self) -> u64 {
        self.requests()
    }

    fn write_back<'a>(
        &'a self,
        write: &'a WriteBack<'a>,
    ) -> BoxFuture<'a, Result<Written, FetchError>> {
        Box::pin(self.write_back(write))
    }

    fn validate_write_back<'a>(
        &'a self,
        write: &'a WriteBack<'a>,
    ) -> BoxFuture<'a, Result<(), FetchError>> {
        Box::pin(self.validate_write_back(write))
    }

    fn probe(&self) -> BoxFuture<'_, Probe> {
        Box::pin(self.probe())
    }
}
