//! Requests to the tracker: one at a time, bounded, and told apart when they fail.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use backon::Retryable;
use jiff::Timestamp;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Client, Method, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Mutex;

use super::credential::Credential;
use super::failure::{
    BODY_TOO_LONG, Facts, Failure, RequestInfo, classify, is_success, parse_retry_after,
    percent_decode, proxy_needs_credential,
};
use super::version::version_for;
use super::{client, wire};
use crate::clock::Clock;
use crate::fetch::memory::Notebook;
use crate::fetch::retry::RetryPolicy;
use crate::fetch::{Cause, FetchError};
use crate::model::{FailureClass, Foreign, RateLimit};
use crate::settings::{Source, SourceAuth};

/// A run waits this long for the tracker's "not before"; beyond it, the run ends.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How long a tracker is left alone that asks for it without saying how long.
const UNSTATED_RETRY_AFTER: Duration = Duration::from_secs(60);

/// May a request be sent a second time?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// A read, or a write that a tested revision makes safe.
    Safe,
    /// Only once: a probe.
    Never,
}

/// One request.
#[derive(Debug)]
pub(super) struct Call<'a> {
    /// The verb.
    pub method: Method,
    /// Path below the base address, encoded by [`Transport::send`].
    pub path: Vec<&'a str>,
    /// Query string without the version.
    pub query: Vec<(&'a str, String)>,
    /// The body and its type.
    pub body: Option<(&'static str, Vec<u8>)>,
    /// Whose version is asked for; empty: none.
    pub resource: &'static str,
    /// For messages.
    pub what: String,
    /// Whether it may be sent again.
    pub repeat: Repeat,
}

impl<'a> Call<'a> {
    /// A read.
    pub fn get(path: Vec<&'a str>, resource: &'static str, what: impl Into<String>) -> Self {
        let (method, what) = (Method::GET, what.into());
        Self { method, path, query: vec![], body: None, resource, what, repeat: Repeat::Safe }
    }

    /// A read that needs a body.
    pub fn post(
        path: Vec<&'a str>,
        resource: &'static str,
        what: impl Into<String>,
        body: &serde_json::Value,
    ) -> Self {
        let body = Some(("application/json; charset=utf-8", body.to_string().into_bytes()));
        Self { method: Method::POST, body, ..Self::get(path, resource, what) }
    }
}

/// The connection to one organisation or collection.
pub(super) struct Transport {
    client: Client,
    base: Url,
    base_url: String,
    auth: SourceAuth,
    api_version: String,
    max_body: u64,
    credential: Arc<dyn Credential>,
    clock: Clock,
    notebook: Arc<Notebook>,
    retry: RetryPolicy,
    session: String,
    /// Held while a request is on its way: never two at once.
    turn: Mutex<()>,
    requests: AtomicU64,
    agreed: RwLock<BTreeMap<String, String>>,
}

/// The JSON of an answer, not yet read.
#[derive(Debug)]
pub(super) struct Answer {
    body: Vec<u8>,
    /// For messages about what it holds.
    pub activity: Option<String>,
}

impl Transport {
    /// Builds the client; nothing is sent.
    pub fn new(
        config: &Source,
        credential: Arc<dyn Credential>,
        clock: Clock,
        notebook: Arc<Notebook>,
        retry: RetryPolicy,
    ) -> Result<Self, FetchError> {
        let base = client::base_url(&config.base_url)?;
        Ok(Self {
            client: client::build(config, &base)?,
            base_url: base.as_str().trim_end_matches('/').to_owned(),
            base,
            auth: config.auth,
            api_version: config.api_version.clone(),
            max_body: config.max_body,
            credential,
            clock,
            notebook,
            retry,
            session: uuid::Uuid::now_v7().to_string(),
            turn: Mutex::new(()),
            requests: AtomicU64::new(0),
            agreed: RwLock::default(),
        })
    }

    /// The configured address without a slash at its end.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Requests sent so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The credential as it is now.
    pub async fn secret(&self) -> Result<SecretString, FetchError> {
        self.credential.current().await
    }

    /// Does the text hold our credential?
    pub async fn contains_credential(&self, text: &str) -> Result<bool, FetchError> {
        let secret = self.credential.current().await?;
        let secret = secret.expose_secret().trim();
        Ok(secret.len() >= 8 && text.contains(secret))
    }

    /// What the tracker last said about its limits: is it time to do without optional calls?
    pub async fn is_rate_limit_low(&self) -> bool {
        let remembered = self.notebook.read().await.unwrap_or_default();
        remembered.rate_limit.is_some_and(|limit| limit.is_low(self.now()))
    }

    /// Takes up what earlier runs agreed with the server.
    pub async fn load_agreed_versions(&self) -> Result<(), FetchError> {
        let remembered = self.notebook.read().await?;
        *self.agreed.write().unwrap_or_else(PoisonError::into_inner) = remembered.api_versions;
        Ok(())
    }

    /// Sends `call`, again if that is safe and may help, and returns the answer.
    pub async fn send(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let result = self.send_with_retries(call).await;
        match result {
            Err(failure)
                if failure.class == FailureClass::Version
                    && !call.resource.is_empty()
                    && call.repeat == Repeat::Safe =>
            {
                self.negotiate().await?;
                self.send_with_retries(call).await
            }
            other => other,
        }
    }

    async fn send_with_retries(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let policy = if call.repeat == Repeat::Never { RetryPolicy::ONCE } else { self.retry };
        let attempt = || self.send_with_fresh_credential(call);
        attempt.retry(policy.delays()).sleep(tokio::time::sleep).when(is_retryable).await
    }

    /// A refused credential is renewed once.
    async fn send_with_fresh_credential(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        match self.send_once(call).await {
            Err(failure) if failure.class == FailureClass::Auth => {
                match self.credential.refresh().await {
                    Ok(true) => self.send_once(call).await,
                    _ => Err(failure),
                }
            }
            other => other,
        }
    }

    async fn send_once(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let _turn = self.turn.lock().await;
        self.wait_until_allowed().await?;
        let secret = self.credential.current().await.map_err(to_failure)?;
        let secret = secret.expose_secret().trim();
        let request = self.client.request(call.method.clone(), self.url(call));
        let request = match self.auth {
            SourceAuth::Pat => request.basic_auth("", Some(secret)),
            SourceAuth::Bearer => request.bearer_auth(secret),
        };
        let request = match &call.body {
            Some((kind, body)) => request.header(CONTENT_TYPE, *kind).body(body.clone()),
            None => request,
        };
        let request = request
            .header(ACCEPT, "application/json")
            .header("X-TFS-FedAuthRedirect", "Suppress")
            .header("X-TFS-Session", &self.session);
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut response = request.send().await.map_err(|error| self.unreachable(error))?;
        let mut facts = read_facts(&response, self.now());
        if facts.status == 429 && facts.retry_after.is_none() {
            facts.retry_after = Some(UNSTATED_RETRY_AFTER);
        }
        self.record_limits(&facts).await?;
        let body = self.read_body(&mut response, is_success(&facts)).await;
        let body = body.map_err(|failure| failure.with_activity(facts.activity_id.as_deref()))?;
        if is_success(&facts) {
            return Ok(Answer { body, activity: facts.activity_id });
        }
        let origin = self.credential.origin();
        let asked = RequestInfo {
            what: &call.what,
            base_url: &self.base_url,
            credential: &origin,
            writes: call.method == Method::PATCH,
        };
        let failure = classify(&facts, &body, asked);
        tracing::debug!(status = facts.status, class = failure.class.into_str(), "request failed");
        Err(failure)
    }

    fn url(&self, call: &Call<'_>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(call.path.iter().filter(|part| !part.is_empty()));
        }
        let agreed = self.agreed.read().unwrap_or_else(PoisonError::into_inner);
        if !call.query.is_empty() || !call.resource.is_empty() {
            let mut query = url.query_pairs_mut();
            query.extend_pairs(&call.query);
            if !call.resource.is_empty() {
                let version = version_for(call.resource, &self.api_version, &agreed);
                query.append_pair("api-version", &version);
            }
        }
        url
    }

    /// Waits for a "not before" that is near; a far one ends the run.
    async fn wait_until_allowed(&self) -> Result<(), Failure> {
        let remembered = self.notebook.read().await.map_err(to_failure)?;
        let Some(not_before) = remembered.not_before else { return Ok(()) };
        let wait = Duration::try_from(not_before.duration_since(self.now())).unwrap_or_default();
        if wait > LONGEST_WAIT {
            let message = format!(
                "{} asked not to be called before {not_before}; this run stops reading here and a \
                 later one continues",
                self.base_url
            );
            let failure = Failure::new(FailureClass::Throttled, message);
            return Err(Failure { retry_after: Some(wait), ..failure });
        }
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// Keeps what the head of an answer says about limits, whatever its status.
    async fn record_limits(&self, facts: &Facts) -> Result<(), Failure> {
        if facts.retry_after.is_none() && facts.rate_limit.is_none() {
            return Ok(());
        }
        let now = self.now();
        let (delay, limit) = (facts.retry_after, facts.rate_limit.clone());
        let change = move |remembered: &mut crate::model::SourceRecord| {
            if let Some(delay) = delay {
                let until = now.checked_add(delay).ok();
                remembered.not_before = remembered.not_before.max(until);
            }
            if limit.is_some() {
                remembered.rate_limit = limit;
            }
        };
        self.notebook.update(change).await.map_err(to_failure)
    }

    async fn read_body(&self, response: &mut Response, whole: bool) -> Result<Vec<u8>, Failure> {
        // An error's body is only looked at.
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

    /// Asks the server once what it speaks.
    pub async fn negotiate(&self) -> Result<(), Failure> {
        let what = "its list of resources";
        let call = Call { method: Method::OPTIONS, ..Call::get(vec!["_apis", "wit"], "", what) };
        let answer = self.send_with_retries(&call).await?;
        let list: wire::Listing<wire::Location> = self.decode(&answer, what)?;
        let locations: Vec<_> = list.value.into_iter().flatten().collect();
        let agreed = super::version::negotiate(&self.api_version, &locations);
        let keep = agreed.clone();
        *self.agreed.write().unwrap_or_else(PoisonError::into_inner) = agreed;
        let update = self.notebook.update(move |remembered| remembered.api_versions = keep);
        update.await.map_err(to_failure)
    }

    /// Reads the JSON of an answer; what does not have the expected shape is a failure of its own.
    pub fn decode<T: serde::de::DeserializeOwned>(
        &self,
        answer: &Answer,
        what: &str,
    ) -> Result<T, Failure> {
        let Answer { body, activity } = answer;
        wire::from_json(body).map_err(|error| {
            // An error of the decoder may quote names of the answer.
            let error = Foreign::new(error.to_string()).line(200);
            let start = Foreign::from_bytes(&body[..body.len().min(120)]).line(80);
            let message = format!(
                "{} returned JSON that is not {what}: {error}; it starts with {start:?}. Does \
                 source.base_url point at the tracker?",
                self.base_url,
            );
            Failure::new(FailureClass::Transient, message).with_activity(activity.as_deref())
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
        // The tunnel's error has no type that could be asked.
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
        // The wait itself is done before the next request is sent.
        FailureClass::Throttled => failure.retry_after.is_some_and(|delay| delay <= LONGEST_WAIT),
        _ => false,
    }
}

/// An error of the memory or the credential, on its way up.
fn to_failure(error: FetchError) -> Failure {
    Failure { cause: error.cause, ..Failure::new(error.class, error.message) }
}

fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn is_certificate_error(error: &reqwest::Error) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = error.source();
    while let Some(cause) = next {
        if cause.downcast_ref::<rustls::Error>().is_some_and(is_about_certificates) {
            return true;
        }
        let wrapped = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    false
}

fn is_about_certificates(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(_))
}

fn read_facts(response: &Response, now: Timestamp) -> Facts {
    let headers = response.headers();
    let header = |name: &str| header(headers, name);
    Facts {
        status: response.status().as_u16(),
        content_type: header(CONTENT_TYPE.as_str()).unwrap_or_default().to_ascii_lowercase(),
        retry_after: header(RETRY_AFTER.as_str()).and_then(|v| parse_retry_after(&v, now)),
        activity_id: header("activityid").or_else(|| header("x-vss-e2eid")),
        service_error: header("x-tfs-serviceerror").map(|v| percent_decode(&v)),
        // What follows the path of a sign-in page is long and of no use to a person.
        location: header(LOCATION.as_str())
            .map(|v| v.split('?').next().unwrap_or_default().to_owned()),
        rate_limit: read_rate_limit(headers, now),
    }
}

fn read_rate_limit(headers: &HeaderMap, now: Timestamp) -> Option<RateLimit> {
    let number = |name: &str| header(headers, name).and_then(|v| v.trim().parse::<f64>().ok());
    let (limit, remaining) = (number("x-ratelimit-limit"), number("x-ratelimit-remaining"));
    let resource = header(headers, "x-ratelimit-resource");
    if limit.is_none() && remaining.is_none() && resource.is_none() {
        return None;
    }
    Some(RateLimit {
        resource,
        limit: limit.map(to_i64),
        remaining: remaining.map(to_i64),
        reset: number("x-ratelimit-reset").and_then(|s| Timestamp::from_second(to_i64(s)).ok()),
        delay_ms: number("x-ratelimit-delay").map(|seconds| to_i64(seconds * 1000.0)),
        seen_at: Some(now),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "saturates, which is right for a limit")]
fn to_i64(number: f64) -> i64 {
    number as i64
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}
