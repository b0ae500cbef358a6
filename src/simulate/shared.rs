//! What every simulated tracker does alike with its state and its requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The state behind all requests of one simulator.
#[derive(Debug)]
pub struct Server<T>(Arc<Mutex<T>>);

impl<T> Server<T> {
    pub fn new(state: T) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    /// A request that panicked makes its own test fail; the others go on.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Server<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The caller's secret: of `Bearer` or `token`, or the password of `Basic`.
pub fn secret(headers: &HeaderMap) -> Option<String> {
    let header = headers.get("authorization")?.to_str().ok()?;
    let (scheme, value) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Some(value.trim().to_owned());
    }
    let decoded = String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()?;
    decoded.split_once(':').map(|(_, password)| password.to_owned())
}

/// Decodes a segment of a path.
pub fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Names and values of a query string, in order.
pub fn query(uri: &axum::http::Uri) -> impl Iterator<Item = (String, String)> + '_ {
    uri.query().unwrap_or_default().split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((decode(name), decode(&value.replace('+', " "))))
    })
}
