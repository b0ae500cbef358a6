//! Signals as something to poll: nothing interrupts a keeper, and nothing but KILL and STOP can
//! change its course.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;

/// All signals blocked, the ones that matter readable from a descriptor.
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

    /// Takes what has arrived: did a child change its state, did somebody ask us to end?
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

    /// Waits until a signal arrives, but not longer.
    pub fn wait_for_child(&self, at_most: Duration) {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        // An error only shortens the pause.
        nix::poll::ppoll(&mut fds, Some(TimeSpec::from_duration(at_most)), None).ok();
        if fds[0].any().unwrap_or(false) {
            // One at a time: a request to end changes nothing in the middle of a sweep.
            self.0.read_signal().ok();
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What [`Signals::take`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrived {
    /// A child changed its state.
    pub child: bool,
    /// TERM, INT or HUP, how often.
    pub end_requests: u32,
}
