//! A tracker of any kind: a source with writing back and the checks of `doctor`.

use std::sync::Arc;

use super::ado::AdoSource;
use super::credential::Credential;
use super::field_write::FieldWrite;
use super::file::FileSource;
use super::filters;
use super::github::GithubSource;
use super::http::Turns;
use super::jira::JiraSource;
use super::retry::RetryPolicy;
use super::write_back::{WriteBack, Written};
use super::{Details, FetchError, Notebook, Source};
use crate::clock::Clock;
use crate::model::BoxFuture;
use crate::ports::SourceMemory;
use crate::settings::{self, SourceKind};

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

/// A tracker of any kind.
pub trait Tracker: Source + Details {
    /// The notebook shared with the circuit breaker.
    fn notebook(&self) -> Arc<Notebook>;

    /// Requests sent since the start.
    fn requests(&self) -> u64;

    /// Writes a comment and a tag, once. Where the tracker has revisions, an item that has changed
    /// is a [`Conflict`](crate::model::FailureClass::Conflict); an existing comment is recognised
    /// by its mark.
    fn write_back<'a>(
        &'a self,
        write: &'a WriteBack<'a>,
    ) -> BoxFuture<'a, Result<Written, FetchError>>;

    /// Checks whether the write would be accepted; nothing is changed.
    fn validate_write_back<'a>(
        &'a self,
        write: &'a WriteBack<'a>,
    ) -> BoxFuture<'a, Result<(), FetchError>>;

    /// Writes values to fields, each only if it still has the expected value; what is there already is
    /// not written again.
    fn set_fields<'a>(
        &'a self,
        write: &'a FieldWrite,
    ) -> BoxFuture<'a, Result<Written, FetchError>>;

    /// Checks credential, project and query. Bypasses the breaker, since a user is asking.
    fn probe(&self) -> BoxFuture<'_, Probe>;
}

/// Creates a client for the source in `config`; sends nothing.
pub fn connect(
    config: &settings::Source,
    connection: Connection,
) -> Result<Arc<dyn Tracker>, FetchError> {
    // A file has no query language: it applies the filters itself.
    let queried = &filters::in_where(config);
    Ok(match config.kind {
        SourceKind::Ado => Arc::new(AdoSource::connect(queried, connection)?),
        SourceKind::Github => Arc::new(GithubSource::connect(queried, connection)?),
        SourceKind::Jira => Arc::new(JiraSource::connect(queried, connection)?),
        SourceKind::File => Arc::new(FileSource::connect(config, connection)),
    })
}
