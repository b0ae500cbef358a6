//! When a run is due: nominal times from a cron expression and time zone, and the policy for ticks
//! that overlap, were missed, fall into a clock change, or see the clock jump.
//!
//! Pure: times are arguments. `app::waker` ensures that the clock is read often enough.

mod cron;
mod day;
mod decide;
mod upcoming;

pub use cron::{Schedule, ScheduleError};
pub use day::{date_in, day_in, midnight_in};
pub use decide::{Decision, DecisionInput, MISSED_COUNTED, Policy, delay_on_host, no_later_than};
pub use upcoming::{ClockChange, Upcoming, render};
