//! GitHub Issues: github.com and Enterprise Server.
//!
//! Changes are listed per repository, oldest first, continuing from the last row; an unchanged list
//! costs nothing (`304`). One request is in flight at a time, success is JSON with a 2xx, and every
//! failure has a class with its own action.
//!
//! Where things are: addresses, versions, headers, redirects and links in `http`; which
//! repositories in `repositories`; completeness in `pages`; texts, labels and dates in `decode`;
//! `source.where` in `filter`; failures and limits in `failure`; Apps in `app`; writing in
//! `write_back`; closed issues and what fixed them in `look_back`; links, pictures and files in
//! `linked_content`.
//!
//! Out of scope, with the reason: search and `/orgs/ORG/issues` (their limits are a sixth, results
//! end at 1,000 and may be incomplete with a 200); GraphQL (no ETags, and errors come as 200); pull
//! requests (they are recognised and omitted); webhooks (they cannot reach a private machine).

mod app;
mod decode;
mod failure;
mod field_write;
mod filter;
mod http;
mod linked_content;
mod look_back;
mod pages;
mod probe;
mod read;
mod repositories;
mod wire;
mod write_back;

use std::sync::Arc;

use jiff::Timestamp;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};

use self::app::AppCredential;
use self::decode::Decoder;
use self::filter::Filter;
use self::http::Transport;
pub use self::repositories::Scope;
use super::failure::Failure;
use super::http::{Repeat, Request};
use super::{
    AsOf, Connection, CurrentState, Details, FailureClass, FetchError, FetchRequest, FieldWrite,
    FinishedItem, FinishedRequest, LinkedItem, Notebook, Pages, Probe, Source as SourceTrait,
    Tracker, WriteBack, Written,
};
use crate::clock::Clock;
use crate::model::{Attachment, BoxFuture, ItemId, LinkedChange, LinkedContent};
use crate::settings::{self, SourceAuth};

/// One repository, several, or all of an owner.
#[derive(Clone)]
pub struct GithubSource(Arc<Inner>);

/// Shared by all parts of the client.
struct Inner {
    config: settings::Source,
    scope: Scope,
    filter: Filter,
    decoder: Decoder,
    transport: Transport,
    notebook: Arc<Notebook>,
    clock: Clock,
    /// Changes with the settings that decide which rows are used and how: after a change of them a
    /// list counts as new, although the service reports it as unchanged.
    reading_fingerprint: String,
}

impl GithubSource {
    /// Creates a client for the source in `config`; sends nothing.
    pub fn connect(config: &settings::Source, connection: Connection) -> Result<Self, FetchError> {
        let scope = Scope::parse(&config.project)?;
        let filter = Filter::parse(&config.where_clause).map_err(|why| {
            FetchError::new(FailureClass::BadQuery, format!("source.where {why}"))
        })?;
        let base = http::api_address(&config.base_url)?;
        let mut connection = connection;
        if config.auth == SourceAuth::App {
            let (key, clock) = (Arc::clone(&connection.credential), connection.clock.clone());
            let app = AppCredential::new(config, base.clone(), scope.clone(), key, clock)?;
            connection.credential = Arc::new(app);
        }
        let notebook = Notebook::new(Arc::clone(&connection.memory), &config.name);
        let transport = Transport::new(config, base, &connection, Arc::clone(&notebook))?;
        Ok(Self(Arc::new(Inner {
            decoder: Decoder::new(config),
            reading_fingerprint: short_hash(|hash| hash.update(reading_settings(config))),
            config: config.clone(),
            clock: connection.clock,
            scope,
            filter,
            transport,
            notebook,
        })))
    }

    fn to_error(&self, failure: Failure) -> FetchError {
        failure.into_error(self.0.transport.http.now())
    }
}

/// The settings that decide which rows are used and how.
fn reading_settings(config: &settings::Source) -> String {
    format!(
        "{:?}",
        (
            &config.where_clause,
            &config.area_labels,
            &config.priority_labels,
            &config.severity_labels,
            config.comments,
        )
    )
}

fn short_hash(feed: impl FnOnce(&mut Sha256)) -> String {
    let mut hash = Sha256::new();
    feed(&mut hash);
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Inner {
    /// Start of the very first read.
    fn look_back(&self) -> Timestamp {
        let now = self.transport.http.now();
        now.checked_sub(self.config.look_back).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Sends one request to check that this repository's issues can be listed.
    async fn check_list(&self, repository: &str) -> Result<(), Failure> {
        let query = [("per_page", "1".to_owned()), ("state", "all".to_owned())];
        let url = self.transport.url(&["repos", repository, "issues"], &query);
        let what = format!("the issues of {repository}");
        let request = Request { repeat: Repeat::Never, ..Request::get(url, what) };
        self.transport.send(request).await.map(|_| ())
    }

    async fn check(&self) -> Result<(), Failure> {
        match &self.scope {
            Scope::Repositories(names) => {
                let first = names.first().map(String::as_str).unwrap_or_default();
                self.check_list(first).await
            }
            Scope::Owner(owner) => {
                let url = self.transport.url(&["users", owner], &[]);
                let request = Request::get(url, format!("the owner {owner}"));
                self.transport.send(Request { repeat: Repeat::Never, ..request }).await.map(|_| ())
            }
        }
    }

    /// A short hash of configuration and credential that reveals neither. Tokens that are renewed
    /// often are excluded.
    async fn configuration_fingerprint(&self) -> String {
        let secret = match self.config.auth {
            SourceAuth::Pat => self.transport.http.secret().await.ok(),
            SourceAuth::Bearer | SourceAuth::App => None,
        };
        short_hash(|hash| {
            hash.update(serde_json::to_vec(&self.config).unwrap_or_default());
            if let Some(secret) = secret {
                hash.update(secret.expose_secret().trim());
            }
        })
    }
}

impl SourceTrait for GithubSource {
    fn open(&self, request: FetchRequest) -> BoxFuture<'_, Result<Box<dyn Pages>, FetchError>> {
        Box::pin(async move {
            let pages = pages::GithubPages::new(Arc::clone(&self.0), request);
            Ok(Box::new(pages) as Box<dyn Pages>)
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async move { self.0.check().await.map_err(|failure| self.to_error(failure)) })
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

    fn development_links(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<LinkedItem>>, FetchError>> {
        Box::pin(async move {
            let links = self.0.development_links(&ids).await;
            links.map(Some).map_err(|failure| self.to_error(failure))
        })
    }
}

impl Details for GithubSource {
    fn id_of(&self, name: String) -> BoxFuture<'_, Result<Option<ItemId>, FetchError>> {
        Box::pin(async move {
            let Some((repository, number)) = name.rsplit_once('#') else { return Ok(None) };
            let Ok(number) = number.parse() else { return Ok(None) };
            let known = self.0.known_repositories().await.map_err(|error| self.to_error(error))?;
            let found = known.iter().find(|known| known.name.eq_ignore_ascii_case(repository));
            Ok(found.map(|known| known.item_id(number)))
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

    fn change(&self, change: LinkedChange) -> BoxFuture<'_, Result<LinkedChange, FetchError>> {
        Box::pin(
            async move { self.0.change(change).await.map_err(|failure| self.to_error(failure)) },
        )
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

impl Tracker for GithubSource {
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
