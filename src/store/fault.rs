//! Points at which a test kills the process: after every write and around every effect.
//!
//! `HEARTBEAT_TEST_FAULT_POINT=N` ends the process with SIGKILL at the N-th point it comes to, the
//! way a power cut would. Nothing else reads it, and without it a point costs one load.

use std::sync::atomic::{AtomicI64, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The variable that arms it.
pub const VARIABLE: &str = "HEARTBEAT_TEST_FAULT_POINT";

/// Points left until the end; 0 and below: not armed.
static LEFT: AtomicI64 = AtomicI64::new(0);

/// Arms the switch with the variable's text, if it is a number.
pub fn arm(text: Option<&std::ffi::OsStr>) {
    if let Some(points) = text.and_then(|text| text.to_str()).and_then(|text| text.parse().ok()) {
        LEFT.store(points, Ordering::SeqCst);
    }
}

/// One point. The process ends here if it is the one that was asked for.
pub fn point() {
    if LEFT.load(Ordering::Relaxed) > 0 && LEFT.fetch_sub(1, Ordering::SeqCst) == 1 {
        // A process may always signal itself; nothing runs after this.
        kill(Pid::this(), Signal::SIGKILL).ok();
    }
}
