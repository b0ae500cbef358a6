//! The listener of one session: checks the token and the path, forwards, meters, streams back.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use reqwest::Url;
use secrecy::ExposeSecret;
use serde_json::json;
use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::failure::{Class, Failure, retry_after};
use super::meter::{Meter, Stop};
use super::record::{Exchange, Playback, Recorder};
use super::request::{Asked, betas};
use super::strangers::{Place, Strangers};
use super::upstream::{Upstream, foreign, root_cause};
use super::wire::Reader;
use crate::clock::Clock;

const HEADERS_WITHIN: Duration = Duration::from_secs(30);
/// In bytes.
const MAX_HEADERS: usize = 64 << 10;
/// A prompt with pictures is a few megabytes.
const MAX_REQUEST: usize = 32 << 20;
const REQUEST_WITHIN: Duration = Duration::from_mins(1);
/// Of a refusal; more is not read.
const MAX_REFUSAL: usize = 64 << 10;
const REFUSAL_WITHIN: Duration = Duration::from_secs(20);
/// Chunks between the provider and the agent.
const CHUNKS: usize = 2;
/// A longer wait is not left to the agent: one of them waits it out in silence.
const MAX_WAIT: i64 = 20;

/// What an agent's request may say beside its body. A gateway or a provider can be led elsewhere by
/// a header, with the key: by the address that it names, the account, the settings.
const FORWARDED: [HeaderName; 9] = [
    header::ACCEPT,
    header::CONTENT_TYPE,
    header::USER_AGENT,
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("conversation_id"),
    HeaderName::from_static("originator"),
    HeaderName::from_static("session_id"),
    HeaderName::from_static("version"),
    HeaderName::from_static("x-app"),
];
/// The same of its query.
const QUERIES: [&str; 2] = ["api-version", "beta"];
/// Headers of an answer that end at this connection, or are not the agent's concern.
const NOT_RETURNED: [HeaderName; 7] = [
    header::CONTENT_LENGTH,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    header::UPGRADE,
    header::CONTENT_ENCODING,
    header::SET_COOKIE,
];
/// Asks for abilities of the provider that are not open to everybody.
const BETA: &str = "anthropic-beta";
/// Other headers in which agents send their credential.
const KEYS: [&str; 2] = ["x-api-key", "api-key"];

pub(super) struct Shared {
    pub token: String,
    pub behind: Behind,
    pub recorder: Option<Arc<Recorder>>,
    pub meter: Arc<Meter>,
    pub clock: Clock,
    pub stop: CancellationToken,
    /// What was left out of requests, each told once.
    pub left_out: Mutex<BTreeSet<String>>,
}

impl Shared {
    fn tell(&self, left_out: impl IntoIterator<Item = String>) {
        let mut told = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        // The names are the agent's: few, and short.
        let new = left_out.into_iter().filter(|name| name.len() < 80 && told.len() < 50);
        let new: Vec<String> = new.filter(|name| !told.contains(name)).collect();
        if !new.is_empty() {
            tracing::info!(fields = ?new, "the gateway leaves out what it does not know of a request");
            told.extend(new);
        }
    }
}

/// What answers the requests.
pub(super) enum Behind {
    Provider(Arc<Upstream>),
    Recording(Arc<Playback>),
}

impl Behind {
    fn path(&self) -> &'static str {
        match self {
            Self::Provider(upstream) => upstream.provider.path,
            Self::Recording(playback) => playback.path,
        }
    }
}

type Body = BoxBody<Bytes, io::Error>;

/// Serves until the session ends.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let strangers = Arc::new(Strangers::default());
    loop {
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, for example: not a reason to spin.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let place = strangers.admit().await;
        let shared = Arc::clone(&shared);
        tokio::spawn(async move { connection(stream, &shared, place).await });
    }
}

async fn connection(stream: TcpStream, shared: &Arc<Shared>, place: Place) {
    // Every chunk of an answer is on its way at once.
    drop(stream.set_nodelay(true));
    let service = service_fn(|request| async {
        Ok::<_, Infallible>(answer(request, Arc::clone(shared), &place).await)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        () = shared.stop.cancelled() => {}
        () = place.closed.cancelled() => {}
        // An agent may leave in the middle.
        _left = connection => {}
    }
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>, place: &Place) -> Response<Body> {
    if !has_token(request.headers(), &shared.token) {
        return refusal(
            StatusCode::UNAUTHORIZED,
            "authentication_error",
            "not this session's token",
        );
    }
    if !place.is_known() {
        let what = "too many connections of this session";
        let mut answer = refusal(StatusCode::SERVICE_UNAVAILABLE, "api_error", what);
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return answer;
    }
    let allowed = shared.behind.path();
    if request.method() != Method::POST || request.uri().path() != allowed {
        let what = format!("a session may only POST {allowed}");
        return refusal(StatusCode::NOT_FOUND, "not_found_error", &what);
    }
    let (head, body) = request.into_parts();
    let whole = tokio::time::timeout(REQUEST_WITHIN, Limited::new(body, MAX_REQUEST).collect());
    let Ok(Ok(body)) = whole.await else {
        let what = "the request is too large or incomplete";
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", what);
    };
    let bytes = body.to_bytes();
    let length = bytes.len() as u64;
    let mut asked = match Asked::read(allowed, &bytes) {
        Ok(asked) => asked,
        Err(why) => return not_allowed(&shared, Class::Setting, why),
    };
    let model = asked.body["model"].as_str().unwrap_or_default();
    if !shared.meter.may_ask(model) {
        let why = format!("a session may only ask for the models of its stage, not for {model:?}");
        return not_allowed(&shared, Class::UnknownModel, why);
    }
    shared.tell(std::mem::take(&mut asked.left_out));
    let id = match shared.meter.admit(&mut asked.body, length).await {
        Ok(id) => id,
        Err(stop) => return stopped(stop),
    };
    let bytes = asked.bytes();
    if let Some(recorder) = &shared.recorder {
        recorder.asked(id, asked.body, bytes.len());
    }
    let call = Call { id, shared, failure: None };
    let upstream = match &call.shared.behind {
        Behind::Provider(upstream) => Arc::clone(upstream),
        Behind::Recording(playback) => {
            let next = playback.next();
            return call.play(next);
        }
    };
    call.forward(&upstream, head.uri.query(), &head.headers, bytes).await
}

/// One request; settled when it is dropped, however it ends.
struct Call {
    id: u64,
    shared: Arc<Shared>,
    failure: Option<Failure>,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.shared.meter.settle(self.id, self.failure.take());
    }
}

impl Call {
    async fn forward(
        mut self,
        upstream: &Upstream,
        query: Option<&str>,
        from: &HeaderMap,
        body: Bytes,
    ) -> Response<Body> {
        let sent = upstream
            .client
            .post(self.shared.address(upstream, query))
            .headers(self.shared.forwarded(from, upstream))
            .body(body)
            .send()
            .await;
        let response = match sent {
            Ok(response) => response,
            Err(error) => {
                let why = root_cause(&error);
                self.failure = Some(Failure::outage(&why));
                let status = match error.is_timeout() {
                    true => StatusCode::GATEWAY_TIMEOUT,
                    false => StatusCode::BAD_GATEWAY,
                };
                return refusal(status, "api_error", &why);
            }
        };
        // Gzip was unpacked by now, though nobody asked for it.
        if let Some(form) = response.headers().get(header::CONTENT_ENCODING) {
            let why = format!("the answer is compressed ({form:?}), which nobody asked for");
            self.failure = Some(Failure::outage(&why));
            return refusal(StatusCode::BAD_GATEWAY, "api_error", &why);
        }
        if response.status().is_success() {
            if let Some(why) = foreign(response.headers()) {
                self.failure = Some(Failure::outage(&why));
                return refusal(StatusCode::BAD_GATEWAY, "api_error", &why);
            }
            self.shared.meter.answered(self.id);
            return self.streamed(response);
        }
        self.refused(response).await
    }

    /// Answers as the provider did when it was recorded.
    fn play(mut self, next: Option<Exchange>) -> Response<Body> {
        let Some(exchange) = next else {
            let what = "heartbeat: the recording has no further answer";
            self.failure = Some(Failure::outage(what));
            let mut answer = refusal(StatusCode::PAYMENT_REQUIRED, "billing_error", what);
            answer.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
            return answer;
        };
        let mut reader = Reader::new(&exchange.content_type);
        reader.feed(exchange.body.as_bytes());
        reader.finish();
        let status = StatusCode::from_u16(exchange.status).unwrap_or(StatusCode::BAD_GATEWAY);
        if status.is_success() {
            self.shared.meter.answered(self.id);
            self.shared.meter.progress(self.id, &reader.seen);
        } else {
            let (none, now) = (HeaderMap::new(), self.shared.clock.now());
            let body = exchange.body.as_bytes();
            self.failure = Some(Failure::refused(exchange.status, &none, body, now));
        }
        let body = match exchange.complete {
            true => whole(Bytes::from(exchange.body)),
            false => {
                let (sender, chunks) = mpsc::channel(CHUNKS);
                tokio::spawn(async move {
                    drop(sender.send(Ok(Bytes::from(exchange.body))).await);
                    let broke_off = io::Error::other("the recorded answer broke off here");
                    drop(sender.send(Err(broke_off)).await);
                });
                Chunks(chunks).boxed()
            }
        };
        let mut answer = Response::new(body);
        *answer.status_mut() = status;
        if let Ok(kind) = HeaderValue::from_str(&exchange.content_type) {
            answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        }
        answer
    }

    fn record(&self, act: impl FnOnce(&Recorder, u64)) {
        if let Some(recorder) = &self.shared.recorder {
            act(recorder, self.id);
        }
    }

    /// Passes the provider's refusal on, in its words.
    async fn refused(mut self, mut response: reqwest::Response) -> Response<Body> {
        let (status, mut headers) = (response.status(), returned(response.headers()));
        let mut body = Vec::new();
        let reading = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                body.extend_from_slice(&chunk[..chunk.len().min(MAX_REFUSAL - body.len())]);
                if body.len() == MAX_REFUSAL {
                    break;
                }
            }
        };
        drop(tokio::time::timeout(REFUSAL_WITHIN, reading).await);
        let now = self.shared.clock.now();
        let failure = Failure::refused(status.as_u16(), &headers, &body, now);
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        self.record(|recorder, call| {
            recorder.answered(call, status.as_u16(), kind.unwrap_or_default());
            recorder.chunk(call, &body);
            recorder.completed(call);
        });
        if retry_after(&headers, now).is_some_and(|wait| wait.as_secs() > MAX_WAIT) {
            headers.remove(header::RETRY_AFTER);
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        self.failure = Some(failure);
        let mut answer = Response::new(whole(Bytes::from(body)));
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        answer
    }

    /// Passes an answer on as it comes.
    fn streamed(self, response: reqwest::Response) -> Response<Body> {
        let headers = returned(response.headers());
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let reader = Reader::new(kind.unwrap_or_default());
        self.record(|recorder, call| {
            recorder.answered(call, response.status().as_u16(), kind.unwrap_or_default());
        });
        let (sender, chunks) = mpsc::channel(CHUNKS);
        let mut answer = Response::new(Chunks(chunks).boxed());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = headers;
        tokio::spawn(self.pump(response, reader, sender));
        answer
    }

    async fn pump(
        mut self,
        mut response: reqwest::Response,
        mut reader: Reader,
        to: mpsc::Sender<io::Result<Bytes>>,
    ) {
        let stop = self.shared.stop.clone();
        loop {
            let chunk = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                chunk = response.chunk() => chunk,
                // What it left must not hold up its next request.
                () = to.closed() => return,
            };
            let chunk = match chunk {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(error) => {
                    let why = root_cause(&error);
                    self.failure = Some(Failure::outage(&why));
                    return self.cut(to, &why).await;
                }
            };
            reader.feed(&chunk);
            self.record(|recorder, call| {
                recorder.chunk(call, &chunk);
                // An agent may leave as soon as it has what it needs.
                if reader.seen.is_final {
                    recorder.completed(call);
                }
            });
            // Counted before the agent has it: an agent that leaves now has been served.
            if !self.shared.meter.progress(self.id, &reader.seen) {
                return self.cut(to, "the session's budget is reached").await;
            }
            let sent = tokio::select! {
                () = stop.cancelled() => return,
                sent = to.send(Ok(chunk)) => sent,
            };
            if sent.is_err() {
                return;
            }
        }
        reader.finish();
        self.record(Recorder::completed);
        self.shared.meter.progress(self.id, &reader.seen);
        if let Some((kind, message)) = &reader.seen.error {
            self.failure = Some(Failure::inside(kind, message));
        } else if !reader.seen.is_final && reader.seen.bytes == 0 {
            self.failure = Some(Failure::outage("an empty answer"));
        }
    }
}

impl Call {
    /// Breaks the answer off, after the call is settled: the agent's next request follows at once.
    async fn cut(self, to: mpsc::Sender<io::Result<Bytes>>, why: &str) {
        let stop = self.shared.stop.clone();
        drop(self);
        tokio::select! {
            () = stop.cancelled() => {}
            _left = to.send(Err(io::Error::other(why))) => {}
        }
    }
}

/// The body of an answer, as it comes; it ends well unless its last chunk is an error.
struct Chunks(mpsc::Receiver<io::Result<Bytes>>);

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = ready!(self.0.poll_recv(context));
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }
}

/// Compares in constant time, in whichever header the agent sends its credential.
fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let bearer = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let bearer = bearer.and_then(|value| value.strip_prefix(b"Bearer "));
    let keys = KEYS.iter().filter_map(|name| headers.get(*name)).map(HeaderValue::as_bytes);
    keys.chain(bearer).any(|sent| bool::from(sent.ct_eq(token.as_bytes())))
}

impl Shared {
    /// The provider's address, with what the agent may add to it.
    fn address(&self, upstream: &Upstream, query: Option<&str>) -> Url {
        let mut address = upstream.address.clone();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        for part in query.into_iter().flat_map(|query| query.split('&')) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if QUERIES.contains(&name) && value.chars().all(is_plain) {
                address.query_pairs_mut().append_pair(name, value);
            } else {
                self.tell([name.to_owned()]);
            }
        }
        address
    }

    /// What the agent may say, with the provider's credential.
    fn forwarded(&self, from: &HeaderMap, upstream: &Upstream) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for name in FORWARDED {
            if let Some(value) = from.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let sent = from.get_all(BETA).iter().filter_map(|value| value.to_str().ok());
        let sent = sent.collect::<Vec<_>>().join(",");
        let kept = betas(&sent);
        let names = sent.split(',').map(str::trim).filter(|name| !name.is_empty());
        let known: BTreeSet<&str> = kept.split(',').collect();
        self.tell(names.filter(|name| !known.contains(name)).map(str::to_owned));
        let own =
            upstream.provider.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(BETA));
        let kept = own.map(|(_, value)| value.expose_secret()).chain([&*kept]);
        let kept = kept.filter(|kept| !kept.is_empty()).collect::<Vec<_>>().join(",");
        if !kept.is_empty()
            && let Ok(kept) = HeaderValue::from_str(&kept)
        {
            headers.insert(BETA, kept);
        }
        // A compressed answer could not be metered while it comes.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some((name, secret)) = &upstream.provider.credential
            && let Ok(mut value) = HeaderValue::from_str(secret.expose_secret())
        {
            value.set_sensitive(true);
            headers.insert(*name, value);
        }
        headers
    }
}

/// What the provider sent, without the headers of its connection.
fn returned(from: &HeaderMap) -> HeaderMap {
    let mut headers = from.clone();
    NOT_RETURNED.iter().for_each(|name| drop(headers.remove(name)));
    headers
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}

/// The answer to every request after a cap is reached. Agents do not repeat it.
fn stopped(stop: Stop) -> Response<Body> {
    let what = match stop {
        Stop::Budget => "heartbeat: the budget of this session is reached",
        Stop::Calls => "heartbeat: the model was called as often as this session allows",
    };
    let mut answer = refusal(StatusCode::PAYMENT_REQUIRED, "billing_error", what);
    answer.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
    answer
}

/// The answer to a request that a session may not make. If it never made another one, that is how
/// its agent asks, whatever the item says.
fn not_allowed(shared: &Shared, class: Class, why: String) -> Response<Body> {
    let class = if shared.meter.has_answered() { Class::Request } else { class };
    let words = format!("heartbeat's gateway: {why}");
    let mut answer = refusal(StatusCode::BAD_REQUEST, "invalid_request_error", &words);
    answer.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
    shared.meter.refused(Failure::of_the_gateway(class, &words));
    answer
}

/// An error in the form that all three wires share.
fn refusal(status: StatusCode, kind: &str, what: &str) -> Response<Body> {
    let error = json!({ "type": kind, "code": kind, "message": what });
    let body = json!({ "type": "error", "error": error }).to_string();
    let mut answer = Response::new(whole(Bytes::from(body)));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}
