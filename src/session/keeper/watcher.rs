//! A small process below a keeper that wakes it when heartbeat is gone.
//!
//! A keeper that somebody stopped (SIGSTOP) cannot notice the end of its socket, and collects no
//! children: what its session leaves would pile up as zombies. This process sleeps until heartbeat's
//! end of the socket closes, and continues its keeper, which then sweeps. The first process of a PID
//! namespace ends the tree by itself, but cannot signal a keeper outside.

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

/// Starts it, aside from the children that the sweep waits for; none if the machine refuses, which only costs this protection.
pub fn start(control: &Channel) -> Option<Pid> {
    let keeper = getpid();
    system::fork_aside(|| {
        SigSet::all().thread_set_mask().ok();
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).ok();
        let Ok(lifeline) = nix::unistd::dup(control) else { return 1 };
        close_all_but(&[&lifeline]);
        start::set_name(std::ffi::OsStr::new("heartbeat-watch"));
        crate::process::protect_from_inspection();
        system::release_program_pages();
        while getppid() == keeper && !is_hung_up(&lifeline, PollTimeout::NONE) {}
        // Again and again: it may be stopped in the middle of its sweep. It ends us when that is done.
        while getppid() == keeper {
            kill(keeper, Signal::SIGCONT).ok();
            std::thread::sleep(AGAIN);
        }
        0
    })
    .ok()
}

/// Is the other end of this socket closed? Waits for it, reads nothing.
pub fn is_hung_up(socket: &impl AsFd, wait: PollTimeout) -> bool {
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    poll(&mut fds, wait).ok();
    fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP))
}
