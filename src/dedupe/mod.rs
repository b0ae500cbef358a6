//! Makes a plan from items and known state. Pure: times and policies are inputs, decisions with
//! reasons are outputs.
//!
//! An item is work when the fingerprint of its prompt text differs from the one last *finished*. A
//! tag, a link, our own comment, a cosmetic change of HTML or a restart creates no work.

mod decide;
mod fingerprint;
mod pairs;
mod parts;
mod plan;
mod queue;
mod retry;
pub mod why;
mod words;

pub use decide::{Decided, KnownItem, Seen, Write, decide};
pub use fingerprint::{FingerprintInputs, fingerprint, is_older_form, raw_fingerprint};
pub use pairs::{Pair, similar_pairs};
pub use parts::ItemParts;
pub use plan::{OverLimit, Plan, PlanCounts, Planned, Queues, ReadItem};
pub use queue::{Queue, QueuePosition, QueuedItem, in_order};
pub use retry::{RetryPolicy, next_attempt};
pub use words::ItemWords;
