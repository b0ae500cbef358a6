//! Any bytes in any split through the decoder of the agent's output: no panic, the same meaning,
//! within the bound of memory.

#![no_main]

#[path = "../../tests/support/src/stream_properties.rs"]
mod body;
#[path = "../bodies/meter.rs"]
mod meter;

use heartbeat::session::conversation::memory_bound;

#[global_allocator]
static METER: meter::Meter = meter::Meter;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let peak = meter::peak_of(|| body::any_bytes_in_any_split(body::claude, input));
    // Two conversations at once, the stream they read and what they said of it.
    let allowed = 2 * memory_bound(body::MAX_LINE) + 16 * body::MAX_STREAM;
    assert!(peak <= allowed, "{peak} bytes at once, {allowed} allowed");
});
