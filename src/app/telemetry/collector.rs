//! HTTP client for the collector: runs on our runtime, called from the SDK's threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;

/// Per request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Log target of this module: its lines are not exported.
pub const TARGET: &str = "telemetry";

/// Sends requests on the main runtime; only a thread of the SDK waits.
#[derive(Debug)]
pub struct Collector {
    client: reqwest::Client,
    runtime: Handle,
    is_reachable: AtomicBool,
}

impl Collector {
    /// Uses the current runtime.
    pub fn new(loopback: bool) -> Result<Self, reqwest::Error> {
        // Fails if a provider is already installed, which is fine.
        let _already_installed = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder().timeout(TIMEOUT);
        if loopback {
            builder = builder.no_proxy();
        }
        let (client, runtime) = (builder.build()?, Handle::current());
        Ok(Self { client, runtime, is_reachable: AtomicBool::new(true) })
    }

    /// Logs only changes, not every batch.
    fn note(&self, is_reachable: bool, detail: &str) {
        let before = self.is_reachable.swap(is_reachable, Ordering::Relaxed);
        match (before, is_reachable) {
            (true, false) => {
                tracing::warn!(target: TARGET, detail, "OTLP export failed");
            }
            (false, true) => tracing::info!(target: TARGET, "OTLP export works again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let answer = client.execute(request).await?;
            let status = answer.status();
            Ok::<_, reqwest::Error>((status, answer.bytes().await?))
        });
        match sent.await? {
            Ok((status, body)) => {
                self.note(status.is_success(), status.as_str());
                Ok(Response::builder().status(status).body(body)?)
            }
            Err(error) => {
                let error = error.without_url();
                self.note(false, &error.to_string());
                Err(error.into())
            }
        }
    }
}
