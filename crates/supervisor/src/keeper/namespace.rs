//! A PID namespace around the agent, where this machine allows one unprivileged or as root.
//!
//! Its init only starts the agent, reaps dead processes and reports. When it exits, the kernel
//! kills everything in the namespace, and waiting for it returns only when that is done. It exits
//! with its keeper: by the parent-death signal and, if that is lost, when its socket closes.
//! Processes inside can neither see nor signal the keeper.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getgid, getuid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::channel::Channel;
use super::group::task_cap;
use super::life::{ending_of, signal_agent, wait_at_rest};
use super::protocol::{FromKeeper, Order, StartFailure, StartStep, ToKeeper};
use super::signals::Signals;
use super::start;
use super::view;
use super::watcher::is_hung_up;
use crate::confinement::Confinement;
use crate::in_force::Walls;
use crate::process;
use crate::process::system::{self, SpawnTarget};

/// Time limit for the init to start.
const INIT_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for the keeper to note the agent's pid.
const NOTED_WITHIN: Duration = Duration::from_secs(1);

/// The keeper's handle on the namespace.
#[derive(Debug)]
pub struct Namespace {
    init: Pid,
    channel: Channel,
    walls: Walls,
    /// Keeps the mounts of the namespace alive, so that tearing them down (slow in the kernel)
    /// happens after the tree is certified empty.
    _mounts: Option<File>,
}

/// The init is up, with what it could set up.
#[derive(Debug, Serialize, Deserialize)]
struct Up(Walls);

impl Namespace {
    /// Creates one, in `group` if given; `None` if the machine does not allow it.
    ///
    /// It ends when `control`, the socket to heartbeat, closes, also while its keeper is stopped.
    pub fn create(group: Option<&File>, control: &Channel) -> Option<Self> {
        let root_first = if getuid().is_root() { &[false, true][..] } else { &[true][..] };
        root_first.iter().find_map(|new_users| {
            let target = SpawnTarget { new_processes: true, new_users: *new_users, group };
            Self::attempt(target, control)
        })
    }

    fn attempt(target: SpawnTarget<'_>, control: &Channel) -> Option<Self> {
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC).ok()?;
        let (users, groups) = (getuid().as_raw(), getgid().as_raw());
        let init = system::fork_into_target(target, || {
            let Ok(ours) = nix::unistd::dup(&theirs) else { return 1 };
            let Ok(lifeline) = nix::unistd::dup(control) else { return 1 };
            close_all_but(&[&ours, &lifeline]);
            let Ok(channel) = Channel::new(ours) else { return 1 };
            if target.new_users && !map_users(users, groups) {
                return 1;
            }
            if target.new_users {
                bound_watchers();
            }
            let Some(mut walls) = prepare() else { return 1 };
            // The kernel counts tasks per user of a user namespace, but not for root.
            walls.tasks = target.new_users && users != 0;
            Init { channel, lifeline, walls }.run()
        })
        .ok()?;
        drop(theirs);
        let channel = Channel::new(ours).ok()?;
        let mut namespace = Self { init, channel, walls: Walls::default(), _mounts: None };
        if let Some(Up(walls)) = namespace.receive::<Up>(INIT_WITHIN) {
            namespace.walls = walls;
            namespace._mounts = File::open(format!("/proc/{init}/ns/mnt")).ok();
            return Some(namespace);
        }
        kill(init, Signal::SIGKILL).ok();
        waitpid(init, None).ok();
        None
    }

    /// What it could set up.
    pub fn walls(&self) -> Walls {
        self.walls
    }

    fn receive<M: DeserializeOwned>(&mut self, within: Duration) -> Option<M> {
        receive(&mut self.channel, within)
    }

    /// Starts the agent in it; returns its pid as seen by the keeper.
    pub fn start(&mut self, order: &Order) -> Result<u32, StartFailure> {
        self.channel.send(&ToKeeper::Go(Box::new(order.clone())));
        let lost = StartFailure { step: StartStep::Fork, errno: libc::ESRCH };
        match self.receive::<FromKeeper>(Duration::from_secs(60)) {
            Some(FromKeeper::Started { pid }) => {
                let outer = self.outer_pid(pid);
                self.channel.send(&ToKeeper::Noted);
                Ok(outer.unwrap_or(0))
            }
            Some(FromKeeper::NotStarted(failure)) => Err(failure),
            _ => Err(lost),
        }
    }

    /// The agent's outer pid, from its inner pid.
    fn outer_pid(&self, inner: u32) -> Option<u32> {
        let init = u32::try_from(self.init.as_raw()).ok()?;
        process::children(init)?.into_iter().find(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            line.and_then(|line| line.split_ascii_whitespace().last()?.parse::<u32>().ok())
                == Some(inner)
        })
    }

    /// Makes the init signal the agent.
    pub fn signal(&mut self, signal: Signal) {
        let message = match signal {
            Signal::SIGTERM => ToKeeper::Terminate,
            _ => ToKeeper::Stop,
        };
        self.channel.send(&message);
    }

    /// The agent's end, or the init's, if reported.
    pub fn collect(&mut self) -> Option<super::protocol::Exit> {
        self.channel.receive::<FromKeeper>().into_iter().find_map(|message| match message {
            FromKeeper::Exited(ending) => Some(ending),
            _ => None,
        })
    }

    /// Whether the init has exited, and with it everything in the namespace.
    pub fn is_gone(&self) -> bool {
        !self.channel.is_open()
    }

    /// Live processes in it, without the init.
    pub fn population(&self) -> u32 {
        let init = u32::try_from(self.init.as_raw()).unwrap_or_default();
        let alive = process::descendants(init).iter().filter(|stat| !stat.is_dead()).count();
        u32::try_from(alive).unwrap_or(u32::MAX)
    }

    /// The socket to the init, to poll.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }
}

/// The fork copied the keeper's ends of its sockets. They are closed here, or the keeper's end
/// would go unnoticed.
pub(super) fn close_all_but(keep: &[&OwnedFd]) {
    for fd in 3..256 {
        if keep.iter().all(|kept| kept.as_raw_fd() != fd) {
            nix::unistd::close(fd).ok();
        }
    }
}

fn map_users(user: u32, group: u32) -> bool {
    fs::write("/proc/self/setgroups", "deny").is_ok()
        && fs::write("/proc/self/uid_map", format!("{user} {user} 1")).is_ok()
        && fs::write("/proc/self/gid_map", format!("{group} {group} 1")).is_ok()
}

/// Watchers of folders, of which each user of the machine has a fixed number: a session gets a part.
fn bound_watchers() {
    const WATCHERS: &str = "16";
    fs::write("/proc/sys/user/max_inotify_instances", WATCHERS).ok();
}

/// Mounts the namespace's `/proc`, and ties the init to the keeper.
fn prepare() -> Option<Walls> {
    // Message queues and shared memory of the session end with it. The filter closes them too.
    let ipc = unshare(CloneFlags::CLONE_NEWIPC).is_ok();
    unshare(CloneFlags::CLONE_NEWNS).ok()?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).ok()?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    // Refused where parts of /proc are masked (some containers): the agent then sees the outer one,
    // which does not weaken containment.
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>).ok();
    // Last, since a change of credentials clears it.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).ok()?;
    Some(Walls { mounts: view::is_possible(), ipc, ..Walls::default() })
}

/// The next message, if it comes in time.
fn receive<M: DeserializeOwned>(channel: &mut Channel, within: Duration) -> Option<M> {
    let until = Instant::now() + within;
    while channel.is_open() && Instant::now() < until {
        wait_readable(channel, until.saturating_duration_since(Instant::now()));
        if let Some(message) = channel.receive_one() {
            return Some(message);
        }
    }
    None
}

fn wait_readable(channel: &Channel, within: Duration) {
    let mut fds = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(within).unwrap_or(PollTimeout::MAX);
    // On an error the caller only checks again.
    poll(&mut fds, timeout).ok();
}

/// The init of the namespace.
struct Init {
    channel: Channel,
    /// Our copy of the keeper's socket to heartbeat.
    lifeline: OwnedFd,
    walls: Walls,
}

impl Init {
    fn run(mut self) -> i32 {
        start::set_name(OsStr::new("heartbeat-init"));
        let Ok(signals) = Signals::block() else { return 1 };
        self.channel.send(&Up(self.walls));
        let mut leader = None;
        loop {
            let mut fds = [
                PollFd::new(self.channel.as_fd(), PollFlags::POLLIN),
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.lifeline.as_fd(), PollFlags::empty()),
            ];
            wait_at_rest(&mut fds, Duration::MAX);
            while let Some(message) = self.channel.receive_one::<ToKeeper>() {
                match message {
                    ToKeeper::Go(order) => leader = self.start(&order),
                    ToKeeper::Stop => signal_agent(leader, Signal::SIGINT),
                    ToKeeper::Terminate => signal_agent(leader, Signal::SIGTERM),
                    ToKeeper::Noted | ToKeeper::Beat(_) | ToKeeper::Kill => {}
                }
            }
            if !self.channel.is_open() || is_hung_up(&self.lifeline, PollTimeout::ZERO) {
                return 0;
            }
            signals.take();
            self.collect(leader);
        }
    }

    fn start(&mut self, order: &Order) -> Option<Pid> {
        // Only now: the keeper opens our mounts once we are up.
        crate::process::protect_from_inspection();
        let max_tasks = self.walls.tasks.then(|| task_cap(order.max_processes));
        let order = Order { max_tasks, ..order.clone() };
        // An agent with its own sandbox is not started without it: it has no other rules for files.
        let is_needed = |allowed: &&Confinement| self.walls.mounts || allowed.makes_own_sandbox;
        let seen = match order.confinement.as_ref().filter(is_needed) {
            Some(allowed) => {
                view::enter(allowed, &[&order.cwd, &order.stdin, Path::new(&order.program)])
            }
            None => Ok(()),
        };
        let started = seen.map_err(|error| StartFailure {
            step: StartStep::Confinement,
            errno: error.raw_os_error().unwrap_or(libc::EPERM),
        });
        let started = started.and_then(|()| start::start(&order, SpawnTarget::default()));
        start::detach_standard_streams();
        match started {
            Ok(pid) => {
                let number = u32::try_from(pid.as_raw()).unwrap_or_default();
                self.channel.send(&FromKeeper::Started { pid: number });
                // Until it is collected, an agent that ended at once still has its number.
                let _noted = receive::<ToKeeper>(&mut self.channel, NOTED_WITHIN);
                Some(pid)
            }
            Err(failure) => {
                self.channel.send(&FromKeeper::NotStarted(failure));
                None
            }
        }
    }

    fn collect(&mut self, leader: Option<Pid>) {
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                return;
            }
            if leader.is_some()
                && status.pid() == leader
                && let Some(ending) = ending_of(status)
            {
                self.channel.send(&FromKeeper::Exited(ending));
            }
        }
    }
}
