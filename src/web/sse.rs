//! `/events`: what happens, as it happens, and the picture after it.
//!
//! `happened` carries one event of the log under its number; `state` carries the whole picture of
//! `/api/state`; `reset` says that too many events were missed to be sent one by one. A
//! client that comes back with `Last-Event-ID` gets what it missed first. One that does not read
//! is sent away: it comes back and catches up, and nobody waits for it.

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
use super::hub::{Frame, Hub, Listener, Picture};
use super::server::Shared;
use crate::event::Recorded;
use crate::event::fold::RunView;
use crate::report::lines::line;

/// Listeners at once; more are asked to come back.
pub const MOST_LISTENERS: usize = 1000;
/// What may wait for one listener, in bytes.
const BUFFER: usize = 16 << 10;
/// Silence is broken this often, so that a dead connection shows on both sides.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A listener that takes nothing for this long is sent away.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is checked that a listener is still signed in.
const SIGN_IN_CHECK: Duration = Duration::from_secs(1);
/// More missed events than this are not sent one by one.
const MOST_MISSED: i64 = 1000;

/// One event as it goes over the wire.
pub fn happened(recorded: &Recorded, view: &RunView) -> Frame {
    let mut value = serde_json::to_value(recorded).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("line".into(), line(recorded, view).into());
    }
    let seq = recorded.seq;
    let text = format!("id: {seq}\nevent: happened\ndata: {value}\n\n");
    Frame { seq: Some(seq), bytes: text.into() }
}

/// A picture as it goes over the wire.
pub fn picture(picture: &Picture) -> Frame {
    let mut bytes = Vec::with_capacity(picture.state.len() + 32);
    bytes.extend_from_slice(b"event: state\ndata: ");
    bytes.extend_from_slice(&picture.state);
    bytes.extend_from_slice(b"\n\n");
    Frame { seq: None, bytes: bytes.into() }
}

/// Where to go on.
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
    if shared.hub.clients() >= MOST_LISTENERS {
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
            // A listener that left, or was sent away, is no failure.
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
    /// Of the request, with what signed it in.
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
        tokio::time::timeout(PATIENCE, self.writer.write_all(bytes))
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
        Some(after) => tell_missed(hub, &mut wire, after).await?,
        None => 0,
    };
    wire.send(&picture(&*hub.picture().await).bytes).await?;
    loop {
        let frame = match tokio::time::timeout(KEEP_ALIVE, listener.frames.recv()).await {
            Ok(Ok(frame)) => frame,
            // It fell behind: it comes back with the last number it saw.
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

/// Everything after `after`, from the log itself. Returns the last number sent.
async fn tell_missed(hub: &Hub, wire: &mut Wire, after: i64) -> io::Result<i64> {
    let store = hub.store();
    let last = store.events().last_number().await.map_err(io::Error::other)?;
    if last - after > MOST_MISSED || after > last {
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
