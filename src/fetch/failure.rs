//! A failed request, and what failed responses of all trackers have in common (pure).

use std::time::Duration;

use jiff::Timestamp;

use super::{Cause, FetchError};
use crate::model::FailureClass;

/// Facts about a request, for messages.
#[derive(Debug, Clone, Copy)]
pub struct RequestInfo<'a> {
    /// Such as "the query" or "work items".
    pub what: &'a str,
    pub base_url: &'a str,
    /// Where the credential comes from.
    pub credential: &'a str,
    /// It was a write.
    pub writes: bool,
}

/// A failed request, before it becomes a [`FetchError`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub class: FailureClass,
    /// The tracker's code, such as `TF401232`.
    pub code: Option<String>,
    pub message: String,
    pub retry_after: Option<Duration>,
    /// The underlying error of the transport or the state.
    pub cause: Option<Cause>,
}

/// Our own code for a response above the size limit; no tracker uses it.
pub(super) const BODY_TOO_LONG: &str = "BODY_TOO_LONG";

impl Failure {
    /// A failure without a response of the tracker.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self { class, code: None, message: message.into(), retry_after: None, cause: None }
    }

    /// Adds the id of the response, which support asks for.
    #[must_use]
    pub fn with_request_id(mut self, id: Option<&str>) -> Self {
        if let Some(id) = id {
            self.message.push_str(&format!(" ({id})"));
        }
        self
    }

    pub fn has_code(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    pub fn into_error(self, now: Timestamp) -> FetchError {
        let not_before = self.retry_after.and_then(|delay| now.checked_add(delay).ok());
        FetchError { class: self.class, message: self.message, not_before, cause: self.cause }
    }
}

/// An error of the memory or the credential.
impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        Self { cause: error.cause, ..Self::new(error.class, error.message) }
    }
}

/// Remedy for a proxy that requires a credential.
pub(super) fn proxy_needs_credential(base_url: &str) -> String {
    format!(
        "the proxy for {base_url} requires a credential: put it into HTTPS_PROXY, as in \
         http://name:password@proxy:8080, or list the tracker in NO_PROXY"
    )
}

/// The message in a body that is not the expected JSON: the title of a page, or its text.
pub(super) fn plain_message(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4096)]);
    match text.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")) {
        Some((title, _)) => format!("a page titled {}", title.trim()),
        None if text.trim_start().starts_with('<') => "a page without title".to_owned(),
        None => text.into_owned(),
    }
}

/// `Retry-After` in seconds or as an HTTP date; at least a second, at most `longest`.
pub fn parse_retry_after(value: &str, now: Timestamp, longest: Duration) -> Option<Duration> {
    let delay = match value.trim().parse::<f64>() {
        Ok(seconds) if seconds.is_finite() => Duration::try_from_secs_f64(seconds.max(0.0)).ok()?,
        Ok(_) => return None,
        Err(_) => {
            let then = jiff::fmt::rfc2822::parse(value.trim()).ok()?.timestamp();
            Duration::try_from(then.duration_since(now)).unwrap_or_default()
        }
    };
    Some(delay.clamp(Duration::from_secs(1), longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_within_bounds() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let seconds = |text: &str| {
            parse_retry_after(text, now, Duration::from_secs(600)).map(|delay| delay.as_secs())
        };
        assert_eq!(seconds("30"), Some(30));
        assert_eq!(seconds(" 0 "), Some(1));
        assert_eq!(seconds("-5"), Some(1));
        assert_eq!(seconds("86400"), Some(600));
        assert_eq!(seconds("Mon, 16 Nov 2026 12:01:30 GMT"), Some(90));
        assert_eq!(seconds("Mon, 16 Nov 2026 11:00:00 GMT"), Some(1));
        assert_eq!(seconds("soon"), None);
        assert_eq!(seconds("NaN"), None);
    }
}
