//! Connections that have not shown the session's token. Any local process can open them: when there
//! are many, the oldest is closed for the next one, so that they keep nobody out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// At once.
const MAX: usize = 16;
/// Connections that have shown it.
const MAX_KNOWN: usize = 16;
/// No connection is closed before it could send the head of a request.
const TIME_TO_SEND: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
struct ByAge {
    accepted: u64,
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    closed: CancellationToken,
}

#[derive(Debug)]
pub(super) struct Strangers {
    by_age: Mutex<ByAge>,
    known: Arc<Semaphore>,
}

impl Default for Strangers {
    fn default() -> Self {
        Self { by_age: Mutex::default(), known: Arc::new(Semaphore::new(MAX_KNOWN)) }
    }
}

/// The place of one connection.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    strangers: Arc<Strangers>,
    known: Mutex<Option<OwnedSemaphorePermit>>,
    /// It has to make room.
    pub closed: CancellationToken,
}

impl Strangers {
    fn by_age(&self) -> MutexGuard<'_, ByAge> {
        self.by_age.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the oldest had its time, if all places are taken.
    pub async fn admit(self: &Arc<Self>) -> Place {
        loop {
            match self.try_admit() {
                Ok(place) => return place,
                Err(until) => tokio::time::sleep_until(until).await,
            }
        }
    }

    fn try_admit(self: &Arc<Self>) -> Result<Place, Instant> {
        let mut by_age = self.by_age();
        if by_age.waiting.len() >= MAX
            && let Some(oldest) = by_age.waiting.first_entry()
        {
            let until = oldest.get().since + TIME_TO_SEND;
            if until > Instant::now() {
                return Err(until);
            }
            oldest.remove().closed.cancel();
        }
        by_age.accepted += 1;
        let (number, closed) = (by_age.accepted, CancellationToken::new());
        by_age.waiting.insert(number, Waiting { since: Instant::now(), closed: closed.clone() });
        Ok(Place { number, strangers: Arc::clone(self), known: Mutex::default(), closed })
    }
}

impl Place {
    /// It has shown the token; `false`: too many have.
    pub fn is_known(&self) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            *known = Arc::clone(&self.strangers.known).try_acquire_owned().ok();
        }
        if known.is_some() {
            self.strangers.by_age().waiting.remove(&self.number);
        }
        known.is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.strangers.by_age().waiting.remove(&self.number);
    }
}
