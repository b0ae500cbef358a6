//! A loopback HTTP proxy between an agent and its model provider.
//!
//! Each session has its own listener, token and allowed path. The agent holds only that token; the
//! provider's key stays in heartbeat's memory and is added to what is forwarded. Answers are
//! streamed, never kept: [`wire`] reads the provider's token counts as they pass, [`meter`] keeps
//! the session's account and its caps, [`failure`] classifies refusals by what the provider itself
//! said. [`request`] is what a session may ask at all. [`prices`] is the price list. [`record`] keeps what passed, if asked for, and plays it back
//! without a provider.

pub mod failure;
pub mod meter;
pub mod prices;
pub mod record;
pub mod request;
mod server;
mod strangers;
pub mod upstream;
pub mod wire;

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::clock::Clock;
use crate::model::Usage;

pub use failure::{Class, Failure};
pub use meter::{Account, Bounds, Stop};
pub use upstream::{Greeting, Provider, Upstream};

pub use record::{Exchange, Playback};
pub use request::Models;

use meter::Meter;
use record::Recorder;

/// What an agent has to know: an address on loopback and a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Door {
    pub port: u16,
    pub token: String,
}

impl Door {
    /// `http://127.0.0.1:PORT`, without a path.
    pub fn address(&self) -> String {
        format!("http://{}:{}", Ipv4Addr::LOCALHOST, self.port)
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("port", &self.port).finish_non_exhaustive()
    }
}

/// The gateway of one session. It closes when this is dropped.
#[derive(Debug)]
pub struct Gateway {
    door: Door,
    meter: Arc<Meter>,
    recorder: Option<Arc<Recorder>>,
    _open: DropGuard,
}

impl Gateway {
    /// Opens a gateway on a free loopback port, within the current runtime.
    pub fn open(upstream: Arc<Upstream>, bounds: Bounds, clock: Clock) -> io::Result<Self> {
        Self::start(server::Behind::Provider(upstream), bounds, clock, None)
    }

    /// The same, and what passes is kept.
    pub fn recording(upstream: Arc<Upstream>, bounds: Bounds, clock: Clock) -> io::Result<Self> {
        let recorder = Some(Arc::new(Recorder::default()));
        Self::start(server::Behind::Provider(upstream), bounds, clock, recorder)
    }

    /// Answers from a recording; nothing is sent anywhere.
    pub fn playing(playback: Arc<Playback>, bounds: Bounds, clock: Clock) -> io::Result<Self> {
        Self::start(server::Behind::Recording(playback), bounds, clock, None)
    }

    fn start(
        behind: server::Behind,
        bounds: Bounds,
        clock: Clock,
        recorder: Option<Arc<Recorder>>,
    ) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let door = Door { port: listener.local_addr()?.port(), token: token()? };
        let (meter, stop) = (Arc::new(Meter::new(bounds)), CancellationToken::new());
        let shared = Arc::new(server::Shared {
            token: door.token.clone(),
            behind,
            recorder: recorder.clone(),
            meter: Arc::clone(&meter),
            clock,
            stop: stop.clone(),
            left_out: std::sync::Mutex::default(),
        });
        tokio::spawn(server::serve(listener, shared));
        Ok(Self { door, meter, recorder, _open: stop.drop_guard() })
    }

    pub fn door(&self) -> &Door {
        &self.door
    }

    /// What passed through it, if it was kept; the inner `None`: it was too much.
    pub fn recorded(&self) -> Option<Option<Vec<Exchange>>> {
        self.recorder.as_ref().map(|recorder| recorder.take())
    }

    /// What the session has used and how its requests ended, up to now.
    pub fn account(&self) -> Account {
        self.meter.account()
    }

    /// What the session has used up to now, with its open requests as far as they are known.
    pub fn used(&self) -> Usage {
        let Account { usage, .. } = self.account();
        Usage { estimated: true, ..usage }
    }

    /// Another value than before if a request ended since.
    pub fn last_settled(&self) -> u64 {
        self.meter.last_settled()
    }

    /// Allows the same number of calls again, for a second question of the same session.
    pub fn allow_another_question(&self) {
        self.meter.allow_another_question();
    }
}

/// 256 random bits. It begins like no provider's key.
fn token() -> io::Result<String> {
    let mut bytes = [0; 32];
    let random = ring::rand::SystemRandom::new();
    ring::rand::SecureRandom::fill(&random, &mut bytes)
        .map_err(|_| io::Error::other("the system has no random numbers"))?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("session-{hex}"))
}

#[cfg(test)]
mod tests;
