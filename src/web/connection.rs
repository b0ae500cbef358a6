//! Connections, bounded in number and in idle time. [`super::slots`] decides which one is closed
//! when all slots are taken.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::slots::{ConnectionSlot, ConnectionSlots};

/// Maximum, whatever the limit of open files.
pub const MAX_CONNECTIONS: usize = 2048;
/// Open files reserved for the job: database, tracker, keepers and their pipes, the log.
const FILES_OF_THE_JOB: u64 = 256;
/// An idle connection is closed after this time. Event streams are never idle.
const IDLE: Duration = Duration::from_mins(1);
/// From a connection's start, or the first byte of a later request, to the first byte of its
/// response. No handler takes longer, so this only ends clients that send slowly or nothing.
pub const REQUEST: Duration = Duration::from_secs(10);

/// Number of connections that leaves enough open files for the job.
pub fn most_connections() -> usize {
    use nix::sys::resource::{Resource, getrlimit};
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    let share = files.saturating_sub(FILES_OF_THE_JOB);
    usize::try_from(share).unwrap_or(MAX_CONNECTIONS).clamp(16, MAX_CONNECTIONS)
}

/// Accepts at most [`most_connections`] at once.
pub struct BoundedListener {
    listener: TcpListener,
    slots: Arc<ConnectionSlots>,
}

impl BoundedListener {
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, slots: ConnectionSlots::new(most_connections()) }
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let slot = self.slots.take().await;
        // Small responses must not wait for an acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not set TCP_NODELAY");
        }
        (Connection::new(stream, slot), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection with an idle timeout.
pub struct Connection {
    stream: TcpStream,
    timer: Pin<Box<Sleep>>,
    moved: Instant,
    /// Start of the request that has no response yet.
    request: Option<Instant>,
    evicted: Pin<Box<WaitForCancellationFutureOwned>>,
    // Dropped after the stream is closed.
    slot: SlotGuard,
}

/// Releases the slot on drop.
struct SlotGuard(Arc<ConnectionSlot>);

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Passed with requests, so that a sign-in can be recorded for their connection.
#[derive(Clone)]
pub struct Origin(pub Arc<ConnectionSlot>);

impl Connected<IncomingStream<'_, BoundedListener>> for Origin {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        Self(Arc::clone(&stream.io().slot.0))
    }
}

impl Connection {
    fn new(stream: TcpStream, slot: Arc<ConnectionSlot>) -> Self {
        let now = Instant::now();
        Self {
            stream,
            timer: Box::pin(tokio::time::sleep(REQUEST)),
            moved: now,
            request: Some(now),
            evicted: Box::pin(slot.evicted().clone().cancelled_owned()),
            slot: SlotGuard(slot),
        }
    }

    fn deadline(&self) -> Instant {
        let idle = self.moved + IDLE;
        self.request.map_or(idle, |began| idle.min(began + REQUEST))
    }

    /// Ready when the connection must end: it was evicted, or its time is up. The timer
    /// is reset when it fires and when a request begins, not on every byte.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.evicted.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let until = self.deadline();
            if until <= Instant::now() {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(until);
        }
        Poll::Pending
    }

    fn has_read(&mut self) {
        self.moved = Instant::now();
        if self.request.is_none() {
            self.request = Some(self.moved);
            let until = self.deadline();
            self.timer.as_mut().reset(until);
        }
    }

    fn has_written(&mut self) {
        self.moved = Instant::now();
        self.request = None;
        self.slot.0.end_answer();
    }

    /// A pending write ends with the connection's time.
    fn end_or(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.has_written();
            return written;
        }
        self.poll_end(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(read) => {
                self.has_read();
                Poll::Ready(read)
            }
            Poll::Pending => self.poll_end(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.end_or(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.end_or(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
