//! Events of trackers: `POST /hooks` makes the next run earlier, and nothing else. No byte of a
//! delivery is stored, shown or put into a prompt; the run reads the tracker as always.
//!
//! A delivery proves itself with the shared secret: by a signature of its body (GitHub's
//! `X-Hub-Signature-256`, Jira's `X-Hub-Signature`), or as the password of Basic authentication
//! (Azure DevOps service hooks). Both are compared in constant time. A body that was seen before is a
//! replay and has no effect.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use ring::hmac;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::sync::mpsc;

use super::answer::{JSON, full_response, refusal};

pub const PATH: &str = "/hooks";
/// Deliveries about items are much smaller.
const MAX_BODY_LEN: usize = 1 << 20;
/// Bodies remembered, so that a replay has no effect.
const REMEMBERED: usize = 4096;

/// Receives deliveries.
pub struct Hooks {
    secret: SecretString,
    seen: Mutex<Seen>,
    /// Full means that an event is already waiting, and one is enough.
    events: mpsc::Sender<()>,
}

impl Hooks {
    pub fn new(secret: SecretString, events: mpsc::Sender<()>) -> Self {
        Self { secret, seen: Mutex::default(), events }
    }

    /// Answers a delivery.
    pub(super) async fn receive(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let Some(proof) = Proof::of(&parts.headers) else {
            return not_proven("sign deliveries with the secret that [http] hooks_env names");
        };
        // Without a body to sign, a wrong password is refused before anything is read.
        if let Proof::Password(password) = &proof
            && !self.is_secret(password)
        {
            return not_proven("the password is wrong");
        }
        let Ok(body) = to_bytes(body, MAX_BODY_LEN).await else {
            let message = "a delivery must arrive whole and have at most 1 MiB";
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, "too_long", message);
        };
        if let Proof::Signature(signature) = &proof
            && !self.has_signed(&body, signature)
        {
            return not_proven("the signature is wrong");
        }
        let seen = &mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ping = parts.headers.get("x-github-event").is_some_and(|event| event == "ping");
        let taken = match (seen.is_new(&body), is_ping) {
            (false, _) => "replayed",
            (true, true) => "pong",
            (true, false) => {
                self.events.try_send(()).ok();
                "taken"
            }
        };
        let body = json!({ "event": taken }).to_string();
        full_response(StatusCode::ACCEPTED, JSON, body)
    }

    fn is_secret(&self, password: &[u8]) -> bool {
        // Of equal length, so that the comparison says nothing about the secret's.
        let hash = |bytes: &[u8]| Sha256::digest(bytes);
        hash(password).ct_eq(&hash(self.secret.expose_secret().as_bytes())).into()
    }

    fn has_signed(&self, body: &[u8], signature: &[u8]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.expose_secret().as_bytes());
        hmac::verify(&key, body, signature).is_ok()
    }
}

fn not_proven(message: &str) -> Response {
    refusal(StatusCode::UNAUTHORIZED, "not_proven", message)
}

/// How a delivery claims to know the secret.
enum Proof {
    Signature(Vec<u8>),
    Password(Vec<u8>),
}

impl Proof {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let signature = text("x-hub-signature-256").or_else(|| text("x-hub-signature"));
        if let Some(signature) = signature.and_then(|text| text.strip_prefix("sha256=")) {
            return from_hex(signature).map(Self::Signature);
        }
        let basic = text(header::AUTHORIZATION.as_str())?;
        let encoded = basic.get(..6).filter(|scheme| scheme.eq_ignore_ascii_case("basic "));
        let encoded = encoded.and(basic.get(6..))?.trim();
        let decoded = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        Some(Self::Password(decoded[colon + 1..].to_vec()))
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = text.as_bytes();
    if bytes.len() != 64 {
        return None;
    }
    bytes.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// The newest bodies, by their hash.
#[derive(Default)]
struct Seen {
    hashes: HashSet<[u8; 32]>,
    order: VecDeque<[u8; 32]>,
}

impl Seen {
    fn is_new(&mut self, body: &[u8]) -> bool {
        let hash: [u8; 32] = Sha256::digest(body).into();
        if !self.hashes.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.hashes.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    const SECRET: &str = "It's a Secret to Everybody";

    fn hooks() -> (Hooks, mpsc::Receiver<()>) {
        let (events, heard) = mpsc::channel(1);
        (Hooks::new(SECRET.into(), events), heard)
    }

    async fn status(hooks: &Hooks, headers: &[(&str, &str)], body: impl Into<Body>) -> u16 {
        let mut request = Request::post(PATH);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        hooks.receive(request.body(body.into()).unwrap()).await.status().as_u16()
    }

    /// From GitHub's documentation of webhook signatures.
    #[tokio::test]
    async fn the_documented_example_of_a_signature_is_accepted_once() {
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let (hooks, mut heard) = hooks();
        for name in ["x-hub-signature-256", "x-hub-signature"] {
            assert_eq!(status(&hooks, &[(name, signature)], "Hello, World!").await, 202);
        }
        assert_eq!((heard.try_recv().is_ok(), heard.try_recv().is_ok()), (true, false), "a replay");
        assert_eq!(status(&hooks, &[("x-hub-signature-256", signature)], "Hello!").await, 401);
        assert!(heard.try_recv().is_err());
    }

    #[tokio::test]
    async fn what_proves_nothing_is_refused() {
        let (hooks, mut heard) = hooks();
        let basic = |text: &str| {
            let encoded = base64::engine::general_purpose::STANDARD.encode(text);
            format!("Basic {encoded}")
        };
        for (name, value) in [
            ("x-hub-signature", "sha1=0000"),
            ("x-hub-signature-256", "sha256="),
            ("x-hub-signature-256", "sha256=zz"),
            ("x-hub-signature-256", &format!("sha256={}", "é".repeat(32))),
            ("authorization", "Basic !!!"),
            ("authorization", &basic("user")),
            ("authorization", &basic("user:wrong")),
            ("authorization", "Bearer It's a Secret to Everybody"),
            ("x-nothing", ""),
        ] {
            let Ok(value) = axum::http::HeaderValue::from_bytes(value.as_bytes()) else { continue };
            let mut request = Request::post(PATH).body(Body::from("{}")).unwrap();
            request.headers_mut().insert(name, value);
            assert_eq!(hooks.receive(request).await.status(), 401, "{name}");
        }
        assert!(heard.try_recv().is_err());
        let right = basic(&format!("any:{SECRET}"));
        assert_eq!(status(&hooks, &[("authorization", &right)], "{\"id\":1}").await, 202);
        assert!(heard.try_recv().is_ok());
        let bomb = vec![b'x'; MAX_BODY_LEN + 1];
        assert_eq!(status(&hooks, &[("authorization", &right)], bomb).await, 413);
        assert!(heard.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_flood_is_one_event_and_memory_is_bounded() {
        let (hooks, mut heard) = hooks();
        let right = base64::engine::general_purpose::STANDARD.encode(format!("any:{SECRET}"));
        let right = format!("Basic {right}");
        for n in 0..10_000 {
            let body = format!("{{\"id\":{n}}}");
            assert_eq!(status(&hooks, &[("authorization", &right)], body).await, 202);
        }
        assert_eq!((heard.try_recv().is_ok(), heard.try_recv().is_ok()), (true, false));
        let seen = hooks.seen.lock().unwrap();
        assert_eq!((seen.order.len(), seen.hashes.len()), (REMEMBERED, REMEMBERED));
    }
}
