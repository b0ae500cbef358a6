//! Processes many items on every core: cleaning is most of the cost of reading.

use std::sync::{Mutex, PoisonError};

/// For fewer items a thread costs more than it saves.
const WORTH_A_THREAD: usize = 16;
/// With more threads, the tracker is the bottleneck.
const MAX_THREADS: usize = 4;

/// Runs the work for each item and keeps their order. A panic in the work is propagated.
pub(super) fn each<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = cores.min(MAX_THREADS).min(items.len() / WORTH_A_THREAD);
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let count = items.len();
    let queue = Mutex::new(items.into_iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let take_all = || {
        let mut done = Vec::with_capacity(count / threads + 1);
        while let Some((place, item)) = next() {
            done.push((place, work(item)));
        }
        done
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take_all)).collect();
        let mut done = take_all();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_done_once_and_the_order_stays() {
        for count in [0, 1, 15, 16, 33, 1_000] {
            let doubled = each((0..count).collect(), |number: i32| number * 2);
            assert_eq!(doubled, (0..count).map(|number| number * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_is_passed_on_and_nothing_hangs() {
        let failing = || each((0..200).collect(), |number: i32| assert!(number != 150));
        assert!(std::panic::catch_unwind(failing).is_err());
    }
}
