//! Who may hold a connection.
//!
//! Connections that have not signed in share the smaller part of the places. When that part is full
//! the next one is accepted all the same, and the one that has been there longest without a request
//! in progress is closed. So somebody without a token who holds connections open keeps out neither a
//! probe nor a person: a signed-in connection has a place in the larger part and is never closed for
//! another one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Of all places, one in so many is for connections that have not signed in.
const SHARE: usize = 4;
/// Enough for probes and scrapers beside a browser that opens its first connections.
const FEWEST: usize = 8;
/// A stranger gains nothing from more.
const MOST: usize = 256;
/// Nobody loses a place before it could send a request. With [`MOST`] it also bounds how many new
/// connections a second somebody can make us accept, and so the processor time.
const TIME_TO_SEND: Duration = Duration::from_millis(50);
/// A connection that is told to close takes a moment; after this long another one is told, too.
const CLOSED_WITHIN: Duration = Duration::from_millis(100);

/// How many connections may be open that have not signed in, of so many in all.
pub fn places_for_strangers(all: usize) -> usize {
    (all / SHARE).clamp(FEWEST, MOST)
}

/// All places of a server.
#[derive(Debug)]
pub struct Places {
    for_strangers: Arc<Semaphore>,
    for_signed_in: Arc<Semaphore>,
    strangers: Mutex<Strangers>,
}

/// Those who have not signed in, oldest first.
#[derive(Debug, Default)]
struct Strangers {
    by_age: BTreeMap<u64, Arc<Place>>,
    accepted: u64,
}

/// The place of one connection.
#[derive(Debug)]
pub struct Place {
    number: u64,
    since: Instant,
    places: Arc<Places>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    /// A whole request has arrived, and no byte of its answer has left yet.
    is_answering: AtomicBool,
    given_away: CancellationToken,
}

impl Places {
    pub fn new(all: usize) -> Arc<Self> {
        let strangers = places_for_strangers(all);
        Arc::new(Self {
            for_strangers: Arc::new(Semaphore::new(strangers)),
            for_signed_in: Arc::new(Semaphore::new(all.saturating_sub(strangers))),
            strangers: Mutex::default(),
        })
    }

    /// A place for a new connection, if need be that of another one.
    pub async fn take(self: &Arc<Self>) -> Arc<Place> {
        let permit = self.permit_for_stranger().await;
        let mut strangers = lock(&self.strangers);
        strangers.accepted += 1;
        let number = strangers.accepted;
        let place = Arc::new(Place {
            number,
            since: Instant::now(),
            places: Arc::clone(self),
            permit: Mutex::new(permit),
            is_answering: AtomicBool::new(false),
            given_away: CancellationToken::new(),
        });
        strangers.by_age.insert(number, Arc::clone(&place));
        place
    }

    async fn permit_for_stranger(&self) -> Option<OwnedSemaphorePermit> {
        let places = &self.for_strangers;
        if let Ok(permit) = Arc::clone(places).try_acquire_owned() {
            return Some(permit);
        }
        loop {
            let within = self.make_room();
            let acquired = tokio::time::timeout(within, Arc::clone(places).acquire_owned()).await;
            if let Ok(acquired) = acquired {
                // The semaphore is never closed; without a permit it would only be uncounted.
                return acquired.ok();
            }
        }
    }

    /// Gives the place of the oldest away, if it had time enough to send a request; after how long to
    /// look again.
    fn make_room(&self) -> Duration {
        let mut strangers = lock(&self.strangers);
        let silent = strangers.by_age.values().find(|place| !place.is_answering());
        let Some(oldest) = silent.or_else(|| strangers.by_age.values().next()) else {
            return CLOSED_WITHIN;
        };
        let age = oldest.since.elapsed();
        if age < TIME_TO_SEND {
            return TIME_TO_SEND - age;
        }
        let number = oldest.number;
        if let Some(place) = strangers.by_age.remove(&number) {
            place.given_away.cancel();
        }
        CLOSED_WITHIN
    }
}

impl Place {
    /// A request has arrived whole.
    pub fn begin_answer(&self) {
        self.is_answering.store(true, Ordering::Relaxed);
    }

    /// The first byte of the answer has left.
    pub fn end_answer(&self) {
        self.is_answering.store(false, Ordering::Relaxed);
    }

    fn is_answering(&self) -> bool {
        self.is_answering.load(Ordering::Relaxed)
    }

    /// Its request was signed in: it moves to the larger part, if that has room.
    pub fn sign_in(&self) {
        let mut strangers = lock(&self.places.strangers);
        if !strangers.by_age.contains_key(&self.number) {
            return;
        }
        if let Ok(permit) = Arc::clone(&self.places.for_signed_in).try_acquire_owned() {
            strangers.by_age.remove(&self.number);
            *lock(&self.permit) = Some(permit);
        }
    }

    /// The connection is closed.
    pub fn leave(&self) {
        lock(&self.places.strangers).by_age.remove(&self.number);
        *lock(&self.permit) = None;
    }

    /// Cancelled when somebody else gets the place.
    pub fn given_away(&self) -> &CancellationToken {
        &self.given_away
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
