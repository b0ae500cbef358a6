//! A keeper's end of a socket: blocking writes, non-blocking reads.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::{Serialize, de::DeserializeOwned};

use super::protocol::{Frames, encode};

#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
    frames: Frames,
    open: bool,
}

impl Channel {
    /// Takes over a connected socket.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(true)?;
        Ok(Self { stream, frames: Frames::default(), open: true })
    }

    /// Whether the other end was still open at the last read.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Errors are ignored: reading detects a closed socket.
    pub fn send<M: Serialize>(&mut self, message: &M) {
        let Ok(frame) = encode(message) else { return };
        // Blocks only if the other end has stopped reading and the buffer is full; then the message
        // is lost.
        self.stream.set_nonblocking(false).ok();
        self.stream.set_write_timeout(Some(std::time::Duration::from_secs(2))).ok();
        self.stream.write_all(&frame).ok();
        self.stream.set_nonblocking(true).ok();
    }

    /// Complete messages received so far; the end of the stream closes the channel.
    pub fn receive<M: DeserializeOwned>(&mut self) -> Vec<M> {
        self.fill();
        std::iter::from_fn(|| self.next()).collect()
    }

    /// The first received message; later ones stay for the next call.
    pub fn receive_one<M: DeserializeOwned>(&mut self) -> Option<M> {
        self.fill();
        self.next()
    }

    fn fill(&mut self) {
        let mut chunk = [0; 16 * 1024];
        while self.open {
            match self.stream.read(&mut chunk) {
                Ok(0) => self.open = false,
                Ok(read) => self.frames.push(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.open = false,
            }
        }
    }

    fn next<M: DeserializeOwned>(&mut self) -> Option<M> {
        self.frames.take().unwrap_or_else(|_| {
            // Not our protocol: not our supervisor.
            self.open = false;
            None
        })
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
