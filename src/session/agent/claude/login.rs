//! Lends the user's login to a session.
//!
//! The user's folder of settings holds more than a login: hooks and instructions that the user's
//! own sessions execute. A session therefore gets a folder of its own with a copy of the credential
//! and nothing else. The CLI renews a credential that expires; the renewed one is taken back if it
//! is the same login in every part but its tokens and their time.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::super::Task;
use super::command::LOGIN_FOLDER;
use crate::private::{self, beneath};
use crate::settings::{AgentAuth, Config};

const FILE: &str = ".credentials.json";
/// Below the agent's own folder.
const OWN_FOLDER: &str = "login";
/// A login has about 500 bytes.
const MAX_BYTES: u64 = 1 << 16;
/// The part of a login that the CLI renews.
const ACCOUNT: &str = "claudeAiOauth";
const TOKENS: [&str; 2] = ["accessToken", "refreshToken"];
const EXPIRES: &str = "expiresAt";
/// Other times in a login.
const OTHER_TIMES: [&str; 1] = ["refreshTokenExpiresAt"];
/// A renewed login that claims to be valid for longer would never be renewed again.
const MAX_MS: u64 = 400 * 24 * 3_600 * 1_000;

/// Where the user's login is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login(PathBuf);

impl Login {
    /// `None` if sessions do not use it: with a key, or with a token in a variable.
    pub fn of(config: &Config, lookup: &impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let by_token = config.agent.credential_env.as_str();
        let has_token = by_token != "ANTHROPIC_API_KEY"
            && lookup(by_token).is_some_and(|token| !token.is_empty());
        if config.agent.auth != AgentAuth::Login || has_token {
            return None;
        }
        let folder = lookup(LOGIN_FOLDER).map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(lookup("HOME")?).join(".claude")))?;
        Some(Self(folder))
    }

    /// The folder that the CLI takes for the user's. Where nothing confines a session and the login
    /// is in the system's key chain, it is the user's own.
    pub fn folder_for(&self, task: &Task) -> PathBuf {
        match cfg!(target_os = "macos") && !self.0.join(FILE).exists() {
            true => self.0.clone(),
            false => task.scratch.join(OWN_FOLDER),
        }
    }

    /// The copy for a session. Without a login the CLI reports that there is none.
    pub fn lend(&self, task: &Task) -> Option<(PathBuf, Vec<u8>)> {
        let login = private::read_own(&self.0.join(FILE), MAX_BYTES).ok()?;
        Some((task.scratch.join(OWN_FOLDER).join(FILE), login))
    }

    /// Replaces the user's login by the one that the session renewed, if it did.
    pub fn take_back(&self, task: &Task) {
        let Ok(file) = std::fs::canonicalize(self.0.join(FILE)) else { return };
        let Ok(ours) = private::read_own(&file, MAX_BYTES) else { return };
        let copy = Path::new(OWN_FOLDER).join(FILE);
        let Ok(theirs) = beneath::read(&task.scratch, &copy, MAX_BYTES) else { return };
        if ours == theirs {
            return;
        }
        let (Ok(ours), Ok(theirs)) = (parse(&ours), parse(&theirs)) else { return };
        let Some(renewed) = renewed(&ours, &theirs) else {
            tracing::warn!(
                "a session changed its copy of the login; the change was not taken over"
            );
            return;
        };
        if let Err(error) = private::replace(&file, renewed.to_string().as_bytes()) {
            tracing::warn!(%error, file = %file.display(), "cannot store the renewed login");
        }
    }
}

fn parse(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes)
}

/// The user's login with new tokens; `None` if anything else differs, or if they are not newer.
fn renewed(ours: &Value, theirs: &Value) -> Option<Value> {
    let (before, after) = (ours.get(ACCOUNT)?.as_object()?, theirs.get(ACCOUNT)?.as_object()?);
    let expiry = |account: &Map<String, Value>| account.get(EXPIRES)?.as_u64();
    let (old, new) = (expiry(before)?, expiry(after)?);
    let is_token = |name: &&str| {
        let text = after.get(*name).and_then(Value::as_str).unwrap_or_default();
        (1..=4_096).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if new <= old || new - old > MAX_MS || !TOKENS.iter().all(is_token) {
        return None;
    }
    let mut made = ours.clone();
    let account = made.get_mut(ACCOUNT)?.as_object_mut()?;
    for name in TOKENS.iter().chain([&EXPIRES]) {
        account.insert((*name).to_owned(), after.get(*name)?.clone());
    }
    for name in OTHER_TIMES {
        if let Some(time) = after.get(name).filter(|time| time.is_u64()) {
            account.insert(name.to_owned(), time.clone());
        }
    }
    (made == *theirs).then_some(made)
}
