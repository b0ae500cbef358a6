//! Work on a code base: on a thread of its own and bounded in time.
//!
//! A walk can hang: on a file system that does not answer, or because the machine gives no more
//! threads. A hung blocking task of the runtime would hold up the run and then the shutdown; a hung
//! thread of its own ends with the process.

use std::time::Duration;

/// Far beyond the largest code base that was measured.
pub(super) const WITHIN: Duration = Duration::from_mins(10);

/// The result of the work, or why there is none.
pub(super) async fn run<T: Send + 'static>(
    within: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (done, result) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("code base".into())
        // Nobody waits any more if the time was over.
        .spawn(move || drop(done.send(work())))
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    match tokio::time::timeout(within, result).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(_)) => Err("reading it panicked, which is a bug; the log shows where".into()),
        Err(_) => Err(format!("reading it took longer than {} s", within.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_hangs_is_given_up_and_does_not_hold_up_the_shutdown() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (release, hung) = std::sync::mpsc::channel::<()>();
        let given_up = runtime.block_on(run(Duration::from_millis(10), move || hung.recv()));
        assert!(given_up.unwrap_err().contains("took longer"));
        // Blocks for ever if the runtime waits for the thread, which is released only afterwards.
        drop(runtime);
        drop(release);
    }

    #[tokio::test]
    async fn work_that_ends_or_panics_is_told() {
        assert_eq!(run(WITHIN, || 7).await, Ok(7));
        let panicked = run(WITHIN, || assert_eq!(1, 2)).await;
        assert!(panicked.unwrap_err().contains("panicked"));
    }
}
