//! Requests to Azure DevOps: addresses, API versions, headers.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use reqwest::header::{ACCEPT, LOCATION, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Url};
use tokio::sync::OnceCell;

use super::failure::{Facts, MAX_RETRY_AFTER, classify, is_success, percent_decode};
use super::version::version_for;
use super::wire;
use crate::fetch::client;
use crate::fetch::failure::{Failure, RequestInfo, parse_retry_after};
use crate::fetch::http::{
    Answer, Dialect, Head, Http, Interpreted, Limits, Repeat, Request, UNSTATED_RETRY_AFTER,
};
use crate::fetch::memory::Notebook;
use crate::fetch::{Connection, FetchError};
use crate::model::FailureClass;
use crate::settings::{Source, SourceAuth};

#[derive(Debug)]
pub(super) struct Call<'a> {
    pub method: Method,
    /// Path below the base address; [`Transport::send`] encodes it.
    pub path: Vec<&'a str>,
    /// Query string without the version.
    pub query: Vec<(&'a str, String)>,
    /// The body with its content type.
    pub body: Option<(&'static str, Vec<u8>)>,
    /// The resource whose version is requested; empty: none.
    pub resource: &'static str,
    /// Description for messages.
    pub what: String,
    /// Whether it may be sent again.
    pub repeat: Repeat,
}

impl<'a> Call<'a> {
    pub fn get(path: Vec<&'a str>, resource: &'static str, what: impl Into<String>) -> Self {
        let (method, what) = (Method::GET, what.into());
        Self { method, path, query: vec![], body: None, resource, what, repeat: Repeat::Safe }
    }

    /// A read with a body.
    pub fn post(
        path: Vec<&'a str>,
        resource: &'static str,
        what: impl Into<String>,
        body: &serde_json::Value,
    ) -> Self {
        let body = Some(("application/json; charset=utf-8", body.to_string().into_bytes()));
        Self { method: Method::POST, body, ..Self::get(path, resource, what) }
    }
}

/// The connection to one organisation or collection, and the API versions agreed with it.
pub(super) struct Transport {
    http: Http,
    api_version: String,
    notebook: Arc<Notebook>,
    agreed: RwLock<BTreeMap<String, String>>,
    /// Those of earlier runs were loaded.
    loaded: OnceCell<()>,
}

impl Deref for Transport {
    type Target = Http;

    fn deref(&self) -> &Http {
        &self.http
    }
}

impl Transport {
    /// Builds the client; sends nothing.
    pub fn new(
        config: &Source,
        connection: &Connection,
        notebook: Arc<Notebook>,
    ) -> Result<Self, FetchError> {
        let examples = "https://dev.azure.com/contoso or https://server:8080/tfs/DefaultCollection";
        let base = client::base_url(&config.base_url, examples)?;
        let session = uuid::Uuid::now_v7().to_string();
        let dialect = Box::new(Ado { auth: config.auth, session });
        Ok(Self {
            http: Http::new(config, base, dialect, connection, Arc::clone(&notebook))?,
            api_version: config.api_version.clone(),
            notebook,
            agreed: RwLock::default(),
            loaded: OnceCell::new(),
        })
    }

    /// Loads the API versions that earlier runs agreed with the server.
    async fn load_agreed_versions(&self) -> Result<(), Failure> {
        let remembered = self.notebook.read().await?;
        *self.agreed.write().unwrap_or_else(PoisonError::into_inner) = remembered.api_versions;
        Ok(())
    }

    /// Sends `call`, with retries where they are safe and may help.
    pub async fn send(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        self.loaded.get_or_try_init(|| self.load_agreed_versions()).await?;
        match self.http.send(&self.request(call)).await {
            Err(failure)
                if failure.class == FailureClass::Version
                    && !call.resource.is_empty()
                    && call.repeat == Repeat::Safe =>
            {
                self.negotiate().await?;
                self.http.send(&self.request(call)).await
            }
            other => other,
        }
    }

    fn request(&self, call: &Call<'_>) -> Request {
        Request {
            method: call.method.clone(),
            body: call.body.clone(),
            repeat: call.repeat,
            writes: call.method == Method::PATCH,
            ..Request::get(self.url(call), call.what.as_str())
        }
    }

    fn url(&self, call: &Call<'_>) -> Url {
        let mut url = self.base().clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(call.path.iter().filter(|part| !part.is_empty()));
        }
        let agreed = self.agreed.read().unwrap_or_else(PoisonError::into_inner);
        if !call.query.is_empty() || !call.resource.is_empty() {
            let mut query = url.query_pairs_mut();
            query.extend_pairs(&call.query);
            if !call.resource.is_empty() {
                let version = version_for(call.resource, &self.api_version, &agreed);
                query.append_pair("api-version", &version);
            }
        }
        url
    }

    /// Asks the server once for its API versions.
    pub async fn negotiate(&self) -> Result<(), Failure> {
        let what = "its list of resources";
        let call = Call { method: Method::OPTIONS, ..Call::get(vec!["_apis", "wit"], "", what) };
        let answer = self.http.send(&self.request(&call)).await?;
        let list: wire::Listing<wire::Location> = self.decode(&answer, what)?;
        let locations: Vec<_> = list.value.into_iter().flatten().collect();
        let agreed = super::version::negotiate(&self.api_version, &locations);
        let keep = agreed.clone();
        *self.agreed.write().unwrap_or_else(PoisonError::into_inner) = agreed;
        let update = self.notebook.update(move |remembered| remembered.api_versions = keep);
        Ok(update.await?)
    }
}

/// Headers, credential and failures of Azure DevOps.
struct Ado {
    auth: SourceAuth,
    session: String,
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

    fn interpret(&self, head: &Head) -> Interpreted {
        let facts = read_facts(head);
        Interpreted {
            success: is_success(&facts),
            limits: Limits { retry_after: facts.retry_after, rate_limit: head.rate_limit() },
            request_id: facts.activity_id.map(|id| format!("ActivityId {id}")),
        }
    }

    fn classify(&self, head: &Head, body: &[u8], asked: RequestInfo<'_>) -> Failure {
        classify(&read_facts(head), body, asked)
    }
}

fn retry_after(head: &Head) -> Option<Duration> {
    let stated = head.header(RETRY_AFTER.as_str());
    let stated = stated.and_then(|v| parse_retry_after(&v, head.at, MAX_RETRY_AFTER));
    stated.or_else(|| (head.status == 429).then_some(UNSTATED_RETRY_AFTER))
}

fn read_facts(head: &Head) -> Facts {
    Facts {
        status: head.status,
        content_type: head.content_type(),
        retry_after: retry_after(head),
        activity_id: head.header("activityid").or_else(|| head.header("x-vss-e2eid")),
        service_error: head.header("x-tfs-serviceerror").map(|v| percent_decode(&v)),
        // The query string of a sign-in page is long and useless in a message.
        location: head
            .header(LOCATION.as_str())
            .map(|v| v.split('?').next().unwrap_or_default().to_owned()),
    }
}
