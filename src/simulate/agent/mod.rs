//! A scripted agent that writes the Claude Code CLI's `stream-json`, or the stream of another kind,
//! and always follows its instructions; or that replays a recorded session.
//!
//! It takes the same arguments (unknown ones are ignored), reads its prompt from standard input,
//! distinguishes triage from deep analysis by the schema, and answers by simple fixed rules, or
//! with prepared answers for the demo's items: no model, no network, no cost, the same answer for
//! the same prompt. Its token and cost figures are estimates by the list prices of the requested
//! models.

mod dialect;
mod parcel;
mod prompt;
mod recorded;
mod script;
mod stream;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

pub use dialect::AgentDialect;

use crate::clock::Clock;
use parcel::{Script, ScriptedFailure};
use script::ScriptEnding;

#[derive(Debug, Clone, Default, clap::Args)]
pub struct SimulateAgentArgs {
    /// Imitate the CLI of this kind
    #[arg(long, value_enum, default_value_t)]
    pub kind: AgentDialect,
    /// Replay the recorded session in this file, whatever the prompt is
    #[arg(long, value_name = "FILE")]
    pub play: Option<PathBuf>,
    /// With --play: exit with this code instead of the one in the recording's notes (.meta.json)
    #[arg(long, value_name = "CODE")]
    pub exit: Option<u8>,
    /// Duration of a session in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub pace: u64,
    /// Give this item no verdict in triage and fail its analysis; may be repeated
    #[arg(long, value_name = "ID")]
    pub fail_item: Vec<i64>,
    /// Fraction of analyses that fail, between 0 and 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub fail_rate: f64,
    /// Act like a provider that answers every analysis with a server error
    #[arg(long)]
    pub provider_down: bool,
    /// Act like a provider whose usage limit resets in this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub provider_limit: Option<i64>,
    /// Give the demo's work items their prepared findings
    #[arg(long)]
    pub demo: bool,
    /// With --demo: until this time (seconds since 1970), the first attempts at two items fail
    #[arg(long, value_name = "TIME")]
    pub mishaps_until: Option<i64>,
    /// Misbehave in a named way, for tests of the supervisor
    #[arg(long, value_name = "NAME")]
    pub misbehave: Option<String>,
    /// Arguments of the simulated agent
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub rest: Vec<OsString>,
}

/// The parsed arguments of the simulated agent.
#[derive(Debug, Clone, Default, PartialEq)]
struct AgentInvocation {
    model: String,
    session: String,
    schema: Option<Value>,
    partial: bool,
    version: bool,
    sandbox: bool,
    max_output_files: usize,
    usage_file: Option<PathBuf>,
    /// Name and folder of each of several code bases.
    code_bases: Vec<(String, PathBuf)>,
}

impl AgentInvocation {
    fn from_args(args: &[OsString]) -> Self {
        let mut invocation =
            Self { model: "sonnet".to_owned(), max_output_files: 3, ..Self::default() };
        invocation.sandbox = args.first().is_some_and(|word| word == "sandbox");
        let mut words = args.iter().map(|word| word.to_string_lossy());
        while let Some(word) = words.next() {
            match word.as_ref() {
                "--include-partial-messages" => invocation.partial = true,
                "--version" | "-v" => invocation.version = true,
                // Codex passes a file, Copilot expects one.
                "--output-schema" => {
                    let file = std::fs::read_to_string(words.next().unwrap_or_default().as_ref());
                    invocation.schema = file.ok().and_then(|text| serde_json::from_str(&text).ok());
                }
                "--usage-output-file" => {
                    invocation.usage_file = words.next().map(|file| PathBuf::from(file.as_ref()));
                }
                "--system-prompt-file" => {
                    let file = std::fs::read_to_string(words.next().unwrap_or_default().as_ref());
                    invocation.code_bases = prompt::code_bases_in(&file.unwrap_or_default());
                }
                "--model" => invocation.model = words.next().unwrap_or_default().into_owned(),
                "--session-id" => {
                    invocation.session = words.next().unwrap_or_default().into_owned();
                }
                "--json-schema" => {
                    let text = words.next().unwrap_or_default();
                    invocation.schema = serde_json::from_str(&text).ok();
                }
                _ => {}
            }
        }
        invocation
    }
}

/// Plays one session.
///
/// `--misbehave` does not come here: the caller passes the name to the misbehaving agents
/// (`crate::simulate::hostile::run(name)`).
pub fn run(args: &SimulateAgentArgs) -> ExitCode {
    let invocation = AgentInvocation::from_args(&args.rest);
    let mut out = std::io::stdout().lock();
    if invocation.version {
        let written = writeln!(out, "{} (heartbeat simulate agent)", stream::VERSION);
        return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if invocation.sandbox {
        // A probe of Codex's sandbox, which always works here.
        return if writeln!(out, "sandboxed").is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    let mut prompt = String::new();
    if std::io::stdin().lock().read_to_string(&mut prompt).is_err() || prompt.trim().is_empty() {
        let word = "Error: Input must be provided through stdin when using --print\n";
        // Standard error may be closed; the exit code says the same.
        std::io::stderr().write_all(word.as_bytes()).ok();
        return ExitCode::FAILURE;
    }
    if let Some(file) = &args.play {
        drop(out);
        return recorded::play(file, args.exit, invocation.usage_file.as_deref());
    }
    let session = session(args, &prompt);
    let played = play(&mut out, &session.lines, Duration::from_millis(args.pace));
    if session.hangs {
        wait_to_be_stopped();
    }
    match played {
        Ok(()) if session.succeeded => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// A hung session: alive, silent, idle.
fn wait_to_be_stopped() -> ! {
    loop {
        std::thread::park();
    }
}

/// The output of a session, and how it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub lines: Vec<Value>,
    /// Whether the exit code is 0.
    pub succeeded: bool,
    /// Stays alive after its last line and writes nothing more.
    pub hangs: bool,
}

/// The whole session for these arguments and this prompt. Reads the files that the prompt names,
/// below the current folder.
pub fn session(args: &SimulateAgentArgs, prompt: &str) -> Session {
    let mut invocation = AgentInvocation::from_args(&args.rest);
    let mut prompt = prompt;
    if args.kind == AgentDialect::Copilot {
        invocation.schema = prompt::schema_in(prompt);
        // The instructions before the question contain example items.
        prompt = prompt.split_once("\n# Question\n").map_or(prompt, |(_, question)| question);
    }
    let script = if args.demo { Script::load() } else { None };
    let ending = ending(args, &invocation, script.as_ref(), prompt);
    let succeeded =
        matches!(ending, ScriptEnding::Good | ScriptEnding::Without { .. } | ScriptEnding::Prose);
    let hangs = ending == ScriptEnding::Hang;
    let lines = script::session(&invocation, prompt, &ending, script.as_ref());
    if let Some(file) = &invocation.usage_file {
        // If the file cannot be written, the session is charged at its worst case, like a real one.
        dialect::leave_usage(file, &lines).ok();
    }
    dialect::convert_to(args.kind, Session { lines, succeeded, hangs })
}

fn ending(
    args: &SimulateAgentArgs,
    invocation: &AgentInvocation,
    script: Option<&Script>,
    prompt: &str,
) -> ScriptEnding {
    if let Some(seconds) = args.provider_limit {
        return ScriptEnding::Limit { resets_at: Clock::system().now().as_second() + seconds };
    }
    let parsed = prompt::ParsedPrompt::read(prompt);
    let failing = |id: i64| args.fail_item.contains(&id);
    match parsed.deep_item() {
        None => {
            let silent = parsed.items.iter().map(|item| item.id).filter(|id| failing(*id));
            match silent.collect::<Vec<_>>() {
                ids if ids.is_empty() => ScriptEnding::Good,
                ids => ScriptEnding::Without { ids },
            }
        }
        Some(_) if args.provider_down => ScriptEnding::Failure,
        Some(item) if failing(item.id) || chance(&invocation.session) < args.fail_rate => {
            ScriptEnding::Prose
        }
        Some(item) => match script.and_then(|script| script.scripted_failure(&item.title)) {
            Some(scripted_failure) if is_early(args) => match scripted_failure {
                ScriptedFailure::AnswersInProse => ScriptEnding::Prose,
                ScriptedFailure::Hangs => ScriptEnding::Hang,
            },
            _ => ScriptEnding::Good,
        },
    }
}

fn is_early(args: &SimulateAgentArgs) -> bool {
    args.mishaps_until.is_some_and(|until| Clock::system().now().as_second() < until)
}

/// A number in `[0, 1)` that is the same for the same text.
fn chance(text: &str) -> f64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    f64::from(u32::try_from(hash >> 32).unwrap_or_default()) / (f64::from(u32::MAX) + 1.0)
}

/// Writes the first two lines at once, like the real agent, and the rest spread over `pace`.
fn play(out: &mut impl Write, lines: &[Value], pace: Duration) -> std::io::Result<()> {
    const AT_ONCE: usize = 2;
    let steps = u32::try_from(lines.len().saturating_sub(AT_ONCE)).unwrap_or(u32::MAX).max(1);
    for (index, line) in lines.iter().enumerate() {
        if index >= AT_ONCE && !pace.is_zero() {
            std::thread::sleep(pace / steps);
        }
        writeln!(out, "{line}")?;
        out.flush()?;
    }
    Ok(())
}
