//! A small process below a keeper that resumes it when heartbeat is gone.
//!
//! A stopped keeper (SIGSTOP) cannot notice that its socket has closed, and reaps no children: its
//! session's processes would pile up as zombies. This process sleeps until heartbeat's end of the
//! socket closes, then sends SIGCONT to its keeper, which sweeps. The init of a PID namespace ends
//! the tree itself, but cannot signal a keeper outside.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, getpid, getppid};

use super::channel::Channel;
use super::namespace::close_all_but;
use super::start;
use crate::process::system;

/// Between two signals to a keeper whose heartbeat is gone.
const AGAIN: Duration = Duration::from_millis(50);

/// Starts it apart from the children that the sweep waits for; `None` if the machine refuses, which
/// costs only this protection.
pub fn start(control: &Channel) -> Option<Pid> {
    let keeper = getpid();
    system::fork_detached(|| {
        SigSet::all().thread_set_mask().ok();
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).ok();
        let Ok(lifeline) = nix::unistd::dup(control) else { return 1 };
        close_all_but(&[&lifeline]);
        start::set_name(std::ffi::OsStr::new("heartbeat-watch"));
        crate::process::protect_from_inspection();
        system::release_program_pages();
        while getppid() == keeper && !is_hung_up(&lifeline, PollTimeout::NONE) {}
        // Repeatedly: the keeper may be stopped during its sweep. It kills us when that is done.
        while getppid() == keeper {
            kill(keeper, Signal::SIGCONT).ok();
            std::thread::sleep(AGAIN);
        }
        0
    })
    .ok()
}

/// Whether the other end of this socket is closed. Waits for it, reads nothing.
pub fn is_hung_up(socket: &impl AsFd, wait: PollTimeout) -> bool {
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    poll(&mut fds, wait).ok();
    fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP))
}
