//! What passed through the gateway of one session, kept in memory until its end; off unless asked
//! for. Neither headers nor credentials are kept: the agent has none, and what heartbeat adds is
//! added behind this point.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All requests and answers of a session together, in bytes.
const MAX: usize = 24 << 20;

/// One request and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    pub request: Value,
    pub status: u16,
    pub content_type: String,
    pub body: String,
    /// The answer was there to its end.
    pub complete: bool,
}

#[derive(Debug, Default)]
struct Kept {
    exchanges: Vec<(u64, Exchange, Vec<u8>)>,
    bytes: usize,
    cut: bool,
}

/// Keeps the exchanges of one session.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Kept>);

impl Recorder {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn asked(&self, call: u64, request: Value, length: usize) {
        let mut kept = self.kept();
        kept.bytes = kept.bytes.saturating_add(length);
        if kept.bytes > MAX {
            kept.cut = true;
            return;
        }
        let content_type = String::new();
        let body = String::new();
        let exchange = Exchange { request, status: 0, content_type, body, complete: false };
        kept.exchanges.push((call, exchange, Vec::new()));
    }

    pub(super) fn answered(&self, call: u64, status: u16, content_type: &str) {
        if let Some((_, exchange, _)) = self.kept().exchanges.iter_mut().find(|kept| kept.0 == call)
        {
            exchange.status = status;
            content_type.clone_into(&mut exchange.content_type);
        }
    }

    pub(super) fn chunk(&self, call: u64, bytes: &[u8]) {
        let mut kept = self.kept();
        kept.bytes = kept.bytes.saturating_add(bytes.len());
        if kept.bytes > MAX {
            kept.cut = true;
        } else if let Some((.., body)) = kept.exchanges.iter_mut().find(|kept| kept.0 == call) {
            body.extend_from_slice(bytes);
        }
    }

    pub(super) fn completed(&self, call: u64) {
        if let Some((_, exchange, _)) = self.kept().exchanges.iter_mut().find(|kept| kept.0 == call)
        {
            exchange.complete = true;
        }
    }

    /// Everything, in order; `None` if it was too much to keep.
    pub fn take(&self) -> Option<Vec<Exchange>> {
        let kept = std::mem::take(&mut *self.kept());
        let whole = |(_, exchange, body): (u64, Exchange, Vec<u8>)| Exchange {
            body: String::from_utf8_lossy(&body).into_owned(),
            ..exchange
        };
        (!kept.cut).then(|| kept.exchanges.into_iter().map(whole).collect())
    }
}

/// The answers of a recording, in order, instead of a provider.
#[derive(Debug)]
pub struct Playback {
    left: Mutex<VecDeque<Exchange>>,
    /// The path by which the agent asks.
    pub(super) path: &'static str,
}

impl Playback {
    /// Requests that the provider did not answer are left out: whether one is made depends on time.
    pub fn new(exchanges: Vec<Exchange>, path: &'static str) -> Self {
        let answered = exchanges.into_iter().filter(|exchange| exchange.status > 0);
        Self { left: Mutex::new(answered.collect()), path }
    }

    pub(super) fn next(&self) -> Option<Exchange> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
