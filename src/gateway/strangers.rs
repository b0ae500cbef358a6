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

#[derive(Debug)]
pub(super) struct Strangers {
    by_age: Mutex<(u64, BTreeMap<u64, (Instant, CancellationToken)>)>,
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
    fn by_age(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, (Instant, CancellationToken)>)> {
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
        if by_age.1.len() >= MAX
            && let Some(oldest) = by_age.1.first_entry()
        {
            let until = oldest.get().0 + TIME_TO_SEND;
            if until > Instant::now() {
                return Err(until);
            }
            oldest.remove().1.cancel();
        }
        by_age.0 += 1;
        let (number, closed) = (by_age.0, CancellationToken::new());
        by_age.1.insert(number, (Instant::now(), closed.clone()));
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
            self.strangers.by_age().1.remove(&self.number);
        }
        known.is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.strangers.by_age().1.remove(&self.number);
    }
}
