//! `/events`: events as they happen, and snapshots.
//!
//! `happened` is one event of the log with its number; `state` is the whole snapshot of
//! `/api/state`; `reset` means that too many events were missed to send them one by one. A client
//! that reconnects with `Last-Event-ID` first gets what it missed. A client that does not read is
//! disconnected; it can reconnect and catch up, and nothing waits for it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Deserialize;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::io::ReaderStream;

use super::answer;
use super::hub::{Frame, Hub, Listener, Snapshot};
use super::server::Shared;
use crate::event::Recorded;
use crate::event::fold::RunView;
use crate::report::lines::line;

/// Maximum number of clients; more are rejected.
pub const MAX_LISTENERS: usize = 1000;
/// Buffer per client, in bytes.
const BUFFER: usize = 16 << 10;
/// Interval of keep-alive messages, so that both sides notice a dead connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A client that reads nothing for this long is disconnected.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of checks that a client is still signed in.
const SIGN_IN_CHECK: Duration = Duration::from_secs(1);
/// More missed events than this are not sent one by one.
const MAX_MISSED: i64 = 1000;

/// One event as sent.
pub fn happened(recorded: &Recorded, view: &RunView) -> Frame {
    let mut value = serde_json::to_value(recorded).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("line".into(), line(recorded, view).into());
    }
    let seq = recorded.seq;
    let text = format!("id: {seq}\nevent: happened\ndata: {value}\n\n");
    Frame { seq: Some(seq), bytes: text.into() }
}

/// A snapshot as sent.
pub fn snapshot_frame(snapshot: &Snapshot) -> Frame {
    let mut bytes = Vec::with_capacity(snapshot.state.len() + 32);
    bytes.extend_from_slice(b"event: state\ndata: ");
    bytes.extend_from_slice(&snapshot.state);
    bytes.extend_from_slice(b"\n\n");
    Frame { seq: None, bytes: bytes.into() }
}

/// Where to resume.
#[derive(Debug, Deserialize)]
pub struct From {
    after: Option<i64>,
}

/// `GET /events`
pub async fn events(
    State(shared): State<Arc<Shared>>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Response {
    if shared.hub.clients() >= MAX_LISTENERS {
        let message = "too many open event streams; try again later";
        let mut response = answer::refusal(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
        return response;
    }
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = last.or(from.after);
    let listener = shared.hub.listen();
    let (writer, reader) = tokio::io::duplex(BUFFER);
    tokio::spawn(async move {
        let wire = Wire { writer, shared: Arc::clone(&shared), headers, checked: Instant::now() };
        tokio::select! {
            // A client that left or was disconnected is not a failure.
            fed = feed(&shared.hub, listener, wire, after) => drop(fed),
            () = shared.stop.cancelled() => {}
        }
    });
    let body = Body::from_stream(ReaderStream::with_capacity(reader, BUFFER));
    answer::streamed(StatusCode::OK, "text/event-stream", body)
}

struct Wire {
    writer: DuplexStream,
    shared: Arc<Shared>,
    /// Headers of the request, which include its sign-in.
    headers: HeaderMap,
    checked: Instant,
}

impl Wire {
    async fn send(&mut self, bytes: &Bytes) -> io::Result<()> {
        if self.checked.elapsed() >= SIGN_IN_CHECK {
            if !self.shared.is_signed_in(&self.headers) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            self.checked = Instant::now();
        }
        tokio::time::timeout(SEND_TIMEOUT, self.writer.write_all(bytes))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

async fn feed(
    hub: &Arc<Hub>,
    mut listener: Listener,
    mut wire: Wire,
    after: Option<i64>,
) -> io::Result<()> {
    wire.send(&Bytes::from_static(b"retry: 1000\n\n")).await?;
    let mut sent = match after {
        Some(after) => send_missed(hub, &mut wire, after).await?,
        None => 0,
    };
    wire.send(&snapshot_frame(&*hub.snapshot().await).bytes).await?;
    loop {
        let frame = match tokio::time::timeout(KEEP_ALIVE, listener.frames.recv()).await {
            Ok(Ok(frame)) => frame,
            // It fell behind: it reconnects with the last number it saw.
            Ok(Err(RecvError::Lagged(_) | RecvError::Closed)) => return Ok(()),
            Err(_) => {
                wire.send(&Bytes::from_static(b": alive\n\n")).await?;
                continue;
            }
        };
        if frame.seq.is_some_and(|seq| seq <= sent) {
            continue;
        }
        sent = frame.seq.unwrap_or(sent);
        wire.send(&frame.bytes).await?;
    }
}

/// Sends everything after `after`, from the log. Returns the last number sent.
async fn send_missed(hub: &Hub, wire: &mut Wire, after: i64) -> io::Result<i64> {
    let store = hub.store();
    let last = store.events().last_number().await.map_err(io::Error::other)?;
    if last - after > MAX_MISSED || after > last {
        let text = format!("id: {last}\nevent: reset\ndata: {{}}\n\n");
        wire.send(&text.into()).await?;
        return Ok(last);
    }
    let mut view = hub.view().await;
    let mut sent = after;
    while sent < last {
        let events = store.events().after(sent, 100).await.map_err(io::Error::other)?;
        let Some(newest) = events.last().map(|recorded| recorded.seq) else { break };
        for recorded in &events {
            hub.learn_title(&mut view, recorded).await;
            wire.send(&happened(recorded, &view).bytes).await?;
        }
        sent = newest;
    }
    Ok(sent)
}
