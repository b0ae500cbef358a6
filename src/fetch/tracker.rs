//! A source of any kind with everything beside reading: writing back, and answering `doctor`.

use std::sync::Arc;

use super::ado::AdoSource;
use super::credential::Credential;
use super::github::GithubSource;
use super::http::Turns;
use super::jira::JiraSource;
use super::retry::RetryPolicy;
use super::write_back::{WriteBack, Written};
use super::{FetchError, Notebook, Source};
use crate::clock::Clock;
use crate::model::BoxFuture;
use crate::ports::SourceMemory;
use crate::settings::{self, SourceKind};

/// What a client needs beside its configuration.
#[derive(Clone)]
pub struct Connection {
    pub credential: Arc<dyn Credential>,
    pub clock: Clock,
    pub memory: Arc<dyn SourceMemory>,
    /// How reads are repeated.
    pub retry: RetryPolicy,
    /// Shared by all clients of one process, so that an organisation gets one request at a time.
    pub turns: Turns,
}

impl Connection {
    /// With the usual retries, and alone.
    pub fn new(
        credential: Arc<dyn Credential>,
        clock: Clock,
        memory: Arc<dyn SourceMemory>,
    ) -> Self {
        let (retry, turns) = (RetryPolicy::default(), Turns::default());
        Self { credential, clock, memory, retry, turns }
    }
}

/// What was found out, part by part; each failure names its fix.
#[derive(Debug)]
pub struct Probe {
    /// Who the credential is.
    pub account: Result<String, FetchError>,
    /// The project by the name the tracker gives it.
    pub project: Result<String, FetchError>,
    /// How many items the query finds within the look-back.
    pub matching: Result<usize, FetchError>,
}

/// A tracker of any kind.
pub trait Tracker: Source {
    /// The notes shared with the circuit breaker.
    fn notebook(&self) -> Arc<Notebook>;

    /// Requests sent since the start.
    fn requests(&self) -> u64;

    /// Leaves a comment and a tag, once. Where the tracker keeps revisions, one that moved on is a
    /// [`Conflict`](crate::model::FailureClass::Conflict); a comment that is already there is
    /// recognised by its mark.
    fn write_back<'a>(
        &'a self,
        write: &'a WriteBack<'a>,
    ) -> BoxFuture<'a, Result<Written, FetchError>>;

    /// Whether the write would be taken; nothing is changed.
    fn validate_write_back<'a>(
        &'a self,
        write: &'a WriteBack<'a>,
    ) -> BoxFuture<'a, Result<(), FetchError>>;

    /// Checks credential, project and query. It goes around the breaker: a person is asking.
    fn probe(&self) -> BoxFuture<'_, Probe>;
}

/// A client for the source in `config`. Nothing is sent yet.
pub fn connect(
    config: &settings::Source,
    connection: Connection,
) -> Result<Arc<dyn Tracker>, FetchError> {
    Ok(match config.kind {
        SourceKind::Ado => Arc::new(AdoSource::connect(config, connection)?),
        SourceKind::Github => Arc::new(GithubSource::connect(config, connection)?),
        SourceKind::Jira => Arc::new(JiraSource::connect(config, connection)?),
    })
}
