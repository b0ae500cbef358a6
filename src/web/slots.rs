//! Which connections may stay open.
//!
//! Connections that are not signed in share the smaller part of the slots. When that part is full,
//! the next one is still accepted, and the oldest one without a request in progress is closed. So a
//! client without a token that holds connections open keeps out neither probes nor users: a
//! signed-in connection has a slot in the larger part and is never closed for another one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// One in this many slots is for connections that are not signed in.
const SHARE: usize = 4;
/// Enough for probes and scrapers next to a browser that opens its first connections.
const MIN: usize = 8;
/// More would only help an attacker.
const MAX: usize = 256;
/// No connection is closed before it could send a request. With [`MAX`], this also bounds how many
/// new connections per second can be forced on us, and so the CPU time.
const TIME_TO_SEND: Duration = Duration::from_millis(50);
/// A connection takes a moment to close; after this time another one is closed too.
const CLOSED_WITHIN: Duration = Duration::from_millis(100);

/// Maximum number of connections that are not signed in.
pub fn anonymous_slots(all: usize) -> usize {
    (all / SHARE).clamp(MIN, MAX)
}

#[derive(Debug)]
pub struct ConnectionSlots {
    for_anonymous: Arc<Semaphore>,
    for_signed_in: Arc<Semaphore>,
    anonymous: Mutex<Anonymous>,
}

/// Connections that are not signed in, oldest first.
#[derive(Debug, Default)]
struct Anonymous {
    by_age: BTreeMap<u64, Arc<ConnectionSlot>>,
    accepted: u64,
}

#[derive(Debug)]
pub struct ConnectionSlot {
    number: u64,
    since: Instant,
    slots: Arc<ConnectionSlots>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    /// A complete request has arrived, and its response has not begun.
    is_answering: AtomicBool,
    evicted: CancellationToken,
}

impl ConnectionSlots {
    pub fn new(all: usize) -> Arc<Self> {
        let anonymous = anonymous_slots(all);
        Arc::new(Self {
            for_anonymous: Arc::new(Semaphore::new(anonymous)),
            for_signed_in: Arc::new(Semaphore::new(all.saturating_sub(anonymous))),
            anonymous: Mutex::default(),
        })
    }

    /// Takes a slot for a new connection, if necessary from another one.
    pub async fn take(self: &Arc<Self>) -> Arc<ConnectionSlot> {
        let permit = self.permit_for_anonymous().await;
        let mut anonymous = lock(&self.anonymous);
        anonymous.accepted += 1;
        let number = anonymous.accepted;
        let slot = Arc::new(ConnectionSlot {
            number,
            since: Instant::now(),
            slots: Arc::clone(self),
            permit: Mutex::new(permit),
            is_answering: AtomicBool::new(false),
            evicted: CancellationToken::new(),
        });
        anonymous.by_age.insert(number, Arc::clone(&slot));
        slot
    }

    async fn permit_for_anonymous(&self) -> Option<OwnedSemaphorePermit> {
        let slots = &self.for_anonymous;
        if let Ok(permit) = Arc::clone(slots).try_acquire_owned() {
            return Some(permit);
        }
        loop {
            let within = self.evict_oldest();
            let acquired = tokio::time::timeout(within, Arc::clone(slots).acquire_owned()).await;
            if let Ok(acquired) = acquired {
                // The semaphore is never closed; without a permit the connection would only be
                // uncounted.
                return acquired.ok();
            }
        }
    }

    /// Closes the oldest connection if it had enough time to send a request; returns when to check
    /// again.
    fn evict_oldest(&self) -> Duration {
        let mut anonymous = lock(&self.anonymous);
        let silent = anonymous.by_age.values().find(|slot| !slot.is_answering());
        let Some(oldest) = silent.or_else(|| anonymous.by_age.values().next()) else {
            return CLOSED_WITHIN;
        };
        let age = oldest.since.elapsed();
        if age < TIME_TO_SEND {
            return TIME_TO_SEND - age;
        }
        let number = oldest.number;
        if let Some(slot) = anonymous.by_age.remove(&number) {
            slot.evicted.cancel();
        }
        CLOSED_WITHIN
    }
}

impl ConnectionSlot {
    /// A complete request has arrived.
    pub fn begin_answer(&self) {
        self.is_answering.store(true, Ordering::Relaxed);
    }

    /// The response has begun.
    pub fn end_answer(&self) {
        self.is_answering.store(false, Ordering::Relaxed);
    }

    fn is_answering(&self) -> bool {
        self.is_answering.load(Ordering::Relaxed)
    }

    /// Moves to the larger part, if that has room, after a signed-in request.
    pub fn sign_in(&self) {
        let mut anonymous = lock(&self.slots.anonymous);
        if !anonymous.by_age.contains_key(&self.number) {
            return;
        }
        if let Ok(permit) = Arc::clone(&self.slots.for_signed_in).try_acquire_owned() {
            anonymous.by_age.remove(&self.number);
            *lock(&self.permit) = Some(permit);
        }
    }

    /// The connection is closed.
    pub fn release(&self) {
        lock(&self.slots.anonymous).by_age.remove(&self.number);
        *lock(&self.permit) = None;
    }

    /// Cancelled when another connection gets the slot.
    pub fn evicted(&self) -> &CancellationToken {
        &self.evicted
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
