//! How much memory is in use, by a counting allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ASKED_FOR: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counted.
pub struct Meter;

// SAFETY: every call is the system allocator's own, with the arguments it was given.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // An allocation is work too, however small it is.
        ASKED_FOR.fetch_add(layout.size() + 32, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[allow(dead_code, reason = "one target measures the peak, the other the sum")]
/// The most bytes in use at once while `work` ran, beyond those in use before.
pub fn peak_of(work: impl FnOnce()) -> usize {
    let before = IN_USE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work();
    PEAK.load(Ordering::Relaxed) - before
}

/// All the bytes that `work` asked for, and something for each time it asked.
#[allow(dead_code, reason = "one target measures the peak, the other the sum")]
pub fn asked_for_by(work: impl FnOnce()) -> usize {
    let before = ASKED_FOR.load(Ordering::Relaxed);
    work();
    ASKED_FOR.load(Ordering::Relaxed) - before
}
