//! The provider behind a gateway, and the HTTP client that reaches it.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Url};
use secrecy::{ExposeSecret, SecretString};

use super::failure::{Class, Failure};
use super::wire::shortened;

/// A connection that takes longer is an outage.
const CONNECT: Duration = Duration::from_secs(20);
/// Longest silence of a provider. The stall limit of a session is usually shorter.
const SILENCE: Duration = Duration::from_mins(15);
const USER_AGENT: &str = concat!("heartbeat/", env!("CARGO_PKG_VERSION"));

/// Where an agent's requests go.
#[derive(Debug, Clone)]
pub struct Provider {
    /// The complete address of the model calls, without a query.
    pub address: String,
    /// The path by which the agent asks for it, such as `/v1/messages`.
    pub path: &'static str,
    /// The header with the key and its value; `None`: the provider needs none.
    pub credential: Option<(&'static str, SecretString)>,
    /// Further headers, which the user set: name and value.
    pub headers: Vec<(String, SecretString)>,
    /// PEM files of private certificate authorities.
    pub authorities: Vec<PathBuf>,
}

impl Provider {
    /// The headers that the user set.
    fn own_headers(&self) -> Result<HeaderMap, String> {
        let made = self.headers.iter().map(|(name, value)| {
            let wrong = || format!("{name:?} is no header that can be sent");
            let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            Ok((HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value))
        });
        made.collect()
    }
}

/// What a provider said to a free request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeting {
    /// It answers, and accepts the credential.
    Accepted,
    /// It answers, but has no free request that needs the credential.
    Unproven,
    /// It answers with a refusal, or too slowly. A session may still be served: some keys may ask
    /// models and not for the list of them.
    Refused(Failure),
    /// There is no way to it: no session can be served.
    Unreachable(Failure),
}

/// Longest wait for the free request.
const GREETING: Duration = Duration::from_secs(10);
/// More of a refusal is not read.
const MAX_REFUSAL_LEN: usize = 4 << 10;

/// A provider with the client that reaches it; shared by all sessions of an agent.
#[derive(Debug)]
pub struct Upstream {
    pub(super) provider: Provider,
    pub(super) address: Url,
    pub(super) client: Client,
}

impl Upstream {
    /// Builds the client; sends nothing. Proxies are those of heartbeat's environment, never for
    /// loopback addresses. The error names what is wrong with the settings.
    pub fn new(provider: Provider) -> Result<Self, String> {
        let address = Url::parse(&provider.address)
            .map_err(|error| format!("{:?} is not an address: {error}", provider.address))?;
        // Fails if a provider is already installed, which then serves as well.
        let _already_installed = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .default_headers(provider.own_headers()?)
            .redirect(Policy::none())
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE);
        if is_loopback(&address) {
            builder = builder.no_proxy();
        }
        for file in &provider.authorities {
            let wrong = |why: String| format!("the certificates in {} {why}", file.display());
            let pem = std::fs::read(file).map_err(|e| wrong(format!("cannot be read: {e}")))?;
            let found = Certificate::from_pem_bundle(&pem)
                .map_err(|error| wrong(format!("are not in PEM form: {error}")))?;
            builder = builder.tls_certs_merge(found);
        }
        let client = builder.build().map_err(|error| error.to_string())?;
        Ok(Self { provider, address, client })
    }

    /// Asks for the list of models, which every provider gives for nothing, with the credential.
    pub async fn greet(&self, now: Timestamp) -> Greeting {
        let mut list = self.address.clone();
        // …/v1/messages, …/v1/responses, …/v1/chat/completions
        let path = list.path().trim_end_matches('/');
        let base = ["/chat/completions", "/messages", "/responses"]
            .iter()
            .find_map(|end| path.strip_suffix(end))
            .unwrap_or(path)
            .to_owned();
        list.set_path(&format!("{base}/models"));
        let mut request = self.client.get(list).timeout(GREETING);
        if let Some((header, secret)) = &self.provider.credential {
            request = request.header(*header, secret.expose_secret());
        }
        // Anthropic refuses requests without it; others ignore it.
        let request = request.header("anthropic-version", "2023-06-01");
        let mut answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => {
                return Greeting::Unreachable(Failure::outage(&root_cause(&error)));
            }
            Err(error) if error.is_timeout() => {
                return Greeting::Refused(Failure::outage(NO_ANSWER));
            }
            Err(error) => return Greeting::Refused(Failure::outage(&root_cause(&error))),
        };
        let status = answer.status();
        if status.is_success() {
            return match foreign(answer.headers()) {
                Some(why) => Greeting::Unreachable(Failure::outage(&why)),
                None => Greeting::Accepted,
            };
        }
        let headers = answer.headers().clone();
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = answer.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() >= MAX_REFUSAL_LEN {
                break;
            }
        }
        body.truncate(MAX_REFUSAL_LEN);
        let failure = Failure::refused(status.as_u16(), &headers, &body, now);
        match failure.class {
            // A provider without such a list has not looked at the credential.
            Class::UnknownModel | Class::Request => Greeting::Unproven,
            _ => Greeting::Refused(failure),
        }
    }
}

impl Upstream {
    /// What is wrong on the way to it, for people; the fix is apart.
    pub fn told(&self, failure: &Failure) -> String {
        format!("{}: {}", self.provider.address, failure.cause())
    }

    /// Whether this is a provider's public address, which agents use unless told otherwise.
    pub fn is_public(&self) -> bool {
        matches!(self.address.host_str(), Some("api.anthropic.com" | "api.openai.com"))
    }

    /// The path by which the agent asks.
    pub fn path(&self) -> &'static str {
        self.provider.path
    }
}

/// Why a successful answer is none of a model: a proxy or the sign-in page of a network answers every
/// address with a page of its own.
pub(super) fn foreign(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(reqwest::header::CONTENT_TYPE)?.to_str().ok()?;
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind.ends_with("html").then(|| {
        format!(
            "answers {}, which is no answer of a model; check the proxy, or sign in to the network",
            shortened(&kind)
        )
    })
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

const NO_ANSWER: &str = "no answer in time";

/// The last cause in a chain of errors, without the address.
pub(super) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    let mut by_proxy = false;
    while let Some(next) = cause.source() {
        by_proxy |= cause.to_string().contains("tunnel");
        cause = next;
    }
    let said = cause.to_string();
    // An expired certificate is named with the seconds of now, so that no two texts are alike.
    let said = said.split(": verification time").next().unwrap_or_default();
    match by_proxy || said.contains("tunnel") {
        // "unsuccessful" alone names nobody.
        true => format!("the proxy lets nothing through to it ({said})"),
        false if error.is_timeout() => NO_ANSWER.to_owned(),
        false => said.to_owned(),
    }
}
