//! Stop requests to sessions: with a reason, first with a grace period, the second time without.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::model::{FailureKind, SessionId};

/// Why a session is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    Shutdown,
    /// The run reached its time limit.
    RunDeadline,
    /// A user asked for it.
    Operator,
    /// The item was deleted or closed.
    ItemGone,
    /// The ledger or its lease was lost.
    LeaseLost,
}

impl StopReason {
    /// As the detail of an outcome.
    pub const fn kind(self) -> FailureKind {
        match self {
            Self::Shutdown => FailureKind::Shutdown,
            Self::RunDeadline => FailureKind::RunDeadline,
            Self::Operator => FailureKind::Operator,
            Self::ItemGone => FailureKind::ItemGone,
            Self::LeaseLost => FailureKind::LeaseLost,
        }
    }
}

/// What has been requested so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StopState {
    /// `None`: keep running.
    pub reason: Option<StopReason>,
    /// No grace period.
    pub immediate: bool,
}

/// The requesting side. Clones control the same session.
#[derive(Debug, Clone)]
pub struct StopHandle(watch::Sender<StopState>);

impl Default for StopHandle {
    fn default() -> Self {
        Self::new()
    }
}

impl StopHandle {
    pub fn new() -> Self {
        Self(watch::Sender::new(StopState::default()))
    }

    /// Requests an end with a grace period. The first reason counts.
    pub fn stop(&self, reason: StopReason) {
        self.0.send_modify(|state| state.reason = state.reason.or(Some(reason)));
    }

    /// Requests an end without a grace period.
    pub fn stop_now(&self, reason: StopReason) {
        self.0.send_modify(|state| {
            state.reason = state.reason.or(Some(reason));
            state.immediate = true;
        });
    }

    /// What has been requested.
    pub fn state(&self) -> StopState {
        *self.0.borrow()
    }

    /// The receiving side.
    pub fn signal(&self) -> StopSignal {
        StopSignal { sources: vec![self.0.subscribe()] }
    }
}

/// The receiving side of one or several handles: a session listens to its own and to the shared
/// one.
#[derive(Debug, Clone)]
pub struct StopSignal {
    sources: Vec<watch::Receiver<StopState>>,
}

impl StopSignal {
    /// Also listens to another handle.
    #[must_use]
    pub fn and(mut self, other: &StopHandle) -> Self {
        self.sources.push(other.0.subscribe());
        self
    }

    /// What has been requested, over all handles.
    pub fn state(&self) -> StopState {
        self.sources.iter().fold(StopState::default(), |all, source| {
            let one = *source.borrow();
            StopState {
                reason: all.reason.or(one.reason),
                immediate: all.immediate || one.immediate,
            }
        })
    }

    /// Waits until the request differs from `known`. Cancel-safe.
    pub async fn changed(&mut self, known: StopState) -> StopState {
        loop {
            let state = self.state();
            if state != known {
                return state;
            }
            let waits = self.sources.iter_mut().map(|source| {
                Box::pin(async move {
                    if source.changed().await.is_err() {
                        // The handle was dropped and will send nothing.
                        std::future::pending::<()>().await;
                    }
                })
            });
            any(waits.collect()).await;
        }
    }
}

/// Waits for the first of some futures.
async fn any<F: Future<Output = ()> + Unpin>(mut futures: Vec<F>) {
    std::future::poll_fn(|context| {
        let ready = futures.iter_mut().any(|one| std::pin::Pin::new(one).poll(context).is_ready());
        if ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// The sessions that this process supervises; each can be ended separately. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LiveSessions(Arc<Mutex<HashMap<SessionId, StopHandle>>>);

impl LiveSessions {
    /// Asks one session to end. False if this process does not supervise it.
    pub fn stop(&self, session: SessionId) -> bool {
        self.handles().get(&session).map(|handle| handle.stop(StopReason::Operator)).is_some()
    }

    /// The entry is removed when the returned value is dropped.
    pub fn register(&self, session: SessionId) -> LiveEntry {
        let handle = StopHandle::new();
        self.handles().insert(session, handle.clone());
        LiveEntry { sessions: self.clone(), session, handle }
    }

    /// Registered sessions.
    pub fn ids(&self) -> HashSet<SessionId> {
        self.handles().keys().copied().collect()
    }

    fn handles(&self) -> MutexGuard<'_, HashMap<SessionId, StopHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's entry in [`LiveSessions`].
pub struct LiveEntry {
    sessions: LiveSessions,
    session: SessionId,
    /// Ends this session only.
    pub(super) handle: StopHandle,
}

impl LiveEntry {
    /// Ends this session only.
    pub fn handle(&self) -> &StopHandle {
        &self.handle
    }
}

impl Drop for LiveEntry {
    fn drop(&mut self) {
        self.sessions.handles().remove(&self.session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn either_handle_is_heard_and_the_first_reason_stands() {
        let (own, all) = (StopHandle::new(), StopHandle::new());
        let mut signal = own.signal().and(&all);
        assert_eq!(signal.state(), StopState::default());
        all.stop(StopReason::Shutdown);
        let first = signal.changed(StopState::default()).await;
        assert_eq!(first, StopState { reason: Some(StopReason::Shutdown), immediate: false });
        all.stop_now(StopReason::Operator);
        let second = signal.changed(first).await;
        assert_eq!(second, StopState { reason: Some(StopReason::Shutdown), immediate: true });
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_handle_asks_for_nothing() {
        let own = StopHandle::new();
        let mut signal = own.signal();
        drop(own);
        let waited = tokio::time::timeout(
            std::time::Duration::from_secs(5),
            signal.changed(StopState::default()),
        );
        assert!(waited.await.is_err());
    }
}
