//! A keeper's end of a socket: blocking writes, reads that never wait.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::{Serialize, de::DeserializeOwned};

use super::protocol::{Frames, encode};

/// One end.
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

    /// Is the other end still there, as far as we have read?
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Sends; an unreachable other end is noticed by reading, so it is no error here.
    pub fn send<M: Serialize>(&mut self, message: &M) {
        let Ok(frame) = encode(message) else { return };
        // Blocks only if the other end has stopped reading with a full buffer; then the message is
        // lost with it.
        self.stream.set_nonblocking(false).ok();
        self.stream.set_write_timeout(Some(std::time::Duration::from_secs(2))).ok();
        self.stream.write_all(&frame).ok();
        self.stream.set_nonblocking(true).ok();
    }

    /// Whole messages that are there; the end of the stream closes the channel.
    pub fn receive<M: DeserializeOwned>(&mut self) -> Vec<M> {
        self.fill();
        std::iter::from_fn(|| self.next()).collect()
    }

    /// The first message that is there; later ones stay for the next call.
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
            // Whoever speaks another language is not our supervisor.
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
