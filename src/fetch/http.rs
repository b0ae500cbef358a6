//! Requests to any tracker: one at a time per organisation, bounded, retried where that is safe,
//! and classified when they fail. Differences between trackers are in [`Dialect`].

mod download;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use backon::Retryable;
use jiff::{SignedDuration, Timestamp};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

use super::credential::Credential;
use super::error::BODY_TOO_LONG;
use super::failure::{RequestInfo, Said, Table, classify};
use super::http_error::{is_certificate_error, root_cause};
use super::memory::Notebook;
use super::retry::RetryPolicy;
use super::text::instant;
use super::{Cause, Connection, FetchError, client, json};
use crate::clock::Clock;
use crate::model::{FailureClass, RateLimit, Untrusted};
use crate::settings::Source;

pub(super) use download::WantedFile;

/// A run waits at most this long for the tracker's "not before"; for a longer wait it ends.
const MAX_WAIT: SignedDuration = SignedDuration::from_secs(30);

/// Wait if the tracker asks for one without stating how long; doubled each time it asks again.
const UNSTATED_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The differences between trackers.
pub(super) trait Dialect: Send + Sync {
    /// Adds the tracker's credential and headers.
    fn prepare(&self, request: RequestBuilder, secret: &str) -> RequestBuilder;

    /// Whether the body is the requested data, or the caller handles the response.
    fn is_success(&self, head: &Head) -> bool;

    /// The id that support asks for, with its name.
    fn request_id(&self, head: &Head) -> Option<String>;

    /// Whether a stated limit is about the requests that we send.
    fn is_our_limit(&self, _limit: &RateLimit) -> bool {
        true
    }

    /// What a failed response says, in the tracker's own shape.
    fn said(&self, head: &Head, body: &[u8]) -> Said;

    fn table(&self) -> &'static Table;
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

    /// When a limit is renewed: seconds since 1970, or a date.
    pub fn reset(&self) -> Option<Timestamp> {
        let text = self.header("x-ratelimit-reset")?;
        match text.trim().parse::<i64>() {
            Ok(seconds) => Timestamp::from_second(seconds).ok(),
            Err(_) => instant(&text),
        }
    }

    /// `X-RateLimit-*`, if sent.
    pub fn rate_limit(&self) -> Option<RateLimit> {
        let (limit, remaining) =
            (self.number("x-ratelimit-limit"), self.number("x-ratelimit-remaining"));
        let resource = self.header("x-ratelimit-resource");
        if limit.is_none() && remaining.is_none() && resource.is_none() {
            return None;
        }
        let interval = || {
            let seconds = self.number("x-ratelimit-interval-seconds")?;
            self.at.checked_add(jiff::SignedDuration::try_from_secs_f64(seconds).ok()?).ok()
        };
        Some(RateLimit {
            resource,
            limit: limit.map(to_i64),
            remaining: remaining.map(to_i64),
            reset: self.reset().or_else(interval),
            delay_ms: self.number("x-ratelimit-delay").map(|seconds| to_i64(seconds * 1000.0)),
            seen_at: Some(self.at),
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "saturates, which is right for a limit")]
fn to_i64(number: f64) -> i64 {
    number as i64
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

    /// A read with a body.
    pub fn post(url: Url, what: impl Into<String>, body: &Value) -> Self {
        Self { method: Method::POST, ..Self::get(url, what) }.with_body(body)
    }

    /// A write that may be repeated.
    pub fn write(method: Method, url: Url, what: impl Into<String>, body: &Value) -> Self {
        Self { method, writes: true, ..Self::get(url, what) }.with_body(body)
    }

    fn with_body(self, body: &Value) -> Self {
        let body = Some(("application/json; charset=utf-8", body.to_string().into_bytes()));
        Self { body, ..self }
    }

    /// Sent without a second try.
    #[must_use]
    pub fn once(self) -> Self {
        Self { repeat: Repeat::Never, ..self }
    }
}

/// A successful response with an unparsed body.
#[derive(Debug)]
pub(super) struct HttpAnswer {
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
pub struct Turns(Arc<std::sync::Mutex<HashMap<String, RequestTurn>>>);

type RequestTurn = Arc<Mutex<Option<Timestamp>>>;

impl Turns {
    fn of(&self, organisation: &str) -> RequestTurn {
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
    pub notebook: Arc<Notebook>,
    retry: RetryPolicy,
    /// Held while a request is in flight.
    turn: RequestTurn,
    requests: Arc<AtomicU64>,
    /// Consecutive refusals without a stated wait.
    unstated: AtomicU32,
}

impl Http {
    /// Builds the client; sends nothing. `base` is the target of all requests and identifies the
    /// organisation.
    pub fn new(
        config: &Source,
        base: Url,
        dialect: Box<dyn Dialect>,
        connection: &Connection,
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
            notebook: Notebook::new(Arc::clone(&connection.memory), &config.name),
            retry: connection.retry,
            requests: Arc::default(),
            unstated: AtomicU32::new(0),
        })
    }

    /// The configured address without a trailing slash.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    pub fn base(&self) -> &Url {
        &self.base
    }

    /// An address below the configured one, each part of the path encoded.
    pub fn url(&self, path: &[&str], query: &[(&str, String)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            let parts = path.iter().flat_map(|part| part.split('/'));
            segments.pop_if_empty().extend(parts.filter(|part| !part.is_empty()));
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Number of requests sent so far.
    pub fn requests(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.requests)
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Start of the very first read.
    pub fn look_back(&self, config: &Source) -> Timestamp {
        self.now().checked_sub(config.look_back).unwrap_or(Timestamp::UNIX_EPOCH)
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
    pub async fn send(&self, request: &Request) -> Result<HttpAnswer, FetchError> {
        let policy = if request.repeat == Repeat::Never { RetryPolicy::ONCE } else { self.retry };
        let attempt = || self.send_with_fresh_credential(request);
        let is_retryable = |error: &FetchError| self.is_retryable(error);
        attempt.retry(policy.delays()).sleep(tokio::time::sleep).when(is_retryable).await
    }

    /// Renews a refused credential once.
    async fn send_with_fresh_credential(
        &self,
        request: &Request,
    ) -> Result<HttpAnswer, FetchError> {
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

    async fn send_once(&self, request: &Request) -> Result<HttpAnswer, FetchError> {
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
        let success = self.dialect.is_success(&head);
        let request_id = self.dialect.request_id(&head);
        self.record_limits(&head, &mut turn).await?;
        let body = self.read_body(&mut response, success).await;
        let body = body.map_err(|failure| failure.with_request_id(request_id.as_deref()))?;
        if success {
            self.unstated.store(0, Ordering::Relaxed);
            return Ok(HttpAnswer { head, url: request.url.clone(), body, request_id });
        }
        let origin = self.credential.origin();
        let asked = RequestInfo {
            what: &request.what,
            base_url: &self.base_url,
            credential: &origin,
            writes: request.writes,
        };
        let before = self.unstated.load(Ordering::Relaxed).min(6);
        let unstated = UNSTATED_RETRY_AFTER.saturating_mul(1 << before);
        let failure = classify(&*self.dialect, (&head, body.as_slice()), asked, unstated);
        if failure.class == FailureClass::Throttled {
            if head.retry_after().is_none() {
                self.unstated.fetch_add(1, Ordering::Relaxed);
            }
            // Some limits are stated only in the body.
            self.hold_until(failure.not_before, None, &mut turn).await?;
        }
        tracing::debug!(status = head.status, class = failure.class.into_str(), "request failed");
        Err(failure)
    }

    /// Waits for a near "not before"; a distant one ends the run.
    async fn wait_until_allowed(
        &self,
        turn: &MutexGuard<'_, Option<Timestamp>>,
    ) -> Result<(), FetchError> {
        let remembered = self.notebook.read().await?;
        let Some(not_before) = remembered.not_before.max(**turn) else { return Ok(()) };
        let wait = not_before.duration_since(self.now());
        if wait > MAX_WAIT {
            let message = format!(
                "{} asked not to be called before {}; this run stops reading here and a later one \
                 continues",
                self.base_url,
                self.clock.local_time(not_before)
            );
            let error = FetchError::new(FailureClass::Throttled, message);
            return Err(FetchError { not_before: Some(not_before), ..error });
        }
        if wait.is_positive() {
            tokio::time::sleep(wait.unsigned_abs()).await;
        }
        Ok(())
    }

    /// Stores the limits stated in a response's head, whatever its status.
    async fn record_limits(
        &self,
        head: &Head,
        turn: &mut MutexGuard<'_, Option<Timestamp>>,
    ) -> Result<(), FetchError> {
        let until = head.retry_after().and_then(|delay| self.now().checked_add(delay).ok());
        let limit = head.rate_limit().filter(|limit| self.dialect.is_our_limit(limit));
        self.hold_until(until, limit, turn).await
    }

    async fn hold_until(
        &self,
        until: Option<Timestamp>,
        rate_limit: Option<RateLimit>,
        turn: &mut MutexGuard<'_, Option<Timestamp>>,
    ) -> Result<(), FetchError> {
        if until.is_none() && rate_limit.is_none() {
            return Ok(());
        }
        **turn = (**turn).max(until);
        let change = move |remembered: &mut crate::model::SourceRecord| {
            remembered.not_before = remembered.not_before.max(until);
            if rate_limit.is_some() {
                remembered.rate_limit = rate_limit;
            }
        };
        self.notebook.update(change).await
    }

    async fn read_body(&self, response: &mut Response, whole: bool) -> Result<Vec<u8>, FetchError> {
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
                let failure = FetchError::new(FailureClass::TooMany, message);
                return Err(FetchError { code: Some(BODY_TOO_LONG.into()), ..failure });
            }
            body.extend_from_slice(&chunk);
        }
    }

    /// Sends a request and parses its JSON.
    pub async fn json<T: DeserializeOwned>(&self, request: &Request) -> Result<T, FetchError> {
        let answer = self.send(request).await?;
        self.decode(&answer, &request.what)
    }

    /// Parses a response's JSON; an unexpected shape is a separate failure.
    pub fn decode<T: DeserializeOwned>(
        &self,
        answer: &HttpAnswer,
        what: &str,
    ) -> Result<T, FetchError> {
        let HttpAnswer { body, request_id, .. } = answer;
        json::from_json(body).map_err(|error| {
            // The decoder's error may quote names of the response.
            let error = Untrusted::new(error.to_string()).line(200);
            let start = Untrusted::from_bytes(&body[..body.len().min(120)]).line(80);
            let message = format!(
                "{} returned JSON that is not {what}: {error}; it starts with {start:?}. Does \
                 source.base_url point at the tracker?",
                self.base_url,
            );
            FetchError::new(FailureClass::Transient, message).with_request_id(request_id.as_deref())
        })
    }

    fn unreachable(&self, error: reqwest::Error) -> FetchError {
        let failure = self.explain_transport_error(&error);
        FetchError { cause: Some(Cause::new(error)), ..failure }
    }

    fn explain_transport_error(&self, error: &reqwest::Error) -> FetchError {
        let cause = root_cause(error);
        if is_certificate_error(error) {
            let message = format!(
                "the certificate of {} is not trusted ({cause}); set source.ca_file to the PEM \
                 file of its authority",
                self.base_url
            );
            return FetchError::new(FailureClass::Config, message);
        }
        // The tunnel's error has no type to match on.
        if error.is_connect() && cause.contains("proxy authorization required") {
            let asked =
                RequestInfo { what: "", base_url: &self.base_url, credential: "", writes: false };
            let head = Head { status: 407, at: self.now(), ..Head::default() };
            return classify(&*self.dialect, (&head, b"".as_slice()), asked, Duration::ZERO);
        }
        let how = match error {
            e if e.is_timeout() => "did not answer in time (source.request_timeout)",
            e if e.is_connect() => "could not be reached",
            _ => "closed the connection in the middle of a response",
        };
        let message = format!("{} {how}: {cause}", self.base_url);
        FetchError::new(FailureClass::Transient, message)
    }

    fn is_retryable(&self, error: &FetchError) -> bool {
        let wait = error.not_before.map(|at| at.duration_since(self.now()));
        match error.class {
            FailureClass::Transient => true,
            // The wait itself happens before the next request.
            FailureClass::Throttled => wait.is_some_and(|wait| wait <= MAX_WAIT),
            _ => false,
        }
    }
}
