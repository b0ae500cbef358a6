//! GitHub Issues: github.com and Enterprise Server.
//!
//! Changes are listed per repository, oldest first, continuing from the last row; an unchanged list
//! costs nothing (`304`). One request is in flight at a time, success is JSON with a 2xx, and every
//! failure has a class with its own action.
//!
//! Where things are: addresses, versions, headers, redirects, links and failures in `http`; which
//! repositories in `repositories`; how their issues are listed in `pages`; texts, labels and dates
//! in `decode`; `source.where` in `filter`; Apps in `app`; writing in `write_back`; closed issues
//! and what fixed them in `look_back`; links, pictures and files in `linked_content`.
//!
//! Out of scope, with the reason: search and `/orgs/ORG/issues` (their limits are a sixth, results
//! end at 1,000 and may be incomplete with a 200); GraphQL (no ETags, and errors come as 200); pull
//! requests (they are recognised and omitted); webhooks (they cannot reach a private machine).

mod app;
mod decode;
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

use self::app::AppCredential;
use self::decode::GithubDecoder;
pub use self::filter::Filter;
pub use self::repositories::RepoScope;
use super::http::{Http, Request};
use super::{Connection, FetchError};
use crate::model::FailureClass;
use crate::settings::{self, SourceAuth};

/// One repository, several, or all of an owner.
pub(super) struct GithubSource {
    pub(super) config: settings::Source,
    pub(super) http: Http,
    scope: RepoScope,
    filter: Filter,
    decoder: GithubDecoder,
    /// Changes with the settings that decide which rows are used and how: after a change of them a
    /// list counts as new, although the service reports it as unchanged.
    reading_fingerprint: String,
}

impl GithubSource {
    /// Creates a client for the source in `config`; sends nothing.
    pub fn connect(
        config: &settings::Source,
        mut connection: Connection,
    ) -> Result<Self, FetchError> {
        let scope = RepoScope::parse(&config.project)?;
        let filter = Filter::parse(&config.where_clause).map_err(|why| {
            FetchError::new(FailureClass::BadQuery, format!("source.where {why}"))
        })?;
        let base = http::api_address(&config.base_url)?;
        if config.auth == SourceAuth::App {
            let (key, clock) = (Arc::clone(&connection.credential), connection.clock.clone());
            let app = AppCredential::new(config, base.clone(), scope.clone(), key, clock)?;
            connection.credential = Arc::new(app);
        }
        let dialect = Box::new(http::Github::new(&config.api_version));
        Ok(Self {
            http: Http::new(config, base, dialect, &connection)?,
            decoder: GithubDecoder::new(config),
            reading_fingerprint: reading_fingerprint(config),
            config: config.clone(),
            scope,
            filter,
        })
    }

    /// Sends one request to check that this repository's issues can be listed.
    async fn check_list(&self, repository: &str) -> Result<(), FetchError> {
        let query = [("per_page", "1".to_owned()), ("state", "all".to_owned())];
        let url = self.http.url(&["repos", repository, "issues"], &query);
        let what = format!("the issues of {repository}");
        self.send(Request::get(url, what).once()).await.map(|_| ())
    }

    pub async fn check(&self) -> Result<(), FetchError> {
        match &self.scope {
            RepoScope::Repositories(names) => {
                let first = names.first().map(String::as_str).unwrap_or_default();
                self.check_list(first).await
            }
            RepoScope::Owner(owner) => {
                let url = self.http.url(&["users", owner], &[]);
                self.send(Request::get(url, format!("the owner {owner}")).once()).await.map(|_| ())
            }
        }
    }
}

/// A hash of the settings that decide which rows are used and how.
fn reading_fingerprint(config: &settings::Source) -> String {
    let labels = (&config.area_labels, &config.priority_labels, &config.severity_labels);
    let settings = format!("{:?}", (&config.where_clause, labels, config.comments));
    super::tracker::short_hash([&settings])
}
