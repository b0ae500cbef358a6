//! How to connect to the server: address, certificates, credential.

use std::path::Path;
use std::time::{Duration, SystemTime};

use temporalio_client::tonic::{Code, Status};
use temporalio_client::{
    ClientKeepAliveOptions, ClientTlsOptions, ConnectionOptions, GrpcCompression, RetryOptions,
    TlsOptions, Url,
};

use super::{CALL, EngineError};
use crate::settings::{Environment, Fleet};

/// An error with its causes: the transport's own message says little.
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

/// The same for a missing response, with a remedy.
pub(super) fn explained(fleet: &Fleet, status: &Status, code: Code) -> String {
    let text = match std::error::Error::source(status) {
        Some(cause) => format!("{code}: {}: {}", status.message(), causes(cause)),
        None => format!("{code}: {}", status.message()),
    };
    with_fix(fleet, text)
}

/// Remedy for a failed connection.
pub(super) fn with_fix(fleet: &Fleet, text: String) -> String {
    let is = |word: &str| text.contains(word);
    let fix = if is("CertificateExpired") {
        "this host's own certificate has expired: renew [fleet] tls_cert_file"
    } else if is("Expired") || is("NotValidYet") {
        "a certificate has expired or is not valid yet: renew it, and check this machine's clock"
    } else if is("NotValidForName") {
        "the certificate is for another name: set [fleet] tls_domain to that name"
    } else if is("UnknownIssuer") || is("InvalidCertificate") {
        "set [fleet] tls_ca_file to the certificate of its authority"
    } else if is("received fatal alert") {
        "the server requires a client certificate that it trusts: set [fleet] tls_cert_file and \
         tls_key_file"
    } else if is("InvalidContentType") || is("InvalidMessage") || is("corrupt message") {
        "that port does not use TLS: write http:// in [fleet] address, or remove tls_ca_file"
    } else if speaks_tls(fleet) && (is("closed") || is("reset") || is("Broken pipe")) {
        // The server's message about a certificate can be lost when it closes the connection.
        "does it require a client certificate that is missing, unknown or expired? Then set or renew \
         [fleet] tls_cert_file and tls_key_file"
    } else {
        return text;
    };
    format!("{text}; {fix}")
}

fn speaks_tls(fleet: &Fleet) -> bool {
    let files = [&fleet.tls_ca_file, &fleet.tls_cert_file];
    fleet.address.starts_with("https:") || files.iter().any(|path| !path.as_os_str().is_empty())
}

/// Modification times and sizes of the certificate files, so that renewed ones are used without a
/// restart.
pub(super) type Stamp = Vec<Option<(SystemTime, u64)>>;

pub(super) fn stamp(fleet: &Fleet) -> Stamp {
    [&fleet.tls_ca_file, &fleet.tls_cert_file, &fleet.tls_key_file]
        .into_iter()
        .filter(|path| !path.as_os_str().is_empty())
        .map(|path| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len()))
        })
        .collect()
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
    let tls = speaks_tls(fleet).then(|| {
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
    // Detects a dead connection within seconds, not when the kernel gives it up.
    let alive = ClientKeepAliveOptions::builder()
        .interval(Duration::from_secs(5))
        .timeout(Duration::from_secs(3))
        .build();
    Ok(ConnectionOptions::new(url)
        .identity(host)
        .maybe_tls_options(tls)
        .maybe_api_key(token.map(str::to_owned))
        .connect_timeout(CALL)
        // Data is compressed before it is sealed.
        .grpc_compression(GrpcCompression::None)
        .retry_options(RetryOptions::no_retries())
        .keep_alive(Some(alive))
        .dns_load_balancing(None)
        .build())
}
