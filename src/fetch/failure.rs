//! Classifies failed responses (pure): each tracker has a table, whose first row that fits says
//! what happened and how to fix it. Messages of trackers are localised, so a row is chosen by
//! status, header, code or type; the tracker's own words are only displayed.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::FetchError;
use super::http::{Dialect, Head};
use crate::model::{FailureClass, Untrusted};

/// Bounds of every wait that a tracker asks for: its limits are renewed within the hour.
const RETRY_AFTER: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

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

/// What a tracker says about a failure, in its own shape.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub message: Untrusted,
    /// The type of the error.
    pub kind: Untrusted,
    /// The tracker's code; the status if it has none.
    pub code: Option<String>,
    /// More to show, already safe to print.
    pub details: Vec<String>,
}

/// A refused request, as the rows of a table see it.
pub(super) struct RefusedRequest<'a> {
    pub head: &'a Head,
    pub said: &'a Said,
    pub writes: bool,
}

impl RefusedRequest<'_> {
    pub fn has_code(&self, code: &str) -> bool {
        self.said.code.as_deref() == Some(code)
    }

    pub fn is_kind(&self, kind: &str) -> bool {
        self.said.kind.raw() == kind
    }
}

/// One row: for these statuses and this sign, a class and words with `{base_url}`, `{what}`,
/// `{credential}` and `{location}` to fill in.
pub(super) struct Row(
    pub RangeInclusive<u16>,
    pub fn(&RefusedRequest<'_>) -> bool,
    pub FailureClass,
    pub &'static str,
);

/// The failures of one tracker.
pub(super) struct Table {
    pub rows: &'static [Row],
    /// For a response that is none of the API's.
    pub otherwise: &'static str,
}

pub(super) const ANY: RangeInclusive<u16> = 0..=u16::MAX;

pub(super) fn always(_: &RefusedRequest<'_>) -> bool {
    true
}

pub(super) fn is_html(refusal: &RefusedRequest<'_>) -> bool {
    refusal.head.content_type().contains("html")
}

pub(super) fn writes(refusal: &RefusedRequest<'_>) -> bool {
    refusal.writes
}

/// What all trackers have in common, after their own rows.
const COMMON: &[Row] = &[
    Row(
        407..=407,
        always,
        FailureClass::Config,
        "the proxy for {base_url} requires a credential: put it into HTTPS_PROXY, as in \
         http://name:password@proxy:8080, or list the tracker in NO_PROXY",
    ),
    Row(
        408..=408,
        always,
        FailureClass::TooSlow,
        "{what} took longer than the tracker allows; narrow source.where, avoid searches in long \
         texts",
    ),
    Row(409..=409, always, FailureClass::Conflict, CHANGED),
    Row(412..=412, always, FailureClass::Conflict, CHANGED),
    Row(429..=429, always, FailureClass::Throttled, "{base_url} asks heartbeat to slow down"),
    Row(
        500..=599,
        always,
        FailureClass::Transient,
        "{base_url} failed to return {what}; this may be temporary",
    ),
];

const CHANGED: &str = "{what}: another user changed the item in the meantime";

/// Classifies a failed response. `unstated` is the wait if the tracker asks for one without stating
/// how long.
pub(super) fn classify(
    dialect: &dyn Dialect,
    (head, body): (&Head, &[u8]),
    asked: RequestInfo<'_>,
    unstated: Duration,
) -> FetchError {
    let said = dialect.said(head, body);
    let table = dialect.table();
    let refusal = RefusedRequest { head, said: &said, writes: asked.writes };
    let fits = |row: &&Row| row.0.contains(&head.status) && (row.1)(&refusal);
    let (class, words) = match table.rows.iter().chain(COMMON).find(fits) {
        Some(row) => (row.2, row.3),
        None => (FailureClass::Config, table.otherwise),
    };
    let throttled = class == FailureClass::Throttled;
    let wait = head.retry_after().or_else(|| throttled.then_some(unstated));
    let mut evidence = vec![format!("HTTP {}", head.status)];
    evidence.extend((!said.kind.is_empty()).then(|| said.kind.line(100)));
    if !said.message.is_empty() {
        evidence.push(format!("\"{}\"", said.message.line(300)));
    }
    evidence.extend(said.details);
    evidence.extend(wait.map(|delay| format!("retry after {} s", delay.as_secs())));
    evidence.extend(dialect.request_id(head));
    FetchError {
        class,
        message: format!("{} ({})", fill(words, head, asked), evidence.join(", ")),
        code: said.code.or_else(|| Some(head.status.to_string())),
        not_before: wait.and_then(|delay| head.at.checked_add(delay).ok()),
        cause: None,
    }
}

/// The words with their names filled in, each once: a value is never read for names again.
fn fill(words: &str, head: &Head, asked: RequestInfo<'_>) -> String {
    let mut parts = words.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        match name {
            "what" => out.push_str(asked.what),
            "base_url" => out.push_str(asked.base_url),
            "credential" => out.push_str(asked.credential),
            // The query string of a sign-in page is long and useless in a message.
            _ => match head.header("location") {
                Some(to) => out.push_str(to.split('?').next().unwrap_or_default()),
                None => out.push_str("nowhere"),
            },
        }
        out.push_str(rest);
    }
    out
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

impl Head {
    /// How long to wait, according to the head: as stated, or until a used-up limit is renewed. A
    /// zero on a good response means nothing.
    pub fn retry_after(&self) -> Option<Duration> {
        let refused = matches!(self.status, 403 | 429 | 503);
        let stated = self.header("retry-after").filter(|text| refused || text.trim() != "0");
        let stated = stated.and_then(|text| {
            let then = || jiff::fmt::rfc2822::parse(text.trim()).ok().map(|date| date.timestamp());
            match text.trim().parse::<f64>() {
                Ok(seconds) => Duration::try_from_secs_f64(seconds.max(0.0)).ok(),
                Err(_) => Some(self.until(then()?)),
            }
        });
        let used_up = || {
            let remaining = self.number("x-ratelimit-remaining");
            let is_used_up = match self.status {
                429 => remaining.is_none_or(|left| left < 1.0),
                _ => refused && remaining.is_some_and(|left| left < 1.0),
            };
            self.reset().filter(|_| is_used_up).map(|at| self.until(at))
        };
        let wait = stated.or_else(used_up)?;
        Some(wait.clamp(*RETRY_AFTER.start(), *RETRY_AFTER.end()))
    }

    fn until(&self, then: jiff::Timestamp) -> Duration {
        Duration::try_from(then.duration_since(self.at)).unwrap_or_default()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    /// A JSON response that arrived at noon.
    pub fn head(status: u16, headers: &[(&'static str, &str)]) -> Head {
        let mut map = HeaderMap::new();
        map.insert("content-type", HeaderValue::from_static("application/json; charset=utf-8"));
        for (name, value) in headers {
            map.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        Head { status, headers: map, at: "2026-11-16T12:00:00Z".parse().unwrap() }
    }

    /// What a read of `what` failed with.
    pub fn failed(dialect: &dyn Dialect, head: &Head, body: &str, writes: bool) -> FetchError {
        let (what, credential) = ("the list", "the variable SOME_TOKEN");
        let asked = RequestInfo { what, base_url: "https://e.com", credential, writes };
        classify(dialect, (head, body.as_bytes()), asked, Duration::from_secs(60))
    }

    /// Seconds until the next request.
    pub fn seconds(error: &FetchError) -> Option<i64> {
        let noon: jiff::Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        error.not_before.map(|at| at.duration_since(noon).as_secs())
    }

    #[test]
    fn waiting_is_stated_in_seconds_or_as_a_date_within_bounds() {
        let wait = |status, headers: &[(&'static str, &str)]| {
            head(status, headers).retry_after().map(|delay| delay.as_secs())
        };
        let stated = |text| wait(503, &[("retry-after", text)]);
        assert_eq!(stated("30"), Some(30));
        assert_eq!(stated(" 0 "), Some(1));
        assert_eq!(stated("-5"), Some(1));
        assert_eq!(stated("86400"), Some(3600));
        assert_eq!(stated("Mon, 16 Nov 2026 12:01:30 GMT"), Some(90));
        assert_eq!(stated("Mon, 16 Nov 2026 11:00:00 GMT"), Some(1));
        assert_eq!((stated("soon"), stated("NaN")), (None, Some(1)));
        assert_eq!(wait(200, &[("retry-after", "0")]), None);
        assert_eq!(wait(200, &[("retry-after", "5")]), Some(5));
        assert_eq!(wait(429, &[("retry-after", "1847")]), Some(1847));
        assert_eq!(wait(429, &[("x-ratelimit-reset", "2026-11-16T12:10:00Z")]), Some(600));
        let there = "2026-11-16T13:05:00.000+0100";
        assert_eq!(wait(429, &[("x-ratelimit-reset", there)]), Some(300));
        let left = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1794830700")];
        assert_eq!((wait(403, &left), wait(200, &left)), (Some(300), None));
        assert_eq!((wait(429, &[]), wait(500, &[])), (None, None));
    }

    #[test]
    fn a_value_is_not_read_for_names_again() {
        let asked =
            RequestInfo { what: "{credential}", base_url: "b", credential: "c", writes: false };
        let words = fill("{base_url}: {what} ({credential}) at {location}", &head(500, &[]), asked);
        assert_eq!(words, "b: {credential} (c) at nowhere");
    }
}
