//! The two ways in which tests wait for external events.
//!
//! The pauses are not synchronisation: the condition is always checked, never assumed.

use std::time::{Duration, Instant};

/// Enough for the slowest machine: it only ends a failed test.
pub const EVENTUALLY_TIMEOUT: Duration = Duration::from_secs(120);

/// Polls until the condition holds; fails after [`EVENTUALLY_TIMEOUT`].
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + EVENTUALLY_TIMEOUT;
    while !done() {
        assert!(Instant::now() < until, "never came: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The same for a test on a runtime: polls until there is a value, and returns it.
pub async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let until = Instant::now() + EVENTUALLY_TIMEOUT;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < until, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
