//! Classifies responses of Jira (pure). Texts are localised, so status and head decide; a response
//! that looks good may be for an anonymous user, which only its head shows.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::fetch::failure::{
    Failure, RequestInfo, parse_retry_after, plain_message, proxy_needs_credential,
};
use crate::fetch::http::{Head, UNSTATED_RETRY_AFTER};
use crate::model::{FailureClass, RateLimit, Untrusted};

/// A quota is renewed within the hour.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Result of the sign-in, on every response.
const LOGIN_REASON: &str = "x-seraph-loginreason";

/// Whether the body is the requested data: JSON, from a server that accepted the sign-in.
pub fn is_success(head: &Head) -> bool {
    let has_body = head.status != 204;
    (200..300).contains(&head.status)
        && head.status != 203
        && signed_in(head)
        && (!has_body || head.content_type().contains("json"))
}

/// Where anonymous readers are allowed, an expired credential is not reported as an error.
fn signed_in(head: &Head) -> bool {
    let Some(reason) = head.header(LOGIN_REASON) else { return true };
    !reason.to_ascii_uppercase().contains("FAILED")
        && !reason.to_ascii_uppercase().contains("DENIED")
}

/// How long to wait, according to the head. Successful responses of some servers have `retry-after:
/// 0`.
pub fn retry_after(head: &Head) -> Option<Duration> {
    let refused = matches!(head.status, 429 | 503);
    let stated = head.header("retry-after").filter(|text| refused || text.trim() != "0");
    let stated = stated.and_then(|text| parse_retry_after(&text, head.at, MAX_RETRY_AFTER));
    if stated.is_some() || head.status != 429 {
        return stated;
    }
    let renewed = reset(head).map(|at| {
        let wait = Duration::try_from(at.duration_since(head.at)).unwrap_or_default();
        wait.clamp(Duration::from_secs(1), MAX_RETRY_AFTER)
    });
    Some(renewed.unwrap_or(UNSTATED_RETRY_AFTER))
}

/// When the limit is renewed: a date, or seconds since 1970.
fn reset(head: &Head) -> Option<Timestamp> {
    let text = head.header("x-ratelimit-reset")?;
    let number = || text.trim().parse::<i64>().ok().and_then(|s| Timestamp::from_second(s).ok());
    super::decode::instant(&text).or_else(number)
}

/// What is left, if its interval is stated: a count for this second is useless.
pub fn rate_limit(head: &Head) -> Option<RateLimit> {
    let interval = || {
        let seconds = head.number("x-ratelimit-interval-seconds")?;
        let delay = jiff::SignedDuration::try_from_secs_f64(seconds).ok()?;
        head.at.checked_add(delay).ok()
    };
    let reset = reset(head).or_else(interval)?;
    let limit = head.rate_limit()?;
    Some(RateLimit { reset: Some(reset), ..limit })
}

/// The message of an error, in any of its shapes.
pub fn error_text(body: &[u8]) -> Untrusted {
    let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(body) else {
        return Untrusted::new(plain_message(body));
    };
    let mut texts: Vec<String> = Vec::new();
    let messages = ["errorMessages", "warningMessages"].map(|name| object.get(name));
    for message in messages.into_iter().flatten().filter_map(Value::as_array).flatten() {
        texts.extend(message.as_str().map(str::to_owned));
    }
    for (field, text) in object.get("errors").and_then(Value::as_object).into_iter().flatten() {
        texts.push(format!("{field}: {}", text.as_str().unwrap_or_default()));
    }
    texts.extend(object.get("message").and_then(Value::as_str).map(str::to_owned));
    Untrusted::new(texts.join("; "))
}

/// Classifies a failed response.
pub fn classify(head: &Head, body: &[u8], asked: RequestInfo<'_>) -> Failure {
    let error = error_text(body);
    let class = class_of(head);
    let retry_after = retry_after(head);
    let message = explain(class, head, &error, retry_after, asked);
    Failure { class, message, code: Some(head.status.to_string()), retry_after, cause: None }
}

fn is_captcha(head: &Head) -> bool {
    head.headers.contains_key("x-authentication-denied-reason")
}

/// The gateway knows the credential, but it lacks the scope.
fn lacks_scope(head: &Head) -> bool {
    head.header("x-failure-category").is_some_and(|text| text.contains("SCOPE"))
}

fn class_of(head: &Head) -> FailureClass {
    use FailureClass as Class;
    match head.status {
        401 if lacks_scope(head) => Class::Denied,
        401 | 203 | 300..=399 => Class::Auth,
        403 if is_captcha(head) => Class::Auth,
        200..=299 if !signed_in(head) || head.content_type().contains("html") => Class::Auth,
        403 => Class::Denied,
        400 | 413 | 414 => Class::BadQuery,
        408 => Class::TooSlow,
        409 => Class::Conflict,
        429 => Class::Throttled,
        500..=599 => Class::Transient,
        // 404, 407, 410, text that is neither JSON nor a page.
        _ => Class::Config,
    }
}

fn explain(
    class: FailureClass,
    head: &Head,
    error: &Untrusted,
    retry_after: Option<Duration>,
    asked: RequestInfo<'_>,
) -> String {
    use FailureClass as Class;
    let RequestInfo { what, base_url, credential, writes } = asked;
    let text = match class {
        Class::Auth if is_captcha(head) => format!(
            "{base_url} refuses the credential ({credential}) until a user signs in with a \
             browser and answers its CAPTCHA; use an API token or a personal access token instead \
             of a password"
        ),
        Class::Auth => format!(
            "{base_url} does not accept the credential ({credential}) for {what}: it is missing, \
             expired or revoked. Jira Cloud needs an API token with source.user set to the \
             account's e-mail address (a scoped token only works at \
             https://api.atlassian.com/ex/jira/CLOUD-ID); Data Center needs a personal access token \
             and an empty source.user"
        ),
        Class::Denied if writes => format!(
            "{base_url} accepts the credential ({credential}) but denies {what}: write-back needs \
             the permissions Add Comments and Edit Issues (scope write:jira-work); or switch it \
             off with [source] write_back"
        ),
        Class::Denied => format!(
            "{base_url} accepts the credential ({credential}) but denies access to {what}: give it \
             the permission Browse Projects (scope read:jira-work)"
        ),
        Class::Config if head.status == 407 => proxy_needs_credential(base_url),
        Class::Config if head.status == 410 => format!(
            "{base_url} has removed the API that heartbeat uses for {what}; if it is Jira Cloud, \
             set source.base_url to its own address, such as https://SITE.atlassian.net"
        ),
        Class::Config if head.status == 404 => format!(
            "{base_url} cannot find {what}: check source.base_url (with the path of the server, \
             such as https://jira.contoso.com/jira) and source.project"
        ),
        Class::Config => format!(
            "{base_url} returned something that is not the API's answer for {what}; set \
             source.base_url to https://SITE.atlassian.net or the address of the server"
        ),
        Class::BadQuery if writes => format!("{base_url} rejects {what} as invalid"),
        Class::BadQuery => format!(
            "{base_url} rejects {what} as invalid; check source.where, source.saved_query and \
             source.project: try the condition in the tracker's own search"
        ),
        Class::Conflict => format!("{what}: another user changed the item in the meantime"),
        Class::TooSlow => {
            format!("{what} took longer than the tracker allows; narrow source.where")
        }
        Class::Throttled => format!("{base_url} asks heartbeat to slow down"),
        _ => format!("{base_url} failed to return {what}; this may be temporary"),
    };
    format!("{text} ({})", evidence(head, error, retry_after))
}

/// Status, the tracker's message, why it refused, and the id that support asks for.
fn evidence(head: &Head, error: &Untrusted, retry_after: Option<Duration>) -> String {
    let mut parts = vec![format!("HTTP {}", head.status)];
    let foreign = |name: &str| head.header(name).map(|text| Untrusted::new(text).line(100));
    parts.extend(foreign(LOGIN_REASON).filter(|_| !signed_in(head)));
    if !error.is_empty() {
        parts.push(format!("\"{}\"", error.line(300)));
    }
    parts.extend(foreign("x-failure-category"));
    parts.extend(foreign("ratelimit-reason"));
    if let Some(delay) = retry_after {
        parts.push(format!("retry after {} s", delay.as_secs()));
    }
    parts.extend(request_id(head));
    parts.join(", ")
}

/// The id that support asks for.
pub fn request_id(head: &Head) -> Option<String> {
    let id = head.header("atl-traceid").or_else(|| head.header("x-arequestid"))?;
    Some(format!("request {}", Untrusted::new(id).line(60)))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    const ASKED: RequestInfo<'static> = RequestInfo {
        what: "the search",
        base_url: "https://contoso.atlassian.net",
        credential: "the variable JIRA_TOKEN",
        writes: false,
    };

    fn head(status: u16, headers: &[(&'static str, &str)]) -> Head {
        let mut map = HeaderMap::new();
        map.insert("content-type", HeaderValue::from_static("application/json;charset=UTF-8"));
        for (name, value) in headers {
            map.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        Head { status, headers: map, at: "2026-11-16T12:00:00Z".parse().unwrap() }
    }

    #[test]
    fn a_good_answer_to_somebody_unknown_is_none() {
        assert!(is_success(&head(200, &[])) && is_success(&head(201, &[])));
        assert!(is_success(&head(204, &[("content-type", "")])));
        assert!(is_success(&head(200, &[(LOGIN_REASON, "OK")])));
        for reason in ["AUTHENTICATED_FAILED", "AUTHENTICATION_DENIED"] {
            let head = head(200, &[(LOGIN_REASON, reason)]);
            assert!(!is_success(&head));
            let failure = classify(&head, b"{\"issues\":[]}", ASKED);
            assert_eq!(failure.class, FailureClass::Auth);
            assert!(failure.message.contains(reason), "{}", failure.message);
        }
        assert!(!is_success(&head(200, &[("content-type", "text/html")])));
    }

    #[test]
    fn status_and_head_decide_in_any_language() {
        use FailureClass as Class;
        type Case = (u16, &'static [(&'static str, &'static str)], Class);
        const HTML: (&str, &str) = ("content-type", "text/html");
        let cases: [Case; 14] = [
            (401, &[], Class::Auth),
            (401, &[("x-failure-category", "FAILURE_CLIENT_SCOPE_CHECK")], Class::Denied),
            (403, &[], Class::Denied),
            (
                403,
                &[("x-authentication-denied-reason", "CAPTCHA_CHALLENGE; login-url=x")],
                Class::Auth,
            ),
            (200, &[HTML], Class::Auth),
            (302, &[], Class::Auth),
            (200, &[("content-type", "text/plain")], Class::Config),
            (400, &[], Class::BadQuery),
            (404, &[], Class::Config),
            (410, &[], Class::Config),
            (429, &[HTML], Class::Throttled),
            (500, &[], Class::Transient),
            (503, &[], Class::Transient),
            (407, &[], Class::Config),
        ];
        for (status, headers, class) in cases {
            let failure = classify(&head(status, headers), "{}".as_bytes(), ASKED);
            assert_eq!(failure.class, class, "{status} {headers:?}: {failure:?}");
        }
    }

    #[test]
    fn waiting_is_stated_in_seconds_or_as_a_date_and_zero_on_a_good_answer_costs_nothing() {
        let seconds = |status, headers: &[(&'static str, &str)]| {
            retry_after(&head(status, headers)).map(|delay| delay.as_secs())
        };
        assert_eq!(seconds(200, &[("retry-after", "0")]), None);
        assert_eq!(seconds(200, &[("retry-after", "5")]), Some(5));
        assert_eq!(seconds(429, &[("retry-after", "1847")]), Some(1847));
        assert_eq!(seconds(429, &[("x-ratelimit-reset", "2026-11-16T12:10:00Z")]), Some(600));
        assert_eq!(
            seconds(429, &[("x-ratelimit-reset", "2026-11-16T13:05:00.000+0100")]),
            Some(300)
        );
        assert_eq!(seconds(429, &[]), Some(60));
        assert_eq!(seconds(503, &[("retry-after", "30")]), Some(30));
        assert_eq!(seconds(500, &[]), None);
    }

    #[test]
    fn a_limit_without_an_end_is_not_kept() {
        let second = head(200, &[("x-ratelimit-limit", "100"), ("x-ratelimit-remaining", "1")]);
        assert!(rate_limit(&second).is_none());
        let bucket = head(
            200,
            &[
                ("x-ratelimit-limit", "50"),
                ("x-ratelimit-remaining", "2"),
                ("x-ratelimit-interval-seconds", "60"),
            ],
        );
        let limit = rate_limit(&bucket).unwrap();
        assert_eq!(
            (limit.remaining, limit.reset.unwrap().to_string().as_str()),
            (Some(2), "2026-11-16T12:01:00Z")
        );
    }

    #[test]
    fn errors_are_shown_in_any_shape_and_cannot_act() {
        let body = r#"{"errorMessages":["Field 'x' does not exist"],"errors":{"project":"gone"}}"#;
        let failure = classify(&head(400, &[("atl-traceid", "abc")]), body.as_bytes(), ASKED);
        for part in ["Field 'x' does not exist", "project: gone", "request abc", "source.where"] {
            assert!(failure.message.contains(part), "{part} in {}", failure.message);
        }
        let gateway = r#"{"code":401,"message":"Unauthorized; scope does not match"}"#;
        let failure = classify(&head(401, &[]), gateway.as_bytes(), ASKED);
        assert!(failure.message.contains("scope does not match"), "{}", failure.message);
        let page = classify(&head(429, &[]), b"<html><title>HTTP Status 429</title>", ASKED);
        assert!(page.message.contains("a page titled HTTP Status 429"), "{}", page.message);
        let hostile = serde_json::json!({ "errorMessages": ["\u{1b}[2J\u{202e}x"] }).to_string();
        let failure = classify(&head(500, &[]), hostile.as_bytes(), ASKED);
        assert!(!failure.message.chars().any(crate::model::is_acting), "{failure:?}");
    }
}
