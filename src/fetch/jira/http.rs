//! Requests to Jira: addresses, credential, detection of Cloud or Data Center, and what its failures
//! mean. Texts are localised, so status and head decide; a response that looks good may be for an
//! anonymous user, which only its head shows.

use reqwest::RequestBuilder;
use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::JiraSource;
use super::wire::{ServerInfo, User};
use crate::fetch::FetchError;
use crate::fetch::failure::{
    RefusedRequest, Row, Said, Table, always, is_html, plain_message, writes,
};
use crate::fetch::http::{Dialect, Head, Request};
use crate::model::{FailureClass as Class, RateLimit, Untrusted};
use crate::settings::SourceAuth;

/// Keys of what is remembered about a server.
const DEPLOYMENT: &str = "deployment";
const SITE: &str = "site";

/// Which Jira it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::fetch) struct Deployment {
    pub is_cloud: bool,
    /// Web address of issues.
    pub site: String,
}

impl JiraSource {
    /// Which Jira this is: remembered, or requested once.
    pub async fn deployment(&self) -> Result<&Deployment, FetchError> {
        self.deployment.get_or_try_init(|| self.find_server()).await
    }

    pub async fn is_cloud(&self) -> Result<bool, FetchError> {
        Ok(self.deployment().await?.is_cloud)
    }

    async fn find_server(&self) -> Result<Deployment, FetchError> {
        let remembered = self.http.notebook.read().await?.facts;
        if let (Some(kind), Some(site)) = (remembered.get(DEPLOYMENT), remembered.get(SITE)) {
            return Ok(Deployment { is_cloud: kind == "cloud", site: site.clone() });
        }
        let url = self.http.url(&["rest", "api", "2", "serverInfo"], &[]);
        let info: ServerInfo =
            match self.http.json(&Request::get(url, "what kind of Jira it is")).await {
                Ok(info) => info,
                // Refused if the sign-in failed: the address tells which Jira it is, and the next
                // request reports the error.
                Err(failure) if failure.class.needs_a_person() => return Ok(self.by_address()),
                Err(failure) => return Err(failure),
            };
        let is_address =
            |url: &String| url.starts_with("http") && !url.contains(char::is_whitespace);
        let site = info.base_url.filter(is_address);
        let site = site.map(|url| url.trim_end_matches('/').to_owned());
        let server = Deployment {
            is_cloud: info.deployment_type.is_some_and(|kind| kind.eq_ignore_ascii_case("cloud")),
            site: site.unwrap_or_else(|| self.http.base_url().to_owned()),
        };
        let (kind, site) = (if server.is_cloud { "cloud" } else { "server" }, server.site.clone());
        let keep = self.http.notebook.update(move |remembered| {
            remembered.facts.insert(DEPLOYMENT.into(), kind.into());
            remembered.facts.insert(SITE.into(), site);
        });
        keep.await?;
        Ok(server)
    }

    fn by_address(&self) -> Deployment {
        let host = self.http.base().host_str().unwrap_or_default();
        let is_cloud = host.ends_with(".atlassian.net") || host == "api.atlassian.com";
        Deployment { is_cloud, site: self.http.base_url().to_owned() }
    }

    /// An address below the API's, in the version whose texts are documents on Cloud.
    pub async fn url(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<reqwest::Url, FetchError> {
        let version = if self.is_cloud().await? { "3" } else { "2" };
        Ok(self.http.url(&[["rest", "api", version].as_slice(), path].concat(), query))
    }

    /// The JSON at a path.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, String)],
        what: &str,
    ) -> Result<T, FetchError> {
        self.http.json(&Request::get(self.url(path, query).await?, what)).await
    }

    /// The answer to a question in a body.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        path: &[&str],
        what: &str,
        body: &Value,
    ) -> Result<T, FetchError> {
        self.http.json(&Request::post(self.url(path, &[]).await?, what, body)).await
    }

    /// Checks that the sign-in succeeded: where anonymous readers are allowed, nothing else shows
    /// it.
    pub async fn ensure_signed_in(&self) -> Result<User, FetchError> {
        match self.get(&["myself"], &[], "the account of the credential").await {
            Err(error) if error.class == Class::Config && error.has_code("404") => {
                // Old servers return an error to anonymous users.
                Err(FetchError { class: Class::Auth, ..error })
            }
            other => other,
        }
    }
}

pub(super) struct Jira {
    pub user: String,
    pub auth: SourceAuth,
}

/// Result of the sign-in, on every response.
const LOGIN_REASON: &str = "x-seraph-loginreason";

/// Where anonymous readers are allowed, an expired credential is not reported as an error.
fn signed_in(head: &Head) -> bool {
    let reason = head.header(LOGIN_REASON).unwrap_or_default().to_ascii_uppercase();
    !reason.contains("FAILED") && !reason.contains("DENIED")
}

impl Dialect for Jira {
    fn prepare(&self, request: RequestBuilder, secret: &str) -> RequestBuilder {
        let is_basic = self.auth == SourceAuth::Pat && !self.user.is_empty();
        let request = match is_basic {
            true => request.basic_auth(&self.user, Some(secret)),
            false => request.bearer_auth(secret),
        };
        request.header(ACCEPT, "application/json").header(ACCEPT_LANGUAGE, "en")
    }

    /// JSON, from a server that accepted the sign-in.
    fn is_success(&self, head: &Head) -> bool {
        let has_body = head.status != 204;
        (200..300).contains(&head.status)
            && head.status != 203
            && signed_in(head)
            && (!has_body || head.content_type().contains("json"))
    }

    fn request_id(&self, head: &Head) -> Option<String> {
        let id = head.header("atl-traceid").or_else(|| head.header("x-arequestid"))?;
        Some(format!("request {}", Untrusted::new(id).line(60)))
    }

    /// A count for this second is useless.
    fn is_our_limit(&self, limit: &RateLimit) -> bool {
        limit.reset.is_some()
    }

    fn said(&self, head: &Head, body: &[u8]) -> Said {
        let foreign = |name: &str| head.header(name).map(|text| Untrusted::new(text).line(100));
        let mut details: Vec<String> = Vec::new();
        details.extend(foreign(LOGIN_REASON).filter(|_| !signed_in(head)));
        details.extend(foreign("x-failure-category"));
        details.extend(foreign("ratelimit-reason"));
        let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(body) else {
            let message = Untrusted::new(plain_message(body));
            return Said { message, details, ..Said::default() };
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
        Said { message: Untrusted::new(texts.join("; ")), details, ..Said::default() }
    }

    fn table(&self) -> &'static Table {
        &TABLE
    }
}

fn is_captcha(refusal: &RefusedRequest<'_>) -> bool {
    refusal.head.headers.contains_key("x-authentication-denied-reason")
}

/// The gateway knows the credential, but it lacks the scope.
fn lacks_scope(refusal: &RefusedRequest<'_>) -> bool {
    refusal.head.header("x-failure-category").is_some_and(|text| text.contains("SCOPE"))
}

fn is_for_nobody(refusal: &RefusedRequest<'_>) -> bool {
    !signed_in(refusal.head) || is_html(refusal)
}

const NOT_ACCEPTED: &str = "{base_url} does not accept the credential ({credential}) for {what}: it \
     is missing, expired or revoked. Jira Cloud needs an API token with source.user set to the \
     account's e-mail address (a scoped token only works at \
     https://api.atlassian.com/ex/jira/CLOUD-ID); Data Center needs a personal access token and an \
     empty source.user";
const MAY_NOT_WRITE: &str = "{base_url} accepts the credential ({credential}) but denies {what}: \
     write-back needs the permissions Add Comments and Edit Issues (scope write:jira-work); or \
     switch it off with [source] write_back";
const MAY_NOT_READ: &str = "{base_url} accepts the credential ({credential}) but denies access to \
     {what}: give it the permission Browse Projects (scope read:jira-work)";
const INVALID: &str = "{base_url} rejects {what} as invalid; check source.where, \
     source.saved_query and source.project: try the condition in the tracker's own search";

static TABLE: Table = Table {
    rows: &[
        Row(401..=401, |r| lacks_scope(r) && r.writes, Class::Denied, MAY_NOT_WRITE),
        Row(401..=401, lacks_scope, Class::Denied, MAY_NOT_READ),
        Row(401..=401, always, Class::Auth, NOT_ACCEPTED),
        Row(203..=203, always, Class::Auth, NOT_ACCEPTED),
        Row(300..=399, always, Class::Auth, NOT_ACCEPTED),
        Row(200..=299, is_for_nobody, Class::Auth, NOT_ACCEPTED),
        Row(
            403..=403,
            is_captcha,
            Class::Auth,
            "{base_url} refuses the credential ({credential}) until a user signs in with a browser \
             and answers its CAPTCHA; use an API token or a personal access token instead of a \
             password",
        ),
        Row(403..=403, writes, Class::Denied, MAY_NOT_WRITE),
        Row(403..=403, always, Class::Denied, MAY_NOT_READ),
        Row(400..=400, writes, Class::BadQuery, "{base_url} rejects {what} as invalid"),
        Row(400..=400, always, Class::BadQuery, INVALID),
        Row(413..=414, always, Class::BadQuery, INVALID),
        Row(
            404..=404,
            always,
            Class::Config,
            "{base_url} cannot find {what}: check source.base_url (with the path of the server, \
             such as https://jira.contoso.com/jira) and source.project",
        ),
        Row(
            410..=410,
            always,
            Class::Config,
            "{base_url} has removed the API that heartbeat uses for {what}; if it is Jira Cloud, \
             set source.base_url to its own address, such as https://SITE.atlassian.net",
        ),
    ],
    otherwise: "{base_url} returned something that is not the API's answer for {what}; set \
                source.base_url to https://SITE.atlassian.net or the address of the server",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::failure::tests::{failed, head};

    fn jira() -> Jira {
        Jira { user: String::new(), auth: SourceAuth::Pat }
    }

    #[test]
    fn a_good_answer_to_somebody_unknown_is_none() {
        assert!(jira().is_success(&head(200, &[])) && jira().is_success(&head(201, &[])));
        assert!(jira().is_success(&head(204, &[("content-type", "")])));
        assert!(jira().is_success(&head(200, &[(LOGIN_REASON, "OK")])));
        for reason in ["AUTHENTICATED_FAILED", "AUTHENTICATION_DENIED"] {
            let head = head(200, &[(LOGIN_REASON, reason)]);
            assert!(!jira().is_success(&head));
            let failure = failed(&jira(), &head, "{\"issues\":[]}", false);
            assert_eq!(failure.class, Class::Auth);
            assert!(failure.message.contains(reason), "{}", failure.message);
        }
        assert!(!jira().is_success(&head(200, &[("content-type", "text/html")])));
    }

    #[test]
    fn status_and_head_decide_in_any_language() {
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
            let failure = failed(&jira(), &head(status, headers), "{}", false);
            assert_eq!(failure.class, class, "{status} {headers:?}: {failure:?}");
        }
    }

    #[test]
    fn a_limit_without_an_end_is_not_kept() {
        let second = head(200, &[("x-ratelimit-limit", "100"), ("x-ratelimit-remaining", "1")]);
        assert!(!jira().is_our_limit(&second.rate_limit().unwrap()));
        let bucket = head(
            200,
            &[
                ("x-ratelimit-limit", "50"),
                ("x-ratelimit-remaining", "2"),
                ("x-ratelimit-interval-seconds", "60"),
            ],
        );
        let limit = bucket.rate_limit().unwrap();
        assert!(jira().is_our_limit(&limit));
        assert_eq!(
            (limit.remaining, limit.reset.unwrap().to_string().as_str()),
            (Some(2), "2026-11-16T12:01:00Z")
        );
    }

    #[test]
    fn errors_are_shown_in_any_shape_and_cannot_act() {
        let body = r#"{"errorMessages":["Field 'x' does not exist"],"errors":{"project":"gone"}}"#;
        let failure = failed(&jira(), &head(400, &[("atl-traceid", "abc")]), body, false);
        for part in ["Field 'x' does not exist", "project: gone", "request abc", "source.where"] {
            assert!(failure.message.contains(part), "{part} in {}", failure.message);
        }
        let gateway = r#"{"code":401,"message":"Unauthorized; scope does not match"}"#;
        let failure = failed(&jira(), &head(401, &[]), gateway, false);
        assert!(failure.message.contains("scope does not match"), "{}", failure.message);
        let page = failed(&jira(), &head(429, &[]), "<html><title>HTTP Status 429</title>", false);
        assert!(page.message.contains("a page titled HTTP Status 429"), "{}", page.message);
        let hostile = serde_json::json!({ "errorMessages": ["\u{1b}[2J\u{202e}x"] }).to_string();
        let failure = failed(&jira(), &head(500, &[]), &hostile, false);
        assert!(!failure.message.chars().any(crate::model::is_acting), "{failure:?}");
    }
}
