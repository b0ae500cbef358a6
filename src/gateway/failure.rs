//! What went wrong at the provider: one table over the status, the error's type and its words.

use jiff::{SignedDuration, Timestamp};
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::wire::shortened;
use crate::model::{FailureKind, Outcome, plain_text};

/// Why the provider did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Down, overloaded, unreachable, or an answer that broke off.
    Outage,
    /// Too many requests.
    Limit,
    /// The plan is used up until its reset.
    Plan,
    /// The credential is refused.
    Credential,
    /// The account has no credit.
    Credit,
    UnknownModel,
    /// The request is longer than the model or the provider accepts.
    TooLarge,
    /// The provider declined what the request says.
    Content,
    /// A setting that every request has is refused.
    Setting,
    /// Any other refusal of the request.
    Request,
}

impl Class {
    pub const fn outcome(self) -> Outcome {
        use FailureKind as Why;
        match self {
            Self::Outage => Outcome::AgentError { why: Why::ApiError },
            Self::Limit => Outcome::ProviderLimit { why: Why::RateLimit },
            Self::Plan => Outcome::ProviderLimit { why: Why::UsageLimit },
            Self::Credential => Outcome::ProviderLimit { why: Why::Authentication },
            Self::Credit => Outcome::ProviderLimit { why: Why::Billing },
            Self::UnknownModel => Outcome::AgentError { why: Why::ModelNotFound },
            Self::Content => Outcome::AgentError { why: Why::Refused },
            Self::Setting => Outcome::AgentError { why: Why::BadSetting },
            Self::TooLarge | Self::Request => Outcome::AgentError { why: Why::InvalidRequest },
        }
    }
}

/// A row of the table: statuses (empty: any), and words of which one must be in the error's type or
/// message (empty: any).
struct Row {
    statuses: &'static [u16],
    words: &'static [&'static str],
    class: Class,
}

const fn row(statuses: &'static [u16], words: &'static [&'static str], class: Class) -> Row {
    Row { statuses, words, class }
}

/// The first match counts. Words come first where providers reuse a status: an empty account is
/// 400, 402, 403 or 429.
const TABLE: [Row; 16] = [
    row(
        &[],
        &[
            "insufficient_quota",
            "credit balance",
            "billing details",
            "billing_error",
            "quota exceeded",
        ],
        Class::Credit,
    ),
    row(&[402], &[], Class::Credit),
    row(&[0], &["quota"], Class::Credit),
    row(
        &[],
        &[
            "context_length",
            "context window",
            "prompt budget",
            "prompt is too long",
            "request_too_large",
        ],
        Class::TooLarge,
    ),
    row(&[413], &[], Class::TooLarge),
    row(&[], &["content_filter", "content_policy", "content management policy"], Class::Content),
    row(&[0], &["no response was returned"], Class::Content),
    row(&[], &["usage limit", "usage_limit", "hit your"], Class::Plan),
    row(&[429], &[], Class::Limit),
    row(&[0, 200], &["rate_limit", "rate limit", "too many requests"], Class::Limit),
    row(&[401, 403], &[], Class::Credential),
    row(
        &[0, 200],
        &[
            "authentication",
            "authorization",
            "permission_error",
            "invalid_api_key",
            "invalid api key",
            "incorrect api key",
            "missing environment variable",
            "oauth_org_not_allowed",
        ],
        Class::Credential,
    ),
    row(&[404], &[], Class::UnknownModel),
    row(
        &[0, 400],
        &["model_not_found", "deploymentnotfound", "does not exist"],
        Class::UnknownModel,
    ),
    row(
        &[0, 400, 422],
        &[
            "response_format",
            "json_schema",
            "text.format",
            "reasoning.effort",
            "invalid schema",
            "unsupported parameter",
            "unknown parameter",
        ],
        Class::Setting,
    ),
    row(&[400, 405, 409, 410, 414, 415, 422, 431], &[], Class::Request),
];

/// Stands for a status: the provider was not asked.
const GATEWAY: u16 = 1;

/// A failed request, in the provider's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub class: Class,
    /// 0 without an answer; 200 for an error inside an answer; 1 if the gateway refused it.
    pub status: u16,
    /// For people: bounded, without control characters.
    pub words: String,
    /// When the provider accepts requests again, if it said so.
    pub reset: Option<Timestamp>,
}

impl Failure {
    /// No answer, or one that broke off.
    pub fn outage(words: &str) -> Self {
        Self { class: Class::Outage, status: 0, words: for_people(words), reset: None }
    }

    /// The gateway itself did not let the request through.
    pub fn of_the_gateway(class: Class, words: &str) -> Self {
        Self { class, status: GATEWAY, words: for_people(words), reset: None }
    }

    /// An error inside an answer that began well.
    pub fn inside(kind: &str, message: &str) -> Self {
        let class = class_of(200, &format!("{kind} {message}"));
        Self { class, status: 200, words: for_people(&format!("{kind}: {message}")), reset: None }
    }

    /// A refusal with its headers and the beginning of its body.
    pub fn refused(status: u16, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Self {
        let said = error_in(body);
        let class = match (class_of(status, &said), header(headers, UNIFIED_STATUS)) {
            (Class::Limit, Some("rejected")) => Class::Plan,
            (class, _) => class,
        };
        let reset = reset(headers, now).filter(|_| {
            matches!(class, Class::Limit | Class::Plan | Class::Outage | Class::Credit)
        });
        Self { class, status, words: for_people(&said), reset }
    }

    /// One line for people; without an answer, with what to do.
    pub fn text(&self) -> String {
        match self.status {
            0 => format!("{}; {}", self.cause(), self.way()),
            _ => self.cause(),
        }
    }

    /// What happened, in the provider's or the system's words.
    pub fn cause(&self) -> String {
        match self.status {
            0 => format!("the provider: {}", self.words),
            GATEWAY => self.words.clone(),
            200 => format!("the provider, inside its answer: {}", self.words),
            status => format!("the provider: status {status}: {}", self.words),
        }
    }

    /// What to do about it; `variable` holds the credential.
    pub fn fix(&self, variable: &str) -> String {
        match self.class {
            Class::Credential => format!("put a valid key into {variable}"),
            Class::Credit => "add credit to the account, or use another key".to_owned(),
            Class::Limit | Class::Plan => {
                "wait until the limit resets, or use another key".to_owned()
            }
            Class::Outage if self.status >= 500 => {
                "wait: the provider itself is in trouble; its status page says more".to_owned()
            }
            _ => self.way().to_owned(),
        }
    }

    /// What to check on the way to a provider that gave no answer.
    fn way(&self) -> &'static str {
        let said = self.words.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if says(&["proxy"]) {
            "check the proxy (HTTPS_PROXY, NO_PROXY) and what it allows"
        } else if says(&["certificate", "tls", "handshake"]) {
            "check this machine's clock and who presents the certificate; a private certificate \
             authority goes into NODE_EXTRA_CA_CERTS or SSL_CERT_FILE"
        } else if says(&["lookup", "resolve", "dns"]) {
            "check DNS (/etc/resolv.conf), the network and the provider's address"
        } else {
            "check the network, DNS, the proxy (HTTPS_PROXY, in agent.pass_env) and the provider's \
             address"
        }
    }
}

/// The class of a failure by its status and what was said; 0 or 200: there is no status.
pub fn class_of(status: u16, said: &str) -> Class {
    let said = said.to_ascii_lowercase();
    // An outage may mention anything.
    if status >= 500 {
        return Class::Outage;
    }
    let fits = |row: &&Row| {
        (row.statuses.is_empty() || row.statuses.contains(&status))
            && (row.words.is_empty() || row.words.iter().any(|word| said.contains(word)))
    };
    // Without a status only what is named is more than an outage.
    let otherwise = match status {
        0 if said.contains("invalid_request") => Class::Request,
        _ => Class::Outage,
    };
    match TABLE.iter().find(fits).map_or(otherwise, |row| row.class) {
        Class::Request if names_a_setting(&said) => Class::Setting,
        class => class,
    }
}

/// A message that begins with the place in the request: `messages.0.content: …` concerns the
/// prompt, these are the same in every request.
fn names_a_setting(said: &str) -> bool {
    const SETTINGS: [&str; 11] = [
        "anthropic_beta",
        "betas",
        "context_management",
        "max_tokens",
        "metadata",
        "model",
        "output_config",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
    ];
    said.split_whitespace().any(|word| {
        let place = word.trim_start_matches(['"', '\'', '`']).split(['.', ':']).next();
        word.ends_with(':') && place.is_some_and(|place| SETTINGS.contains(&place))
    })
}

/// Type, code and message of the error in a body; else its beginning.
fn error_in(body: &[u8]) -> String {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return String::from_utf8_lossy(&body[..body.len().min(2000)]).into_owned();
    };
    let error = if value["error"].is_object() { &value["error"] } else { &value };
    let parts = ["type", "code", "param", "message"].map(|key| error[key].as_str());
    let mut parts: Vec<&str> =
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    parts.extend(value["error"].as_str());
    parts.join(": ")
}

fn for_people(words: &str) -> String {
    plain_text(&shortened(words)).replace('\n', " ")
}

const UNIFIED_STATUS: &str = "anthropic-ratelimit-unified-status";
const UNIFIED_RESET: &str = "anthropic-ratelimit-unified-reset";

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn reset(headers: &HeaderMap, now: Timestamp) -> Option<Timestamp> {
    let unified = header(headers, UNIFIED_RESET)
        .and_then(|seconds| Timestamp::from_second(seconds.trim().parse().ok()?).ok());
    unified.or_else(|| now.checked_add(retry_after(headers, now)?).ok())
}

/// How long the provider asks to wait: seconds, or a date.
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<SignedDuration> {
    let value = header(headers, "retry-after")?.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(SignedDuration::from_secs(i64::from(seconds)));
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(date.duration_since(now)).filter(SignedDuration::is_positive)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, body: &str, headers: &[(&'static str, &'static str)]) -> Failure {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        Failure::refused(status, &map, body.as_bytes(), Timestamp::from_second(1000).unwrap())
    }

    #[test]
    fn every_refusal_has_its_class_whatever_the_provider() {
        let error = |kind: &str, message: &str| {
            format!(r#"{{"error":{{"type":"{kind}","message":"{message}"}}}}"#)
        };
        let cases = [
            (529, error("overloaded_error", "Overloaded"), Class::Outage),
            (500, error("api_error", "model does not exist"), Class::Outage),
            (408, String::new(), Class::Outage),
            (302, "<html>".to_owned(), Class::Outage),
            (429, error("rate_limit_error", "slow down"), Class::Limit),
            (429, error("insufficient_quota", "You exceeded your current quota"), Class::Credit),
            (400, error("invalid_request_error", "Your credit balance is too low"), Class::Credit),
            (402, String::new(), Class::Credit),
            (401, error("authentication_error", "invalid x-api-key"), Class::Credential),
            (403, error("permission_error", "no"), Class::Credential),
            (404, error("not_found_error", "model: x"), Class::UnknownModel),
            (
                400,
                r#"{"error":{"code":"model_not_found","message":"no"}}"#.into(),
                Class::UnknownModel,
            ),
            (413, error("request_too_large", ""), Class::TooLarge),
            (400, error("invalid_request_error", "prompt is too long: 9 > 8"), Class::TooLarge),
            (400, r#"{"error":{"code":"content_filter","message":"no"}}"#.into(), Class::Content),
            (
                400,
                error("invalid_request_error", "Invalid schema for response_format"),
                Class::Setting,
            ),
            (400, error("invalid_request_error", "messages: empty"), Class::Request),
        ];
        for (status, body, class) in cases {
            assert_eq!(refused(status, &body, &[]).class, class, "{status} {body}");
        }
        assert_eq!(Failure::inside("overloaded_error", "Overloaded").class, Class::Outage);
        assert_eq!(Failure::inside("rate_limit_exceeded", "x").class, Class::Limit);
    }

    #[test]
    fn a_reset_is_read_and_a_used_up_plan_is_told_apart() {
        let at = |failure: &Failure| failure.reset.map(Timestamp::as_second);
        assert_eq!(at(&refused(429, "", &[("retry-after", "60")])), Some(1060));
        let date = [("retry-after", "Thu, 01 Jan 1970 01:00:00 GMT")];
        assert_eq!(at(&refused(429, "", &date)), Some(3600));
        let plan = refused(
            429,
            "",
            &[(UNIFIED_STATUS, "rejected"), (UNIFIED_RESET, "5000"), ("retry-after", "60")],
        );
        assert_eq!((plan.class, at(&plan)), (Class::Plan, Some(5000)));
        assert_eq!(at(&refused(401, "", &[("retry-after", "60")])), None);
    }

    #[test]
    fn the_words_are_the_providers_bounded_and_plain() {
        let long = format!(r#"{{"error":{{"message":"{}\u001b[31m"}}}}"#, "x".repeat(9000));
        let failure = refused(400, &long, &[]);
        assert!(failure.words.len() <= 600, "{}", failure.words.len());
        let colour = refused(500, "\u{1b}[31mred\nline", &[]);
        assert!(!colour.words.contains(['\u{1b}', '\n']), "{:?}", colour.words);
        assert_eq!(
            refused(401, r#"{"error":{"type":"a","message":"b"}}"#, &[]).text(),
            "the provider: status 401: a: b"
        );
    }
}
