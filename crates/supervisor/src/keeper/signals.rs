//! Signals as a pollable descriptor: nothing interrupts a keeper; only KILL and STOP affect it
//! directly.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;

/// Blocks all signals; the relevant ones can be read from a descriptor.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks every signal from now on.
    pub fn block() -> nix::Result<Self> {
        SigSet::all().thread_set_mask()?;
        let mut watched = SigSet::empty();
        for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            watched.add(signal);
        }
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        SignalFd::with_flags(&watched, flags).map(Self)
    }

    /// Reads the pending signals.
    pub fn take(&self) -> Arrived {
        let mut arrived = Arrived::default();
        while let Ok(Some(info)) = self.0.read_signal() {
            match i32::try_from(info.ssi_signo) {
                Ok(libc::SIGCHLD) => arrived.child = true,
                _ => arrived.end_requests += 1,
            }
        }
        arrived
    }

    /// Waits for a signal, at most this long.
    pub fn wait_for_child(&self, at_most: Duration) {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        // An error only shortens the wait.
        nix::poll::ppoll(&mut fds, Some(TimeSpec::from_duration(at_most)), None).ok();
        if fds[0].any().unwrap_or(false) {
            // One at a time: a request to end changes nothing during a sweep.
            self.0.read_signal().ok();
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Result of [`Signals::take`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrived {
    /// A child changed its state.
    pub child: bool,
    /// Number of TERM, INT and HUP signals.
    pub end_requests: u32,
}
