//! Requests to any tracker: one at a time per organisation, bounded, retried where that is safe,
//! and classified when they fail. Differences between trackers are in [`Dialect`].

mod download;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use backon::Retryable;
use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Mutex, MutexGuard};

use super::credential::Credential;
use super::failure::{BODY_TOO_LONG, Failure, RequestInfo, proxy_needs_credential};
use super::http_error::{is_certificate_error, root_cause};
use super::memory::Notebook;
use super::retry::RetryPolicy;
use super::{Cause, Connection, FetchError, client, json};
use crate::clock::Clock;
use crate::model::{FailureClass, RateLimit, Untrusted};
use crate::settings::Source;

pub(super) use download::Wanted;

/// A run waits at most this long for the tracker's "not before"; for a longer wait it ends.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(30);

/// Wait if the tracker asks for one without stating how long.
pub(super) const UNSTATED_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The differences between trackers.
pub(super) trait Dialect: Send + Sync {
    /// Adds the tracker's credential and headers.
    fn prepare(&self, request: RequestBuilder, secret: &str) -> RequestBuilder;

    /// What the head of a response says, whatever its status.
    fn interpret(&self, head: &Head) -> Interpreted;

    /// Classifies a failed response.
    fn classify(&self, head: &Head, body: &[u8], asked: RequestInfo<'_>) -> Failure;
}

/// What the head of a response says.
pub(super) struct Interpreted {
    /// The body is the requested data.
    pub success: bool,
    pub limits: Limits,
    /// The id that support asks for, with its name.
    pub request_id: Option<String>,
}

/// The head of a response.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    pub status: u16,
    pub headers: HeaderMap,
    /// When it arrived.
    pub at: Timestamp,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        self.header(name)?.trim().parse::<f64>().ok().filter(|number| number.is_finite())
    }

    /// `Content-Type`, lower case.
    pub fn content_type(&self) -> String {
        self.header(CONTENT_TYPE.as_str()).unwrap_or_default().to_ascii_lowercase()
    }

    /// Server time, from `Date`.
    pub fn date(&self) -> Option<Timestamp> {
        jiff::fmt::rfc2822::parse(&self.header("date")?).ok().map(|date| date.timestamp())
    }

    /// `X-RateLimit-*` with the reset in seconds since 1970, if sent.
    pub fn rate_limit(&self) -> Option<RateLimit> {
        let (limit, remaining) =
            (self.number("x-ratelimit-limit"), self.number("x-ratelimit-remaining"));
        let resource = self.header("x-ratelimit-resource");
        if limit.is_none() && remaining.is_none() && resource.is_none() {
            return None;
        }
        let reset = self.number("x-ratelimit-reset");
        Some(RateLimit {
            resource,
            limit: limit.map(to_i64),
            remaining: remaining.map(to_i64),
            reset: reset.and_then(|seconds| Timestamp::from_second(to_i64(seconds)).ok()),
            delay_ms: self.number("x-ratelimit-delay").map(|seconds| to_i64(seconds * 1000.0)),
            seen_at: Some(self.at),
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "saturates, which is right for a limit")]
fn to_i64(number: f64) -> i64 {
    number as i64
}

/// The limits stated in a head.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    /// Wait before the next request.
    pub retry_after: Option<Duration>,
    /// What is left of the current window.
    pub rate_limit: Option<RateLimit>,
}

/// Whether a request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// A read, or a write that a tested revision makes safe.
    Safe,
    /// A probe, or a write whose response may have been lost.
    Never,
}

/// One request, complete except for the credential.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub method: Method,
    pub url: Url,
    /// In addition to those of the dialect.
    pub headers: Vec<(&'static str, String)>,
    /// The body with its content type.
    pub body: Option<(&'static str, Vec<u8>)>,
    /// Description for messages.
    pub what: String,
    pub repeat: Repeat,
    /// It changes something.
    pub writes: bool,
}

impl Request {
    pub fn get(url: Url, what: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            url,
            headers: Vec::new(),
            body: None,
            what: what.into(),
            repeat: Repeat::Safe,
            writes: false,
        }
    }
}

/// A successful response with an unparsed body.
#[derive(Debug)]
pub(super) struct Answer {
    pub head: Head,
    /// The address that answered.
    pub url: Url,
    pub body: Vec<u8>,
    /// For messages.
    pub request_id: Option<String>,
}

/// Serialises requests: one at a time per organisation, however many sources read it. Each entry
/// holds the organisation's "not before".
#[derive(Debug, Clone, Default)]
pub struct Turns(Arc<std::sync::Mutex<HashMap<String, Turn>>>);

type Turn = Arc<Mutex<Option<Timestamp>>>;

impl Turns {
    fn of(&self, organisation: &str) -> Turn {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(organisation.to_ascii_lowercase()).or_default())
    }
}

/// The connection to one organisation, collection or site.
pub(super) struct Http {
    dialect: Box<dyn Dialect>,
    client: Client,
    base: Url,
    base_url: String,
    max_body: u64,
    credential: Arc<dyn Credential>,
    clock: Clock,
    notebook: Arc<Notebook>,
    retry: RetryPolicy,
    /// Held while a request is in flight.
    turn: Turn,
    requests: AtomicU64,
}

impl Http {
    /// Builds the client; sends nothing. `base` is the target of all requests and identifies the
    /// organisation.
    pub fn new(
        config: &Source,
        base: Url,
        dialect: Box<dyn Dialect>,
        connection: &Connection,
        notebook: Arc<Notebook>,
    ) -> Result<Self, FetchError> {
        let base_url = base.as_str().trim_end_matches('/').to_owned();
        Ok(Self {
            dialect,
            client: client::build(config, &base)?,
            turn: connection.turns.of(&base_url),
            base_url,
            base,
            max_body: config.max_body,
            credential: Arc::clone(&connection.credential),
            clock: connection.clock.clone(),
            notebook,
            retry: connection.retry,
            requests: AtomicU64::new(0),
        })
    }

    /// The configured address without a trailing slash.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    pub fn base(&self) -> &Url {
        &self.base
    }

    /// Requests sent so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub async fn secret(&self) -> Result<SecretString, FetchError> {
        self.credential.current().await
    }

    /// Whether the text contains our credential.
    pub async fn contains_credential(&self, text: &str) -> Result<bool, FetchError> {
        let secret = self.credential.current().await?;
        let secret = secret.expose_secret().trim();
        Ok(secret.len() >= 8 && text.contains(secret))
    }

    /// Whether the tracker's last stated limit is so low that optional requests should be skipped.
    pub async fn is_rate_limit_low(&self) -> bool {
        let remembered = self.notebook.read().await.unwrap_or_default();
        remembered.rate_limit.is_some_and(|limit| limit.is_low(self.now()))
    }

    /// Sends a request, with retries where they are safe and may help.
    pub async fn send(&self, request: &Request) -> Result<Answer, Failure> {
        let policy = if request.repeat == Repeat::Never { RetryPolicy::ONCE } else { self.retry };
        let attempt = || self.send_with_fresh_credential(request);
        attempt.retry(policy.delays()).sleep(tokio::time::sleep).when(is_retryable).await
    }

    /// Renews a refused credential once.
    async fn send_with_fresh_credential(&self, request: &Request) -> Result<Answer, Failure> {
        match self.send_once(request).await {
            Err(failure) if failure.class == FailureClass::Auth => {
                match self.credential.refresh().await {
                    Ok(true) => self.send_once(request).await,
                    _ => Err(failure),
                }
            }
            other => other,
        }
    }

    async fn send_once(&self, request: &Request) -> Result<Answer, Failure> {
        let mut turn = self.turn.lock().await;
        self.wait_until_allowed(&turn).await?;
        let secret = self.credential.current().await?;
        let built = self.client.request(request.method.clone(), request.url.clone());
        let mut built = self.dialect.prepare(built, secret.expose_secret().trim());
        for (name, value) in &request.headers {
            built = built.header(*name, value);
        }
        if let Some((kind, body)) = &request.body {
            built = built.header(CONTENT_TYPE, *kind).body(body.clone());
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut response = built.send().await.map_err(|error| self.unreachable(error))?;
        let headers = response.headers().clone();
        let head = Head { status: response.status().as_u16(), headers, at: self.now() };
        let Interpreted { success, limits, request_id } = self.dialect.interpret(&head);
        self.record_limits(limits, &mut turn).await?;
        let body = self.read_body(&mut response, success).await;
        let body = body.map_err(|failure| failure.with_request_id(request_id.as_deref()))?;
        if success {
            return Ok(Answer { head, url: request.url.clone(), body, request_id });
        }
        let origin = self.credential.origin();
        let asked = RequestInfo {
            what: &request.what,
            base_url: &self.base_url,
            credential: &origin,
            writes: request.writes,
        };
        let failure = self.dialect.classify(&head, &body, asked);
        if failure.class == FailureClass::Throttled {
            // Some limits are stated only in the body.
            let retry_after = failure.retry_after;
            self.record_limits(Limits { retry_after, rate_limit: None }, &mut turn).await?;
        }
        tracing::debug!(status = head.status, class = failure.class.into_str(), "request failed");
        Err(failure)
    }

    /// Waits for a near "not before"; a distant one ends the run.
    async fn wait_until_allowed(
        &self,
        turn: &MutexGuard<'_, Option<Timestamp>>,
    ) -> Result<(), Failure> {
        let remembered = self.notebook.read().await?;
        let Some(not_before) = remembered.not_before.max(**turn) else { return Ok(()) };
        let wait = Duration::try_from(not_before.duration_since(self.now())).unwrap_or_default();
        if wait > MAX_WAIT {
            let message = format!(
                "{} asked not to be called before {}; this run stops reading here and a later one \
                 continues",
                self.base_url,
                self.clock.local_time(not_before)
            );
            let failure = Failure::new(FailureClass::Throttled, message);
            return Err(Failure { retry_after: Some(wait), ..failure });
        }
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// Stores the limits stated in a response's head, whatever its status.
    async fn record_limits(
        &self,
        limits: Limits,
        turn: &mut MutexGuard<'_, Option<Timestamp>>,
    ) -> Result<(), Failure> {
        let Limits { retry_after, rate_limit } = limits;
        if retry_after.is_none() && rate_limit.is_none() {
            return Ok(());
        }
        let until = retry_after.and_then(|delay| self.now().checked_add(delay).ok());
        **turn = (**turn).max(until);
        let change = move |remembered: &mut crate::model::SourceRecord| {
            remembered.not_before = remembered.not_before.max(until);
            if rate_limit.is_some() {
                remembered.rate_limit = rate_limit;
            }
        };
        Ok(self.notebook.update(change).await?)
    }

    async fn read_body(&self, response: &mut Response, whole: bool) -> Result<Vec<u8>, Failure> {
        // Of an error only part of the body is read.
        let limit = if whole { self.max_body } else { 1 << 20 };
        let mut body = Vec::new();
        loop {
            let chunk = response.chunk().await.map_err(|error| self.unreachable(error))?;
            let Some(chunk) = chunk else { return Ok(body) };
            if (body.len() as u64).saturating_add(chunk.len() as u64) > limit {
                if !whole {
                    return Ok(body);
                }
                let message = format!(
                    "{} sent more than source.max_body ({limit} bytes) in one response",
                    self.base_url
                );
                let failure = Failure::new(FailureClass::TooMany, message);
                return Err(Failure { code: Some(BODY_TOO_LONG.into()), ..failure });
            }
            body.extend_from_slice(&chunk);
        }
    }

    /// Parses a response's JSON; an unexpected shape is a separate failure.
    pub fn decode<T: serde::de::DeserializeOwned>(
        &self,
        answer: &Answer,
        what: &str,
    ) -> Result<T, Failure> {
        let Answer { body, request_id, .. } = answer;
        json::from_json(body).map_err(|error| {
            // The decoder's error may quote names of the response.
            let error = Untrusted::new(error.to_string()).line(200);
            let start = Untrusted::from_bytes(&body[..body.len().min(120)]).line(80);
            let message = format!(
                "{} returned JSON that is not {what}: {error}; it starts with {start:?}. Does \
                 source.base_url point at the tracker?",
                self.base_url,
            );
            Failure::new(FailureClass::Transient, message).with_request_id(request_id.as_deref())
        })
    }

    fn unreachable(&self, error: reqwest::Error) -> Failure {
        let failure = self.explain_transport_error(&error);
        Failure { cause: Some(Cause::new(error)), ..failure }
    }

    fn explain_transport_error(&self, error: &reqwest::Error) -> Failure {
        let cause = root_cause(error);
        if is_certificate_error(error) {
            let message = format!(
                "the certificate of {} is not trusted ({cause}); set source.ca_file to the PEM \
                 file of its authority",
                self.base_url
            );
            return Failure::new(FailureClass::Config, message);
        }
        // The tunnel's error has no type to match on.
        if error.is_connect() && cause.contains("proxy authorization required") {
            let message = proxy_needs_credential(&self.base_url);
            return Failure::new(FailureClass::Config, message);
        }
        let how = match error {
            e if e.is_timeout() => "did not answer in time (source.request_timeout)",
            e if e.is_connect() => "could not be reached",
            _ => "closed the connection in the middle of a response",
        };
        let message = format!("{} {how}: {cause}", self.base_url);
        Failure::new(FailureClass::Transient, message)
    }
}

fn is_retryable(failure: &Failure) -> bool {
    match failure.class {
        FailureClass::Transient => true,
        // The wait itself happens before the next request.
        FailureClass::Throttled => failure.retry_after.is_some_and(|delay| delay <= MAX_WAIT),
        _ => false,
    }
}
