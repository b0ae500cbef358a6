//! Classifies responses of GitHub (pure). The status decides; the text is used only where there is
//! nothing else: limits and missing rights both use 403.

use std::time::Duration;

use serde_json::Value;

use crate::fetch::failure::{
    Failure, RequestInfo, parse_retry_after, plain_message, proxy_needs_credential,
};
use crate::fetch::http::{Head, UNSTATED_RETRY_AFTER};
use crate::model::{FailureClass, Untrusted};

/// A limit is renewed within the hour.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Whether the body is the requested data, or the response is a redirect or "not modified", which
/// the caller handles.
pub fn is_answer(head: &Head) -> bool {
    match head.status {
        301 | 302 | 307 | 308 => head.headers.contains_key("location"),
        204 | 304 => true,
        203 => false,
        200..=299 => head.content_type().contains("json"),
        _ => false,
    }
}

/// How long to wait, according to the head of a response that was refused for a limit, or of a
/// server that is down.
pub fn retry_after(head: &Head) -> Option<Duration> {
    if !matches!(head.status, 403 | 429 | 503) {
        return None;
    }
    let stated = head.header("retry-after");
    let stated = stated.and_then(|text| parse_retry_after(&text, head.at, MAX_RETRY_AFTER));
    let renewed = || {
        let limit = head.rate_limit().filter(|limit| limit.remaining == Some(0))?;
        let wait = Duration::try_from(limit.reset?.duration_since(head.at)).unwrap_or_default();
        Some(wait.clamp(Duration::from_secs(1), MAX_RETRY_AFTER))
    };
    stated.or_else(renewed)
}

#[derive(Debug, Default)]
pub struct ErrorBody {
    pub message: Untrusted,
    /// `errors[].code` and messages.
    pub details: Untrusted,
}

impl ErrorBody {
    pub fn parse(body: &[u8]) -> Self {
        let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(body) else {
            return Self { message: Untrusted::new(plain_message(body)), ..Self::default() };
        };
        let message = object.get("message").and_then(Value::as_str).unwrap_or_default();
        let details = object.get("errors").and_then(Value::as_array).into_iter().flatten();
        let details: Vec<String> = details
            .map(|error| {
                let part = |name: &str| error.get(name).and_then(Value::as_str);
                let parts = ["resource", "field", "code", "message"].map(part);
                let text: Vec<&str> = parts.into_iter().flatten().collect();
                if text.is_empty() {
                    error.as_str().unwrap_or_default().into()
                } else {
                    text.join(" ")
                }
            })
            .collect();
        Self {
            message: Untrusted::new(message.to_owned()),
            details: Untrusted::new(details.join("; ")),
        }
    }

    /// Whether it is the secondary limit, which has no header.
    pub fn is_secondary_limit(&self) -> bool {
        let text = self.message.raw().to_lowercase();
        text.contains("secondary rate limit") || text.contains("abuse")
    }

    fn is_limit(&self) -> bool {
        self.is_secondary_limit() || self.message.raw().to_lowercase().contains("rate limit")
    }
}

/// Classifies a failed response.
pub fn classify(head: &Head, body: &[u8], asked: RequestInfo<'_>) -> Failure {
    let error = ErrorBody::parse(body);
    let class = class_of(head, &error);
    let retry_after = match class {
        FailureClass::Throttled => Some(retry_after(head).unwrap_or(UNSTATED_RETRY_AFTER)),
        _ => retry_after(head),
    };
    let message = explain(class, head, &error, retry_after, asked);
    Failure { class, message, code: Some(head.status.to_string()), retry_after, cause: None }
}

fn class_of(head: &Head, error: &ErrorBody) -> FailureClass {
    use FailureClass as Class;
    let used_up = head.rate_limit().is_some_and(|limit| limit.remaining == Some(0));
    let limited = used_up || head.headers.contains_key("retry-after") || error.is_limit();
    let about_version = error.message.raw().to_lowercase().contains("api version");
    match head.status {
        401 => Class::Auth,
        429 => Class::Throttled,
        403 if limited && !head.headers.contains_key("x-github-sso") => Class::Throttled,
        403 | 451 => Class::Denied,
        400 | 410 | 415 if about_version => Class::Version,
        400 | 413 | 414 | 422 => Class::BadQuery,
        408 => Class::Transient,
        409 => Class::Conflict,
        500..=599 => Class::Transient,
        // 404, 407, 410, a web page, a redirect without a target.
        _ => Class::Config,
    }
}

fn explain(
    class: FailureClass,
    head: &Head,
    error: &ErrorBody,
    retry_after: Option<Duration>,
    asked: RequestInfo<'_>,
) -> String {
    use FailureClass as Class;
    let RequestInfo { what, base_url, credential, writes } = asked;
    let rights = if writes { "Issues: write" } else { "Issues: read, Metadata: read" };
    let text = match class {
        Class::Auth => format!(
            "{base_url} does not accept the credential ({credential}) for {what}: it is missing, \
             expired or revoked; make a new token ({rights}; a classic token needs the scope repo)"
        ),
        Class::Denied if head.headers.contains_key("x-github-sso") => format!(
            "{base_url} denies {what}: the organisation requires single sign-on, and the token \
             ({credential}) is not authorised for it; authorise it in the settings of the token"
        ),
        Class::Denied if head.status == 451 => {
            format!("{base_url} has blocked {what}: remove the repository from source.project")
        }
        Class::Denied if writes => format!(
            "{base_url} accepts the credential ({credential}) but denies {what}: write-back needs \
             {rights}, and the repository may be archived or the issue locked; or switch it off \
             with [source] write_back"
        ),
        Class::Denied => format!(
            "{base_url} accepts the credential ({credential}) but denies access to {what}: give it \
             {rights}"
        ),
        Class::Config if head.status == 407 => proxy_needs_credential(base_url),
        Class::Config if head.status == 410 => format!(
            "{base_url} says that {what} are gone: issues are switched off in this repository, or \
             it was removed; correct source.project"
        ),
        Class::Config if head.status == 404 => format!(
            "{base_url} cannot find {what}: check source.project (owner/repository) and that the \
             credential ({credential}) may see it; a private repository without the right {rights} \
             looks as if it did not exist"
        ),
        Class::Config => format!(
            "{base_url} returned something that is not the API's answer for {what}; set \
             source.base_url to https://api.github.com or https://HOST/api/v3"
        ),
        Class::Version => format!(
            "{base_url} does not support the API version requested for {what}; set \
             source.api_version to a date such as 2022-11-28"
        ),
        Class::BadQuery => {
            format!("{base_url} rejects {what} as invalid; check source.where and source.project")
        }
        Class::Throttled if error.is_secondary_limit() => format!(
            "{base_url} asks heartbeat to slow down (secondary rate limit); other programs of the \
             same account may be using it up"
        ),
        Class::Throttled => format!(
            "{base_url}: the account's rate limit is used up; all tokens of one account share it"
        ),
        _ => format!("{base_url} failed to return {what}; this may be temporary"),
    };
    format!("{text} ({})", evidence(head, error, retry_after))
}

/// Status, the service's message, the rights it requires, and the id that support asks for.
fn evidence(head: &Head, error: &ErrorBody, retry_after: Option<Duration>) -> String {
    let mut parts = vec![format!("HTTP {}", head.status)];
    for text in [&error.message, &error.details] {
        if !text.is_empty() {
            parts.push(format!("\"{}\"", text.line(300)));
        }
    }
    let foreign = |name: &str| head.header(name).map(|text| Untrusted::new(text).line(100));
    let needed =
        foreign("x-accepted-github-permissions").or_else(|| foreign("x-accepted-oauth-scopes"));
    if let Some(needed) = needed.filter(|needed| !needed.is_empty()) {
        parts.push(format!("needs {needed}"));
    }
    if let Some(delay) = retry_after {
        parts.push(format!("retry after {} s", delay.as_secs()));
    }
    parts.extend(foreign("x-github-request-id").map(|id| format!("request {id}")));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

    use FailureClass as Class;

    use super::*;

    const ASKED: RequestInfo<'static> = RequestInfo {
        what: "the issues of contoso/shop",
        base_url: "https://api.github.com",
        credential: "the variable GITHUB_TOKEN",
        writes: false,
    };

    fn head(status: u16, headers: &[(&'static str, &str)]) -> Head {
        let mut map = HeaderMap::new();
        map.insert("content-type", HeaderValue::from_static("application/json; charset=utf-8"));
        for (name, value) in headers {
            map.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        Head { status, headers: map, at: "2026-11-16T12:00:00Z".parse::<Timestamp>().unwrap() }
    }

    /// Status, headers, body; class and seconds to wait.
    type Case = (u16, &'static [(&'static str, &'static str)], &'static str, Class, Option<u64>);

    #[test]
    fn limits_share_a_status_with_missing_rights_and_are_distinguished() {
        // 2026-11-16T12:30:00Z.
        const USED_UP: &[(&str, &str)] =
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1794832200")];
        let secondary = r#"{"message":"You have exceeded a secondary rate limit. Please wait"}"#;
        let abuse = r#"{"message":"You have triggered an abuse detection mechanism."}"#;
        let refused = r#"{"message":"Resource not accessible by personal access token"}"#;
        let cases: [Case; 11] = [
            (403, USED_UP, "{}", Class::Throttled, Some(1800)),
            (429, USED_UP, "{}", Class::Throttled, Some(1800)),
            (403, &[("retry-after", "60")], secondary, Class::Throttled, Some(60)),
            (403, &[("retry-after", "99999")], secondary, Class::Throttled, Some(3600)),
            (403, &[("x-ratelimit-remaining", "4000")], secondary, Class::Throttled, Some(60)),
            (429, &[], abuse, Class::Throttled, Some(60)),
            (403, &[("x-ratelimit-remaining", "4000")], refused, Class::Denied, None),
            (403, &[("x-github-sso", "required; url=https://x")], "{}", Class::Denied, None),
            (451, &[], r#"{"message":"Repository access blocked"}"#, Class::Denied, None),
            (503, &[("retry-after", "120")], "", Class::Transient, Some(120)),
            (502, &[], "<html><title>Unicorn!</title>", Class::Transient, None),
        ];
        for (status, headers, body, class, seconds) in cases {
            let failure = classify(&head(status, headers), body.as_bytes(), ASKED);
            assert_eq!(failure.class, class, "{status} {body}: {failure:?}");
            let delay = failure.retry_after.map(|delay| delay.as_secs());
            assert_eq!(delay, seconds, "{status} {body}: {failure:?}");
        }
    }

    #[test]
    fn each_failure_names_its_cause_and_its_fix() {
        let message = |status, headers: &[(&'static str, &str)], body: &str, writes| {
            classify(&head(status, headers), body.as_bytes(), RequestInfo { writes, ..ASKED })
                .message
        };
        let bad = message(
            401,
            &[("x-github-request-id", "AB:12")],
            r#"{"message":"Bad credentials"}"#,
            false,
        );
        for part in ["GITHUB_TOKEN", "Bad credentials", "request AB:12", "new token"] {
            assert!(bad.contains(part), "{part} in {bad}");
        }
        let unseen = message(404, &[], r#"{"message":"Not Found"}"#, false);
        assert!(unseen.contains("owner/repository") && unseen.contains("Issues: read"), "{unseen}");
        let write = message(403, &[("x-accepted-github-permissions", "issues=write")], "{}", true);
        assert!(write.contains("Issues: write") && write.contains("needs issues=write"), "{write}");
        let invalid =
            r#"{"message":"Validation Failed","errors":[{"field":"since","code":"invalid"}]}"#;
        assert!(message(422, &[], invalid, false).contains("since invalid"));
        assert!(
            message(410, &[], r#"{"message":"Issues are disabled for this repo"}"#, false)
                .contains("switched off")
        );
        let version = classify(&head(400, &[]), br#"{"message":"Unsupported API version"}"#, ASKED);
        assert_eq!(version.class, FailureClass::Version);
    }

    #[test]
    fn an_answer_is_json_a_redirect_or_not_modified() {
        assert!(is_answer(&head(200, &[])) && is_answer(&head(201, &[])));
        assert!(is_answer(&head(304, &[])));
        assert!(is_answer(&head(301, &[("location", "https://x/repositories/1")])));
        assert!(!is_answer(&head(301, &[])));
        assert!(!is_answer(&head(200, &[("content-type", "text/html; charset=utf-8")])));
        assert!(!is_answer(&head(404, &[])));
    }

    #[test]
    fn what_the_service_says_cannot_act_on_who_reads_it() {
        let hostile = "\u{1b}[2J\u{202e}gone\r\u{9b}31m";
        let body = serde_json::json!({ "message": hostile, "errors": [{ "code": hostile }] });
        let failure = classify(&head(500, &[]), body.to_string().as_bytes(), ASKED);
        assert!(failure.message.contains("gone"), "{failure:?}");
        assert!(!failure.message.chars().any(crate::model::is_acting), "{failure:?}");
    }
}
