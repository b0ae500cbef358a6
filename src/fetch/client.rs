//! Builds the HTTP client: TLS, private certificate authorities, proxy, no redirects.

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Url};

use crate::fetch::FetchError;
use crate::model::FailureClass;
use crate::settings::Source;

const USER_AGENT: &str = concat!("heartbeat/", env!("CARGO_PKG_VERSION"));

/// Parses and validates the configured address.
pub(super) fn base_url(text: &str, examples: &str) -> Result<Url, FetchError> {
    let wrong = |why: &str| {
        FetchError::new(
            FailureClass::Config,
            format!("source.base_url {text:?} {why}; write for example {examples}"),
        )
    };
    let url =
        Url::parse(text.trim()).map_err(|error| wrong(&format!("is not a valid URL ({error})")))?;
    if !matches!(url.scheme(), "https" | "http") || !url.has_host() {
        return Err(wrong("is not an http(s) URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(
            "contains a credential, which belongs in source.token_env or token_file",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("contains a query or a fragment"));
    }
    Ok(url)
}

/// A client for the server at `base`.
pub(super) fn build(config: &Source, base: &Url) -> Result<Client, FetchError> {
    // Fails if a provider is already installed, which then serves as well.
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .redirect(Policy::none())
        .timeout(config.request_timeout)
        .connect_timeout(Duration::from_secs(20))
        .pool_max_idle_per_host(1)
        .gzip(true);
    if is_loopback(base) {
        builder = builder.no_proxy();
    }
    if !config.ca_file.as_os_str().is_empty() {
        builder = builder.tls_certs_merge(authorities(config)?);
    }
    builder.build().map_err(|error| {
        FetchError::new(FailureClass::Config, format!("cannot build the HTTP client: {error}"))
    })
}

fn authorities(config: &Source) -> Result<Vec<Certificate>, FetchError> {
    let path = config.ca_file.display();
    let wrong = |why: String| {
        let message = format!("source.ca_file {path} {why}; it must be a PEM file");
        FetchError::new(FailureClass::Config, message)
    };
    let pem = std::fs::read(&config.ca_file).map_err(|e| wrong(format!("cannot be read ({e})")))?;
    let certificates = Certificate::from_pem_bundle(&pem)
        .map_err(|error| wrong(format!("contains no certificate ({error})")))?;
    if certificates.is_empty() {
        return Err(wrong("contains no certificate".to_owned()));
    }
    Ok(certificates)
}

/// A proxy is not used for our own machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}
