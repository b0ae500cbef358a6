//! Twice as much of anything is twice the work: steps, and memory that was asked for.

#![no_main]

// The body speaks of `heartbeat`, which here is this crate.
extern crate self as heartbeat;

#[path = "../../tests/support/src/properties/clean.rs"]
#[allow(dead_code, reason = "the other target checks the other property")]
mod body;
#[path = "../../src/clean/mod.rs"]
pub mod clean;
#[path = "../bodies/meter.rs"]
mod meter;
#[path = "../../src/model/mod.rs"]
pub mod model;

#[global_allocator]
static METER: meter::Meter = meter::Meter;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    body::work_grows_with_the_text(input, &|work| meter::asked_for_by(work) as u64);
});
