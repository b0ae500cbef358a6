//! Starts the agent: everything between fork and exec.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Pid, getpid, getppid};

#[cfg(target_os = "linux")]
use super::confine::{Unconfined, confine};
use super::protocol::{Order, StartFailure, StartStep};
use crate::process::system::{self, SpawnTarget};

/// Starts the agent as a direct child and waits until its program runs.
///
/// It is spawned into `target`. The child reports a failure through a pipe that the kernel closes on
/// exec: an empty pipe means success.
pub fn start(order: &Order, target: SpawnTarget<'_>) -> Result<Pid, StartFailure> {
    let failed = |error: &io::Error| StartFailure {
        step: StartStep::Fork,
        errno: error.raw_os_error().unwrap_or_default(),
    };
    let (mut read_end, write_end) = io::pipe().map_err(|error| failed(&error))?;
    let parent = getpid();
    let child = system::fork_into_target(target, || {
        let failure = become_agent(order, parent);
        let report = serde_json::to_vec(&failure).unwrap_or_default();
        // If the parent is gone, there is no reader.
        (&write_end).write_all(&report).ok();
        127
    })
    .map_err(|error| failed(&error))?;
    drop(write_end);
    let mut report = Vec::new();
    // A read error looks like an empty report; the child's exit shows the failure.
    read_end.read_to_end(&mut report).ok();
    if report.is_empty() {
        return Ok(child);
    }
    // The child exits; reaped here so that the sweep does not count it.
    nix::sys::wait::waitpid(child, None).ok();
    let unknown = StartFailure { step: StartStep::Program, errno: 0 };
    Err(serde_json::from_slice(&report).unwrap_or(unknown))
}

/// Runs in the child; returns only if something failed.
fn become_agent(order: &Order, parent: Pid) -> StartFailure {
    let failed = |step, errno: i32| StartFailure { step, errno };
    // Its own session: terminal signals reach the agent only through its keeper.
    nix::unistd::setsid().ok();
    if let Err(errno) = tie_to(parent) {
        return failed(StartStep::Fork, errno as i32);
    }
    let input = match crate::private::open_regular(&order.stdin) {
        Ok(input) => input,
        Err(error) => return failed(StartStep::Input, error.raw_os_error().unwrap_or_default()),
    };
    // If it cannot be unlinked, it is removed with its folder.
    std::fs::remove_file(&order.stdin).ok();
    if let Err(errno) = nix::unistd::dup2_stdin(input.as_fd()) {
        return failed(StartStep::Input, errno as i32);
    }
    if let Err(errno) = nix::unistd::chdir(&order.cwd) {
        return failed(StartStep::Folder, errno as i32);
    }
    set_mark(order.mark);
    if order.nice > 0 {
        system::lower_priority(order.nice);
    }
    if let Some(max) = order.max_tasks
        && let Err(errno) = setrlimit(Resource::RLIMIT_NPROC, max, max)
    {
        return failed(StartStep::Confinement, errno as i32);
    }
    #[cfg(target_os = "linux")]
    if let Some(confinement) = &order.confinement {
        // A build opens more files, and connects to no port.
        bound_what_users_share(!confinement.ports.is_empty());
    }
    system::close_others_on_exec();
    system::reset_signals();
    // Last, so that it does not restrict the steps above.
    match order.confinement.as_ref().map(confine) {
        None | Some(Ok(())) => {}
        Some(Err(Unconfined::NotInForce)) => return failed(StartStep::NotInForce, libc::EPERM),
        Some(Err(Unconfined::Refused(error))) => {
            return failed(StartStep::Confinement, error.raw_os_error().unwrap_or(libc::EPERM));
        }
    }
    let error = system::execute(&order.program, &arguments(order), &environment(&order.env));
    failed(StartStep::Program, error.raw_os_error().unwrap_or_default())
}

/// Makes the process die with its parent; checks that the parent did not exit before.
#[cfg(target_os = "linux")]
fn tie_to(parent: Pid) -> nix::Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    if getppid() == parent { Ok(()) } else { Err(nix::Error::ESRCH) }
}

#[cfg(not(target_os = "linux"))]
fn tie_to(parent: Pid) -> nix::Result<()> {
    if getppid() == parent { Ok(()) } else { Err(nix::Error::ESRCH) }
}

#[cfg(target_os = "linux")]
fn set_mark(mark: u64) {
    // If the limit is already lower, only the environment mark remains.
    setrlimit(Resource::RLIMIT_RTTIME, mark, mark).ok();
}

#[cfg(not(target_os = "linux"))]
fn set_mark(_mark: u64) {}

/// Queued signals and timers, and descriptors on their way between processes, which all processes of
/// a user share. No program of an agent needs as many. If the limit is already lower, it stays.
#[cfg(target_os = "linux")]
fn bound_what_users_share(is_agent: bool) {
    const TIMERS: u64 = 1024;
    // With the 253 of one message fewer than the usual limit of everybody else.
    const FILES: u64 = 768;
    setrlimit(Resource::RLIMIT_SIGPENDING, TIMERS, TIMERS).ok();
    if is_agent {
        setrlimit(Resource::RLIMIT_NOFILE, FILES, FILES).ok();
    }
}

/// Not supported here; the session's row says so.
#[cfg(not(target_os = "linux"))]
fn confine(_allowed: &crate::confinement::Confinement) -> Result<(), Unconfined> {
    Ok(())
}

/// Never there.
#[cfg(not(target_os = "linux"))]
enum Unconfined {
    #[expect(dead_code, reason = "only on Linux")]
    NotInForce,
    #[expect(dead_code, reason = "only on Linux")]
    Refused(io::Error),
}

fn arguments(order: &Order) -> Vec<CString> {
    std::iter::once(order.program.as_os_str())
        .chain(order.args.iter().map(OsString::as_os_str))
        .filter_map(|argument| CString::new(argument.as_bytes()).ok())
        .collect()
}

fn environment(env: &[(OsString, OsString)]) -> Vec<CString> {
    env.iter()
        .filter_map(|(name, value)| {
            let entry: Vec<u8> = [name.as_bytes(), b"=", value.as_bytes()].concat();
            CString::new(OsString::from_vec(entry).into_vec()).ok()
        })
        .collect()
}

/// Points the standard descriptors at `/dev/null`, so that a pipe closes with the agent and not
/// with this process.
pub fn detach_standard_streams() {
    let Ok(nothing) = nothing() else { return };
    // A descriptor that cannot be replaced stays; the drain after a session is bounded.
    nix::unistd::dup2_stdin(&nothing).ok();
    nix::unistd::dup2_stdout(&nothing).ok();
    nix::unistd::dup2_stderr(&nothing).ok();
}

/// Points standard input at `/dev/null`.
pub fn let_go_of_standard_input() {
    if let Ok(nothing) = nothing() {
        nix::unistd::dup2_stdin(&nothing).ok();
    }
}

fn nothing() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}

/// Sets the process name shown by `ps`.
#[cfg(target_os = "linux")]
pub fn set_name(name: &OsStr) {
    if let Ok(name) = CString::new(name.as_bytes()) {
        nix::sys::prctl::set_name(&name).ok();
    }
}

#[cfg(not(target_os = "linux"))]
pub fn set_name(_name: &OsStr) {}
