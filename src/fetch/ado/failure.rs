//! Classifies responses of the tracker: success, or one of a closed list of failures (pure).
//!
//! The tracker's messages are localised, so a failure is recognised by status, code (`TF…`, `VS…`)
//! or type key; its text is only displayed.

use std::time::Duration;

use serde_json::Value;

use crate::fetch::failure::{self, Failure, RequestInfo, proxy_needs_credential};
use crate::model::{FailureClass, Untrusted};

/// Upper bound of `Retry-After`.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// The relevant parts of a response's head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub status: u16,
    /// `Content-Type`, lower case.
    pub content_type: String,
    /// `Retry-After`, as a delay of at least a second.
    pub retry_after: Option<Duration>,
    /// `ActivityId`, which support asks for.
    pub activity_id: Option<String>,
    /// `X-TFS-ServiceError`, decoded.
    pub service_error: Option<String>,
    /// `Location` of a redirect.
    pub location: Option<String>,
}

/// An error body in any of its shapes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorBody {
    pub type_key: Untrusted,
    /// First code in the message.
    pub code: Option<String>,
    pub message: Untrusted,
}

/// Whether the body is the requested data.
pub fn is_success(facts: &Facts) -> bool {
    (200..300).contains(&facts.status)
        && facts.status != 203
        && facts.content_type.starts_with("application/json")
}

/// Classifies a failed response.
pub fn classify(facts: &Facts, body: &[u8], asked: RequestInfo<'_>) -> Failure {
    let error = parse_error_body(facts, body);
    let class = class_of(facts, &error);
    Failure {
        class,
        message: explain(class, facts, &error, asked),
        code: error.code,
        retry_after: facts.retry_after,
        cause: None,
    }
}

fn class_of(facts: &Facts, error: &ErrorBody) -> FailureClass {
    use FailureClass as Class;
    let code = error.code.as_deref().unwrap_or_default();
    let type_key = error.type_key.raw();
    let version =
        type_key.starts_with("VssVersion") || type_key == "VssInvalidPreviewVersionException";
    match facts.status {
        400 | 401 if version => Class::Version,
        _ if code == "TF400813" => Class::Auth,
        203 | 300..=399 | 401 => Class::Auth,
        407 => Class::Config,
        200..=299 if facts.content_type.contains("html") => Class::Auth,
        200..=299 => Class::Config,
        403 => Class::Denied,
        404 if code == "TF401232" || type_key == "WorkItemUnauthorizedAccessException" => {
            Class::Gone
        }
        400 if code == "VS402337"
            || type_key == "WorkItemTrackingQueryResultSizeLimitExceededException" =>
        {
            Class::TooMany
        }
        _ if code == "VS402335" => Class::TooSlow,
        408 => Class::TooSlow,
        409 | 412 => Class::Conflict,
        429 => Class::Throttled,
        400 | 413 | 414 => Class::BadQuery,
        // The only server error that needs a different query.
        500 if code == "VS402612" || error.message.raw().contains("is not of the form") => {
            Class::BadQuery
        }
        503 if code == "TF24668" => Class::Down,
        500..=599 => Class::Transient,
        _ => Class::Config,
    }
}

fn explain(
    class: FailureClass,
    facts: &Facts,
    error: &ErrorBody,
    asked: RequestInfo<'_>,
) -> String {
    use FailureClass as Class;
    let RequestInfo { what, base_url, credential, writes } = asked;
    let text = match class {
        Class::Auth if (300..400).contains(&facts.status) => format!(
            "{base_url} redirected ({}) instead of returning {what}: the credential \
             ({credential}) is not accepted, or source.base_url is not the address the tracker \
             itself uses",
            facts.location.as_deref().unwrap_or("nowhere")
        ),
        Class::Auth => format!(
            "{base_url} does not accept the credential ({credential}) for {what}: it is missing, \
             expired, revoked or belongs to another organisation; renew it with scope vso.work"
        ),
        Class::Denied if writes => format!(
            "{base_url} accepts the credential ({credential}) but denies {what}: write-back needs a \
             credential that may edit work items (scope vso.work_write, \"Work Items: Read & write\") \
             and permission to edit the item's area; or switch it off with [source] write_back"
        ),
        Class::Denied => format!(
            "{base_url} accepts the credential ({credential}) but denies access to {what}: grant \
             read access to the project (scope vso.work), or check conditional access"
        ),
        Class::Config if facts.status == 407 => proxy_needs_credential(base_url),
        Class::Config => format!(
            "{base_url} cannot find {what}: check source.base_url, source.project and \
             source.saved_query"
        ),
        Class::Gone => format!("{what}: gone, or not visible to the credential ({credential})"),
        Class::TooMany => format!(
            "{what}: more rows than the tracker returns at once; narrow source.where or shorten \
             source.look_back"
        ),
        Class::TooSlow => format!(
            "{what} took longer than the tracker allows; narrow source.where, avoid CONTAINS on \
             long texts"
        ),
        Class::Version => format!(
            "{base_url} does not support the API version requested for {what}; set \
             source.api_version"
        ),
        Class::BadQuery => format!(
            "{base_url} rejects {what} as invalid; check source.where, source.saved_query, \
             source.team and source.text_fields"
        ),
        Class::Conflict => format!("{what}: another user changed the item in the meantime"),
        Class::Throttled => format!("{base_url} asks heartbeat to slow down"),
        Class::Down => format!("{base_url} is stopped or inactive; its administrator can start it"),
        Class::Transient | Class::BreakerOpen => {
            format!("{base_url} failed to return {what}; this may be temporary")
        }
    };
    format!("{text} ({})", evidence(facts, error))
}

/// Status, code, the tracker's message and the id that support asks for.
fn evidence(facts: &Facts, error: &ErrorBody) -> String {
    let mut parts = vec![format!("HTTP {}", facts.status)];
    if !error.type_key.is_empty() {
        parts.push(error.type_key.line(100));
    }
    if !error.message.is_empty() {
        parts.push(format!("\"{}\"", error.message.line(300)));
    }
    if let Some(delay) = facts.retry_after {
        parts.push(format!("retry after {} s", delay.as_secs()));
    }
    if let Some(activity) = &facts.activity_id {
        parts.push(format!("ActivityId {activity}"));
    }
    parts.join(", ")
}

/// Reads an error body in any shape: JSON of two kinds, plain text with a header, empty, HTML.
pub fn parse_error_body(facts: &Facts, body: &[u8]) -> ErrorBody {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let (message, type_key) = match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(object)) => {
            let nested = object.get("value").and_then(|v| v.get("Message"));
            let message = object.get("message").or(nested).and_then(Value::as_str);
            let type_key = object.get("typeKey").and_then(Value::as_str);
            (message.unwrap_or_default().to_owned(), type_key.unwrap_or_default().to_owned())
        }
        _ => (String::new(), String::new()),
    };
    let message = if message.is_empty() { plain_message(facts, body) } else { message };
    let code = first_code(&message).map(str::to_owned);
    ErrorBody { type_key: Untrusted::new(type_key), code, message: Untrusted::new(message) }
}

fn plain_message(facts: &Facts, body: &[u8]) -> String {
    if let Some(error) = &facts.service_error {
        return error.clone();
    }
    failure::plain_message(body)
}

/// The first `TF…` or `VS…` number in a text.
fn first_code(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    for (start, pair) in bytes.windows(2).enumerate() {
        if pair != b"TF" && pair != b"VS" {
            continue;
        }
        if start > 0 && bytes[start - 1].is_ascii_alphanumeric() {
            continue;
        }
        let digits = bytes[start + 2..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits >= 4 {
            return Some(&text[start..start + 2 + digits]);
        }
    }
    None
}

/// Percent-decodes a header value; invalid sequences stay as they are.
pub(super) fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: RequestInfo<'static> = RequestInfo {
        what: "the query",
        base_url: "https://dev.azure.com/contoso",
        credential: "the variable AZURE_DEVOPS_PAT",
        writes: false,
    };

    fn answer(status: u16, content_type: &str) -> Facts {
        Facts { status, content_type: content_type.to_owned(), ..Facts::default() }
    }

    fn class(status: u16, body: &str) -> FailureClass {
        classify(&answer(status, "application/json"), body.as_bytes(), ASKED).class
    }

    #[test]
    fn success_is_json_with_a_2xx_that_is_not_203() {
        assert!(is_success(&answer(200, "application/json; charset=utf-8; api-version=7.1")));
        assert!(!is_success(&answer(203, "application/json")));
        assert!(!is_success(&answer(200, "text/html; charset=utf-8")));
        assert!(!is_success(&answer(200, "")));
        assert!(!is_success(&answer(302, "application/json")));
    }

    #[test]
    fn codes_and_type_keys_decide_in_any_language() {
        use FailureClass as Class;
        let italian = r#"{"message":"TF51005: La query fa riferimento a un campo inesistente.",
            "typeKey":"SyntaxErrorException"}"#;
        assert_eq!(class(400, italian), Class::BadQuery);
        let too_many = r#"{"message":"zu viele","typeKey":
            "WorkItemTrackingQueryResultSizeLimitExceededException"}"#;
        assert_eq!(class(400, too_many), Class::TooMany);
        let server_limit = r#"{"message":"VS402337: mehr als 100000","typeKey":""}"#;
        assert_eq!(class(400, server_limit), Class::TooMany);
        let gone = r#"{"message":"TF401232: x","typeKey":"WorkItemUnauthorizedAccessException"}"#;
        assert_eq!(class(404, gone), Class::Gone);
        assert_eq!(class(404, r#"{"message":"TF200016: no project"}"#), Class::Config);
        let version = r#"{"message":"…","typeKey":"VssVersionOutOfRangeException"}"#;
        assert_eq!(class(400, version), Class::Version);
        assert_eq!(class(401, version), Class::Version, "as one Server 2019 answers");
        assert_eq!(class(500, r#"{"message":"VS402612: macro"}"#), Class::BadQuery);
        assert_eq!(
            class(400, r#"{"count":1,"value":{"Message":"Remove requires"}}"#),
            Class::BadQuery
        );
        assert_eq!(class(401, ""), Class::Auth);
        assert_eq!(class(407, ""), Class::Config, "a proxy's word, not the tracker's");
        assert_eq!(class(418, ""), Class::Config);
    }

    #[test]
    fn a_body_with_a_byte_order_mark_is_read() {
        let body = "\u{FEFF}{\"message\":\"TF24668: stopped\",\"typeKey\":\"VssServiceException\"}";
        assert_eq!(class(503, body), FailureClass::Down);
    }

    #[test]
    fn what_the_tracker_says_cannot_act_on_who_reads_it() {
        let hostile = "\u{1b}[2J\u{202e}gone\r\u{9b}31m";
        let body = serde_json::json!({ "message": hostile, "typeKey": hostile }).to_string();
        let asked = RequestInfo { what: "it", base_url: "b", credential: "c", writes: false };
        let decoded =
            Facts { status: 500, service_error: Some(hostile.into()), ..Facts::default() };
        let coded = Facts { status: 500, ..Facts::default() };
        for failure in [classify(&coded, body.as_bytes(), asked), classify(&decoded, b"", asked)] {
            assert!(failure.message.contains("gone"), "{failure:?}");
            assert!(!failure.message.chars().any(crate::model::is_acting), "{failure:?}");
        }
    }

    #[test]
    fn plain_text_takes_its_code_from_the_header() {
        let facts = Facts {
            service_error: Some(percent_decode("TF24668%3A%20Die%20Sammlung%20ruht%20100%")),
            ..answer(503, "text/plain")
        };
        let failure = classify(&facts, b"", ASKED);
        assert_eq!((failure.class, failure.code.as_deref()), (FailureClass::Down, Some("TF24668")));
        assert!(failure.message.contains("Die Sammlung ruht 100%"), "{}", failure.message);
    }

    #[test]
    fn a_message_names_the_credential_the_page_and_the_activity() {
        let facts = Facts {
            activity_id: Some("c811a0e3".into()),
            ..answer(203, "text/html; charset=utf-8")
        };
        let failure = classify(&facts, b"<html><head><title>Sign In</title>", ASKED);
        assert_eq!(failure.class, FailureClass::Auth);
        for part in ["AZURE_DEVOPS_PAT", "a page titled Sign In", "HTTP 203", "ActivityId c811a0e3"]
        {
            assert!(failure.message.contains(part), "{part} in {}", failure.message);
        }
    }

    #[test]
    fn codes_are_found_only_as_words() {
        assert_eq!(first_code("VS403351: Test"), Some("VS403351"));
        assert_eq!(first_code("(TF400813)"), Some("TF400813"));
        assert_eq!(first_code("UTF8 VS Code TF12 xTF400813"), None);
        assert_eq!(first_code("é TF24668"), Some("TF24668"));
    }

    #[test]
    fn a_denied_write_names_the_scope_for_writing() {
        let facts = answer(403, "application/json");
        let write = classify(&facts, b"{}", RequestInfo { writes: true, ..ASKED });
        assert!(write.message.contains("vso.work_write"), "{}", write.message);
        assert!(write.message.contains("write_back"), "{}", write.message);
        let read = classify(&facts, b"{}", ASKED);
        assert!(!read.message.contains("work_write"), "{}", read.message);
    }
}
