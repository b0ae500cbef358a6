//! Jira: Cloud and Data Center.
//!
//! Changes are searched for, oldest first, continuing from the minute of the last row. One request
//! is in flight at a time; success is JSON with a 2xx from a server that accepted the sign-in, and
//! every failure has a class with its own action.
//!
//! Where things are: addresses, credential and the kind of Jira in `http`; the query language, its
//! minutes and its time zones in `jql`; completeness, Cloud's delayed index and queries that the
//! server rewrites in `pages`; texts, areas and dates in `decode`, priorities in `priority`;
//! failures and limits in `failure`; comments in both formats in `compose`; writing in
//! `write_back`; links and attached files in `linked_content`; finished issues and their earlier
//! texts in `look_back`.
//!
//! Out of scope, with the reason: webhooks (they cannot reach a private machine); the development
//! panel (only a private API has it); sprints (a custom field of a plug-in; the fix version serves
//! as the iteration); OAuth with refresh (`token_command` can do it); hidden marks in comment
//! properties (Data Center does not show them to other readers, a visible line works everywhere);
//! `notifyUsers=false` (requires administrator rights).

mod compose;
mod decode;
mod failure;
mod field_write;
mod http;
mod jql;
pub use jql::literal;
mod linked_content;
mod look_back;
mod pages;
mod priority;
mod probe;
mod read;
mod wire;
mod write_back;

use std::collections::HashSet;
use std::sync::{Arc, RwLock};

use jiff::Timestamp;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use self::decode::Decoder;
use self::http::Transport;
use self::jql::{Dates, Scope};
use self::priority::Priorities;
use super::failure::Failure;
use super::http::Repeat;
use super::{
    AsOf, Connection, CurrentState, Details, FailureClass, FetchError, FetchRequest, FieldWrite,
    FinishedItem, FinishedRequest, ItemFile, Notebook, Pages, Probe, Source as SourceTrait,
    Tracker, WriteBack, Written,
};
use crate::clock::Clock;
use crate::model::{Attachment, BoxFuture, ItemId, LinkedContent};
use crate::settings::{self, SourceAuth};

/// One project or several of one site or server.
#[derive(Clone)]
pub struct JiraSource(Arc<Inner>);

/// Shared by all parts of the client.
struct Inner {
    config: settings::Source,
    scope: Scope,
    decoder: Decoder,
    transport: Transport,
    notebook: Arc<Notebook>,
    clock: Clock,
    dates: RwLock<Dates>,
    priorities: OnceCell<Priorities>,
    /// Current keys on the server.
    project_keys: OnceCell<HashSet<String>>,
}

impl JiraSource {
    /// Creates a client for the source in `config`; sends nothing.
    pub fn connect(config: &settings::Source, connection: Connection) -> Result<Self, FetchError> {
        let scope = Scope::new(&config.project, &config.where_clause, &config.saved_query)
            .map_err(|why| FetchError::new(FailureClass::Config, why))?;
        let notebook = Notebook::new(Arc::clone(&connection.memory), &config.name);
        let transport = Transport::new(config, &connection, Arc::clone(&notebook))?;
        Ok(Self(Arc::new(Inner {
            decoder: Decoder::new(config),
            config: config.clone(),
            clock: connection.clock,
            scope,
            transport,
            notebook,
            dates: RwLock::new(Dates::Milliseconds),
            priorities: OnceCell::new(),
            project_keys: OnceCell::new(),
        })))
    }

    fn to_error(&self, failure: Failure) -> FetchError {
        failure.into_error(self.0.transport.http.now())
    }
}

impl Inner {
    /// Start of the very first read.
    fn look_back(&self) -> Timestamp {
        let now = self.transport.http.now();
        now.checked_sub(self.config.look_back).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// A short hash of configuration and credential that reveals neither. Bearer tokens are
    /// excluded, since they are renewed often.
    async fn configuration_fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(serde_json::to_vec(&self.config).unwrap_or_default());
        if self.config.auth == SourceAuth::Pat
            && let Ok(secret) = self.transport.http.secret().await
        {
            hash.update(secret.expose_secret().trim());
        }
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl SourceTrait for JiraSource {
    fn open(&self, request: FetchRequest) -> BoxFuture<'_, Result<Box<dyn Pages>, FetchError>> {
        Box::pin(async move {
            let pages = pages::JiraPages::new(Arc::clone(&self.0), request);
            Ok(Box::new(pages) as Box<dyn Pages>)
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async move {
            let found = self.0.changed_since(self.0.look_back(), None, 1, Repeat::Never).await;
            found.map(|_| ()).map_err(|failure| self.to_error(failure))
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
            let found = self.0.finished(&request).await;
            found.map(Some).map_err(|failure| self.to_error(failure))
        })
    }

    fn as_of(
        &self,
        ids: Vec<ItemId>,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<Vec<AsOf>>, FetchError>> {
        Box::pin(async move {
            let items = self.0.as_of(&ids, at).await;
            items.map(Some).map_err(|failure| self.to_error(failure))
        })
    }
}

impl Details for JiraSource {
    fn id_of(&self, name: String) -> BoxFuture<'_, Result<Option<ItemId>, FetchError>> {
        Box::pin(async move {
            let found = self.0.number_of(&name).await;
            found.map_err(|failure| self.to_error(failure))
        })
    }

    fn still_matching(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<ItemId>>, FetchError>> {
        Box::pin(async move {
            let matching = self.0.still_matching(&ids).await;
            matching.map(Some).map_err(|failure| self.to_error(failure))
        })
    }

    fn current_states(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<CurrentState>>, FetchError>> {
        Box::pin(async move {
            let states = self.0.current_states(&ids).await;
            states.map(Some).map_err(|failure| self.to_error(failure))
        })
    }

    fn linked_content(
        &self,
        id: ItemId,
    ) -> BoxFuture<'_, Result<Option<LinkedContent>, FetchError>> {
        Box::pin(async move {
            self.0.linked_content(id).await.map_err(|failure| self.to_error(failure))
        })
    }

    fn attached_files(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<ItemFile>>, FetchError>> {
        Box::pin(async move {
            let files = self.0.attached_files(&ids).await;
            files.map(Some).map_err(|failure| self.to_error(failure))
        })
    }

    fn attachment(
        &self,
        file: Attachment,
        limit: u64,
    ) -> BoxFuture<'_, Result<Vec<u8>, FetchError>> {
        Box::pin(async move {
            self.0.attachment(&file, limit).await.map_err(|failure| self.to_error(failure))
        })
    }
}

impl Tracker for JiraSource {
    fn notebook(&self) -> Arc<Notebook> {
        Arc::clone(&self.0.notebook)
    }

    fn requests(&self) -> u64 {
        self.0.transport.http.requests()
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
