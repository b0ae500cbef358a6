//! Sign-in: by a cookie that `?token=` sets, by `Authorization: Bearer`, or by the password of
//! Basic. Pure decisions on tokens and headers.

use axum::http::{HeaderMap, Uri, header};
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Prefix of our cookies. The rest of the name differs between states, because a browser sends the
/// cookies of one host to all its ports.
const COOKIE_PREFIX: &str = "heartbeat-";
/// Hexadecimal digits of a cookie's digest in its name.
const DIGITS_IN_NAME: usize = 8;
/// How long a browser stays signed in: 30 days, in seconds.
const COOKIE_AGE: u32 = 30 * 24 * 60 * 60;
/// The query parameter that signs in.
const PARAMETER: &str = "token";

/// The valid tokens: the state's own and the configured one.
#[derive(Debug, Default)]
pub struct Tokens {
    pub own: Option<SecretString>,
    pub configured: Option<SecretString>,
    /// May read everything and change nothing.
    pub reader: Option<SecretString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedIn {
    /// By something that a browser sends automatically: a cookie, or Basic.
    ByBrowser,
    /// By a header that only a program sends.
    ByBearer,
}

impl Tokens {
    /// Whether a request may change something.
    pub fn may_act(&self, headers: &HeaderMap) -> bool {
        let (own, configured) = (self.own.clone(), self.configured.clone());
        Self { own, configured, reader: None }.signed_in(headers).is_some()
    }

    /// Whether a request has one of the tokens, and how.
    pub fn signed_in(&self, headers: &HeaderMap) -> Option<SignedIn> {
        let authorization =
            headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if let Some((how, token)) = authorization.and_then(authorized)
            && self.accept(&token).is_some()
        {
            return Some(how);
        }
        let cookies =
            headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = cookies.flat_map(|line| line.split(';')).map(str::trim);
        cookies.any(|cookie| self.accepts_cookie(cookie)).then_some(SignedIn::ByBrowser)
    }

    /// The `Set-Cookie` header for an address with a valid token, and the address without it.
    pub fn sign_in(&self, address: &Uri) -> Option<(String, String)> {
        let query = address.query()?;
        let is_token = |pair: &&str| pair.split('=').next() == Some(PARAMETER);
        let given = query.split('&').find(is_token)?.split_once('=')?.1;
        let given = percent_encoding::percent_decode_str(given).decode_utf8().ok()?;
        let cookie = Cookie::of(self.accept(&given)?);
        let set = format!(
            "{}={}; Path=/; Max-Age={COOKIE_AGE}; HttpOnly; SameSite=Strict",
            cookie.name, cookie.value
        );
        let rest: Vec<&str> = query.split('&').filter(|pair| !is_token(pair)).collect();
        // Two slashes would lead to another host.
        let path = format!("/{}", address.path().trim_start_matches(['/', '\\']));
        let without = if rest.is_empty() { path } else { format!("{path}?{}", rest.join("&")) };
        Some((set, without))
    }

    fn all(&self) -> impl Iterator<Item = &SecretString> {
        self.own.iter().chain(&self.configured).chain(&self.reader)
    }

    fn accept(&self, given: &str) -> Option<&SecretString> {
        self.all().find(|token| same(given, token.expose_secret()))
    }

    fn accepts_cookie(&self, cookie: &str) -> bool {
        let Some((name, value)) = cookie.split_once('=') else { return false };
        name.starts_with(COOKIE_PREFIX)
            && self.all().any(|token| same(value, &Cookie::of(token).value))
    }
}

/// Derived from the token, so that a new token invalidates it.
struct Cookie {
    name: String,
    value: String,
}

impl Cookie {
    fn of(token: &SecretString) -> Self {
        let digest = Sha256::new()
            .chain_update(b"heartbeat dashboard cookie\0")
            .chain_update(token.expose_secret())
            .finalize();
        let digest = hex(&digest);
        let (name, value) = digest.split_at(DIGITS_IN_NAME);
        Self { name: format!("{COOKIE_PREFIX}{name}"), value: value.to_owned() }
    }
}

/// Compares digests in constant time, so that timing reveals neither length nor content of a token.
fn same(given: &str, expected: &str) -> bool {
    Sha256::digest(given).ct_eq(&Sha256::digest(expected)).into()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn authorized(value: &str) -> Option<(SignedIn, String)> {
    let (scheme, value) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some((SignedIn::ByBearer, value.trim().to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(LENIENT.decode(value.trim()).ok()?).ok()?;
    let (_, password) = decoded.split_once(':')?;
    Some((SignedIn::ByBrowser, password.to_owned()))
}

/// Standard base64, with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(own: &str, configured: Option<&str>) -> Tokens {
        Tokens {
            own: Some(own.into()),
            configured: configured.map(SecretString::from),
            reader: None,
        }
    }

    fn header(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
    }

    fn cookie_for(tokens: &Tokens, address: &str) -> String {
        let (set, _) = tokens.sign_in(&address.parse().unwrap()).unwrap();
        set.split(';').next().unwrap().to_owned()
    }

    #[test]
    fn either_token_signs_in_by_bearer_or_basic() {
        let tokens = tokens("0wn", Some("s3cret:pass"));
        let by = |value: &str| tokens.signed_in(&header("authorization", value));
        assert_eq!(by("Bearer 0wn"), Some(SignedIn::ByBearer));
        assert_eq!(by("bearer s3cret:pass"), Some(SignedIn::ByBearer));
        // any:s3cret:pass
        assert_eq!(by("Basic YW55OnMzY3JldDpwYXNz"), Some(SignedIn::ByBrowser));
        for wrong in ["", "Bearer", "Bearer ", "Bearer 0w", "Bearer 0wn1", "Basic !!!", "Token 0wn"]
        {
            assert_eq!(by(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_token_of_readers_signs_in_and_may_not_act() {
        let tokens = Tokens { reader: Some("r3ad".into()), ..tokens("0wn", None) };
        let bearer = |token: &str| header("authorization", &format!("Bearer {token}"));
        assert!(tokens.signed_in(&bearer("r3ad")).is_some() && !tokens.may_act(&bearer("r3ad")));
        assert!(tokens.may_act(&bearer("0wn")) && !tokens.may_act(&bearer("x")));
        let cookie = cookie_for(&tokens, "/?token=r3ad");
        let sent = header("cookie", &cookie);
        assert!(tokens.signed_in(&sent).is_some() && !tokens.may_act(&sent));
    }

    #[test]
    fn without_any_token_nobody_signs_in() {
        let none = Tokens::default();
        assert_eq!(none.signed_in(&header("authorization", "Bearer ")), None);
        assert_eq!(none.signed_in(&header("cookie", "heartbeat-=")), None);
        assert_eq!(none.sign_in(&"/?token=".parse().unwrap()), None);
    }

    #[test]
    fn the_address_with_the_token_sets_a_cookie_that_signs_in_until_the_token_changes() {
        let old = tokens("0wn", None);
        let (set, rest) = old.sign_in(&"/?q=a%20b&token=0wn".parse().unwrap()).unwrap();
        assert!(set.contains("; HttpOnly; SameSite=Strict") && set.contains("Path=/;"), "{set}");
        assert!(!set.contains("0wn"), "{set}");
        assert_eq!(rest, "/?q=a%20b");
        let cookie = cookie_for(&old, "/?token=0wn");
        let sent = header("cookie", &format!("theme=dark; {cookie}; x=y"));
        assert_eq!(old.signed_in(&sent), Some(SignedIn::ByBrowser));
        assert_eq!(tokens("new", None).signed_in(&sent), None);
        let shortened = header("cookie", &cookie[..cookie.len() - 1]);
        assert_eq!(old.signed_in(&shortened), None);
    }

    #[test]
    fn an_address_with_a_token_leads_nowhere_else() {
        let tokens = tokens("0wn", Some("a b&c"));
        let (_, rest) = tokens.sign_in(&"//evil.example/x?token=0wn".parse().unwrap()).unwrap();
        assert_eq!(rest, "/evil.example/x");
        assert!(tokens.sign_in(&"/?token=a%20b%26c".parse().unwrap()).is_some());
        for address in ["/", "/?token", "/?token=", "/?token=0w", "/?tokens=0wn", "/?x=token=0wn"] {
            assert_eq!(tokens.sign_in(&address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn two_states_on_one_host_do_not_take_each_others_cookies() {
        let (one, two) = (tokens("1", None), tokens("2", None));
        let (first, second) = (cookie_for(&one, "/?token=1"), cookie_for(&two, "/?token=2"));
        assert_ne!(first.split('=').next(), second.split('=').next());
        let both = header("cookie", &format!("{first}; {second}"));
        assert!(one.signed_in(&both).is_some() && two.signed_in(&both).is_some());
        assert_eq!(two.signed_in(&header("cookie", &first)), None);
    }
}
