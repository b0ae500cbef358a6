//! Runs on a real database and a clock that tests move; tracker, sessions and code base are scripted.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, prints figures, and starts what it is about"
)]

mod absence;
mod areas;
mod background;
mod bad_year;
mod blame;
mod bounds;
mod fairness;
mod locate;
mod figures;
mod model;
mod month;
mod order;
mod outage;
mod outbox;
mod panics;
mod preflight;
mod proof;
mod red_and_green;
mod rules;
mod sources;
mod suggest;
mod twin;
mod world;
mod year;
