//! Reads one page ahead: the tracker prepares one page while the previous one is consumed. One
//! request is in flight at a time, and memory is bounded whatever the number of items.

use std::future::Future;

use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::failure::Failure;
use super::{FetchError, Page};
use crate::clock::Clock;

/// Reads pages, each with the position to continue from once it is stored.
pub(super) trait Reader: Send + 'static {
    type Place: Send + 'static;

    fn next(&mut self)
    -> impl Future<Output = Result<Option<(Page, Self::Place)>, Failure>> + Send;
}

type Sent<P> = Result<Option<(Page, P)>, FetchError>;

/// A running reader. It continues only when its last page was taken, so at most three pages are in
/// memory: with the consumer, decoded, in flight.
pub(super) struct Ahead<P> {
    receiver: mpsc::Receiver<Sent<P>>,
    _task: AbortOnDropHandle<()>,
}

impl<P: Send + 'static> Ahead<P> {
    pub fn start(mut reader: impl Reader<Place = P>, clock: Clock) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            while let Ok(slot) = sender.reserve().await {
                let sent = reader.next().await;
                let sent = sent.map_err(|failure| failure.into_error(clock.now()));
                let more = matches!(sent, Ok(Some(_)));
                slot.send(sent);
                if !more {
                    break;
                }
            }
        });
        Self { receiver, _task: AbortOnDropHandle::new(task) }
    }

    /// The next page; `None` at the end.
    pub async fn next(&mut self) -> Sent<P> {
        self.receiver.recv().await.unwrap_or(Ok(None))
    }
}
