//! Any text through the cleaner: no panic, bounded output and bounded memory.

#![no_main]

#[path = "../../crates/visible-text/tests/visible/bounded.rs"]
#[allow(dead_code, reason = "the other target checks the other property")]
mod body;
#[path = "../bodies/meter.rs"]
mod meter;

#[global_allocator]
static METER: meter::Meter = meter::Meter;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let peak = meter::peak_of(|| body::any_text_stays_bounded(input));
    let allowed = 400 * input.len() + (4 << 20);
    assert!(peak <= allowed, "{peak} bytes at once for {} of input", input.len());
});
