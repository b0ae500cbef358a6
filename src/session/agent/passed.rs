//! Variables of heartbeat's environment that are passed to an agent.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};

use super::{HOME_DIR, TMP_DIR, Task};
use crate::settings::Config;

const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Name certificate files. With a gateway they are heartbeat's concern.
const CERTIFICATES: [&str; 4] =
    ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "CODEX_CA_CERTIFICATE", "REQUESTS_CA_BUNDLE"];

/// Headers for the provider, one to a line: `name: value`. With a gateway heartbeat adds them.
const HEADERS: &str = "ANTHROPIC_CUSTOM_HEADERS";

#[derive(Clone)]
pub struct Passed {
    path: OsString,
    /// The variable with the provider's credential, as the agent reads it.
    credential: String,
    variables: Vec<(OsString, OsString)>,
}

impl Passed {
    /// Looks up the credential, the variables in the configuration and `PATH`. The tracker's
    /// credential and those `withheld` are never passed on, even if configured.
    pub fn collect(
        config: &Config,
        credential: &str,
        withheld: &[&str],
        lookup: &impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let is_withheld = |name: &str| {
            name.is_empty() || config.is_tracker_variable(name) || withheld.contains(&name)
        };
        let mut variables: Vec<(OsString, OsString)> = Vec::new();
        let names = std::iter::once(credential).chain(config.agent.pass_env.iter().map(|n| &**n));
        for name in names.filter(|name| !is_withheld(name)) {
            let known = variables.iter().any(|(known, _)| known.as_os_str() == name);
            if let (false, Some(value)) = (known, lookup(name)) {
                variables.push((name.into(), value));
            }
        }
        let path = lookup("PATH").filter(|path| !path.is_empty());
        let path = path.unwrap_or_else(|| DEFAULT_PATH.into());
        Self { path, credential: credential.to_owned(), variables }
    }

    /// The value of a passed variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let found = self.variables.iter().find(|(known, _)| known.as_os_str() == name);
        found.map(|(_, value)| value.as_os_str())
    }

    /// The provider's credential, if it is set and can be sent in a header.
    pub fn credential(&self) -> Option<SecretString> {
        let value = self.get(&self.credential)?.to_str()?.trim();
        let is_sendable = !value.is_empty() && value.bytes().all(|byte| (32..127).contains(&byte));
        is_sendable.then(|| SecretString::from(value))
    }

    /// The agent reads the credential under another name.
    pub fn rename_credential(&mut self, name: &str) {
        let value = self.remove(&self.credential.clone());
        self.credential = name.to_owned();
        if let Some(value) = value {
            self.push(name, value);
        }
    }

    /// Whether a variable whose name begins like this is passed.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        self.variables.iter().any(|(name, _)| name.to_string_lossy().starts_with(prefix))
    }

    /// Models that variables name, by which an agent's own names can stand for others.
    pub fn models(&self) -> Vec<&str> {
        let named = self.variables.iter().filter(|(name, _)| {
            name.to_str().is_some_and(|name| name.ends_with("_MODEL") || name.contains("_MODEL_"))
        });
        named.filter_map(|(_, model)| model.to_str()).collect()
    }

    /// PEM files of private certificate authorities.
    pub fn authorities(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> =
            CERTIFICATES.iter().filter_map(|name| self.get(name)).map(PathBuf::from).collect();
        files.dedup();
        files
    }

    /// Headers that the user sets by a variable.
    pub fn own_headers(&self) -> Vec<(String, SecretString)> {
        let lines = self.get(HEADERS).and_then(OsStr::to_str).unwrap_or_default().lines();
        let parts = lines.filter_map(|line| line.split_once(':'));
        parts.map(|(name, value)| (name.trim().to_owned(), value.trim().into())).collect()
    }

    /// Whether a session behind a gateway gets this variable: not the credential, under whatever
    /// name, nor what would lead its requests elsewhere.
    fn passes_a_gateway(&self, name: &OsStr, value: &OsStr) -> bool {
        let known = name.to_string_lossy().to_ascii_uppercase();
        let secret = self.get(&self.credential);
        name != self.credential.as_str()
            && secret.is_none_or(|secret| secret != value)
            && known != HEADERS
            && !known.ends_with("_PROXY")
            && !CERTIFICATES.contains(&known.as_str())
    }

    pub fn push(&mut self, name: &str, value: OsString) {
        self.variables.push((name.into(), value));
    }

    pub fn remove(&mut self, name: &str) -> Option<OsString> {
        let place = self.variables.iter().position(|(known, _)| known.as_os_str() == name)?;
        Some(self.variables.remove(place).1)
    }

    /// The complete environment of one session: its folders, `own` variables, and passed ones. A
    /// variable that the user passes overrides ours, but not those of the `gateway`.
    pub fn environment(
        &self,
        task: &Task,
        own: Vec<(OsString, OsString)>,
        gateway: Vec<(OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let folder = |name: &str| task.scratch.join(name).into_os_string();
        let mut env: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), folder(HOME_DIR)),
            ("TMPDIR".into(), folder(TMP_DIR)),
            ("PATH".into(), self.path.clone()),
            ("LANG".into(), "C.UTF-8".into()),
        ];
        env.extend(own);
        let is_passed = |(name, value): &&(OsString, OsString)| {
            task.door.is_none() || self.passes_a_gateway(name, value)
        };
        let passed = self.variables.iter().filter(is_passed).cloned();
        for (name, value) in passed.chain(gateway) {
            env.retain(|(known, _)| *known != name);
            env.push((name, value));
        }
        env
    }
}

/// The value of an `Authorization` header.
pub fn bearer(secret: &SecretString) -> SecretString {
    SecretString::from(format!("Bearer {}", secret.expose_secret()))
}
