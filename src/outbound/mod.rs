//! Messages to addresses that are secrets: webhooks and monitors. An address is read when it is used
//! and never shown.

pub mod ping;

use std::fmt;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use reqwest::{Client, StatusCode, Url};

/// Per attempt.
const TIMEOUT: Duration = Duration::from_secs(10);
/// More of an answer is not read.
const MAX_ANSWER_LEN: usize = 1024;

/// No message contains the address.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("the variable does not hold an https URL")]
    Address,
    #[error("cannot reach the receiver: {0}")]
    Unreachable(&'static str),
    #[error("the receiver answered {0}")]
    Refused(StatusCode),
}

impl OutboundError {
    /// Whether a retry may help.
    fn is_passing(&self) -> bool {
        match self {
            Self::Address => false,
            Self::Unreachable(_) => true,
            Self::Refused(status) => {
                status.is_server_error()
                    || matches!(
                        *status,
                        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT
                    )
            }
        }
    }
}

/// An address that may be sent to. `Debug` hides it.
#[derive(Clone)]
pub struct SecretAddress(Url);

impl fmt::Debug for SecretAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretAddress(…)")
    }
}

impl SecretAddress {
    /// Without TLS the address could be read in transit, so only loopback may do without.
    pub fn parse(text: &str) -> Result<Self, OutboundError> {
        let url = Url::parse(text.trim()).map_err(|_unsaid| OutboundError::Address)?;
        let safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
        if safe && url.has_host() { Ok(Self(url)) } else { Err(OutboundError::Address) }
    }

    /// The address with a further path segment and query value.
    fn with(&self, segment: &str, query: Option<(&str, &str)>) -> Self {
        let mut url = self.0.clone();
        if !segment.is_empty()
            && let Ok(mut path) = url.path_segments_mut()
        {
            path.pop_if_empty().push(segment);
        }
        if let Some((name, value)) = query {
            url.query_pairs_mut().append_pair(name, value);
        }
        Self(url)
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// What is sent, in the form that the receiver takes.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    Json(&'a serde_json::Value),
    Text(&'a str),
}

/// Sends with POST and retries temporary failures; `first_wait` doubles with each further attempt.
/// Returns the beginning of the answer.
pub async fn post(
    address: &SecretAddress,
    body: Body<'_>,
    first_wait: Duration,
    tries: usize,
) -> Result<String, OutboundError> {
    // Fails if a provider is already installed, which is fine.
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    let mut builder =
        Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none());
    if is_loopback(&address.0) {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(unreachable)?;
    let policy = ExponentialBuilder::default()
        .with_min_delay(first_wait)
        .with_max_times(tries.saturating_sub(1))
        .with_jitter();
    let once = || async {
        let request = client.post(address.0.clone());
        let request = match body {
            Body::Json(message) => request.json(message),
            Body::Text(text) => {
                request.header("content-type", "text/plain; charset=utf-8").body(text.to_owned())
            }
        };
        let mut answer = request.send().await.map_err(unreachable)?;
        let status = answer.status();
        if !status.is_success() {
            return Err(OutboundError::Refused(status));
        }
        let mut said = Vec::new();
        // It has taken the message; an answer that breaks off changes nothing.
        while let Ok(Some(chunk)) = answer.chunk().await {
            said.extend_from_slice(&chunk);
            if said.len() >= MAX_ANSWER_LEN {
                said.truncate(MAX_ANSWER_LEN);
                break;
            }
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    };
    once.retry(policy).when(OutboundError::is_passing).await
}

#[expect(clippy::needless_pass_by_value, reason = "used as a function in map_err")]
fn unreachable(error: reqwest::Error) -> OutboundError {
    OutboundError::Unreachable(match (error.is_timeout(), error.is_connect()) {
        (true, _) => "no answer in time",
        (_, true) => "no connection",
        _ => "the request failed",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_tls_is_refused_unless_it_is_our_own_machine() {
        let parsed = |text: &str| SecretAddress::parse(text).is_ok();
        assert!(parsed("https://hooks.example/x") && parsed("http://127.0.0.1:9/x"));
        assert!(!parsed("http://hooks.example/x") && !parsed("hooks.example") && !parsed(""));
    }

    #[test]
    fn the_address_is_in_no_message() {
        for error in [OutboundError::Address, OutboundError::Refused(StatusCode::NOT_FOUND)] {
            assert!(!error.to_string().contains("://"));
        }
        let address = SecretAddress::parse("https://hc.example/secret").unwrap();
        assert!(!format!("{address:?}").contains("secret"));
    }

    #[test]
    fn a_signal_is_added_to_the_path_and_keeps_the_query() {
        let with = |text: &str, segment: &str| {
            let address = SecretAddress::parse(text).unwrap();
            address.with(segment, Some(("rid", "7"))).0.to_string()
        };
        assert_eq!(with("https://hc.example/uuid", "start"), "https://hc.example/uuid/start?rid=7");
        assert_eq!(with("https://hc.example/uuid/", "78"), "https://hc.example/uuid/78?rid=7");
        assert_eq!(
            with("https://hc.example/key/slug?create=1", ""),
            "https://hc.example/key/slug?create=1&rid=7"
        );
    }
}
