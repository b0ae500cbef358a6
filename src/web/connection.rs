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

/// Connections at once; the next one waits in the kernel's line.
pub const MOST_CONNECTIONS: usize = 2048;
/// A connection on which nothing moves for this long is closed. Event streams always move.
const IDLE: Duration = Duration::from_mins(1);

/// Accepts no more than [`MOST_CONNECTIONS`] at once.
pub struct BoundedListener {
    listener: TcpListener,
    slots: Arc<Semaphore>,
}

impl BoundedListener {
    /// Over a listening socket.
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, slots: Arc::new(Semaphore::new(MOST_CONNECTIONS)) }
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
            tracing::debug!(%error, "no delay could not be set");
        }
        let idle = Box::pin(tokio::time::sleep(IDLE));
        (Connection { stream, idle, moved: Instant::now(), _slot: slot }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that gives up when nothing moves.
pub struct Connection {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    moved: Instant,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// The timer is set anew only when it fires: moving bytes costs one reading of the clock.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.idle.as_mut().poll(context).is_ready() {
            let until = self.moved + IDLE;
            if until <= Instant::now() {
                return Poll::Ready(());
            }
            self.idle.as_mut().reset(until);
        }
        Poll::Pending
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
                self.moved = Instant::now();
                Poll::Ready(read)
            }
            Poll::Pending => self.poll_idle(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
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
            self.moved = Instant::now();
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
            self.moved = Instant::now();
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
