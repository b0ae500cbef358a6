//! Diagnostics with `tracing`: on standard error, and in a file if configured. Users read events
//! instead.

use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use super::error::CommandError;
use super::logfile::LogFile;
use super::plain_writer::PlainWriters;
use super::telemetry::LogLayer;
use super::{StartOptions, Telemetry, lifecycle, state_folder};
use crate::clock::Clock;
use crate::report::moment::date_time;
use crate::report::terminal::Progress;
use crate::settings::{Config, LogFormat, LogLevel, LogSettings};
use crate::store::prepare_folder;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A command that a person waits for.
    Command,
    /// Writes nothing, not even a log file, and sends no telemetry.
    DryRun,
    Service,
}

/// Starts logging as configured. A second call in a process has no effect.
pub fn start(
    config: &Config,
    options: &StartOptions,
    purpose: Purpose,
) -> Result<Telemetry, CommandError> {
    let telemetry = match purpose {
        Purpose::DryRun => Telemetry::default(),
        _ => Telemetry::start(&options.environment),
    };
    let mut layers = vec![standard_error(&config.log, options, purpose)];
    if purpose != Purpose::DryRun && !config.log.file.as_os_str().is_empty() {
        // The log may be in the state folder, which must then be created as ours.
        prepare_folder(&state_folder(config, &options.environment)?)?;
        layers.push(log_file(&config.log, options)?);
    }
    layers.extend(telemetry.layer());
    // Only the first subscriber of a process can be installed.
    let _already: Result<(), _> = tracing_subscriber::registry().with(layers).try_init();
    telemetry.log_fault(&options.environment);
    Ok(telemetry)
}

/// Without a level on the command line, a command logs only warnings.
fn standard_error(log: &LogSettings, options: &StartOptions, purpose: Purpose) -> LogLayer {
    let is_service = purpose == Purpose::Service;
    let level = options.log_level.unwrap_or(if is_service { log.level } else { LogLevel::Warn });
    let format = options.log_format.unwrap_or(match is_service {
        true => log.format,
        false => LogFormat::Human,
    });
    // A single run shows its progress instead; an explicit level requests the log as well.
    let wants_lifecycle = is_service || options.log_level.is_some();
    let shows_lifecycle = wants_lifecycle && options.progress != Progress::Live;
    let lines = shape(format, std::io::stderr, Colours::IfTerminal)
        .with_filter(filter_fn(move |metadata: &Metadata<'_>| {
            shows_lifecycle || metadata.target() != lifecycle::TARGET
        }))
        .with_filter(filter(level));
    boxed(lines)
}

fn log_file(log: &LogSettings, options: &StartOptions) -> Result<LogLayer, CommandError> {
    let writer = LogFile::open(&log.file, log.max_size, log.keep)
        .map_err(CommandError::io(format!("cannot open the log file {}", log.file.display())))?;
    let format = options.log_format.unwrap_or(log.format);
    let lines = shape(format, Mutex::new(writer), Colours::Never);
    Ok(boxed(lines.with_filter(filter(options.log_level.unwrap_or(log.level)))))
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

/// Writes lines in this format through [`PlainWriters`].
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
        LogFormat::Human => boxed(
            fmt::layer()
                .with_timer(LocalTime)
                .with_writer(writer)
                .with_target(false)
                .with_ansi(colours),
        ),
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

/// `2026-11-16 09:15:53 CET`, like all other output for people. JSON stays in UTC.
struct LocalTime;

impl FormatTime for LocalTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        writer.write_str(&date_time(Clock::system().now()))
    }
}

fn boxed<S, L>(layer: L) -> Box<dyn Layer<S> + Send + Sync + 'static>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    L: Layer<S> + Send + Sync + 'static,
{
    Box::new(layer)
}

/// Our own lines at this level; those of libraries only for warnings, or at the most verbose level.
fn filter(level: LogLevel) -> Targets {
    let ours = own_level(level);
    let others = if level == LogLevel::Trace { ours } else { ours.min(LevelFilter::WARN) };
    Targets::new()
        .with_default(others)
        .with_target(env!("CARGO_CRATE_NAME"), ours)
        .with_target(lifecycle::TARGET, ours)
        // The caller reports the errors of its requests.
        .with_target("temporalio_client", LevelFilter::OFF)
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
