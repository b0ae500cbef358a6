//! Connections that are bounded in number and do not stay for nothing.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// Connections at once, whatever the limit on open files; the next one waits in the kernel's queue.
pub const MOST_CONNECTIONS: usize = 2048;
/// Open files that the job itself may need: database, tracker, keepers and their pipes, the log.
const FILES_OF_THE_JOB: u64 = 256;
/// A connection on which nothing moves for this long is closed. Event streams always move.
const IDLE: Duration = Duration::from_mins(1);
/// From a connection's start, or the first byte of a later request, to the first byte of its answer.
/// No handler takes longer, so only a client that sends slowly, or nothing, meets it.
const REQUEST: Duration = Duration::from_secs(10);

/// How many connections leave the job the open files it needs.
pub fn most_connections() -> usize {
    use nix::sys::resource::{Resource, getrlimit};
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    let share = files.saturating_sub(FILES_OF_THE_JOB);
    usize::try_from(share).unwrap_or(MOST_CONNECTIONS).clamp(16, MOST_CONNECTIONS)
}

/// Accepts no more than [`most_connections`] at once.
pub struct BoundedListener {
    listener: TcpListener,
    slots: Arc<Semaphore>,
}

impl BoundedListener {
    /// Over a listening socket.
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, slots: Arc::new(Semaphore::new(most_connections())) }
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // The semaphore is never closed; without a permit the connection would only be uncounted.
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // Small answers must not wait for each other's acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not set TCP_NODELAY");
        }
        let now = Instant::now();
        let timer = Box::pin(tokio::time::sleep(REQUEST));
        (Connection { stream, timer, moved: now, request: Some(now), _slot: slot }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that gives up when nothing moves.
pub struct Connection {
    stream: TcpStream,
    timer: Pin<Box<Sleep>>,
    moved: Instant,
    /// When the request began that has no answer yet.
    request: Option<Instant>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Connection {
    fn deadline(&self) -> Instant {
        let idle = self.moved + IDLE;
        self.request.map_or(idle, |began| idle.min(began + REQUEST))
    }

    /// The timer is set anew when it fires and when a request begins, not with every byte.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<()> {
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
            Poll::Pending => {
                self.poll_deadline(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
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
        if written.is_ready() {
            self.has_written();
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        if written.is_ready() {
            self.has_written();
        }
        written
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
