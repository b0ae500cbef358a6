//! When a run is due: cron expression and time zone to nominal times, and the policy for ticks
//! that overlap, were missed, fall into a clock change, or see the clock jump.
//!
//! Pure: times come in as arguments. What makes sure that somebody looks at the clock often enough
//! is `app::waker`.

mod cron;
mod day;
mod decide;
mod upcoming;

pub use cron::{Schedule, ScheduleError};
pub use day::{day_in, midnight_in};
pub use decide::{Decision, MISSED_COUNTED, Policy, Situation, delay_on_host, no_later_than};
pub use upcoming::{ClockChange, Upcoming, render};
