//! Misbehaving agents to test the supervisor (`heartbeat simulate agent --misbehave`).
//!
//! Each opens a *canary* (the write end of a named pipe) that all of its descendants inherit and
//! none closes: while one of them lives, the read end does not reach its end. Each process also
//! writes one byte when it starts. So an observer without knowledge of process ids can tell how
//! many there were and whether any is left.
//!
//! They fork, so they must run before the program has a second thread: call [`main_if_hostile`]
//! next to the keeper's.

mod attacks;
pub mod calls;
pub mod oracle;
pub mod output;
mod shapes;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::signal::{SigHandler, Signal, kill};
use nix::unistd::{getppid, pause};

pub use self::attacks::Attack;
use self::shapes::{PipeCanary, TreeShape};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Misbehaviour {
    /// Writes no output.
    HangBeforeInit,
    /// Sends its first line, then sleeps.
    SilentSleeper,
    /// Sends its first line; a tool computes silently.
    BusyQuiet,
    /// Sends nothing but keep-alive pings.
    PingOnly,
    /// Reports a running tool that sleeps.
    StuckTool,
    /// Writes lines without end.
    OutputFlood,
    /// Sends its result and does not exit.
    ResultThenHang,
    /// Ignores every signal that can be ignored.
    IgnoresTerm,
    /// Starts children in their own sessions.
    OwnSessions,
    /// Starts double-forked daemons.
    Daemons,
    /// Daemons without environment that hide from inspection.
    ScrubbedDaemons,
    /// Leaves stopped children.
    StoppedChildren,
    /// A child that is a subreaper itself.
    NestedSubreaper,
    /// A child that restarts its killed children.
    Respawner,
    /// Children that live two milliseconds and leave a successor in another session.
    Hoppers,
    /// Two hundred children.
    ManyChildren,
    /// Sends its result and exits, leaving 31 processes.
    ExitsLeavingChildren,
    /// Kills its parent.
    KillsKeeper,
    /// Stops its parent.
    StopsKeeper,
    /// Exits at once.
    DiesAtOnce,
    /// Writes output that is not JSON.
    BadJson,
    /// Writes bytes that are not text.
    InvalidUtf8,
    /// Writes an endless line.
    HugeLine,
    /// Closes its output and keeps running.
    ClosesOutput,
    /// Forks and exits with 0 at once.
    ForksAndExits,
    /// Starts search processes in their own sessions, sends its result and leaves them running.
    Searchers,
    /// Uses more memory than it should.
    MemoryHog,
    /// A random mix of the others, chosen by the seed.
    Mix,
    /// Tries to access what it must not, and reports each result.
    Attacks,
    /// Well-behaved: first line, some work, a result.
    WellBehaved,
    /// Sleeps; scrubbed-daemons execute this.
    Sleeper,
}

#[derive(Debug, Clone, Args)]
pub struct HostileArgs {
    /// Kind of misbehaviour
    #[arg(long)]
    pub misbehave: Misbehaviour,
    /// A named pipe to hold open
    #[arg(long)]
    pub canary: Option<PathBuf>,
    /// Seed that selects the process shapes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of processes, where it applies
    #[arg(long, default_value_t = 30)]
    pub count: u32,
    /// Attack to try, as `kind:target`
    #[arg(long)]
    pub attack: Vec<Attack>,
}

#[derive(Debug, Parser)]
struct HostileCommand {
    #[command(flatten)]
    args: HostileArgs,
}

/// Runs as the misbehaving agent if this process was started with `simulate agent --misbehave …`;
/// returns its exit code.
pub fn main_if_hostile() -> Option<ExitCode> {
    let args: Vec<_> = std::env::args_os().collect();
    let (first, second) = (args.get(1)?, args.get(2)?);
    let is_hostile = args.iter().any(|arg| arg == "--misbehave");
    if first != "simulate" || second != "agent" || !is_hostile {
        return None;
    }
    let ours = std::iter::once(args[0].clone()).chain(args[3..].iter().cloned());
    match HostileCommand::try_parse_from(ours) {
        Ok(command) => Some(run(&command.args)),
        Err(error) => {
            error.print().ok();
            Some(ExitCode::from(2))
        }
    }
}

/// The process must have one thread.
pub fn run(args: &HostileArgs) -> ExitCode {
    let canary = PipeCanary::new(args.canary.as_deref().and_then(hold));
    canary.record_start();
    match args.misbehave {
        Misbehaviour::Sleeper => {
            shapes::hide();
            sleep_for_ever()
        }
        Misbehaviour::DiesAtOnce => ExitCode::from(3),
        Misbehaviour::ForksAndExits => {
            TreeShape::Daemon.grow(&canary);
            ExitCode::SUCCESS
        }
        Misbehaviour::HangBeforeInit => sleep_for_ever(),
        Misbehaviour::HugeLine => output::endless_line(),
        Misbehaviour::OutputFlood => output::flood(),
        Misbehaviour::BadJson => output::say_raw(b"this is not JSON\n{\"type\":\n[1,2\n"),
        Misbehaviour::InvalidUtf8 => output::say_raw(b"\xff\xfe\x80{\"type\":\"\xc3\x28\"}\n"),
        other => talk(other, args, &canary),
    }
}

fn talk(misbehaviour: Misbehaviour, args: &HostileArgs, canary: &PipeCanary) -> ExitCode {
    output::hello();
    let grow = |shape: TreeShape, count: u32| {
        for _ in 0..count {
            shape.grow(canary);
        }
    };
    match misbehaviour {
        Misbehaviour::BusyQuiet => {
            TreeShape::Busy.grow(canary);
        }
        Misbehaviour::PingOnly => output::ping_for_ever(Duration::from_millis(50)),
        Misbehaviour::StuckTool => {
            TreeShape::OwnSession.grow(canary);
            output::tool_started();
            output::tool_progress_for_ever(Duration::from_millis(50));
        }
        Misbehaviour::IgnoresTerm => {
            ignore_signals();
            grow(TreeShape::TermIgnoring, args.count);
        }
        Misbehaviour::OwnSessions => grow(TreeShape::OwnSession, args.count),
        Misbehaviour::Daemons => grow(TreeShape::Daemon, args.count),
        Misbehaviour::ScrubbedDaemons => grow(TreeShape::ScrubbedDaemon, args.count.min(8)),
        Misbehaviour::StoppedChildren => grow(TreeShape::Stopped, args.count),
        Misbehaviour::NestedSubreaper => grow(TreeShape::NestedSubreaper, args.count.min(4)),
        Misbehaviour::Respawner => grow(TreeShape::Respawner, args.count.min(3)),
        Misbehaviour::Hoppers => grow(TreeShape::Hopper, args.count.min(4)),
        Misbehaviour::ManyChildren => grow(TreeShape::Plain, args.count.max(200)),
        Misbehaviour::Mix => shapes::mix(args.seed, args.count, canary),
        Misbehaviour::KillsKeeper | Misbehaviour::StopsKeeper => {
            shapes::mix(args.seed, args.count, canary);
            attack_parent(misbehaviour);
        }
        Misbehaviour::ExitsLeavingChildren
        | Misbehaviour::Searchers
        | Misbehaviour::Attacks
        | Misbehaviour::WellBehaved => return finish(misbehaviour, args, canary),
        Misbehaviour::ResultThenHang => output::result(),
        Misbehaviour::MemoryHog => shapes::hog(256 << 20),
        Misbehaviour::ClosesOutput => output::close_output(),
        _ => {}
    }
    if misbehaviour != Misbehaviour::SilentSleeper {
        output::content();
    }
    sleep_for_ever()
}

/// Misbehaviours that end on their own.
fn finish(misbehaviour: Misbehaviour, args: &HostileArgs, canary: &PipeCanary) -> ExitCode {
    match misbehaviour {
        Misbehaviour::ExitsLeavingChildren => {
            shapes::mix(args.seed, 31, canary);
            output::result();
        }
        Misbehaviour::Searchers => {
            for _ in 0..args.count {
                TreeShape::Searcher.grow(canary);
            }
            output::content();
            std::thread::sleep(Duration::from_millis(300));
            output::result();
        }
        Misbehaviour::Attacks => {
            output::content();
            output::result_with(&attacks::report(&args.attack, canary));
        }
        _ => {
            output::content();
            output::result();
        }
    }
    ExitCode::SUCCESS
}

/// Opens the canary so that children and executed programs inherit it.
fn hold(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let file =
        File::options().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path).ok()?;
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).ok()?;
    debug_assert!(file.as_raw_fd() > 2);
    Some(file)
}

fn ignore_signals() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        crate::process::system::set_handler(signal, SigHandler::SigIgn);
    }
}

fn attack_parent(misbehaviour: Misbehaviour) {
    let signal = match misbehaviour {
        Misbehaviour::KillsKeeper => Signal::SIGKILL,
        _ => Signal::SIGSTOP,
    };
    output::content();
    // In its own PID namespace the parent is the init process, which the kernel protects.
    kill(getppid(), signal).ok();
}

fn sleep_for_ever() -> ! {
    loop {
        pause();
    }
}
