//! Sessions on other hosts: the coordinator keeps its state and the whole way of an item, only a
//! session travels. The feature `fleet` builds it; without it there is one machine and no server.
//!
//! ```text
//! coordinator (one; has the state)           server (Temporal)            hosts: heartbeat worker
//! claim, row below the cap (I1, I2, I6)
//! start ───────────────────────────────────▶ hb/<state>/<session> ──────▶ beat 0 (fence), row, token
//! look at every interval (I8) ◀── details ── last beat            ◀beats─ the same supervised session
//! end ◀───────────────────────────────────── result               ◀────── certified empty, delivered
//! close the row with its output, then apply it as ever (I4)
//! ```
//!
//! - The server is asked for activities without a workflow, each tried once: retries are ours.
//! - A worker's lease is shorter than the server's patience by the grace, so that the tree of a lost
//!   host is gone before the server gives its session up ([`lease`]).
//! - An execution that ended without any beat started nothing: the claim is given back whole. One
//!   with a beat is asked for at its host before it counts as orphaned.
//! - An id that is in doubt is burnt: started with nothing to do, it is refused for ever after.
//!
//! `engine` is the only place that names the server's crates.

pub mod checkout;
pub mod lease;
pub mod order;

#[cfg(feature = "fleet")]
mod deliver;
#[cfg(feature = "fleet")]
pub mod engine;
#[cfg(feature = "fleet")]
mod follow;
#[cfg(feature = "fleet")]
pub mod gate;
#[cfg(feature = "fleet")]
pub mod look;
#[cfg(feature = "fleet")]
pub mod right;
#[cfg(feature = "fleet")]
mod seal;
#[cfg(feature = "fleet")]
pub mod sessions;
#[cfg(feature = "fleet")]
mod verdict;
#[cfg(feature = "fleet")]
pub mod worker;

use crate::model::SessionId;
use crate::settings::Fleet;

/// Built with the feature `fleet`?
pub const BUILT: bool = cfg!(feature = "fleet");

/// The names that coordinator and workers share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pool: String,
    state: String,
}

impl Names {
    /// For this state in the configured pool.
    pub fn new(fleet: &Fleet, state: &str) -> Self {
        Self { pool: fleet.pool.clone(), state: state.to_owned() }
    }

    /// What the server knows a session by.
    pub fn session(&self, session: SessionId) -> String {
        format!("hb/{}/{session}", self.state)
    }

    /// What the server knows a question for a session's end by; each question has its own.
    pub fn report(&self, session: SessionId) -> String {
        format!("hb/{}/{session}/report/{}", self.state, uuid::Uuid::now_v7().simple())
    }

    /// What the server knows the right to run by.
    pub fn run(&self) -> String {
        format!("hb/{}/run", self.state)
    }

    /// Where sessions wait for a host. Its version is part of the name: a worker that does not
    /// understand an order never sees it.
    pub fn queue(&self) -> String {
        queue(&self.pool)
    }

    /// Where one host is asked.
    pub fn queue_of(&self, host: &str) -> String {
        queue_of(&self.pool, host)
    }
}

/// Where sessions of a pool wait for a host.
pub fn queue(pool: &str) -> String {
    queue_of_wire(pool, order::WIRE)
}

/// The same for hosts of this version of what travels.
pub fn queue_of_wire(pool: &str, wire: u32) -> String {
    format!("heartbeat-{pool}-w{wire}")
}

/// Where one host of a pool is asked.
pub fn queue_of(pool: &str, host: &str) -> String {
    format!("{}-{host}", queue(pool))
}

/// The name of this host: as configured, or the machine's own.
pub fn own_host(fleet: &Fleet) -> String {
    if !fleet.host.is_empty() {
        return fleet.host.clone();
    }
    let name = crate::process::machine::host_name();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}
