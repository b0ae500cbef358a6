//! Requests to Azure DevOps: API versions, headers, and what its failures mean.

use std::sync::PoisonError;

use reqwest::header::ACCEPT;
use reqwest::{Method, RequestBuilder};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::version::version_for;
use super::{AdoSource, wire};
use crate::fetch::FetchError;
use crate::fetch::failure::{
    ANY, RefusedRequest, Row, Said, Table, always, is_html, plain_message, writes,
};
use crate::fetch::http::{Dialect, Head, HttpAnswer, Repeat, Request};
use crate::model::{FailureClass as Class, Untrusted};
use crate::settings::SourceAuth;

impl AdoSource {
    /// Sends a request for this resource, whose version is agreed with the server, and parses its
    /// JSON.
    pub async fn json<T: DeserializeOwned>(
        &self,
        resource: &str,
        request: Request,
    ) -> Result<T, FetchError> {
        let answer = self.send(resource, &request).await?;
        self.http.decode(&answer, &request.what)
    }

    pub async fn send(&self, resource: &str, request: &Request) -> Result<HttpAnswer, FetchError> {
        self.loaded.get_or_try_init(|| self.load_agreed_versions()).await?;
        match self.http.send(&self.versioned(resource, request)).await {
            Err(error) if error.class == Class::Version && request.repeat == Repeat::Safe => {
                self.negotiate().await?;
                self.http.send(&self.versioned(resource, request)).await
            }
            other => other,
        }
    }

    /// Loads the API versions that earlier runs agreed with the server.
    async fn load_agreed_versions(&self) -> Result<(), FetchError> {
        let remembered = self.http.notebook.read().await?;
        *self.agreed.write().unwrap_or_else(PoisonError::into_inner) = remembered.api_versions;
        Ok(())
    }

    fn versioned(&self, resource: &str, request: &Request) -> Request {
        let agreed = self.agreed.read().unwrap_or_else(PoisonError::into_inner);
        let version = version_for(resource, &self.config.api_version, &agreed);
        let mut request = request.clone();
        request.url.query_pairs_mut().append_pair("api-version", &version);
        request
    }

    /// Asks the server once for its API versions.
    async fn negotiate(&self) -> Result<(), FetchError> {
        let url = self.http.url(&["_apis", "wit"], &[]);
        let request =
            Request { method: Method::OPTIONS, ..Request::get(url, "its list of resources") };
        let list: wire::AdoList<wire::Location> = self.http.json(&request).await?;
        let locations: Vec<_> = list.value.into_iter().flatten().collect();
        let agreed = super::version::negotiate(&self.config.api_version, &locations);
        let keep = agreed.clone();
        *self.agreed.write().unwrap_or_else(PoisonError::into_inner) = agreed;
        self.http.notebook.update(move |remembered| remembered.api_versions = keep).await
    }
}

pub(super) struct Ado {
    pub auth: SourceAuth,
    pub session: String,
}

impl Dialect for Ado {
    fn prepare(&self, request: RequestBuilder, secret: &str) -> RequestBuilder {
        let request = match self.auth {
            SourceAuth::Pat => request.basic_auth("", Some(secret)),
            SourceAuth::Bearer | SourceAuth::App => request.bearer_auth(secret),
        };
        request
            .header(ACCEPT, "application/json")
            .header("X-TFS-FedAuthRedirect", "Suppress")
            .header("X-TFS-Session", &self.session)
    }

    fn is_success(&self, head: &Head) -> bool {
        (200..300).contains(&head.status)
            && head.status != 203
            && head.content_type().starts_with("application/json")
    }

    fn request_id(&self, head: &Head) -> Option<String> {
        let id = head.header("activityid").or_else(|| head.header("x-vss-e2eid"))?;
        Some(format!("ActivityId {}", Untrusted::new(id).line(100)))
    }

    /// Reads an error body in any shape: JSON of two kinds, plain text with a header, empty, HTML.
    fn said(&self, head: &Head, body: &[u8]) -> Said {
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let nested = value.get("value").and_then(|value| value.get("Message"));
        let message = value.get("message").or(nested).and_then(Value::as_str);
        let service = || head.header("x-tfs-serviceerror").map(|text| percent_decode(&text));
        let plain = || service().unwrap_or_else(|| plain_message(body));
        let message = message.filter(|text| !text.is_empty()).map_or_else(plain, str::to_owned);
        let kind = value.get("typeKey").and_then(Value::as_str).unwrap_or_default();
        Said {
            code: first_code(&message).map(str::to_owned),
            kind: Untrusted::new(kind.to_owned()),
            message: Untrusted::new(message),
            details: Vec::new(),
        }
    }

    fn table(&self) -> &'static Table {
        &TABLE
    }
}

fn is_about_version(refusal: &RefusedRequest<'_>) -> bool {
    refusal.said.kind.raw().starts_with("VssVersion")
        || refusal.is_kind("VssInvalidPreviewVersionException")
}

fn is_gone(refusal: &RefusedRequest<'_>) -> bool {
    refusal.has_code("TF401232") || refusal.is_kind("WorkItemUnauthorizedAccessException")
}

fn has_too_many_rows(refusal: &RefusedRequest<'_>) -> bool {
    refusal.has_code("VS402337")
        || refusal.is_kind("WorkItemTrackingQueryResultSizeLimitExceededException")
}

/// The only server error that needs a different query.
fn is_bad_macro(refusal: &RefusedRequest<'_>) -> bool {
    refusal.has_code("VS402612") || refusal.said.message.raw().contains("is not of the form")
}

const NOT_ACCEPTED: &str = "{base_url} does not accept the credential ({credential}) for {what}: it \
     is missing, expired, revoked or belongs to another organisation; renew it with scope vso.work";
const NOT_FOUND: &str = "{base_url} cannot find {what}: check source.base_url, source.project and \
     source.saved_query";
const INVALID: &str = "{base_url} rejects {what} as invalid; check source.where, \
     source.saved_query, source.team and source.text_fields";
const TOO_SLOW: &str = "{what} took longer than the tracker allows; narrow source.where, avoid \
     CONTAINS on long texts";

static TABLE: Table = Table {
    rows: &[
        Row(
            400..=401,
            is_about_version,
            Class::Version,
            "{base_url} does not support the API version requested for {what}; set \
             source.api_version",
        ),
        Row(ANY, |refusal| refusal.has_code("TF400813"), Class::Auth, NOT_ACCEPTED),
        Row(
            300..=399,
            always,
            Class::Auth,
            "{base_url} redirected ({location}) instead of returning {what}: the credential \
             ({credential}) is not accepted, or source.base_url is not the address the tracker \
             itself uses",
        ),
        Row(203..=203, always, Class::Auth, NOT_ACCEPTED),
        Row(401..=401, always, Class::Auth, NOT_ACCEPTED),
        Row(200..=299, is_html, Class::Auth, NOT_ACCEPTED),
        Row(
            403..=403,
            writes,
            Class::Denied,
            "{base_url} accepts the credential ({credential}) but denies {what}: write-back needs \
             a credential that may edit work items (scope vso.work_write, \"Work Items: Read & \
             write\") and permission to edit the item's area; or switch it off with [source] \
             write_back",
        ),
        Row(
            403..=403,
            always,
            Class::Denied,
            "{base_url} accepts the credential ({credential}) but denies access to {what}: grant \
             read access to the project (scope vso.work), or check conditional access",
        ),
        Row(
            404..=404,
            is_gone,
            Class::Gone,
            "{what}: gone, or not visible to the credential ({credential})",
        ),
        Row(
            400..=400,
            has_too_many_rows,
            Class::TooMany,
            "{what}: more rows than the tracker returns at once; narrow source.where or shorten \
             source.look_back",
        ),
        Row(ANY, |refusal| refusal.has_code("VS402335"), Class::TooSlow, TOO_SLOW),
        Row(400..=400, always, Class::BadQuery, INVALID),
        Row(413..=414, always, Class::BadQuery, INVALID),
        Row(500..=500, is_bad_macro, Class::BadQuery, INVALID),
        Row(
            503..=503,
            |refusal| refusal.has_code("TF24668"),
            Class::Down,
            "{base_url} is stopped or inactive; its administrator can start it",
        ),
    ],
    otherwise: NOT_FOUND,
};

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
    use crate::fetch::failure::tests::{failed, head};

    fn ado() -> Ado {
        Ado { auth: SourceAuth::Pat, session: String::new() }
    }

    fn class(status: u16, body: &str) -> Class {
        failed(&ado(), &head(status, &[]), body, false).class
    }

    #[test]
    fn success_is_json_with_a_2xx_that_is_not_203() {
        let typed = |kind| head(200, &[("content-type", kind)]);
        let with_version = "application/json; charset=utf-8; api-version=7.1";
        assert!(ado().is_success(&typed(with_version)));
        assert!(!ado().is_success(&head(203, &[])));
        assert!(!ado().is_success(&typed("text/html; charset=utf-8")));
        assert!(!ado().is_success(&typed("")));
        assert!(!ado().is_success(&head(302, &[])));
    }

    #[test]
    fn codes_and_type_keys_decide_in_any_language() {
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
        let nested = r#"{"count":1,"value":{"Message":"Remove requires"}}"#;
        assert_eq!(class(400, nested), Class::BadQuery);
        assert_eq!(class(401, ""), Class::Auth);
        assert_eq!(class(407, ""), Class::Config, "a proxy's word, not the tracker's");
        assert_eq!(class(418, ""), Class::Config);
        for (status, expected) in
            [(408, Class::TooSlow), (412, Class::Conflict), (502, Class::Transient)]
        {
            assert_eq!(class(status, ""), expected, "{status}");
        }
    }

    #[test]
    fn a_body_with_a_byte_order_mark_is_read() {
        let body = "\u{FEFF}{\"message\":\"TF24668: stopped\",\"typeKey\":\"VssServiceException\"}";
        assert_eq!(class(503, body), Class::Down);
    }

    #[test]
    fn what_the_tracker_says_cannot_act_on_who_reads_it() {
        let hostile = "\u{1b}[2J\u{202e}gone\r\u{9b}31m";
        let body = serde_json::json!({ "message": hostile, "typeKey": hostile }).to_string();
        let encoded =
            percent_encoding::utf8_percent_encode(hostile, percent_encoding::NON_ALPHANUMERIC);
        let header = head(500, &[("x-tfs-serviceerror", &encoded.to_string())]);
        for error in
            [failed(&ado(), &head(500, &[]), &body, false), failed(&ado(), &header, "", false)]
        {
            assert!(error.message.contains("gone"), "{error:?}");
            assert!(!error.message.chars().any(crate::model::is_acting), "{error:?}");
        }
    }

    #[test]
    fn plain_text_takes_its_code_from_the_header() {
        let said = "TF24668%3A%20Die%20Sammlung%20ruht%20100%";
        let head = head(503, &[("content-type", "text/plain"), ("x-tfs-serviceerror", said)]);
        let error = failed(&ado(), &head, "", false);
        assert_eq!((error.class, error.code.as_deref()), (Class::Down, Some("TF24668")));
        assert!(error.message.contains("Die Sammlung ruht 100%"), "{error}");
    }

    #[test]
    fn a_message_names_the_credential_the_page_and_the_activity() {
        let head = head(203, &[("content-type", "text/html"), ("activityid", "c811a0e3")]);
        let error = failed(&ado(), &head, "<html><head><title>Sign In</title>", false);
        assert_eq!(error.class, Class::Auth);
        for part in ["SOME_TOKEN", "a page titled Sign In", "HTTP 203", "ActivityId c811a0e3"] {
            assert!(error.message.contains(part), "{part} in {error}");
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
        let write = failed(&ado(), &head(403, &[]), "{}", true);
        assert!(write.message.contains("vso.work_write"), "{write}");
        assert!(write.message.contains("write_back"), "{write}");
        let read = failed(&ado(), &head(403, &[]), "{}", false);
        assert!(!read.message.contains("work_write"), "{read}");
    }
}
