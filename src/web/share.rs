//! Links that open one finding and nothing else, until a date. They are signed with a secret in the
//! state folder; replacing the secret revokes all of them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use axum::extract::{Path as Segment, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use ring::hmac;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use super::answer::{full_response, json as as_json, refusal};
use super::commands::refused;
use super::server::Shared;
use super::sign_in::hex;
use super::token::TokenFile;
use crate::model::SessionId;
use crate::report::digest::Scope;
use crate::settings::ReportFormat;

/// Where shared findings are.
pub const PREFIX: &str = "/shared/";
/// How long a link is good for, unless another time is asked for.
pub const DAYS: i64 = 14;
const MAX_DAYS: i64 = 366;
/// Only the page's own style; nothing is loaded, nothing is sent.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// The secret that links of this state are signed with.
pub fn secret_file(state: &Path) -> TokenFile {
    TokenFile::named(state, "share-secret")
}

/// A link to the finding of this session, and the time until which it opens.
pub fn link(
    state: &Path,
    session: SessionId,
    days: i64,
    now: Timestamp,
) -> io::Result<(String, Timestamp)> {
    let secret = secret_file(state).read_or_create()?;
    let span = SignedDuration::from_hours(24 * days.clamp(1, MAX_DAYS));
    let until = now.saturating_add(span).map_err(io::Error::other)?;
    Ok((signed(&secret, session, until), until))
}

fn signed(secret: &SecretString, session: SessionId, until: Timestamp) -> String {
    let text = format!("{session}.{}", until.as_second());
    let signature = hex(hmac::sign(&key(secret), text.as_bytes()).as_ref());
    format!("{PREFIX}{text}.{signature}")
}

fn key(secret: &SecretString) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes())
}

/// The session whose finding this address opens now; `None` for any other address.
pub fn opened(state: &Path, path: &str, now: Timestamp) -> Option<SessionId> {
    let rest = path.strip_prefix(PREFIX)?;
    let (session, until) = rest.rsplit_once('.')?.0.split_once('.')?;
    let until = Timestamp::from_second(until.parse().ok()?).ok()?;
    let session: SessionId = session.parse().ok()?;
    let secret = secret_file(state).read().ok()?;
    let expected = signed(&secret, session, until);
    let same = subtle::ConstantTimeEq::ct_eq(expected.as_bytes(), path.as_bytes());
    (bool::from(same) && now < until).then_some(session)
}

/// `GET /shared/LINK`
pub async fn shared(State(shared): State<Arc<Shared>>, Segment(link): Segment<String>) -> Response {
    let Some(session) = shared.opened(&format!("{PREFIX}{link}")) else {
        let message = "this link has expired, was revoked, or was never valid";
        return refusal(StatusCode::NOT_FOUND, "no_share", message);
    };
    let page = shared.actions.report(Scope::Finding { session }, ReportFormat::Html).await;
    match page {
        Ok(page) => {
            let mut response = full_response(StatusCode::OK, "text/html; charset=utf-8", page);
            let policy = HeaderValue::from_static(POLICY);
            response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
            response
        }
        Err(error) => refused(&error),
    }
}

/// `POST /api/share/SESSION`: a link for [`DAYS`] days.
pub async fn make(
    State(shared): State<Arc<Shared>>,
    Segment(session): Segment<String>,
) -> Response {
    let Ok(session) = session.parse() else {
        return refusal(StatusCode::BAD_REQUEST, "no_session", "not a valid session id");
    };
    match shared.share(session) {
        Ok((link, until)) => as_json(&json!({ "link": link, "until": until })),
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "no_secret", &error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_opens_its_finding_until_its_date_or_until_it_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let (state, now) = (folder.path(), Timestamp::from_second(1_800_000_000).unwrap());
        let session = SessionId(uuid::Uuid::from_u128(7));
        let (path, until) = link(state, session, 14, now).unwrap();
        assert_eq!(opened(state, &path, now), Some(session));
        let before = until.saturating_sub(SignedDuration::from_secs(1)).unwrap();
        assert_eq!(opened(state, &path, before), Some(session));
        assert_eq!(opened(state, &path, until), None, "expired");
        let other = SessionId(uuid::Uuid::from_u128(8));
        let forged = path.replace(&session.to_string(), &other.to_string());
        let later = path.replace(&until.as_second().to_string(), "1900000000");
        for wrong in [forged, later, path.to_uppercase(), format!("{path}0"), PREFIX.into()] {
            assert_eq!(opened(state, &wrong, now), None, "{wrong}");
        }
        secret_file(state).rotate().unwrap();
        assert_eq!(opened(state, &path, now), None, "revoked");
    }
}
