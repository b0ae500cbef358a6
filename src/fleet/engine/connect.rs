//! How the server is reached: address, certificates, credential.

use std::path::Path;
use std::time::Duration;

use temporalio_client::{
    ClientKeepAliveOptions, ClientTlsOptions, ConnectionOptions, RetryOptions, TlsOptions, Url,
};

use super::{CALL, EngineError};
use crate::settings::{Environment, Fleet};

/// An error with what led to it: the transport's own words alone say little.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

pub(super) fn options(
    fleet: &Fleet,
    environment: &Environment,
    host: &str,
) -> Result<ConnectionOptions, EngineError> {
    let wrong = |why: String| EngineError::Settings(why);
    let address = match fleet.address.contains("://") {
        true => fleet.address.clone(),
        false => format!("http://{}", fleet.address),
    };
    let url = Url::parse(&address)
        .map_err(|error| wrong(format!("[fleet] address {:?}: {error}", fleet.address)))?;
    let read = |key: &str, path: &Path| match path.as_os_str().is_empty() {
        true => Ok(None),
        false => std::fs::read(path).map(Some).map_err(|error| {
            wrong(format!("cannot read [fleet] {key} {}: {error}", path.display()))
        }),
    };
    let ca = read("tls_ca_file", &fleet.tls_ca_file)?;
    let certificate = read("tls_cert_file", &fleet.tls_cert_file)?;
    let key = read("tls_key_file", &fleet.tls_key_file)?;
    let mutual = certificate.zip(key).map(|(certificate, key)| {
        ClientTlsOptions::builder().client_cert(certificate).client_private_key(key).build()
    });
    let domain = Some(fleet.tls_domain.clone()).filter(|domain| !domain.is_empty());
    let encrypted = url.scheme() == "https" || ca.is_some() || mutual.is_some();
    let tls = encrypted.then(|| {
        TlsOptions::builder()
            .maybe_server_root_ca_cert(ca)
            .maybe_domain(domain)
            .maybe_client_tls_options(mutual)
            .build()
    });
    let token = match fleet.api_key_env.as_str() {
        "" => None,
        name => {
            Some(environment.text(name).filter(|value| !value.is_empty()).ok_or_else(|| {
                wrong(format!("[fleet] api_key_env: the variable {name} is not set"))
            })?)
        }
    };
    // A connection that went dead is noticed within seconds, not when the kernel gives it up.
    let alive = ClientKeepAliveOptions::builder()
        .interval(Duration::from_secs(5))
        .timeout(Duration::from_secs(3))
        .build();
    Ok(ConnectionOptions::new(url)
        .identity(host)
        .maybe_tls_options(tls)
        .maybe_api_key(token.map(str::to_owned))
        .connect_timeout(CALL)
        .retry_options(RetryOptions::no_retries())
        .keep_alive(Some(alive))
        .dns_load_balancing(None)
        .build())
}
