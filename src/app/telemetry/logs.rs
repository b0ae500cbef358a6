//! Exports log lines as log records in the trace of their run.

use std::fmt;
use std::time::SystemTime;

use opentelemetry::logs::{AnyValue, LogRecord as _, Logger as _, Severity};
use opentelemetry::trace::TraceFlags;
use opentelemetry_sdk::logs::{SdkLogRecord, SdkLogger};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::collector;
use super::spans::{session_span, trace_id};
use crate::app::lifecycle;
use crate::model::{RunId, SessionId};

/// Exports our own lines from `info` up.
pub struct Lines {
    logger: SdkLogger,
}

impl Lines {
    pub fn new(logger: SdkLogger) -> Self {
        Self { logger }
    }
}

/// The fields of a line or a span.
#[derive(Debug, Clone, Default)]
struct LogFields(Vec<(&'static str, AnyValue)>);

impl LogFields {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    /// The id in a field, if it is one.
    fn id(&self, name: &str) -> Option<uuid::Uuid> {
        match &self.0.iter().find(|(known, _)| *known == name)?.1 {
            AnyValue::String(text) => text.as_str().parse().ok(),
            _ => None,
        }
    }
}

impl Visit for LogFields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.push((field.name(), i64::try_from(value).unwrap_or(i64::MAX).into()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push((field.name(), value.into()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.to_owned().into()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), format!("{value:?}").into()));
    }
}

impl<S> Layer<S> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = LogFields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let data = event.metadata();
        let is_ours = data.target().starts_with(env!("CARGO_CRATE_NAME"))
            || data.target() == lifecycle::TARGET;
        // Lines about the export itself are not exported.
        if !is_ours || *data.level() > Level::INFO || data.target() == collector::TARGET {
            return;
        }
        let mut fields = LogFields::default();
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<LogFields>() {
                let missing = outer.0.iter().filter(|(name, _)| !fields.has(name));
                let missing: Vec<_> = missing.cloned().collect();
                fields.0.extend(missing);
            }
        }
        let mut record = self.logger.create_log_record();
        fill(&mut record, *data.level(), data.target(), fields);
        self.logger.emit(record);
    }
}

#[expect(clippy::disallowed_methods, reason = "a log line is stamped where it is written")]
fn fill(record: &mut SdkLogRecord, level: Level, target: &'static str, fields: LogFields) {
    let (severity, name) = match level {
        Level::ERROR => (Severity::Error, "ERROR"),
        Level::WARN => (Severity::Warn, "WARN"),
        Level::INFO => (Severity::Info, "INFO"),
        _ => (Severity::Debug, "DEBUG"),
    };
    record.set_timestamp(SystemTime::now());
    record.set_severity_number(severity);
    record.set_severity_text(name);
    record.set_target(target);
    if let Some(run) = fields.id("run_id") {
        let session = fields.id("session_id").map(SessionId).map(session_span);
        let span = session.unwrap_or(opentelemetry::trace::SpanId::INVALID);
        record.set_trace_context(trace_id(RunId(run)), span, Some(TraceFlags::SAMPLED));
    }
    for (name, value) in fields.0 {
        match name {
            "message" => record.set_body(value),
            name => record.add_attribute(name, value),
        }
    }
}
