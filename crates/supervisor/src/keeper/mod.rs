//! The keeper: this binary started again as a small process around one agent.
//!
//! It has one thread and no runtime. It is the child subreaper of everything the agent starts,
//! enforces the deadline and a lease, and ends the whole tree when the agent exits, on request, at
//! the deadline, or when the socket to heartbeat closes for any reason.
//!
//! At first it only prepares and reports its identity. Heartbeat then commits the row and sends
//! `Go`. If the socket closes before that, the keeper exits and no agent has run.

#[cfg(target_os = "linux")]
mod calls;
mod channel;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod filter;
mod group;
pub mod launch;
mod life;
#[cfg_attr(not(target_os = "linux"), path = "namespace_none.rs")]
mod namespace;
pub mod protocol;
#[cfg_attr(not(target_os = "linux"), path = "signals_kqueue.rs")]
mod signals;
mod start;
mod sweep;
#[cfg(target_os = "linux")]
mod verify;
#[cfg(target_os = "linux")]
mod view;
#[cfg(any(test, not(target_os = "linux")))]
mod tracked;
#[cfg(target_os = "linux")]
mod watcher;

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use self::channel::Channel;
use self::group::Group;
use self::life::{KeeperLoop, ProcessTree};
use self::namespace::Namespace;
use self::protocol::{FromKeeper, Order, ToKeeper};
use self::signals::Signals;
use crate::containment::Tier;
use crate::in_force::Walls;
use crate::process::{self, system};
use crate::slots::Slots;

pub use self::group::{kill as kill_group, remove_empty as remove_empty_groups};

/// The hidden first argument.
pub const ARGUMENT: &str = "__keeper";

/// How long a keeper waits for `Go`.
const GO_WITHIN: Duration = Duration::from_secs(60);

/// Runs as a keeper if this process was started as one, and returns its exit code.
///
/// Call it first in `main`, before any thread exists.
pub fn main_if_keeper() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != ARGUMENT {
        return None;
    }
    let mut text = || args.next().and_then(|arg| arg.into_string().ok()).unwrap_or_default();
    let (session, containment) = (text(), text());
    // The owner, for readers of the command line.
    let (_, _) = (text(), text());
    let (folder, limit) = (text(), text());
    let slots = limit.parse().ok().map(|limit| Slots::new(folder.into(), limit));
    Some(run(&session, &containment, slots.as_ref()).unwrap_or(ExitCode::FAILURE))
}

fn run(session: &str, containment: &str, slots: Option<&Slots>) -> Option<ExitCode> {
    let mut control = Channel::new(system::take_standard_input().ok()?).ok()?;
    // Children would inherit the copy on descriptor 0, which would keep the socket open after our
    // exit.
    start::let_go_of_standard_input();
    start::set_name(OsStr::new("heartbeat-keep"));
    nix::unistd::setsid().ok();
    let signals = Signals::block().ok()?;
    become_subreaper()?;
    // Held until this process exits.
    let _slot = match slots.map(Slots::take).transpose() {
        Ok(slot) => match slot.transpose() {
            Ok(slot) => slot,
            Err(in_use) => {
                control.send(&FromKeeper::NoSlot { in_use });
                return Some(ExitCode::SUCCESS);
            }
        },
        Err(error) => {
            control.send(&FromKeeper::SlotsFailed { error: error.to_string() });
            return Some(ExitCode::FAILURE);
        }
    };
    let strong = containment == launch::STRONGEST;
    let group = strong.then(|| Group::create(session)).flatten();
    let namespace = strong.then(|| create_namespace(group.as_ref(), &control)).flatten();
    let watcher = watch_over_us(&control);
    // After the namespace: its id maps can be written only while the process is inspectable.
    crate::process::protect_from_inspection();
    let tier = Tier::from_parts(namespace.is_some(), group.is_some());
    let mut walls = namespace.as_ref().map_or_else(Walls::default, Namespace::walls);
    walls.tasks |= group.as_ref().is_some_and(Group::limits_tasks);
    walls.memory |= group.as_ref().is_some_and(Group::limits_memory);
    control.send(&FromKeeper::Ready {
        keeper: process::identity(std::process::id())?,
        tier,
        walls,
        cgroup: group.as_ref().map(|group| group.path().to_owned()),
        watcher: watcher.and_then(|pid| u32::try_from(pid.as_raw()).ok()),
    });
    let tree = namespace.map_or(ProcessTree::Direct(None), ProcessTree::Namespace);
    let order = wait_for_go(&mut control, &signals);
    let life = KeeperLoop::new(control, signals, tree, group, watcher);
    match order {
        Some(order) => Some(life.run(&order)),
        None => Some(life.leave()),
    }
}

fn create_namespace(group: Option<&Group>, control: &Channel) -> Option<Namespace> {
    Namespace::create(group.map(Group::folder), control)
}

#[cfg(target_os = "linux")]
fn watch_over_us(control: &Channel) -> Option<Pid> {
    watcher::start(control)
}

#[cfg(not(target_os = "linux"))]
fn watch_over_us(_control: &Channel) -> Option<Pid> {
    None
}

#[cfg(target_os = "linux")]
fn become_subreaper() -> Option<()> {
    nix::sys::prctl::set_child_subreaper(true).ok()
}

#[cfg(not(target_os = "linux"))]
fn become_subreaper() -> Option<()> {
    Some(())
}

/// Waits for `Go`; `None` if it does not come.
fn wait_for_go(control: &mut Channel, signals: &Signals) -> Option<Order> {
    let until = Instant::now() + GO_WITHIN;
    loop {
        let left = until.checked_duration_since(Instant::now())?;
        let mut fds = [
            PollFd::new(control.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)).ok();
        // One at a time: messages after `Go` belong to the main loop.
        while let Some(message) = control.receive_one::<ToKeeper>() {
            match message {
                ToKeeper::Go(order) => return Some(*order),
                ToKeeper::Stop | ToKeeper::Terminate | ToKeeper::Kill => return None,
                ToKeeper::Noted | ToKeeper::Beat(_) => {}
            }
        }
        if !control.is_open() || signals.take().end_requests > 0 {
            return None;
        }
    }
}
