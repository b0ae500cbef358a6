//! Exports traces and logs to an OpenTelemetry collector, in builds with the feature `otel`.
//!
//! Nothing is sent unless `OTEL_EXPORTER_OTLP_ENDPOINT` (or the variable for traces or logs) is
//! set. A trace is a run: its id is the run's id without hyphens, and the id of a session's span is
//! the second half of the session's id. Everything is sent in the background, in batches; if the
//! collector is unreachable, only telemetry is lost.

#[cfg(feature = "otel")]
mod collector;
#[cfg(feature = "otel")]
mod logs;
#[cfg(feature = "otel")]
mod otel;
#[cfg(feature = "otel")]
mod spans;

use tokio::sync::broadcast::Receiver;
use tracing_subscriber::{Layer, Registry};

use crate::event::Recorded;
use crate::settings::Environment;

/// The variables that set a collector.
const ENDPOINTS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
];

pub type LogLayer = Box<dyn Layer<Registry> + Send + Sync + 'static>;

/// Exports to a collector; does nothing unless one is set. Cheap to clone.
#[derive(Clone, Default)]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    exporting: Option<std::sync::Arc<otel::Exporting>>,
    /// Why nothing is sent although a collector is set.
    #[cfg(feature = "otel")]
    fault: Option<String>,
}

impl Telemetry {
    /// Logs why no telemetry is sent although it should be. Call after logging has started.
    pub fn log_fault(&self, environment: &Environment) {
        #[cfg(feature = "otel")]
        if let Some(fault) = &self.fault {
            tracing::error!(error = fault, "cannot start telemetry; none is sent");
        }
        if !cfg!(feature = "otel") && is_wanted(environment) {
            tracing::warn!(
                "OTEL_EXPORTER_OTLP_ENDPOINT is set, but this build lacks the feature \
                            `otel`"
            );
        }
    }
}

fn is_wanted(environment: &Environment) -> bool {
    let is_set = |name: &&str| environment.text(name).is_some_and(|value| !value.is_empty());
    let is_off = environment.text("OTEL_SDK_DISABLED").is_some_and(|word| word == "true");
    !is_off && ENDPOINTS.iter().any(is_set)
}

#[cfg(feature = "otel")]
impl Telemetry {
    /// Starts the export if a collector is set. Call within the main runtime.
    pub fn start(environment: &Environment) -> Self {
        if !is_wanted(environment) {
            return Self::default();
        }
        match otel::Exporting::start(environment) {
            Ok(exporting) => Self { exporting: Some(std::sync::Arc::new(exporting)), fault: None },
            // Logged once logging has started; the run continues without telemetry.
            Err(error) => Self { exporting: None, fault: Some(error.to_string()) },
        }
    }

    /// The layer that exports log lines.
    pub fn layer(&self) -> Option<LogLayer> {
        self.exporting.as_ref().map(|exporting| exporting.layer())
    }

    /// Exports the spans of a run until it has ended.
    pub async fn follow(self, events: Receiver<Recorded>) {
        if let Some(exporting) = self.exporting {
            exporting.follow(events).await;
        }
    }

    /// Flushes, within a short time limit.
    pub async fn finish(self) {
        if let Some(exporting) = self.exporting {
            exporting.finish().await;
        }
    }
}

#[cfg(not(feature = "otel"))]
impl Telemetry {
    /// This build sends nothing.
    pub fn start(_environment: &Environment) -> Self {
        Self::default()
    }

    pub fn layer(&self) -> Option<LogLayer> {
        None
    }

    pub async fn follow(self, events: Receiver<Recorded>) {
        drop(events);
    }

    pub async fn finish(self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telemetry_is_sent_only_to_a_named_collector() {
        let wanted = |pairs: &[(&str, &str)]| is_wanted(&Environment::new(pairs.iter().copied()));
        assert!(!wanted(&[]));
        assert!(!wanted(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]));
        assert!(wanted(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")]));
        assert!(wanted(&[("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://127.0.0.1:4318/v1/logs")]));
        let off = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"), ("OTEL_SDK_DISABLED", "true")];
        assert!(!wanted(&off));
    }
}
