//! A failed request, and what every tracker's answers have in common when they fail (pure).

use std::time::Duration;

use jiff::Timestamp;

use super::{Cause, FetchError};
use crate::model::FailureClass;

/// What a message about a request needs to say.
#[derive(Debug, Clone, Copy)]
pub struct RequestInfo<'a> {
    /// Such as "the query" or "work items".
    pub what: &'a str,
    /// The configured address.
    pub base_url: &'a str,
    /// Where the credential comes from.
    pub credential: &'a str,
    /// It was a write.
    pub writes: bool,
}

/// A failed request, before it becomes a [`FetchError`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The class.
    pub class: FailureClass,
    /// The tracker's code, such as `TF401232`.
    pub code: Option<String>,
    /// For people.
    pub message: String,
    /// `Retry-After` of the response.
    pub retry_after: Option<Duration>,
    /// The error of the transport or the state behind it.
    pub cause: Option<Cause>,
}

/// The code we give an answer that was longer than allowed; no tracker uses it.
pub(super) const BODY_TOO_LONG: &str = "BODY_TOO_LONG";

impl Failure {
    /// A failure without an answer of the tracker behind it.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self { class, code: None, message: message.into(), retry_after: None, cause: None }
    }

    /// The same with the id of the answer it is about, which support asks for.
    #[must_use]
    pub fn with_request_id(mut self, id: Option<&str>) -> Self {
        if let Some(id) = id {
            self.message.push_str(&format!(" ({id})"));
        }
        self
    }

    /// Is it this code?
    pub fn has_code(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    /// As the seam's error.
    pub fn into_error(self, now: Timestamp) -> FetchError {
        let not_before = self.retry_after.and_then(|delay| now.checked_add(delay).ok());
        FetchError { class: self.class, message: self.message, not_before, cause: self.cause }
    }
}

/// An error of the memory or the credential, on its way up.
impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        Self { cause: error.cause, ..Self::new(error.class, error.message) }
    }
}

/// What to do about a proxy that does not let us through.
pub(super) fn proxy_needs_credential(base_url: &str) -> String {
    format!(
        "the proxy for {base_url} requires a credential: put it into HTTPS_PROXY, as in \
         http://name:password@proxy:8080, or list the tracker in NO_PROXY"
    )
}

/// What a body that is not the expected JSON says to a person: the title of a page, or its text.
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
