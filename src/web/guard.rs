//! Who may ask. Pure decisions on method and headers.
//!
//! - `Host`: on loopback only loopback's own names, so that a foreign page cannot reach us under a
//!   name of its own.
//! - Token: where one is configured, every request must carry it, as `Authorization: Bearer` or as
//!   the password of Basic, which browsers ask for by themselves. Probes of bare life need none.
//! - Actions: POST, from our own page (`Origin`, `Sec-Fetch-Site`), with a header that no foreign
//!   page can send: the action token in `X-Heartbeat-Token`, or the configured one as Bearer.

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::io::{self, Read};
use std::net::IpAddr;

use axum::http::{HeaderMap, Method, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// The header that actions must carry.
pub const ACTION_HEADER: &str = "x-heartbeat-token";

/// What is asked of a request.
#[derive(Debug)]
pub struct Policy {
    /// Only this machine can reach us.
    pub is_loopback: bool,
    /// Asked for with every request, if there is one.
    pub access: Option<SecretString>,
    /// Asked for with every action; made anew at every start.
    pub action: SecretString,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Asked for under a name that is not ours.
    ForeignHost,
    /// No token, or a wrong one.
    NoToken,
    /// An action that does not come from our own page.
    ForeignOrigin,
    /// An action without its token.
    NoActionToken,
}

impl Refusal {
    /// Status, stable code and a sentence with the way out.
    pub const fn told(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::ForeignHost => (
                StatusCode::MISDIRECTED_REQUEST,
                "foreign_host",
                "this server answers only under the names localhost, 127.0.0.1 and [::1]",
            ),
            Self::NoToken => (
                StatusCode::UNAUTHORIZED,
                "no_token",
                "send the token as `Authorization: Bearer …`, or as the password of Basic",
            ),
            Self::ForeignOrigin => (
                StatusCode::FORBIDDEN,
                "foreign_origin",
                "actions are accepted only from the dashboard itself",
            ),
            Self::NoActionToken => (
                StatusCode::FORBIDDEN,
                "no_action_token",
                "actions need the header X-Heartbeat-Token with the `token` of /api/state",
            ),
        }
    }
}

/// A token nobody can guess.
pub fn random_token() -> io::Result<SecretString> {
    let mut bytes = [0_u8; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(SecretString::from(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

impl Policy {
    /// May this request be answered?
    pub fn admit(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = text(headers, header::HOST.as_str());
        if self.is_loopback && !host.is_some_and(names_loopback) {
            return Err(Refusal::ForeignHost);
        }
        let is_probe = matches!(path, "/livez" | "/readyz");
        if let Some(token) = &self.access
            && !is_probe
            && !carried(headers).is_some_and(|(_, carried)| same(&carried, token))
        {
            return Err(Refusal::NoToken);
        }
        if matches!(*method, Method::GET | Method::HEAD) {
            return Ok(());
        }
        self.admit_action(headers, host)
    }

    fn admit_action(&self, headers: &HeaderMap, host: Option<&str>) -> Result<(), Refusal> {
        let from_our_page = match text(headers, header::ORIGIN.as_str()) {
            Some(origin) => origin.split_once("://").map(|(_, authority)| authority) == host,
            None => !headers.contains_key(header::ORIGIN),
        };
        let site = text(headers, "sec-fetch-site").unwrap_or("same-origin");
        if !from_our_page || !matches!(site, "same-origin" | "none") {
            return Err(Refusal::ForeignOrigin);
        }
        let own = text(headers, ACTION_HEADER).is_some_and(|token| same(token, &self.action));
        let by_bearer = self.access.as_ref().is_some_and(|token| {
            carried(headers)
                .is_some_and(|(how, carried)| how == Carried::Bearer && same(&carried, token))
        });
        if own || by_bearer { Ok(()) } else { Err(Refusal::NoActionToken) }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// `localhost`, `127.0.0.1` or `[::1]`, with or without a port: a tunnel may have another one.
fn names_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[derive(Debug, PartialEq, Eq)]
enum Carried {
    Bearer,
    Basic,
}

fn carried(headers: &HeaderMap) -> Option<(Carried, String)> {
    let (scheme, value) = text(headers, header::AUTHORIZATION.as_str())?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some((Carried::Bearer, value.trim().to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = LENIENT.decode(value.trim()).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let (_, password) = decoded.split_once(':')?;
    Some((Carried::Basic, password.to_owned()))
}

/// Standard base64, with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Compares digests, so that the time it takes tells nothing of the token.
fn same(given: &str, token: &SecretString) -> bool {
    Sha256::digest(given) == Sha256::digest(token.expose_secret())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(access: Option<&str>) -> Policy {
        Policy {
            is_loopback: access.is_none(),
            access: access.map(SecretString::from),
            action: SecretString::from("act"),
        }
    }

    type Line<'a> = (&'static str, &'a str);

    fn headers(pairs: &[Line<'_>]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn only_loopback_names_reach_loopback() {
        let table = [
            ("127.0.0.1:7979", true),
            ("localhost:7979", true),
            ("LOCALHOST", true),
            ("[::1]:7979", true),
            ("127.0.0.1", true),
            ("evil.example", false),
            ("evil.example:7979", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("10.0.0.1:7979", false),
            ("", false),
        ];
        for (host, good) in table {
            let answer = policy(None).admit(&Method::GET, "/", &headers(&[("host", host)]));
            assert_eq!(answer.is_ok(), good, "{host}");
        }
        let nameless = policy(None).admit(&Method::GET, "/", &HeaderMap::new());
        assert_eq!(nameless, Err(Refusal::ForeignHost));
    }

    #[test]
    fn actions_need_the_header_and_our_own_page() {
        let host = ("host", "localhost:1");
        let token = (ACTION_HEADER, "act");
        let table: Vec<(Vec<Line<'_>>, Result<(), Refusal>)> = vec![
            (vec![host, token], Ok(())),
            (vec![host, token, ("origin", "http://localhost:1")], Ok(())),
            (vec![host], Err(Refusal::NoActionToken)),
            (vec![host, (ACTION_HEADER, "acts")], Err(Refusal::NoActionToken)),
            (vec![host, token, ("origin", "http://evil.example")], Err(Refusal::ForeignOrigin)),
            (vec![host, token, ("origin", "http://localhost:2")], Err(Refusal::ForeignOrigin)),
            (vec![host, token, ("origin", "null")], Err(Refusal::ForeignOrigin)),
            (vec![host, token, ("sec-fetch-site", "cross-site")], Err(Refusal::ForeignOrigin)),
            (vec![host, token, ("sec-fetch-site", "same-site")], Err(Refusal::ForeignOrigin)),
        ];
        for (pairs, expected) in table {
            let answer = policy(None).admit(&Method::POST, "/api/run", &headers(&pairs));
            assert_eq!(answer, expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_configured_token_is_asked_for_with_everything_but_probes() {
        let policy = policy(Some("s3cret:pass"));
        let get = |path: &str, pairs: &[(&'static str, &str)]| {
            policy.admit(&Method::GET, path, &headers(pairs))
        };
        assert_eq!(get("/", &[]), Err(Refusal::NoToken));
        assert_eq!(get("/events", &[("authorization", "Bearer wrong")]), Err(Refusal::NoToken));
        assert_eq!(get("/", &[("authorization", "Bearer s3cret:pass")]), Ok(()));
        // any:s3cret:pass
        assert_eq!(get("/", &[("authorization", "Basic YW55OnMzY3JldDpwYXNz")]), Ok(()));
        assert_eq!(get("/", &[("authorization", "Basic !!!")]), Err(Refusal::NoToken));
        assert_eq!(get("/livez", &[]), Ok(()));
    }

    #[test]
    fn a_browser_that_signs_in_by_itself_is_no_consent_to_an_action() {
        let policy = policy(Some("s3cret:pass"));
        let basic = ("authorization", "Basic YW55OnMzY3JldDpwYXNz");
        let post = |pairs: &[(&'static str, &str)]| {
            policy.admit(&Method::POST, "/api/run", &headers(pairs))
        };
        assert_eq!(post(&[basic]), Err(Refusal::NoActionToken));
        assert_eq!(post(&[basic, (ACTION_HEADER, "act")]), Ok(()));
        assert_eq!(post(&[("authorization", "Bearer s3cret:pass")]), Ok(()));
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let (one, two) = (random_token().unwrap(), random_token().unwrap());
        assert_eq!(one.expose_secret().len(), 64);
        assert_ne!(one.expose_secret(), two.expose_secret());
    }
}
