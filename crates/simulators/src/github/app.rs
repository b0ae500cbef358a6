//! The GitHub App sign-in: exchanges claims for installation tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::{Value, json};

use super::reply::{self, Reply};
use super::server::{GithubRequest, GithubState};

/// Id of the only installation.
const INSTALLATION: i64 = 25_164_822;

#[derive(Debug, Clone)]
pub struct App {
    pub id: String,
    /// As PKCS#1 DER.
    pub public_key: Vec<u8>,
    pub token_lasts: SignedDuration,
    /// Tokens and their expiry times.
    pub tokens: Vec<(String, Timestamp)>,
}

impl App {
    pub fn accepts(&self, token: &str, now: Timestamp) -> bool {
        self.tokens.iter().any(|(known, ends)| known == token && *ends > now)
    }

    /// Why a claim is rejected.
    fn refuse(&self, claim: &str, now: Timestamp) -> Option<&'static str> {
        let wrong = Some("A JSON web token could not be decoded");
        let Some((message, signature)) = claim.rsplit_once('.') else { return wrong };
        let Some(claims) = message.split_once('.').and_then(|(_, claims)| {
            serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
        }) else {
            return wrong;
        };
        let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else { return wrong };
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public_key);
        if key.verify(message.as_bytes(), &signature).is_err() {
            return wrong;
        }
        let number = |name: &str| claims[name].as_i64().unwrap_or_default();
        if claims["iss"].as_str() != Some(self.id.as_str()) {
            return Some("'Issuer' claim ('iss') must be the App's ID");
        }
        if number("iat") > now.as_second() {
            return Some(
                "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
            );
        }
        if number("exp") > now.as_second() + 600 {
            return Some("'Expiration time' claim ('exp') is too far in the future");
        }
        (number("exp") <= now.as_second())
            .then_some("'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires")
    }
}

/// Handles a request of the App itself.
pub fn answer(shared: &mut GithubState, request: &GithubRequest) -> Reply {
    let now = shared.board.now();
    let Some(app) = &mut shared.app else { return reply::not_found() };
    if let Some(why) = app.refuse(&request.secret().unwrap_or_default(), now) {
        return reply::error(401, why);
    }
    match request.path.last().map(String::as_str) {
        Some("installation") => Reply::json(
            &json!({ "id": INSTALLATION, "app_id": 29_310, "target_type": "Organization" }),
        ),
        Some("access_tokens") => {
            let ends = now.checked_add(app.token_lasts).unwrap_or(now);
            let token = format!("ghs_{}", uuid::Uuid::now_v7().simple());
            app.tokens.push((token.clone(), ends));
            let body = json!({
                "token": token, "expires_at": ends.to_string(),
                "permissions": { "issues": "write", "metadata": "read" },
                "repository_selection": "all",
            });
            Reply::with_status(201, &body)
        }
        _ => reply::not_found(),
    }
}
