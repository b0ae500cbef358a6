//! Retries of reads: a few tries, with doubling delays and full jitter.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The delays between the tries of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Including the first.
    pub tries: u32,
    /// Upper bound of the first delay; doubles with each further one.
    pub base: Duration,
    /// Upper bound of every delay.
    pub cap: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { tries: 3, base: Duration::from_secs(1), cap: Duration::from_secs(20) }
    }
}

impl RetryPolicy {
    pub const ONCE: Self = Self { tries: 1, base: Duration::ZERO, cap: Duration::ZERO };

    /// Upper bounds of the delays, before jitter.
    pub fn bounds(self) -> impl Iterator<Item = Duration> + Send + Sync + Unpin {
        (0..self.tries.saturating_sub(1)).map(move |n| {
            self.base.saturating_mul(1_u32.checked_shl(n).unwrap_or(u32::MAX)).min(self.cap)
        })
    }

    /// Random delays between zero and their bound, so that clients that failed together do not
    /// retry together. [`backon`] iterates over them.
    pub fn delays(self) -> impl Iterator<Item = Duration> + Send + Sync + Unpin {
        self.bounds().map(|bound| bound.mul_f64(random_fraction()))
    }
}

/// A number in `0.0..1.0`: the standard library seeds every hasher from the system.
fn random_fraction() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 40;
    // 24 bits are exact in a float of either size.
    f64::from(u32::try_from(bits).unwrap_or_default()) / f64::from(1_u32 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_double_up_to_the_cap() {
        let policy =
            RetryPolicy { tries: 5, base: Duration::from_secs(1), cap: Duration::from_secs(5) };
        let bounds: Vec<u64> = policy.bounds().map(|d| d.as_secs()).collect();
        assert_eq!(bounds, [1, 2, 4, 5]);
        assert_eq!(RetryPolicy::ONCE.bounds().count(), 0);
    }

    #[test]
    fn jitter_is_full() {
        let policy =
            RetryPolicy { tries: 2000, base: Duration::from_secs(1), ..Default::default() };
        let policy = RetryPolicy { cap: Duration::from_secs(1), ..policy };
        let delays: Vec<f64> = policy.delays().map(|d| d.as_secs_f64()).collect();
        assert!(delays.iter().all(|d| (0.0..=1.0).contains(d)));
        let low = delays.iter().filter(|d| **d < 0.5).count();
        assert!((800..1200).contains(&low), "{low} of {} are in the lower half", delays.len());
    }
}
