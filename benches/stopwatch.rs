//! Time on the processor, so that other programs on the machine count as little as possible.

use std::time::{Duration, Instant};

/// Rounds of which the best counts.
const ROUNDS: usize = 15;
/// Bytes worked through in a round, so that it is long against the clock's steps.
const BYTES_PER_ROUND: usize = 4_000_000;

/// The shortest time one pass over `bytes` of input took.
pub fn best(bytes: usize, pass: impl Fn()) -> Duration {
    let passes = (BYTES_PER_ROUND / bytes.max(1)).clamp(1, 1_000);
    let round = || {
        let (wall, processor) = (Instant::now(), processor_time());
        (0..passes).for_each(|_| pass());
        match (processor, processor_time()) {
            (Some(before), Some(after)) if after > before => after - before,
            _ => wall.elapsed(),
        }
    };
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default() / u32::try_from(passes).unwrap_or(1)
}

/// Time this process has spent on a processor, where the system tells.
fn processor_time() -> Option<Duration> {
    // Giving way brings the kernel's figure up to date.
    std::thread::yield_now();
    let figures = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    figures.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
