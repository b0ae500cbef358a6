//! Which requests are answered. Pure decisions on method, path and headers.
//!
//! - `Host`: on loopback only loopback names, to prevent DNS rebinding.
//! - Sign-in: everything except the [`OPEN`] paths, see [`super::sign_in`].
//! - Actions: a browser's request must come from our own page (`Origin`, `Sec-Fetch-Site`).

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, StatusCode, header};

use super::sign_in::{SignedIn, Tokens};

/// Paths without sign-in. They show figures and states, no text of an item.
pub const OPEN: [&str; 4] = ["/health", "/livez", "/readyz", "/metrics"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Requested under a host name that is not ours.
    ForeignHost,
    /// No token, or a wrong one.
    NotSignedIn,
    /// An action with the token that may only read.
    ReadOnly,
    /// An action that does not come from our own page.
    ForeignOrigin,
}

impl Refusal {
    /// Status, stable code and a message with the fix.
    pub const fn response_parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::ForeignHost => (
                StatusCode::MISDIRECTED_REQUEST,
                "foreign_host",
                "this server answers only under the names localhost, 127.0.0.1 and [::1]",
            ),
            Self::NotSignedIn => (
                StatusCode::UNAUTHORIZED,
                "not_signed_in",
                "sign in: run `heartbeat dashboard` on the machine that runs heartbeat and open \
                 the address it prints; programs send the token as `Authorization: Bearer …`",
            ),
            Self::ReadOnly => (
                StatusCode::FORBIDDEN,
                "read_only",
                "you are signed in as a reader, who may change nothing; `heartbeat dashboard` \
                 signs in with full rights",
            ),
            Self::ForeignOrigin => (
                StatusCode::FORBIDDEN,
                "foreign_origin",
                "actions are accepted only from the dashboard itself, or with \
                 `Authorization: Bearer …`",
            ),
        }
    }
}

/// Whether the `Host` header is one of our names.
pub fn check_host(headers: &HeaderMap) -> Result<(), Refusal> {
    let host = text(headers, header::HOST.as_str());
    if host.is_some_and(names_loopback) { Ok(()) } else { Err(Refusal::ForeignHost) }
}

/// Whether the sender is signed in and may do this.
pub fn check_sign_in(
    tokens: &Tokens,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Result<(), Refusal> {
    let only_reads = matches!(*method, Method::GET | Method::HEAD);
    if only_reads && OPEN.contains(&path) {
        return Ok(());
    }
    match tokens.signed_in(headers) {
        None => Err(Refusal::NotSignedIn),
        Some(_) if only_reads => Ok(()),
        Some(_) if !tokens.may_act(headers) => Err(Refusal::ReadOnly),
        Some(how) if is_own_request(how, headers) => Ok(()),
        Some(_) => Err(Refusal::ForeignOrigin),
    }
}

/// A browser states the origin of a POST; a program with a Bearer token need not.
fn is_own_request(how: SignedIn, headers: &HeaderMap) -> bool {
    let host = text(headers, header::HOST.as_str());
    let from_our_page = match text(headers, header::ORIGIN.as_str()) {
        Some(origin) => origin.split_once("://").map(|(_, authority)| authority) == host,
        None => how == SignedIn::ByBearer && !headers.contains_key(header::ORIGIN),
    };
    let site = text(headers, "sec-fetch-site").unwrap_or("same-origin");
    from_our_page && matches!(site, "same-origin" | "none")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// `localhost`, `127.0.0.1` or `[::1]`, with any port: a tunnel may have a different one.
fn names_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Line<'a> = (&'static str, &'a str);

    fn headers(pairs: &[Line<'_>]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    fn tokens() -> Tokens {
        Tokens { own: Some("t".into()), ..Tokens::default() }
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
            assert_eq!(check_host(&headers(&[("host", host)])).is_ok(), good, "{host}");
        }
        assert_eq!(check_host(&HeaderMap::new()), Err(Refusal::ForeignHost));
    }

    #[test]
    fn only_the_open_paths_need_no_sign_in_and_only_for_reading() {
        let check = |method, path| check_sign_in(&tokens(), &method, path, &HeaderMap::new());
        for path in OPEN {
            assert_eq!(check(Method::GET, path), Ok(()), "{path}");
            assert_eq!(check(Method::HEAD, path), Ok(()), "{path}");
            assert_eq!(check(Method::POST, path), Err(Refusal::NotSignedIn), "{path}");
        }
        for path in ["/", "/healthz", "/health/", "/HEALTH", "//health", "/metrics/x", "/nothing"] {
            assert_eq!(check(Method::GET, path), Err(Refusal::NotSignedIn), "{path}");
        }
    }

    #[test]
    fn actions_of_a_browser_must_come_from_our_own_page() {
        let own = tokens();
        let (set, _) = own.sign_in(&"/?token=t".parse().unwrap()).unwrap();
        let cookie = ("cookie", set.split(';').next().unwrap());
        let bearer = ("authorization", "Bearer t");
        let host = ("host", "localhost:1");
        let origin = ("origin", "http://localhost:1");
        let foreign = Err(Refusal::ForeignOrigin);
        let table: Vec<(Vec<Line<'_>>, Result<(), Refusal>)> = vec![
            (vec![host, origin], Err(Refusal::NotSignedIn)),
            (vec![host, bearer], Ok(())),
            (vec![host, bearer, origin], Ok(())),
            (vec![host, cookie, origin], Ok(())),
            (vec![host, cookie, origin, ("sec-fetch-site", "same-origin")], Ok(())),
            (vec![host, cookie], foreign),
            (vec![host, cookie, ("origin", "null")], foreign),
            (vec![host, cookie, ("origin", "http://localhost:2")], foreign),
            (vec![host, cookie, ("origin", "http://evil.example")], foreign),
            (vec![host, bearer, ("origin", "http://evil.example")], foreign),
            (vec![host, cookie, origin, ("sec-fetch-site", "cross-site")], foreign),
            (vec![host, cookie, origin, ("sec-fetch-site", "same-site")], foreign),
        ];
        for (pairs, expected) in table {
            let answer = check_sign_in(&own, &Method::POST, "/api/run", &headers(&pairs));
            assert_eq!(answer, expected, "{pairs:?}");
        }
    }
}
