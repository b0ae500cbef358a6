//! The one way in which a test without a runtime waits for something outside itself.

use std::time::{Duration, Instant};

/// Long enough for the slowest machine: it only ends a test that has failed.
const PATIENCE: Duration = Duration::from_secs(90);

/// Looks again and again until the answer is yes; fails after [`PATIENCE`]. The pause is no
/// synchronisation: whatever is waited for is looked at, never assumed.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "never came: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
