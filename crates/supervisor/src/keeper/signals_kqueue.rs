//! Signals as a pollable descriptor, by kqueue: `signals.rs` for systems without signalfd.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};
use nix::sys::signal::{SigSet, Signal};

const WATCHED: [Signal; 4] = [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

/// Blocks all signals; the relevant ones can be read from a queue.
#[derive(Debug)]
pub struct Signals(Kqueue);

impl Signals {
    /// Blocks every signal from now on.
    pub fn block() -> nix::Result<Self> {
        SigSet::all().thread_set_mask()?;
        let queue = Kqueue::new()?;
        let none = FilterFlag::empty();
        let wanted = WATCHED.map(|signal| {
            let number = usize::try_from(signal as i32).unwrap_or_default();
            KEvent::new(number, EventFilter::EVFILT_SIGNAL, EvFlags::EV_ADD, none, 0, 0)
        });
        queue.kevent(&wanted, &mut [], Some(NOW))?;
        Ok(Self(queue))
    }

    /// Reads the pending signals.
    pub fn take(&self) -> Arrived {
        let mut arrived = Arrived::default();
        let empty =
            KEvent::new(0, EventFilter::EVFILT_SIGNAL, EvFlags::empty(), FilterFlag::empty(), 0, 0);
        let mut events = [empty; 8];
        let count = self.0.kevent(&[], &mut events, Some(NOW)).unwrap_or(0);
        for event in &events[..count] {
            if i32::try_from(event.ident()) == Ok(libc::SIGCHLD) {
                arrived.child = true;
            } else {
                arrived.end_requests += 1;
            }
        }
        arrived
    }

    /// Waits for a signal, at most this long.
    pub fn wait_for_child(&self, at_most: Duration) {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let at_most = at_most.max(Duration::from_millis(1));
        poll(&mut fds, PollTimeout::try_from(at_most).unwrap_or(PollTimeout::MAX)).ok();
        self.take();
    }
}

const NOW: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 };

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
