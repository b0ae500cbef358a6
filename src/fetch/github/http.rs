//! Requests to GitHub: addresses, headers, redirects, links between pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use reqwest::header::ACCEPT;
use reqwest::{Method, RequestBuilder, Url};
use serde_json::Value;

use super::failure::{ErrorBody, MAX_RETRY_AFTER, classify, is_answer, retry_after};
use crate::fetch::client;
use crate::fetch::failure::{Failure, RequestInfo};
use crate::fetch::http::{
    Answer, Dialect, Head, Http, Interpreted, Limits, Repeat, Request, UNSTATED_RETRY_AFTER,
};
use crate::fetch::memory::Notebook;
use crate::fetch::{Connection, FetchError};
use crate::model::FailureClass;
use crate::settings::Source;

/// API address of the public service.
const SERVICE: &str = "https://api.github.com";
/// The API version that this client was written for.
const API_VERSION: &str = "2022-11-28";
/// Redirects followed per request: a repository that was renamed, and then moved.
const MAX_REDIRECTS: usize = 3;

/// The API address: the configured one, or the public service's. A web address copied from a
/// browser is corrected.
pub(super) fn api_address(configured: &str) -> Result<Url, FetchError> {
    let text = configured.trim().trim_end_matches('/');
    let text = match text {
        "" | "https://github.com" | "https://www.github.com" => SERVICE,
        text => text,
    };
    let examples = "https://api.github.com or https://github.contoso.com/api/v3";
    let mut url = client::base_url(text, examples)?;
    let is_bare = url.path() == "/" && url.scheme() == "https";
    if is_bare && url.host_str().is_some_and(|host| !host.starts_with("api.")) {
        url.set_path("/api/v3");
    }
    Ok(url)
}

pub(super) struct Transport {
    pub http: Http,
}

impl Transport {
    /// Builds the client; sends nothing.
    pub fn new(
        config: &Source,
        base: Url,
        connection: &Connection,
        notebook: Arc<Notebook>,
    ) -> Result<Self, FetchError> {
        let dialect = Box::new(Github::new(&config.api_version));
        Ok(Self { http: Http::new(config, base, dialect, connection, notebook)? })
    }

    /// An address below the API's.
    pub fn url(&self, path: &[&str], query: &[(&str, String)]) -> Url {
        let mut url = self.http.base().clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.iter().flat_map(|part| part.split('/')));
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Sends a request and follows redirects within the same server. A write keeps its method and
    /// body, as 307 and 308 require and as 301 is meant here.
    pub async fn send(&self, request: Request) -> Result<Answer, Failure> {
        let mut request = request;
        for _ in 0..MAX_REDIRECTS {
            let answer = self.http.send(&request).await?;
            if !(300..400).contains(&answer.head.status) || answer.head.status == 304 {
                return Ok(answer);
            }
            let location = answer.head.header("location").unwrap_or_default();
            request.url = self.same_server(&request.url, &location)?;
        }
        let message = format!(
            "{} redirects {} in a loop; check source.base_url",
            self.http.base_url(),
            request.what
        );
        Err(Failure::new(FailureClass::Config, message))
    }

    /// The credential is sent only to the configured server, so links to other servers are refused.
    pub fn same_server(&self, from: &Url, target: &str) -> Result<Url, Failure> {
        let url = from
            .join(target)
            .ok()
            .filter(|url| url.origin() == self.http.base().origin() && url.username().is_empty());
        url.ok_or_else(|| {
            let target = crate::model::Untrusted::new(target.to_owned()).line(100);
            let message = format!(
                "{} redirects to another server ({target}), which is not followed; set \
                 source.base_url to the address that the API itself uses",
                self.http.base_url()
            );
            Failure::new(FailureClass::Config, message)
        })
    }

    pub async fn get(&self, url: Url, what: &str) -> Result<Answer, Failure> {
        self.send(Request::get(url, what)).await
    }

    /// A write, sent once: a repeated one could not be recognised.
    pub async fn post(&self, url: Url, what: &str, body: &Value) -> Result<Answer, Failure> {
        self.send(Request {
            method: Method::POST,
            body: Some(("application/json; charset=utf-8", body.to_string().into_bytes())),
            repeat: Repeat::Never,
            writes: true,
            ..Request::get(url, what)
        })
        .await
    }
}

/// The target of `rel` in a `Link` header.
pub(super) fn link(head: &Head, rel: &str) -> Option<String> {
    let header = head.header("link")?;
    // Addresses may contain commas, so the parts begin at `<`.
    header.split('<').skip(1).find_map(|part| {
        let (target, parameters) = part.split_once('>')?;
        let wanted = format!("rel=\"{rel}\"");
        let is_wanted = parameters.split([';', ',']).any(|parameter| parameter.trim() == wanted);
        is_wanted.then(|| target.to_owned())
    })
}

/// Headers, credential and failures of GitHub.
struct Github {
    api_version: String,
    /// Consecutive refusals without a stated wait.
    unstated: AtomicU32,
}

impl Github {
    fn new(configured: &str) -> Self {
        let is_date = configured.len() == 10 && configured.split('-').count() == 3;
        let api_version = if is_date { configured } else { API_VERSION }.to_owned();
        Self { api_version, unstated: AtomicU32::new(0) }
    }
}

impl Dialect for Github {
    fn prepare(&self, request: RequestBuilder, secret: &str) -> RequestBuilder {
        request
            .bearer_auth(secret)
            .header(ACCEPT, "application/vnd.github+json")
            .header("X-GitHub-Api-Version", &self.api_version)
    }

    fn interpret(&self, head: &Head) -> Interpreted {
        let success = is_answer(head);
        if success {
            self.unstated.store(0, Ordering::Relaxed);
        }
        // Search and other resources have separate limits.
        let core = |limit: &crate::model::RateLimit| {
            limit.resource.as_deref().is_none_or(|resource| resource == "core")
        };
        let rate_limit = head.rate_limit().filter(core);
        Interpreted {
            success,
            limits: Limits { retry_after: retry_after(head), rate_limit },
            request_id: head.header("x-github-request-id").map(|id| format!("request {id}")),
        }
    }

    fn classify(&self, head: &Head, body: &[u8], asked: RequestInfo<'_>) -> Failure {
        let mut failure = classify(head, body, asked);
        let unstated = retry_after(head).is_none() && ErrorBody::parse(body).is_secondary_limit();
        if failure.class == FailureClass::Throttled && unstated {
            let before = self.unstated.fetch_add(1, Ordering::Relaxed).min(6);
            let delay = UNSTATED_RETRY_AFTER.saturating_mul(1 << before);
            failure.retry_after = Some(delay.min(MAX_RETRY_AFTER));
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderMap, HeaderValue};

    use super::*;

    #[test]
    fn an_address_of_the_browser_becomes_that_of_the_api() {
        for (configured, expected) in [
            ("", "https://api.github.com/"),
            ("https://github.com/", "https://api.github.com/"),
            ("https://api.github.com", "https://api.github.com/"),
            ("https://github.contoso.com", "https://github.contoso.com/api/v3"),
            ("https://github.contoso.com/api/v3/", "https://github.contoso.com/api/v3"),
            ("https://api.contoso.ghe.com", "https://api.contoso.ghe.com/"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ] {
            assert_eq!(api_address(configured).unwrap().as_str(), expected, "{configured}");
        }
        for wrong in ["github.com", "ftp://x", "https://me:secret@github.com", "https://x/?a=b"] {
            assert_eq!(api_address(wrong).unwrap_err().class, FailureClass::Config, "{wrong}");
        }
    }

    #[test]
    fn links_are_found_by_their_relation() {
        let mut headers = HeaderMap::new();
        let text = "<https://api.github.com/x?page=1>; rel=\"prev\", \
                    <https://api.github.com/x?after=Y%3D&labels=a,b>; rel=\"next\"";
        headers.insert("link", HeaderValue::from_static(text));
        let head = Head { headers, ..Head::default() };
        assert_eq!(
            link(&head, "next").as_deref(),
            Some("https://api.github.com/x?after=Y%3D&labels=a,b")
        );
        assert_eq!(link(&head, "last"), None);
        assert_eq!(link(&Head::default(), "next"), None);
    }
}
