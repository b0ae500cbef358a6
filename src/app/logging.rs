//! Diagnostics by `tracing` on standard error. What users are told comes from events, not from
//! here.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt;

use crate::config::{LogFormat, LogLevel};

/// Starts logging. A second call has no effect.
pub fn start(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let builder = fmt().with_max_level(level).with_writer(std::io::stderr);
    // Only the first subscriber of a process can be installed.
    let _already: Result<(), _> = match format {
        LogFormat::Human => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
