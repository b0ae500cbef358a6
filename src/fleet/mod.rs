//! Sessions on other hosts: the coordinator keeps its state and all other stages of an item; only
//! sessions run elsewhere. The feature `fleet` builds it; without it there is one machine and no
//! server.
//!
//! ```text
//! coordinator (one; has the state)           server (Temporal)            hosts: heartbeat worker
//! claim, row below the cap (I1, I2, I6)
//! offer ───────────────────────────────────▶ hb/<state>/<session> ──────▶ asks for the order
//! order, for this host, once ◀──────────────────────────────────────────▶ beat 0 (fence), row, token
//! look at every interval (I8) ◀── details ── last beat            ◀beats─ the same supervised session
//! end ◀───────────────────────────────────── result               ◀────── certified empty, delivered
//! close the row with its output, then apply it as usual (I4)
//! ```
//!
//! - Every process has its own key. The coordinator signs what it offers and orders, and gives each
//!   order to one host that it knows by its public key, readable by that host alone; the host's
//!   heartbeats and result are sealed with a key of that order (`hand_over`, [`keys`]).
//! - Each session is an activity without a workflow, tried once: retries are ours.
//! - A worker's lease is shorter than the server's timeout by the grace period, so that the tree
//!   of a lost host is gone before the server gives its session up ([`lease`]).
//! - An execution that ended without any heartbeat started nothing: the claim is released
//!   completely. If there was one, its host is asked before the session counts as orphaned.
//! - If it is unknown whether a start succeeded, its id is started again with an empty task: then
//!   the first start is either found or can no longer succeed.
//!
//! `engine` is the only place that names the server's crates.

pub mod checkout;
pub mod keys;
pub mod lease;
pub mod order;
pub mod seal;

#[cfg(feature = "fleet")]
pub mod account;
#[cfg(feature = "fleet")]
mod blame;
#[cfg(feature = "fleet")]
mod deliver;
#[cfg(feature = "fleet")]
pub mod doctor;
#[cfg(feature = "fleet")]
pub mod engine;
#[cfg(feature = "fleet")]
mod faults;
#[cfg(feature = "fleet")]
mod follow;
#[cfg(feature = "fleet")]
pub mod gate;
#[cfg(feature = "fleet")]
mod hand_over;
#[cfg(feature = "fleet")]
mod liveness;
#[cfg(feature = "fleet")]
pub mod name;
#[cfg(feature = "fleet")]
mod reports;
#[cfg(feature = "fleet")]
pub mod right;
#[cfg(feature = "fleet")]
pub mod sessions;
#[cfg(feature = "fleet")]
pub mod worker;

use crate::model::SessionId;
use crate::settings::Fleet;

/// Whether it was built with the feature `fleet`.
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

    /// The server's id of a session.
    pub fn session(&self, session: SessionId) -> String {
        format!("hb/{}/{session}", self.state)
    }

    /// The server's id of a request for a session's end; unique for each request.
    pub fn report(&self, session: SessionId) -> String {
        format!("hb/{}/{session}/report/{}", self.state, uuid::Uuid::now_v7().simple())
    }

    /// The server's id of the right to run.
    pub fn run(&self) -> String {
        format!("hb/{}/run", self.state)
    }

    /// The queue where sessions wait for a host. Its name contains the version, so that a worker
    /// never gets an order that it does not understand.
    pub fn queue(&self) -> String {
        queue(&self.pool)
    }

    /// The queue of one host.
    pub fn queue_of(&self, host: &str) -> String {
        queue_of(&self.pool, host)
    }
}

/// The queue where sessions of a pool wait for a host.
pub fn queue(pool: &str) -> String {
    queue_of_wire(pool, order::WIRE)
}

/// The same for hosts with this protocol version.
pub fn queue_of_wire(pool: &str, wire: u32) -> String {
    format!("heartbeat-{pool}-w{wire}")
}

/// The queue where the coordinator waits for the host that takes a session.
pub fn claim_queue(pool: &str, session: SessionId) -> String {
    format!("{}-claim-{session}", queue(pool))
}

/// The queue of one host of a pool.
pub fn queue_of(pool: &str, host: &str) -> String {
    format!("{}-{host}", queue(pool))
}

/// The name of this host: configured, or the machine's.
pub fn own_host(fleet: &Fleet) -> String {
    if !fleet.host.is_empty() {
        return fleet.host.clone();
    }
    let name = crate::process::machine::host_name();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}
