//! Requests to GitHub: addresses, headers, redirects, links between pages, and what its failures
//! mean. The status decides; the text is used only where there is nothing else: limits and missing
//! rights both use 403.

use reqwest::header::ACCEPT;
use reqwest::{Method, RequestBuilder, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::GithubSource;
use crate::fetch::failure::{RefusedRequest, Row, Said, Table, always, plain_message, writes};
use crate::fetch::http::{Dialect, Head, HttpAnswer, Request};
use crate::fetch::{FetchError, client};
use crate::model::{FailureClass as Class, RateLimit, Untrusted};

/// API address of the public service.
const SERVICE: &str = "https://api.github.com";
/// The API version that this client was written for.
const API_VERSION: &str = "2022-11-28";
/// Redirects followed per request: a repository that was renamed, and then moved.
const MAX_REDIRECTS: usize = 3;

/// The API address: the configured one, or the public service's. A web address copied from a
/// browser is corrected.
pub(super) fn api_address(configured: &str) -> Result<Url, FetchError> {
    let text = configured.trim().trim_end_matches('/');
    let text = match text {
        "" | "https://github.com" | "https://www.github.com" => SERVICE,
        text => text,
    };
    let examples = "https://api.github.com or https://github.contoso.com/api/v3";
    let mut url = client::base_url(text, examples)?;
    let is_bare = url.path() == "/" && url.scheme() == "https";
    if is_bare && url.host_str().is_some_and(|host| !host.starts_with("api.")) {
        url.set_path("/api/v3");
    }
    Ok(url)
}

impl GithubSource {
    /// Sends a request and follows redirects within the same server. A write keeps its method and
    /// body, as 307 and 308 require and as 301 is meant here.
    pub async fn send(&self, mut request: Request) -> Result<HttpAnswer, FetchError> {
        for _ in 0..MAX_REDIRECTS {
            let answer = self.http.send(&request).await?;
            if !(300..400).contains(&answer.head.status) || answer.head.status == 304 {
                return Ok(answer);
            }
            let location = answer.head.header("location").unwrap_or_default();
            request.url = self.same_server(&request.url, &location)?;
        }
        let (base, what) = (self.http.base_url(), request.what);
        let message = format!("{base} redirects {what} in a loop; check source.base_url");
        Err(FetchError::new(Class::Config, message))
    }

    /// The credential is sent only to the configured server, so links to other servers are refused.
    pub fn same_server(&self, from: &Url, target: &str) -> Result<Url, FetchError> {
        let url = from
            .join(target)
            .ok()
            .filter(|url| url.origin() == self.http.base().origin() && url.username().is_empty());
        url.ok_or_else(|| {
            let target = Untrusted::new(target.to_owned()).line(100);
            let message = format!(
                "{} redirects to another server ({target}), which is not followed; set \
                 source.base_url to the address that the API itself uses",
                self.http.base_url()
            );
            FetchError::new(Class::Config, message)
        })
    }

    /// The JSON at an address.
    pub async fn json<T: DeserializeOwned>(&self, url: Url, what: &str) -> Result<T, FetchError> {
        let answer = self.send(Request::get(url, what)).await?;
        self.http.decode(&answer, what)
    }

    /// The JSON at an address, and the address of the next page.
    pub async fn page<T: DeserializeOwned>(
        &self,
        url: Url,
        what: &str,
    ) -> Result<(T, Option<Url>), FetchError> {
        let answer = self.send(Request::get(url, what)).await?;
        let next = link(&answer.head, "next").map(|next| self.same_server(&answer.url, &next));
        Ok((self.http.decode(&answer, what)?, next.transpose()?))
    }

    /// A write, sent once: a repeated one could not be recognised.
    pub async fn post(&self, url: Url, what: &str, body: &Value) -> Result<HttpAnswer, FetchError> {
        self.send(Request::write(Method::POST, url, what, body).once()).await
    }
}

/// The target of `rel` in a `Link` header.
pub(super) fn link(head: &Head, rel: &str) -> Option<String> {
    let header = head.header("link")?;
    // Addresses may contain commas, so the parts begin at `<`.
    header.split('<').skip(1).find_map(|part| {
        let (target, parameters) = part.split_once('>')?;
        let wanted = format!("rel=\"{rel}\"");
        let is_wanted = parameters.split([';', ',']).any(|parameter| parameter.trim() == wanted);
        is_wanted.then(|| target.to_owned())
    })
}

pub(super) struct Github {
    api_version: String,
}

impl Github {
    pub fn new(configured: &str) -> Self {
        let is_date = configured.len() == 10 && configured.split('-').count() == 3;
        Self { api_version: if is_date { configured } else { API_VERSION }.to_owned() }
    }
}

impl Dialect for Github {
    fn prepare(&self, request: RequestBuilder, secret: &str) -> RequestBuilder {
        request
            .bearer_auth(secret)
            .header(ACCEPT, "application/vnd.github+json")
            .header("X-GitHub-Api-Version", &self.api_version)
    }

    /// Redirects and "not modified" are handled by the caller.
    fn is_success(&self, head: &Head) -> bool {
        match head.status {
            301 | 302 | 307 | 308 => head.headers.contains_key("location"),
            204 | 304 => true,
            203 => false,
            200..=299 => head.content_type().contains("json"),
            _ => false,
        }
    }

    fn request_id(&self, head: &Head) -> Option<String> {
        let id = head.header("x-github-request-id")?;
        Some(format!("request {}", Untrusted::new(id).line(100)))
    }

    /// Search and other resources have separate limits.
    fn is_our_limit(&self, limit: &RateLimit) -> bool {
        limit.resource.as_deref().is_none_or(|resource| resource == "core")
    }

    fn said(&self, head: &Head, body: &[u8]) -> Said {
        let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(body) else {
            return Said { message: Untrusted::new(plain_message(body)), ..Said::default() };
        };
        let message = object.get("message").and_then(Value::as_str).unwrap_or_default();
        let errors = object.get("errors").and_then(Value::as_array).into_iter().flatten();
        let errors: Vec<String> = errors
            .map(|error| {
                let part = |name: &str| error.get(name).and_then(Value::as_str);
                let parts = ["resource", "field", "code", "message"].map(part);
                let text: Vec<&str> = parts.into_iter().flatten().collect();
                match text.is_empty() {
                    true => error.as_str().unwrap_or_default().to_owned(),
                    false => text.join(" "),
                }
            })
            .collect();
        let errors = Untrusted::new(errors.join("; "));
        let mut details: Vec<String> = Vec::new();
        details.extend((!errors.is_empty()).then(|| format!("\"{}\"", errors.line(300))));
        let rights = head.header("x-accepted-github-permissions");
        let rights = rights.or_else(|| head.header("x-accepted-oauth-scopes"));
        let rights = rights.filter(|rights| !rights.is_empty());
        details.extend(rights.map(|text| format!("needs {}", Untrusted::new(text).line(100))));
        Said { message: Untrusted::new(message.to_owned()), details, ..Said::default() }
    }

    fn table(&self) -> &'static Table {
        &TABLE
    }
}

fn says(refusal: &RefusedRequest<'_>, words: &str) -> bool {
    refusal.said.message.raw().to_lowercase().contains(words)
}

fn needs_sso(refusal: &RefusedRequest<'_>) -> bool {
    refusal.head.headers.contains_key("x-github-sso")
}

/// The secondary limit has no header of its own.
fn is_secondary_limit(refusal: &RefusedRequest<'_>) -> bool {
    is_limit(refusal) && (says(refusal, "secondary rate limit") || says(refusal, "abuse"))
}

fn is_limit(refusal: &RefusedRequest<'_>) -> bool {
    let used_up = refusal.head.rate_limit().is_some_and(|limit| limit.remaining == Some(0));
    let says_so = used_up
        || refusal.head.headers.contains_key("retry-after")
        || says(refusal, "rate limit")
        || says(refusal, "abuse");
    refusal.head.status == 429 || (says_so && !needs_sso(refusal))
}

fn is_about_version(refusal: &RefusedRequest<'_>) -> bool {
    matches!(refusal.head.status, 400 | 410 | 415) && says(refusal, "api version")
}

const SLOW_DOWN: &str = "{base_url} asks heartbeat to slow down (secondary rate limit); other \
     programs of the same account may be using it up";
const USED_UP: &str =
    "{base_url}: the account's rate limit is used up; all tokens of one account share it";
const INVALID: &str = "{base_url} rejects {what} as invalid; check source.where and source.project";

static TABLE: Table = Table {
    rows: &[
        Row(
            401..=401,
            always,
            Class::Auth,
            "{base_url} does not accept the credential ({credential}) for {what}: it is missing, \
             expired or revoked; make a new token (Issues: read and write, Metadata: read; a \
             classic token needs the scope repo)",
        ),
        Row(403..=403, is_secondary_limit, Class::Throttled, SLOW_DOWN),
        Row(429..=429, is_secondary_limit, Class::Throttled, SLOW_DOWN),
        Row(403..=403, is_limit, Class::Throttled, USED_UP),
        Row(429..=429, always, Class::Throttled, USED_UP),
        Row(
            403..=403,
            needs_sso,
            Class::Denied,
            "{base_url} denies {what}: the organisation requires single sign-on, and the token \
             ({credential}) is not authorised for it; authorise it in the settings of the token",
        ),
        Row(
            403..=403,
            writes,
            Class::Denied,
            "{base_url} accepts the credential ({credential}) but denies {what}: write-back needs \
             Issues: write, and the repository may be archived or the issue locked; or switch it \
             off with [source] write_back",
        ),
        Row(
            403..=403,
            always,
            Class::Denied,
            "{base_url} accepts the credential ({credential}) but denies access to {what}: give it \
             Issues: read, Metadata: read",
        ),
        Row(
            451..=451,
            always,
            Class::Denied,
            "{base_url} has blocked {what}: remove the repository from source.project",
        ),
        Row(
            400..=415,
            is_about_version,
            Class::Version,
            "{base_url} does not support the API version requested for {what}; set \
             source.api_version to a date such as 2022-11-28",
        ),
        Row(
            404..=404,
            always,
            Class::Config,
            "{base_url} cannot find {what}: check source.project (owner/repository) and that the \
             credential ({credential}) may see it; a private repository without the rights Issues: \
             read, Metadata: read looks as if it did not exist",
        ),
        Row(
            410..=410,
            always,
            Class::Config,
            "{base_url} says that {what} are gone: issues are switched off in this repository, or \
             it was removed; correct source.project",
        ),
        Row(400..=400, always, Class::BadQuery, INVALID),
        Row(413..=414, always, Class::BadQuery, INVALID),
        Row(422..=422, always, Class::BadQuery, INVALID),
        Row(
            408..=408,
            always,
            Class::Transient,
            "{base_url} failed to return {what}; this may be temporary",
        ),
    ],
    otherwise: "{base_url} returned something that is not the API's answer for {what}; set \
                source.base_url to https://api.github.com or https://HOST/api/v3",
};

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderMap, HeaderValue};

    use super::*;
    use crate::fetch::failure::tests::{failed, head, seconds};

    fn github() -> Github {
        Github::new("")
    }

    /// Status, headers, body; class and seconds to wait.
    type Case = (u16, &'static [(&'static str, &'static str)], &'static str, Class, Option<i64>);

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
        for (status, headers, body, class, wait) in cases {
            let error = failed(&github(), &head(status, headers), body, false);
            assert_eq!((error.class, seconds(&error)), (class, wait), "{status} {body}: {error:?}");
        }
    }

    #[test]
    fn each_failure_names_its_cause_and_its_fix() {
        let message = |status, headers: &[(&'static str, &str)], body: &str, writes| {
            failed(&github(), &head(status, headers), body, writes).message
        };
        let bad = message(
            401,
            &[("x-github-request-id", "AB:12")],
            r#"{"message":"Bad credentials"}"#,
            false,
        );
        for part in ["SOME_TOKEN", "Bad credentials", "request AB:12", "new token"] {
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
        let version =
            failed(&github(), &head(400, &[]), r#"{"message":"Unsupported API version"}"#, false);
        assert_eq!(version.class, Class::Version);
    }

    #[test]
    fn an_answer_is_json_a_redirect_or_not_modified() {
        assert!(github().is_success(&head(200, &[])) && github().is_success(&head(201, &[])));
        assert!(github().is_success(&head(304, &[])));
        assert!(github().is_success(&head(301, &[("location", "https://x/repositories/1")])));
        assert!(!github().is_success(&head(301, &[])));
        assert!(!github().is_success(&head(200, &[("content-type", "text/html; charset=utf-8")])));
        assert!(!github().is_success(&head(404, &[])));
    }

    #[test]
    fn what_the_service_says_cannot_act_on_who_reads_it() {
        let hostile = "\u{1b}[2J\u{202e}gone\r\u{9b}31m";
        let body = serde_json::json!({ "message": hostile, "errors": [{ "code": hostile }] });
        let failure = failed(&github(), &head(500, &[]), &body.to_string(), false);
        assert!(failure.message.contains("gone"), "{failure:?}");
        assert!(!failure.message.chars().any(crate::model::is_acting), "{failure:?}");
    }

    #[test]
    fn an_address_of_the_browser_becomes_that_of_the_api() {
        for (configured, expected) in [
            ("", "https://api.github.com/"),
            ("https://github.com/", "https://api.github.com/"),
            ("https://api.github.com", "https://api.github.com/"),
            ("https://github.contoso.com", "https://github.contoso.com/api/v3"),
            ("https://github.contoso.com/api/v3/", "https://github.contoso.com/api/v3"),
            ("https://api.contoso.ghe.com", "https://api.contoso.ghe.com/"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ] {
            assert_eq!(api_address(configured).unwrap().as_str(), expected, "{configured}");
        }
        for wrong in ["github.com", "ftp://x", "https://me:secret@github.com", "https://x/?a=b"] {
            assert_eq!(api_address(wrong).unwrap_err().class, Class::Config, "{wrong}");
        }
    }

    #[test]
    fn links_are_found_by_their_relation() {
        let mut headers = HeaderMap::new();
        let text = "<https://api.github.com/x?page=1>; rel=\"prev\", \
                    <https://api.github.com/x?after=Y%3D&labels=a,b>; rel=\"next\"";
        headers.insert("link", HeaderValue::from_static(text));
        let head = Head { headers, ..Head::default() };
        assert_eq!(
            link(&head, "next").as_deref(),
            Some("https://api.github.com/x?after=Y%3D&labels=a,b")
        );
        assert_eq!(link(&head, "last"), None);
        assert_eq!(link(&Head::default(), "next"), None);
    }
}
