//! Signs in as a GitHub App: its private key signs a claim, which is exchanged for an installation
//! token; the token is kept until shortly before it expires.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use reqwest::{Client, Method, Url};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::Mutex;

use super::http::Github;
use super::repositories::RepoScope;
use super::wire::{Installation, InstallationToken};
use crate::clock::Clock;
use crate::fetch::failure::{RequestInfo, classify};
use crate::fetch::http::{Dialect as _, Head};
use crate::fetch::{Cause, Credential, FetchError, client, json as tracker_json};
use crate::model::{BoxFuture, FailureClass};
use crate::settings::Source;

/// The service allows ten minutes, by its own clock.
const CLAIM_LASTS: SignedDuration = SignedDuration::from_mins(9);
/// Tolerance for a different clock.
const CLAIM_BEGAN: SignedDuration = SignedDuration::from_secs(60);
/// A token is renewed before it expires, so that none expires between two pages.
const RENEWED_BEFORE: SignedDuration = SignedDuration::from_mins(5);

/// Installation tokens of an App, made with its private key.
pub(super) struct AppCredential {
    key: Arc<dyn Credential>,
    client: Client,
    base: Url,
    app_id: String,
    scope: RepoScope,
    clock: Clock,
    token: Mutex<Option<(SecretString, Timestamp)>>,
}

impl AppCredential {
    /// Sends nothing; `key` returns the private key as PEM.
    pub fn new(
        config: &Source,
        base: Url,
        scope: RepoScope,
        key: Arc<dyn Credential>,
        clock: Clock,
    ) -> Result<Self, FetchError> {
        if config.app_id.trim().is_empty() {
            let message = "source.auth = \"app\" needs source.app_id: the client id or the app id \
                           of the GitHub App";
            return Err(FetchError::new(FailureClass::Config, message));
        }
        let client = client::build(config, &base)?;
        let app_id = config.app_id.trim().to_owned();
        Ok(Self { key, client, base, app_id, scope, clock, token: Mutex::new(None) })
    }

    async fn new_token(&self) -> Result<(SecretString, Timestamp), FetchError> {
        let pem = self.key.current().await?;
        let claim = signed_claim(pem.expose_secret(), &self.app_id, self.clock.now())
            .map_err(|why| self.bad_key(&why))?;
        let path = self.scope.installation_path();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let installation: Installation = self.ask(Method::GET, &path, &claim, INSTALLATION).await?;
        let id = installation.id.to_string();
        let path = ["app", "installations", &id, "access_tokens"];
        let token: InstallationToken = self.ask(Method::POST, &path, &claim, TOKEN).await?;
        let ends = token.expires_at.parse::<Timestamp>();
        let in_an_hour = || self.clock.now().checked_add(SignedDuration::from_mins(55));
        let ends = ends.or_else(|_| in_an_hour()).unwrap_or_else(|_| self.clock.now());
        Ok((token.token.into(), ends))
    }

    fn bad_key(&self, why: &str) -> FetchError {
        let message = format!(
            "{} is not the private key of a GitHub App ({why}); make one in the App's settings and \
             store the PEM file as it is",
            self.key.origin()
        );
        FetchError::new(FailureClass::Auth, message)
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        claim: &str,
        what: &str,
    ) -> Result<T, FetchError> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.iter().flat_map(|part| part.split('/')));
        }
        let request = self.client.request(method, url).bearer_auth(claim);
        let request = request
            .header("accept", "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28");
        let base_url = self.base.as_str().trim_end_matches('/');
        let unreachable = |error: reqwest::Error| {
            let message = format!("{base_url} could not be reached for {what}: {error}");
            let cause = Some(Cause::new(error));
            FetchError { cause, ..FetchError::new(FailureClass::Transient, message) }
        };
        let response = request.send().await.map_err(unreachable)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let head = Head { status, headers, at: self.clock.now() };
        let body = response.bytes().await.map_err(unreachable)?;
        let dialect = Github::new("");
        if dialect.is_success(&head) && (200..300).contains(&status) {
            return tracker_json::from_json(&body).map_err(|error| {
                let message = format!("{base_url} returned JSON that is not {what}: {error}");
                FetchError::new(FailureClass::Transient, message)
            });
        }
        let credential = self.origin();
        let asked = RequestInfo { what, base_url, credential: &credential, writes: false };
        let mut error = classify(&dialect, (&head, &body[..]), asked, Duration::from_secs(60));
        if status == 404 || status == 422 {
            error.class = FailureClass::Config;
            error.message = format!(
                "the GitHub App {} is not installed for source.project, or its installation is \
                 suspended ({}); install it for the repositories, with Issues: read",
                self.app_id, error.message
            );
        }
        Err(error)
    }
}

const INSTALLATION: &str = "the installation of the App";
const TOKEN: &str = "a token of the App's installation";

impl Credential for AppCredential {
    fn current(&self) -> BoxFuture<'_, Result<SecretString, FetchError>> {
        Box::pin(async move {
            let mut token = self.token.lock().await;
            let lasting = |(_, ends): &&(SecretString, Timestamp)| {
                ends.duration_since(self.clock.now()) > RENEWED_BEFORE
            };
            if let Some((token, _)) = token.as_ref().filter(lasting) {
                return Ok(token.clone());
            }
            let (secret, ends) = self.new_token().await?;
            *token = Some((secret.clone(), ends));
            Ok(secret)
        })
    }

    /// The token was refused before it expired: it was revoked, or the App's rights changed. The
    /// key is read again, in case it was replaced.
    fn refresh(&self) -> BoxFuture<'_, Result<bool, FetchError>> {
        Box::pin(async move {
            let mut token = self.token.lock().await;
            if token.take().is_none() {
                // The claim itself was refused: only another key helps.
                return self.key.refresh().await;
            }
            Ok(true)
        })
    }

    fn origin(&self) -> String {
        format!("the GitHub App {} with the key from {}", self.app_id, self.key.origin())
    }
}

/// A claim to be the App, signed with its key.
fn signed_claim(pem: &str, app_id: &str, now: Timestamp) -> Result<String, String> {
    let key = PrivateKeyDer::from_pem_slice(pem.trim().as_bytes())
        .map_err(|error| format!("it is not a PEM file with a private key: {error:?}"))?;
    let key = match &key {
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        _ => return Err("it is not an RSA key".to_owned()),
    };
    let key = key.map_err(|error| format!("it is not a usable RSA key: {error}"))?;
    let seconds = |at: Result<Timestamp, jiff::Error>| at.unwrap_or(now).as_second();
    let claims = json!({
        "iat": seconds(now.checked_sub(CLAIM_BEGAN)),
        "exp": seconds(now.checked_add(CLAIM_LASTS)),
        "iss": app_id,
    });
    let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&json!({ "alg": "RS256", "typ": "JWT" })), part(&claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature)
        .map_err(|_| "signing with it failed".to_owned())?;
    Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_key_is_reported_without_showing_it() {
        let now = Timestamp::UNIX_EPOCH;
        for pem in
            ["", "ghp_abcdefgh", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"]
        {
            let error = signed_claim(pem, "1", now).unwrap_err();
            assert!(!error.contains("abcdefgh") && !error.contains("AAAA"), "{error}");
        }
    }
}
