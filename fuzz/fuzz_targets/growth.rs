//! Twice as much of anything is twice the work: steps, and memory that was asked for.

#![no_main]

#[path = "../../crates/visible-text/tests/visible/bounded.rs"]
#[allow(dead_code, reason = "the other target checks the other property")]
mod body;
#[path = "../bodies/meter.rs"]
mod meter;

#[global_allocator]
static METER: meter::Meter = meter::Meter;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    body::work_grows_with_the_text(input, &|work| meter::asked_for_by(work) as u64);
});
