//! A response body that breaks off in the middle.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::io::ReaderStream;

/// Sends the first half, then fails, which closes the connection.
pub fn first_half(whole: &Bytes) -> Body {
    Body::from_stream(ReaderStream::new(BrokenReader(whole.slice(..whole.len() / 2))))
}

struct BrokenReader(Bytes);

impl AsyncRead for BrokenReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let length = self.0.len().min(buffer.remaining());
        buffer.put_slice(&self.0.split_to(length));
        Poll::Ready(Ok(()))
    }
}
