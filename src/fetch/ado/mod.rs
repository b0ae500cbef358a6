//! Azure DevOps Services and Server.
//!
//! By default it queries the ids that changed and then reads items in batches; for big collections
//! there is the revision stream. One request is in flight at a time, success is JSON with a 2xx
//! other than 203, and every failure has a class with its own action.
//!
//! Where things are: addresses, versions and headers in `http`, `client` and `version`; the query
//! language and its limits in `query` and `pages`; texts, identities and dates in `decode`;
//! finished items, their past texts and their links to commits in `look_back`; failures in
//! `failure`; limits and "not before" in `http` and the notebook; writing in `write_back`; the
//! revision stream in `reporting`.
//!
//! Items are read in their current state and not `asOf` the query: an edit in between is read early
//! instead of late, and the cursor never passes the time of the query, so none is missed.
//!
//! Out of scope, with the reason: service hooks (they cannot reach a private machine, and lose
//! events on probation, so polling is needed anyway); NTLM and Kerberos (the HTTP client does not
//! support them; Server accepts personal access tokens); TFS 2018 and older (no batch resource);
//! targets of all links (`relations` and a choice of fields exclude each other, so it would cost a
//! second response with every field; the parent and the number of links by kind are read, and the
//! rest only for items that are analysed, see `linked_content`) and hashing them (a link changes
//! neither revision nor date, and does not describe the item itself); validating state names (a
//! misspelt one matches nothing, and the probe reports how many items were found); the recycle bin
//! (deleted items are reported as vanished); writing comments by their own resource (a patch with a
//! tested revision can be repeated, a comment cannot); `$batch` (there is only one patch per
//! finding); `X-HTTP-Method-Override` (if a proxy refuses PATCH, its response says so);
//! `bypassRules` and `suppressNotifications` (they need rights that heartbeat should not have).
//!
//! The cost of reading compared with a plain download loop: `benches/README.md`.

mod decode;
mod failure;
mod field_write;
mod fields;
mod http;
mod linked_content;
mod look_back;
mod pages;
mod probe;
mod query;
mod read;
mod reporting;
mod version;
mod wire;
mod write_back;

use std::sync::Arc;

use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};

pub use decode::saved_item;
pub use query::literal;

use self::http::{Call, Transport};
use super::failure::Failure;
use super::http::Repeat;
use super::retry::RetryPolicy;
use super::{
    AsOf, Connection, Credential, CurrentState, Details, FailureClass, FetchError, FetchRequest,
    FieldWrite, FinishedItem, FinishedRequest, ItemFile, LinkedItem, Notebook, Pages, Probe,
    Source as SourceTrait, Tracker, WriteBack, Written,
};
use crate::clock::Clock;
use crate::model::{Attachment, BoxFuture, ItemId, LinkedChange, LinkedContent};
use crate::ports::SourceMemory;
use crate::settings::{self, SourceAuth, SourceMode};

/// One project of one organisation or collection.
#[derive(Clone)]
pub struct AdoSource(Arc<Inner>);

/// Shared by all parts of the client.
struct Inner {
    config: settings::Source,
    transport: Transport,
    notebook: Arc<Notebook>,
    fields: read::Fields,
}

impl AdoSource {
    /// Creates a client for the source in `config`; sends nothing.
    pub fn new(
        config: &settings::Source,
        credential: Arc<dyn Credential>,
        clock: Clock,
        memory: Arc<dyn SourceMemory>,
    ) -> Result<Self, FetchError> {
        Self::with_retry(config, credential, clock, memory, RetryPolicy::default())
    }

    /// As [`new`](Self::new), with another retry policy.
    pub fn with_retry(
        config: &settings::Source,
        credential: Arc<dyn Credential>,
        clock: Clock,
        memory: Arc<dyn SourceMemory>,
        retry: RetryPolicy,
    ) -> Result<Self, FetchError> {
        Self::connect(config, Connection { retry, ..Connection::new(credential, clock, memory) })
    }

    /// As [`new`](Self::new), with an explicit connection.
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

    /// The notebook shared with the circuit breaker.
    pub fn notebook(&self) -> Arc<Notebook> {
        Arc::clone(&self.0.notebook)
    }

    /// Requests sent since the start.
    pub fn requests(&self) -> u64 {
        self.0.transport.requests()
    }

    fn to_error(&self, failure: Failure) -> FetchError {
        failure.into_error(self.0.transport.now())
    }
}

impl Inner {
    /// A short hash of configuration and credential that reveals neither. Bearer tokens are
    /// excluded, since they are renewed often.
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
            let pages = pages::AdoPages::new(Arc::clone(&self.0), request);
            Ok(Box::new(pages) as Box<dyn Pages>)
        })
    }

    fn configuration_fingerprint(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { Some(self.0.configuration_fingerprint().await) })
    }

    fn finished(
        &self,
        request: FinishedRequest,
    ) -> BoxFuture<'_, Result<Option<Vec<FinishedItem>>, FetchError>> {
        Box::pin(async move {
            let found = self.0.finished(request).await;
            found.map(Some).map_err(|failure| self.to_error(failure))
        })
    }

    fn as_of(
        &self,
        ids: Vec<ItemId>,
        at: jiff::Timestamp,
    ) -> BoxFuture<'_, Result<Option<Vec<AsOf>>, FetchError>> {
        Box::pin(async move {
            let found = self.0.items_as_of(&ids, at).await;
            found.map(Some).map_err(|failure| self.to_error(failure))
        })
    }

    fn development_links(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<LinkedItem>>, FetchError>> {
        Box::pin(async move {
            let found = self.0.development_links(&ids).await;
            found.map(Some).map_err(|failure| self.to_error(failure))
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async move { self.0.check().await.map_err(|failure| self.to_error(failure)) })
    }
}

impl Details for AdoSource {
    fn current_states(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<CurrentState>>, FetchError>> {
        Box::pin(async move {
            let found = self.0.current_states(&ids).await;
            found.map(Some).map_err(|failure| self.to_error(failure))
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
            let text = query::query_of_ids(&ids, &self.0.config.where_clause);
            let asked = self.0.ask_text(&text, None, Repeat::Never).await;
            let rows = asked.map_err(|failure| self.to_error(failure))?;
            Ok(Some(rows.ids.into_iter().map(ItemId).collect()))
        })
    }

    fn linked_content(
        &self,
        id: ItemId,
    ) -> BoxFuture<'_, Result<Option<LinkedContent>, FetchError>> {
        Box::pin(async move {
            let found = self.0.linked_content(id).await;
            found.map(Some).map_err(|failure| self.to_error(failure))
        })
    }

    fn attached_files(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<ItemFile>>, FetchError>> {
        Box::pin(async move {
            let found = self.0.attached_files(&ids).await;
            found.map(Some).map_err(|failure| self.to_error(failure))
        })
    }

    fn change(&self, change: LinkedChange) -> BoxFuture<'_, Result<LinkedChange, FetchError>> {
        Box::pin(async move {
            let read = self.0.change(change).await;
            read.map_err(|failure| self.to_error(failure))
        })
    }

    fn attachment(
        &self,
        file: Attachment,
        limit: u64,
    ) -> BoxFuture<'_, Result<Vec<u8>, FetchError>> {
        Box::pin(async move {
            let read = self.0.attachment(&file, limit).await;
            read.map_err(|failure| self.to_error(failure))
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

    fn set_fields<'a>(
        &'a self,
        write: &'a FieldWrite,
    ) -> BoxFuture<'a, Result<Written, FetchError>> {
        Box::pin(self.set_fields(write))
    }

    fn probe(&self) -> BoxFuture<'_, Probe> {
        Box::pin(self.probe())
    }
}
