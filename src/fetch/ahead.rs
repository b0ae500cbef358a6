//! Reads one page ahead: the tracker answers for one page while the one before it is consumed. One
//! request is on its way at a time, and memory is bounded whatever the number of items.

use std::future::Future;

use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::failure::Failure;
use super::{FetchError, Page};
use crate::clock::Clock;

/// Reads pages, each with the place from which to go on once it is stored.
pub(super) trait Reader: Send + 'static {
    type Place: Send + 'static;

    fn next(&mut self)
    -> impl Future<Output = Result<Option<(Page, Self::Place)>, Failure>> + Send;
}

type Sent<P> = Result<Option<(Page, P)>, FetchError>;

/// A reader at work. It goes on only when its last page was taken, so that at most three pages are
/// in memory: with the consumer, decoded, on its way.
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

    /// The next page, or none at the end.
    pub async fn next(&mut self) -> Sent<P> {
        self.receiver.recv().await.unwrap_or(Ok(None))
    }
}
