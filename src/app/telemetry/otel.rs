//! The exporters, from the first span to the last batch.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::logs::LoggerProvider as _;
use opentelemetry_otlp::{
    LogExporter, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanProcessor as _};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::collector::Collector;
use super::logs::Lines;
use super::spans::Spans;
use super::{ENDPOINTS, LogLayer};
use crate::app::error::CommandError;
use crate::event::{Event, Recorded};
use crate::settings::Environment;

/// How long a process that is about to exit waits for its collector.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Exporting {
    spans: Arc<BatchSpanProcessor>,
    logs: SdkLoggerProvider,
}

impl Exporting {
    /// The exporters read addresses, headers and the protocol from the usual variables.
    pub fn start(environment: &Environment) -> Result<Self, CommandError> {
        let failed = |error: &dyn std::fmt::Display| CommandError::Io {
            what: "invalid OTEL_EXPORTER_OTLP_ENDPOINT".into(),
            source: std::io::Error::other(error.to_string()),
        };
        let collector = Collector::new(is_near(environment)).map_err(|error| failed(&error))?;
        let client: Arc<dyn opentelemetry_http::HttpClient> = Arc::new(collector);
        let mut spans = SpanExporter::builder().with_http().with_shared_http_client(client.clone());
        let mut logs = LogExporter::builder().with_http().with_shared_http_client(client);
        if environment.text("OTEL_EXPORTER_OTLP_PROTOCOL").is_none() {
            // The specification's default, whichever protocols are built in.
            spans = spans.with_protocol(Protocol::HttpBinary);
            logs = logs.with_protocol(Protocol::HttpBinary);
        }
        let spans = spans.build().map_err(|error| failed(&error))?;
        let logs = logs.build().map_err(|error| failed(&error))?;
        let resource = resource(environment);
        let mut processor = BatchSpanProcessor::builder(spans).build();
        processor.set_resource(&resource);
        let logs =
            SdkLoggerProvider::builder().with_batch_exporter(logs).with_resource(resource).build();
        Ok(Self { spans: Arc::new(processor), logs })
    }

    /// The layer that exports log lines.
    pub fn layer(&self) -> LogLayer {
        Box::new(Lines::new(self.logs.logger(env!("CARGO_CRATE_NAME"))))
    }

    /// Exports the spans of a run as they end.
    pub async fn follow(&self, mut events: Receiver<Recorded>) {
        let mut spans = Spans::default();
        loop {
            match events.recv().await {
                Ok(recorded) => {
                    // The queue is bounded: a span that does not fit is dropped without waiting.
                    spans.apply(&recorded).into_iter().for_each(|span| self.spans.on_end(span));
                    if matches!(recorded.event, Event::RunEnded { .. }) {
                        return;
                    }
                }
                // Spans whose end was missed are not sent; the log has every event.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Flushes, within a short time limit.
    pub async fn finish(&self) {
        let (spans, logs) = (Arc::clone(&self.spans), self.logs.clone());
        let both = tokio::join!(
            tokio::task::spawn_blocking(move || spans.shutdown_with_timeout(EXPORT_TIMEOUT)),
            tokio::task::spawn_blocking(move || logs.shutdown_with_timeout(EXPORT_TIMEOUT)),
        );
        for ended in [both.0, both.1] {
            if !matches!(ended, Ok(Ok(()))) {
                tracing::debug!(?ended, "some telemetry was not sent");
            }
        }
    }
}

/// A collector on this machine is reached without a proxy.
fn is_near(environment: &Environment) -> bool {
    let near = ["://127.", "://localhost", "://[::1]"];
    let addresses: Vec<&str> = ENDPOINTS.iter().filter_map(|name| environment.text(name)).collect();
    addresses.iter().all(|address| near.iter().any(|host| address.contains(host)))
}

/// Service name and attributes; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` override them.
fn resource(environment: &Environment) -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let builder = Resource::builder().with_attribute(version);
    let named = |name: &str| environment.text(name).is_some_and(|value| value.contains("service"));
    if environment.text("OTEL_SERVICE_NAME").is_some() || named("OTEL_RESOURCE_ATTRIBUTES") {
        return builder.build();
    }
    builder.with_service_name("heartbeat").build()
}
