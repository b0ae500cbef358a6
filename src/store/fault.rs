//! Points at which a test kills the process: after every write and around every side effect.
//!
//! Only builds with the feature `fault-points` have them. The tests' support library enables it, so
//! `cargo test` and `cargo bench` have it and `cargo build` does not. In such a build
//! `HEARTBEAT_TEST_FAULT_POINT=N` kills the process with SIGKILL at the N-th point it reaches, like
//! a power cut.

/// Kills the process if this is the point that was set.
pub fn point() {
    #[cfg(feature = "fault-points")]
    switch::point();
}

#[cfg(feature = "fault-points")]
pub use switch::{VARIABLE, arm};

#[cfg(feature = "fault-points")]
mod switch {
    use std::ffi::OsStr;
    use std::sync::atomic::{AtomicI64, Ordering};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    pub const VARIABLE: &str = "HEARTBEAT_TEST_FAULT_POINT";

    /// Points left until the kill; 0 or less: disabled.
    static LEFT: AtomicI64 = AtomicI64::new(0);

    /// Enables the kill with the variable's value, if it is a number.
    pub fn arm(text: Option<&OsStr>) {
        let number = text.and_then(OsStr::to_str).and_then(|text| text.parse().ok());
        if let Some(points) = number {
            LEFT.store(points, Ordering::SeqCst);
        }
    }

    pub(super) fn point() {
        if LEFT.load(Ordering::Relaxed) > 0 && LEFT.fetch_sub(1, Ordering::SeqCst) == 1 {
            // A process may always signal itself; nothing runs after this.
            kill(Pid::this(), Signal::SIGKILL).ok();
        }
    }
}
