//! Requests to Jira: addresses, credential, detection of Cloud or Data Center.

use std::sync::Arc;

use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE};
use reqwest::{Method, RequestBuilder, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::failure::{classify, is_success, rate_limit, request_id, retry_after};
use super::wire::ServerInfo;
use crate::fetch::client;
use crate::fetch::failure::{Failure, RequestInfo};
use crate::fetch::http::{Dialect, Head, Http, Interpreted, Limits, Repeat, Request};
use crate::fetch::memory::Notebook;
use crate::fetch::{Connection, FetchError};
use crate::model::FailureClass;
use crate::settings::{Source, SourceAuth};

/// Keys of what is remembered about a server.
const DEPLOYMENT: &str = "deployment";
const SITE: &str = "site";

/// Which Jira it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub is_cloud: bool,
    /// Web address of issues.
    pub site: String,
}

impl Server {
    /// Version of the REST API: on Cloud the one whose texts are documents.
    pub const fn version(&self) -> &'static str {
        if self.is_cloud { "3" } else { "2" }
    }
}

/// The connection to one site or server.
pub(super) struct Transport {
    pub http: Http,
    notebook: Arc<Notebook>,
    server: OnceCell<Server>,
}

/// A read or a write below the API's address.
pub(super) struct Call<'a> {
    pub method: Method,
    pub path: &'a [&'a str],
    pub query: &'a [(&'a str, String)],
    pub body: Option<Value>,
    pub what: &'a str,
    pub repeat: Repeat,
    pub writes: bool,
}

impl<'a> Call<'a> {
    pub fn get(path: &'a [&'a str], what: &'a str) -> Self {
        let (method, repeat) = (Method::GET, Repeat::Safe);
        Self { method, path, query: &[], body: None, what, repeat, writes: false }
    }

    /// A read with a body.
    pub fn ask(path: &'a [&'a str], what: &'a str, body: Value) -> Self {
        Self { method: Method::POST, body: Some(body), ..Self::get(path, what) }
    }
}

impl Transport {
    /// Builds the client; sends nothing.
    pub fn new(
        config: &Source,
        connection: &Connection,
        notebook: Arc<Notebook>,
    ) -> Result<Self, FetchError> {
        let examples = "https://contoso.atlassian.net or https://jira.contoso.com/jira";
        let base = client::base_url(&config.base_url, examples)?;
        let user = config.user.trim().to_owned();
        let dialect = Box::new(Jira { user, auth: config.auth });
        let http = Http::new(config, base, dialect, connection, Arc::clone(&notebook))?;
        Ok(Self { http, notebook, server: OnceCell::new() })
    }

    /// Which Jira this is: remembered, or requested once.
    pub async fn server(&self) -> Result<&Server, Failure> {
        self.server.get_or_try_init(|| self.find_server()).await
    }

    async fn find_server(&self) -> Result<Server, Failure> {
        let remembered = self.notebook.read().await?.facts;
        if let (Some(kind), Some(site)) = (remembered.get(DEPLOYMENT), remembered.get(SITE)) {
            return Ok(Server { is_cloud: kind == "cloud", site: site.clone() });
        }
        let what = "what kind of Jira it is";
        let answer = self.send_to("2", Call::get(&["serverInfo"], what)).await;
        let info: ServerInfo = match answer {
            Ok(answer) => self.http.decode(&answer, what)?,
            // Refused if the sign-in failed: the address tells which Jira it is, and the next
            // request reports the error.
            Err(failure) if failure.class.needs_a_person() => return Ok(self.by_address()),
            Err(failure) => return Err(failure),
        };
        let is_address =
            |url: &String| url.starts_with("http") && !url.contains(char::is_whitespace);
        let site = info.base_url.filter(is_address);
        let site = site.map(|url| url.trim_end_matches('/').to_owned());
        let server = Server {
            is_cloud: info.deployment_type.is_some_and(|kind| kind.eq_ignore_ascii_case("cloud")),
            site: site.unwrap_or_else(|| self.http.base_url().to_owned()),
        };
        let (kind, site) = (if server.is_cloud { "cloud" } else { "server" }, server.site.clone());
        let keep = self.notebook.update(move |remembered| {
            remembered.facts.insert(DEPLOYMENT.into(), kind.into());
            remembered.facts.insert(SITE.into(), site);
        });
        keep.await?;
        Ok(server)
    }

    fn by_address(&self) -> Server {
        let host = self.http.base().host_str().unwrap_or_default();
        let is_cloud = host.ends_with(".atlassian.net") || host == "api.atlassian.com";
        Server { is_cloud, site: self.http.base_url().to_owned() }
    }

    /// Sends a call and parses its JSON.
    pub async fn json<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, Failure> {
        let what = call.what;
        let answer = self.send(call).await?;
        self.http.decode(&answer, what)
    }

    /// Sends a call to this server's API version.
    pub async fn send(&self, call: Call<'_>) -> Result<crate::fetch::http::Answer, Failure> {
        let version = self.server().await?.version();
        self.send_to(version, call).await
    }

    async fn send_to(
        &self,
        version: &str,
        call: Call<'_>,
    ) -> Result<crate::fetch::http::Answer, Failure> {
        let mut url: Url = self.http.base().clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["rest", "api", version]);
            segments.extend(call.path.iter().flat_map(|part| part.split('/')));
        }
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(call.query);
        }
        let body = call.body.map(|body| ("application/json", body.to_string().into_bytes()));
        let request = Request {
            method: call.method,
            body,
            repeat: call.repeat,
            writes: call.writes,
            ..Request::get(url, call.what)
        };
        self.http.send(&request).await
    }

    /// Checks that the sign-in succeeded: where anonymous readers are allowed, nothing else shows
    /// it.
    pub async fn ensure_signed_in(&self) -> Result<super::wire::User, Failure> {
        let what = "the account of the credential";
        match self.json(Call::get(&["myself"], what)).await {
            Err(failure) if failure.class == FailureClass::Config && failure.has_code("404") => {
                // Old servers return an error to anonymous users.
                Err(Failure { class: FailureClass::Auth, ..failure })
            }
            other => other,
        }
    }
}

/// Headers, credential and failures of Jira.
struct Jira {
    user: String,
    auth: SourceAuth,
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

    fn interpret(&self, head: &Head) -> Interpreted {
        Interpreted {
            success: is_success(head),
            limits: Limits { retry_after: retry_after(head), rate_limit: rate_limit(head) },
            request_id: request_id(head),
        }
    }

    fn classify(&self, head: &Head, body: &[u8], asked: RequestInfo<'_>) -> Failure {
        classify(head, body, asked)
    }
}
