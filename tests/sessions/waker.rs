//! The wake-up source in real time, alone in a process so that its threads can be counted.

use std::time::Duration;

use heartbeat::app::waker::{MAX_SLEEP, Pace, WakeSource, Woken};

/// The bound only turns a hang into a failure.
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.unwrap()
}

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "heartbeat-ticks").count()
}

#[test]
fn the_source_ticks_and_ends_without_a_trace() {
    if !support::ran_alone("waker::the_source_ticks_and_ends_without_a_trace") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(ticks_and_ends_without_a_trace());
    }
}

async fn ticks_and_ends_without_a_trace() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let mut source = in_time(WakeSource::start(Pace::EverySecond)).await.unwrap();
    for _ in 0..2 {
        in_time(async { while source.woken(MAX_SLEEP).await != Woken::ByTick {} }).await;
    }
    assert_eq!(threads(), 1);
    in_time(source.shutdown()).await;
    assert_eq!(threads(), 0);
    assert_eq!(tasks(), before, "no task of the library is left in this runtime");

    // Dropped without a stop, it ends too.
    drop(in_time(WakeSource::start(Pace::EveryFiveSeconds)).await.unwrap());
    in_time(async {
        while threads() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;

    // While nothing is due soon it rests, and ticks again when something is.
    let mut source = in_time(WakeSource::start(Pace::EverySecond)).await.unwrap();
    source.expect_in(Duration::from_secs(3600)).await;
    assert!(!source.is_ticking());
    in_time(async {
        while threads() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(source.woken(Duration::from_millis(10)).await, Woken::ByAlarm);
    source.expect_in(Duration::from_secs(60)).await;
    assert!(source.is_ticking());
    in_time(async { while source.woken(MAX_SLEEP).await != Woken::ByTick {} }).await;
    in_time(source.shutdown()).await;
    assert_eq!(threads(), 0);
}
