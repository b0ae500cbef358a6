//! One connection of a loopback API: plain sockets, so that a fault is exactly the bytes that were
//! sent. Nothing here sleeps: a hanging reply waits until the peer disconnects.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

/// How often a hanging connection checks its peer, and sends pings.
const TICK: Duration = Duration::from_millis(200);

pub struct Connection<'a> {
    pub stream: TcpStream,
    pub stopped: &'a AtomicBool,
}

impl Connection<'_> {
    /// Holds the connection until the peer or the server disconnects.
    pub fn hang(&mut self, pings: bool) -> io::Result<()> {
        self.stream.set_read_timeout(Some(TICK))?;
        let mut byte = [0; 1];
        while !self.stopped.load(Ordering::SeqCst) {
            match self.stream.read(&mut byte) {
                Ok(0) => break,
                Err(error)
                    if !matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    break;
                }
                _ if pings => self.chunk(b"event: ping\ndata: {\"type\":\"ping\"}\n\n")?,
                _ => {}
            }
        }
        Ok(())
    }

    pub fn json(
        &mut self,
        status: u16,
        headers: &[(&str, String)],
        body: &Value,
    ) -> io::Result<()> {
        let body = body.to_string();
        self.headers(status, "application/json", headers, Some(body.len()))?;
        self.stream.write_all(body.as_bytes())
    }

    pub fn headers(
        &mut self,
        status: u16,
        kind: &str,
        more: &[(&str, String)],
        length: Option<usize>,
    ) -> io::Result<()> {
        let mut head = format!(
            "HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\nconnection: close\r\nrequest-id: req_1\r\n"
        );
        for (name, value) in more {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&match length {
            Some(length) => format!("content-length: {length}\r\n\r\n"),
            None => "transfer-encoding: chunked\r\n\r\n".to_owned(),
        });
        self.stream.write_all(head.as_bytes())
    }

    pub fn event(&mut self, data: &Value) -> io::Result<()> {
        let kind = data["type"].as_str().unwrap_or_default();
        self.chunk(format!("event: {kind}\ndata: {data}\n\n").as_bytes())
    }

    pub fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes())?;
        self.stream.write_all(bytes)?;
        self.stream.write_all(b"\r\n")
    }
}
