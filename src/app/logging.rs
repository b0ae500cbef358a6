//! Diagnostics by `tracing`: on standard error, and in a file if one is asked for. What users are
//! told comes from events, not from here.

use std::path::PathBuf;
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use super::error::CommandError;
use super::logfile::LogFile;
use super::plain_writer::PlainWriters;
use super::{Telemetry, lifecycle};
use crate::settings::{LogFormat, LogLevel};

/// What is logged, how, and where to.
#[derive(Debug, Clone)]
pub struct Logging {
    /// How much, on standard error.
    pub level: LogLevel,
    /// How it looks on standard error.
    pub format: LogFormat,
    /// A file beside standard error.
    pub file: Option<FileLogging>,
    pub lifecycle: Lifecycle,
}

/// A log file.
#[derive(Debug, Clone)]
pub struct FileLogging {
    pub path: PathBuf,
    pub level: LogLevel,
    pub format: LogFormat,
    /// Put aside beyond this.
    pub max_size: u64,
    /// How many older ones stay.
    pub keep: u32,
}

/// Whether the lines about sessions go to standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    /// Yes.
    Logged,
    /// A screen shows the same.
    Shown,
}

/// Starts logging. A second call in a process has no effect.
pub fn start(logging: &Logging, telemetry: &Telemetry) -> Result<(), CommandError> {
    let show_lifecycle = logging.lifecycle == Lifecycle::Logged;
    let stderr = shape(logging.format, std::io::stderr, Colours::IfTerminal)
        .with_filter(filter_fn(move |metadata: &Metadata<'_>| {
            show_lifecycle || metadata.target() != lifecycle::TARGET
        }))
        .with_filter(filter(logging.level));
    let mut layers = vec![boxed(stderr)];
    if let Some(file) = &logging.file {
        let writer = LogFile::open(&file.path, file.max_size, file.keep).map_err(
            CommandError::io(format!("cannot open the log file {}", file.path.display())),
        )?;
        let layer = shape(file.format, Mutex::new(writer), Colours::Never);
        layers.push(boxed(layer.with_filter(filter(file.level))));
    }
    layers.extend(telemetry.layer());
    // Only the first subscriber of a process can be installed.
    let _already: Result<(), _> = tracing_subscriber::registry().with(layers).try_init();
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colours {
    IfTerminal,
    Never,
}

fn shape<W>(
    format: LogFormat,
    writer: W,
    colours: Colours,
) -> Box<dyn Layer<Registry> + Send + Sync + 'static>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    use std::io::IsTerminal as _;
    let colours = colours == Colours::IfTerminal && std::io::stderr().is_terminal();
    plain_layer(format, writer, colours)
}

/// Lines in this format, through [`PlainWriters`].
pub(super) fn plain_layer<W>(
    format: LogFormat,
    writer: W,
    colours: bool,
) -> Box<dyn Layer<Registry> + Send + Sync + 'static>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let is_coloured = colours && format == LogFormat::Human;
    let writer = PlainWriters { inner: writer, is_coloured };
    match format {
        LogFormat::Human => {
            boxed(fmt::layer().with_writer(writer).with_target(false).with_ansi(colours))
        }
        LogFormat::Json => boxed(
            fmt::layer()
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(true)
                .with_writer(writer),
        ),
    }
}

fn boxed<S, L>(layer: L) -> Box<dyn Layer<S> + Send + Sync + 'static>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    L: Layer<S> + Send + Sync + 'static,
{
    Box::new(layer)
}

/// Our own lines at this level; those of libraries only when something is wrong, or when everything
/// is asked for.
fn filter(level: LogLevel) -> Targets {
    let ours = own_level(level);
    let others = if level == LogLevel::Trace { ours } else { ours.min(LevelFilter::WARN) };
    Targets::new()
        .with_default(others)
        .with_target(env!("CARGO_CRATE_NAME"), ours)
        .with_target(lifecycle::TARGET, ours)
}

const fn own_level(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
