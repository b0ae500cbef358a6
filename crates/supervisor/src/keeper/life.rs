//! A keeper's main loop, from `Go` until no process is left.

use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::channel::Channel;
use super::group::Group;
use super::namespace::Namespace;
use super::protocol::{Exit, FromKeeper, Order, OwnReason, StartFailure, ToKeeper};
use super::signals::Signals;
use super::start;
use super::sweep::{Swept, describe_left, sweep};
#[cfg(not(target_os = "linux"))]
use crate::process;
use crate::process::system::{self, SpawnTarget};

/// After this time a process counts as unkillable; the keeper keeps trying.
const SWEEP_WITHIN: Duration = Duration::from_secs(10);

/// How often descendants are scanned where they have to be tracked; elsewhere a keeper sleeps until
/// an event.
const LOOK_EVERY: Duration =
    if cfg!(target_os = "linux") { Duration::from_secs(3_600) } else { Duration::from_millis(250) };

/// Where the agent runs.
#[derive(Debug)]
pub enum ProcessTree {
    /// Directly below the keeper.
    Direct(Option<Pid>),
    Namespace(Namespace),
}

#[derive(Debug)]
pub struct KeeperLoop {
    /// Connection to heartbeat.
    pub control: Channel,
    pub signals: Signals,
    pub tree: ProcessTree,
    /// The session's group, if there is one.
    pub group: Option<Group>,
    /// Sends SIGCONT if the keeper was stopped; does not belong to the session.
    pub watcher: Option<Pid>,
    #[cfg(not(target_os = "linux"))]
    tracked: super::tracked::Tracked,
}

struct Times {
    hard: Instant,
    lease: Instant,
    lease_length: Duration,
    grace: Duration,
    /// When SIGTERM follows SIGINT.
    terminate: Option<Instant>,
    kill: Option<Instant>,
}

impl Times {
    /// heartbeat's beats come more often, so this wakes nobody up for nothing.
    fn look_again(&self, now: Instant) -> Instant {
        self.next().min(now + self.lease_length / 2)
    }

    /// Moves every limit by the time that we did not run. Who waited from `before` until `until` and
    /// wakes up half of a lease too late was stopped, with the whole tree or the machine. Until then
    /// heartbeat's beats had woken us at every sixth of a lease.
    fn notice_stop(&mut self, before: Instant, until: Instant, now: Instant) {
        if now.saturating_duration_since(until) < self.lease_length / 2 {
            return;
        }
        let awake = until.saturating_duration_since(before).min(self.lease_length / 6);
        let lost = now.saturating_duration_since(before).saturating_sub(awake);
        self.hard += lost;
        self.lease += lost;
        self.terminate = self.terminate.map(|at| at + lost);
        self.kill = self.kill.map(|at| at + lost);
    }

    fn next(&self) -> Instant {
        let next = self.kill.unwrap_or(self.hard).min(self.lease);
        self.terminate.map_or(next, |terminate| terminate.min(next))
    }
}

impl KeeperLoop {
    pub fn new(
        control: Channel,
        signals: Signals,
        tree: ProcessTree,
        group: Option<Group>,
        watcher: Option<Pid>,
    ) -> Self {
        Self {
            control,
            signals,
            tree,
            group,
            watcher,
            #[cfg(not(target_os = "linux"))]
            tracked: super::tracked::Tracked::default(),
        }
    }

    /// Records the current descendants where there is no subreaper.
    #[cfg(not(target_os = "linux"))]
    fn track(&mut self) {
        let children = |pid| process::children(pid).unwrap_or_default();
        let start_of = |pid| process::stat(pid).filter(|s| !s.is_dead()).map(|s| s.start_time);
        self.tracked.look(std::process::id(), children, start_of);
    }

    #[cfg(target_os = "linux")]
    fn track(&mut self) {}

    /// Kills detached processes; returns how many there were.
    #[cfg(not(target_os = "linux"))]
    fn kill_detached(&mut self) -> usize {
        self.track();
        let start_of = |pid| process::stat(pid).filter(|s| !s.is_dead()).map(|s| s.start_time);
        let alive = self.tracked.alive(start_of);
        for pid in alive.iter().filter_map(|pid| i32::try_from(*pid).ok()) {
            kill(Pid::from_raw(pid), Signal::SIGKILL).ok();
        }
        alive.len()
    }

    /// A subreaper: detached processes become direct children.
    #[cfg(target_os = "linux")]
    fn kill_detached(&mut self) -> usize {
        0
    }

    /// Starts the agent and runs until none of its processes is left.
    pub fn run(mut self, order: &Order) -> ExitCode {
        if let Some(group) = &self.group {
            group.bound(order);
        }
        let started = self.start(order);
        start::detach_standard_streams();
        match started {
            Ok(pid) => self.control.send(&FromKeeper::Started { pid }),
            Err(failure) => {
                self.control.send(&FromKeeper::NotStarted(failure));
                return self.finish(true);
            }
        }
        let exited = self.keep(order);
        self.finish(exited)
    }

    /// Cleans up without having started an agent.
    pub fn leave(mut self) -> ExitCode {
        self.finish(true)
    }

    fn start(&mut self, order: &Order) -> Result<u32, StartFailure> {
        let group = self.group.as_ref().map(Group::folder);
        match &mut self.tree {
            ProcessTree::Namespace(namespace) => namespace.start(order),
            ProcessTree::Direct(leader) => {
                let target = SpawnTarget { group, ..SpawnTarget::default() };
                let pid = start::start(order, target)?;
                *leader = Some(pid);
                Ok(u32::try_from(pid.as_raw()).unwrap_or_default())
            }
        }
    }

    /// Runs until the sweep is due; true if the agent's end was already reported.
    fn keep(&mut self, order: &Order) -> bool {
        let now = Instant::now();
        let lease_length = Duration::from_millis(order.lease_ms);
        let mut times = Times {
            hard: now + Duration::from_millis(order.hard_ms),
            lease: now + lease_length,
            lease_length,
            grace: Duration::from_millis(order.grace_ms),
            terminate: None,
            kill: None,
        };
        loop {
            // Before the first wait: a message may already be in our buffer.
            if self.handle_messages(&mut times) {
                return false;
            }
            let arrived = self.signals.take();
            if let Some(ending) = self.collect() {
                self.control.send(&FromKeeper::Exited(ending));
                return true;
            }
            if self.is_lost() || (arrived.end_requests > 0 && times.kill.is_some()) {
                return false;
            }
            if arrived.end_requests > 0 {
                self.begin(&mut times, Some(OwnReason::Signalled));
            }
            if self.is_time_up(&mut times) {
                return false;
            }
            self.track();
            let before = Instant::now();
            let until = times.look_again(before).min(before + LOOK_EVERY);
            self.wait(until);
            times.notice_stop(before, until, Instant::now());
        }
    }

    fn wait(&self, until: Instant) {
        let mut fds = vec![
            PollFd::new(self.control.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        if let ProcessTree::Namespace(namespace) = &self.tree {
            fds.push(PollFd::new(namespace.channel().as_fd(), PollFlags::POLLIN));
        }
        // Rounded up to avoid a busy loop in the last millisecond.
        let left = until.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        wait_at_rest(&mut fds, left);
    }

    /// Handles heartbeat's messages; true if the sweep is due at once.
    fn handle_messages(&mut self, times: &mut Times) -> bool {
        for message in self.control.receive::<ToKeeper>() {
            times.lease = Instant::now() + times.lease_length;
            match message {
                ToKeeper::Beat(number) => self.control.send(&FromKeeper::Beat(number)),
                ToKeeper::Stop if times.kill.is_none() => self.begin(times, None),
                ToKeeper::Kill => return true,
                ToKeeper::Stop | ToKeeper::Terminate | ToKeeper::Noted | ToKeeper::Go(_) => {}
            }
        }
        // Heartbeat is gone: no grace period.
        !self.control.is_open()
    }

    /// Sends SIGINT, on which an agent still reports its cost. SIGTERM follows after half of the
    /// grace period; the sweep when the agent has exited or the period is over.
    fn begin(&mut self, times: &mut Times, reason: Option<OwnReason>) {
        if let Some(reason) = reason {
            self.control.send(&FromKeeper::Stopping(reason));
        }
        self.signal(Signal::SIGINT);
        let now = Instant::now();
        times.terminate = Some(now + times.grace / 2);
        times.kill = Some(now + times.grace);
    }

    fn signal(&mut self, signal: Signal) {
        match &mut self.tree {
            ProcessTree::Direct(leader) => signal_agent(*leader, signal),
            ProcessTree::Namespace(namespace) => namespace.signal(signal),
        }
    }

    /// Checks the deadlines; true if the sweep is due at once.
    fn is_time_up(&mut self, times: &mut Times) -> bool {
        let now = Instant::now();
        if times.kill.is_some_and(|kill| now >= kill) {
            return true;
        }
        if times.terminate.is_some_and(|terminate| now >= terminate) {
            times.terminate = None;
            self.signal(Signal::SIGTERM);
        }
        if now >= times.lease {
            self.control.send(&FromKeeper::Stopping(OwnReason::LeaseMissed));
            return true;
        }
        if now >= times.hard && times.kill.is_none() {
            self.begin(times, Some(OwnReason::Deadline));
        }
        false
    }

    /// Reaps dead children; returns the agent's end if it is among them.
    fn collect(&mut self) -> Option<Exit> {
        match &mut self.tree {
            ProcessTree::Namespace(namespace) => namespace.collect(),
            ProcessTree::Direct(leader) => {
                while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                    if status == WaitStatus::StillAlive {
                        break;
                    }
                    if status.pid() == *leader {
                        *leader = None;
                        return ending_of(status);
                    }
                }
                None
            }
        }
    }

    fn is_lost(&self) -> bool {
        matches!(&self.tree, ProcessTree::Namespace(namespace) if namespace.is_gone())
    }

    /// Sweeps until no process is left, without a time limit.
    fn finish(&mut self, exit_reported: bool) -> ExitCode {
        let mut reported = exit_reported;
        let mut killed = 0;
        let mut alarmed = false;
        loop {
            let swept = self.sweep_once();
            killed += swept.killed;
            if let Some(ending) = swept.leader.and_then(ending_of)
                && !reported
            {
                self.control.send(&FromKeeper::Exited(ending));
                reported = true;
            }
            if swept.empty {
                // Removed before the message: the receiver may check.
                self.group = None;
                self.control.send(&FromKeeper::Swept { killed });
                // Only now: it resumes us if we are stopped before this point.
                if let Some(watcher) = self.watcher.take() {
                    system::kill_detached(watcher);
                }
                return ExitCode::SUCCESS;
            }
            if !alarmed {
                let (left, detail) = describe_left(self.watcher);
                self.control.send(&FromKeeper::Unkillable { left, detail });
                alarmed = true;
            }
        }
    }

    fn sweep_once(&mut self) -> Swept {
        let population = match (&self.tree, &self.group) {
            // The namespace's init is a member too.
            (ProcessTree::Namespace(_), Some(group)) => Some(group.population().saturating_sub(1)),
            (ProcessTree::Namespace(namespace), None) => Some(namespace.population()),
            (ProcessTree::Direct(_), _) => None,
        };
        if let Some(group) = &self.group {
            group.kill();
        }
        let leader = match &self.tree {
            ProcessTree::Direct(leader) => *leader,
            ProcessTree::Namespace(_) => None,
        };
        let mut swept = sweep(leader, self.watcher, &self.signals, SWEEP_WITHIN);
        // Where the kernel reports only direct children, two empty scans are required.
        swept.empty = swept.empty && self.kill_detached() == 0 && self.kill_detached() == 0;
        if let Some(population) = population {
            swept.killed = population;
        }
        swept
    }
}

/// Like `poll`, but after a second without events it releases the program's pages; they are
/// reloaded in microseconds. Not at once, since an agent may cause frequent wake-ups.
pub fn wait_at_rest(fds: &mut [PollFd<'_>], at_most: Duration) {
    const MOMENT: Duration = Duration::from_secs(1);
    let timeout = |time| PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
    // On an error the caller only checks again.
    if poll(fds, timeout(at_most.min(MOMENT))) == Ok(0) && at_most > MOMENT {
        system::release_program_pages();
        poll(fds, timeout(at_most.saturating_sub(MOMENT))).ok();
    }
}

/// How a reaped process ended.
pub fn ending_of(status: WaitStatus) -> Option<Exit> {
    match status {
        WaitStatus::Exited(_, code) => Some(Exit::Code(code)),
        WaitStatus::Signaled(_, signal, _) => Some(Exit::Signal(signal as i32)),
        _ => None,
    }
}

/// Sends the signal, and SIGCONT so that a stopped process handles it.
pub fn signal_agent(leader: Option<Pid>, signal: Signal) {
    if let Some(leader) = leader {
        kill(leader, signal).ok();
        kill(leader, Signal::SIGCONT).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_that_was_stopped_gives_its_session_the_rest_of_its_time() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut times = Times {
            hard: begin + second * 12,
            lease: begin + second * 32,
            lease_length: second * 30,
            grace: second,
            terminate: None,
            kill: None,
        };
        let (before, until) = (begin + second * 2, begin + second * 12);
        times.notice_stop(before, until, begin + second * 13);
        assert_eq!(times.hard, begin + second * 12, "a busy machine is not a stopped one");
        // It woke up after 45 s, of which it may have been awake for five.
        times.notice_stop(before, until, begin + second * 47);
        assert_eq!(times.hard, begin + second * 52);
        assert_eq!(times.lease, begin + second * 72);
    }
}
