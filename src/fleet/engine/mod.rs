//! The server of a fleet (Temporal, 1.32 or newer), used by plain calls: activities without a
//! workflow, each tried once. The only place that names the server's crates.
//!
//! Every call has its own time limit and is tried once: the caller learns at once whether the
//! server is reachable, and decides what an outage means.

mod calls;
mod connect;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use temporalio_client::Connection;
use temporalio_client::errors::ClientConnectError;
use temporalio_client::tonic::{Code, Request, Status};
use temporalio_protos::temporal::api::common::v1::{Payload, Payloads};

use super::keys::{Asked, KeyError, Keys, PublicKey, ReplyTo, signer_of};
use super::order::{MAX_BYTES, Task};
use super::seal::{Seal, SealError};
use crate::settings::{Environment, Fleet};

/// The oldest server with generally available activities without a workflow.
pub const OLDEST_SERVER: (u32, u32) = (1, 32);
const UPGRADE: &str = "upgrade the server to 1.32 or newer";
/// Time limit of an ordinary call.
const CALL: Duration = Duration::from_secs(5);
/// No heartbeat of a host for the heartbeat timeout: by then the host has ended the session.
pub(super) const HOST_LOST: &str = "its host sent no heartbeat in time";

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The call may have had an effect.
    #[error("the fleet's server {0} cannot be reached: {1}")]
    Unreachable(String, String),
    /// The call had no effect, and will not until its version, a setting, the namespace or a
    /// credential changes.
    #[error("the fleet's server {server} refuses requests: {why}; {fix}")]
    Refused { server: String, why: String, fix: &'static str },
    /// The call had no effect and never will.
    #[error("the fleet's server {0} rejected the request: {1}")]
    Invalid(String, String),
    /// The execution does not exist.
    #[error("the fleet's server {0} has no such execution: {1}")]
    Unknown(String, String),
    #[error("{0}")]
    Seal(#[from] SealError),
    #[error("{0}")]
    Key(#[from] KeyError),
    /// From somebody who may not send it.
    #[error("{0}")]
    Untrusted(String),
    #[error(
        "a session of {0} bytes is too large for the fleet's server (at most {MAX_BYTES}): lower \
         [analyze] max_item_tokens, [triage] max_prompt_tokens or [repository] context_tokens"
    )]
    TooLarge(usize),
    #[error("{0}")]
    Settings(String),
}

impl EngineError {
    /// Whether it is unknown if the call had an effect.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Unreachable(..))
    }

    /// Whether the same call may succeed later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable(..) | Self::Refused { .. })
    }

    /// The error and its remedy.
    pub fn message_and_fix(&self) -> (String, String) {
        match self {
            Self::Refused { server, why, fix } => {
                (format!("the fleet's server {server} refuses requests: {why}"), (*fix).to_owned())
            }
            error => {
                let fix = "check [fleet] address, the network and the certificates";
                (error.to_string(), fix.to_owned())
            }
        }
    }
}

/// An execution to start.
pub struct Start<'a> {
    pub id: &'a str,
    pub queue: &'a str,
    pub task: &'a Task,
    /// How long it may wait for a host.
    pub wait: Duration,
    /// How long it may take once a host has it.
    pub limit: Duration,
    /// Heartbeat timeout; `None`: no heartbeats.
    pub heartbeat_timeout: Option<Duration>,
    /// The same id may be reused after its end.
    pub again: bool,
}

/// Result of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    New,
    /// The id is taken, by an execution that runs or has ended.
    Known,
}

/// How an execution ended.
#[derive(Debug, Clone)]
pub enum Ended {
    Completed(Sealed),
    /// Nothing was started; the host's reason, sealed.
    Returned(Sealed),
    /// No host took it in time.
    NotTaken,
    /// Cancelled before a host reported it, ended by the server, or its host was lost.
    Lost(&'static str),
}

/// A signed or sealed value, as stored by the server.
#[derive(Debug, Clone)]
pub struct Sealed(Payload);

/// The server's state of an execution.
#[derive(Debug, Clone)]
pub struct Described {
    pub is_open: bool,
    /// The host's last report; `None` if there was none.
    pub details: Option<Sealed>,
    /// Time of that report.
    pub reported_at: Option<Timestamp>,
}

/// A task taken by this process.
#[derive(Debug)]
pub struct Taken {
    pub id: String,
    pub token: Vec<u8>,
    pub input: Sealed,
    /// Server time of the assignment.
    pub at: Option<Timestamp>,
}

/// The response to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldActivity {
    Yes,
    /// Still ours, but an end was requested.
    CancelRequested,
    /// No longer ours.
    No,
}

/// A process that waits for work on a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Poller {
    pub host: String,
    pub seen_at: Timestamp,
}

/// The server, for one namespace. Cheap to clone; connects at the first call.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    address: String,
    namespace: String,
    identity: String,
    fleet: Fleet,
    environment: Environment,
    keys: Keys,
    connection: tokio::sync::Mutex<Option<(Connection, connect::Stamp)>>,
}

impl Engine {
    /// Reads the key and the certificates; does not connect yet.
    pub fn new(fleet: &Fleet, environment: &Environment, host: &str) -> Result<Self, EngineError> {
        let keys = Keys::read_or_make(&fleet.key_file)?;
        connect::options(fleet, environment, host)?;
        Ok(Self(Arc::new(Inner {
            address: fleet.address.clone(),
            namespace: fleet.namespace.clone(),
            identity: host.to_owned(),
            fleet: fleet.clone(),
            environment: environment.clone(),
            keys,
            connection: tokio::sync::Mutex::new(None),
        })))
    }

    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// The keys of this process.
    pub fn keys(&self) -> &Keys {
        &self.0.keys
    }

    /// The shared connection; reconnects after its certificates were renewed.
    async fn connection(&self) -> Result<Connection, EngineError> {
        let mut connection = self.0.connection.lock().await;
        let stamp = connect::stamp(&self.0.fleet);
        if let Some((connection, made_with)) = &*connection
            && *made_with == stamp
        {
            return Ok(connection.clone());
        }
        let made = self.connect().await?;
        *connection = Some((made.clone(), stamp));
        Ok(made)
    }

    async fn connect(&self) -> Result<Connection, EngineError> {
        let options = connect::options(&self.0.fleet, &self.0.environment, &self.0.identity)?;
        let unreachable = |why: String| EngineError::Unreachable(self.0.address.clone(), why);
        let mut made = match tokio::time::timeout(CALL, Connection::connect(options)).await {
            Ok(Ok(made)) => made,
            Ok(Err(ClientConnectError::SystemInfoCallError(status))) => {
                return Err(self.failed(&status));
            }
            Ok(Err(error)) => {
                return Err(unreachable(connect::with_fix(&self.0.fleet, connect::causes(&error))));
            }
            Err(_) => return Err(unreachable(format!("no answer within {} s", CALL.as_secs()))),
        };
        let version = self.version_of(&mut made).await?;
        if is_older(&version) {
            let (server, why) = (self.0.address.clone(), format!("Temporal {version} is too old"));
            return Err(EngineError::Refused { server, why, fix: UPGRADE });
        }
        Ok(made)
    }

    fn request<T>(message: T, limit: Duration) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(limit);
        request
    }

    fn failed(&self, status: &Status) -> EngineError {
        let (address, message) = (self.0.address.clone(), status.message());
        let with = |fix| {
            let (server, why) = (address.clone(), message.to_owned());
            EngineError::Refused { server, why, fix }
        };
        match status.code() {
            Code::InvalidArgument => EngineError::Invalid(address, message.to_owned()),
            Code::NotFound if is_about_namespace(status) => with(
                "create the namespace (`temporal operator namespace create`) or correct [fleet] \
                 namespace",
            ),
            Code::NotFound => EngineError::Unknown(address, message.to_owned()),
            Code::PermissionDenied | Code::Unauthenticated => with(
                "give this host's credential ([fleet] api_key_env, tls_cert_file) access to the \
                 namespace, or renew it",
            ),
            Code::Unimplemented if message.contains("disabled") => {
                with("set `activity.enableStandalone: true` in the server's dynamic configuration")
            }
            Code::Unimplemented => with(UPGRADE),
            Code::FailedPrecondition => with("see the server's log"),
            code => {
                EngineError::Unreachable(address, connect::explained(&self.0.fleet, status, code))
            }
        }
    }

    fn covered(
        &self,
        cover: &Cover<'_>,
        purpose: &str,
        value: &impl Serialize,
    ) -> Result<Payloads, EngineError> {
        let (encoding, key, data) = match cover {
            Cover::Key(seal) => {
                let (key, data) = seal.seal(purpose, value)?;
                ("binary/encrypted", key, data)
            }
            Cover::Signed => {
                let form = |error: serde_json::Error| SealError::Form(error.to_string());
                let data = self.0.keys.sign(purpose, &serde_json::to_vec(value).map_err(form)?);
                (SIGNED, String::new(), data)
            }
            Cover::Reply(to) => {
                ("binary/reply", String::new(), self.0.keys.reply(purpose, to, value)?)
            }
        };
        if data.len() > MAX_BYTES {
            return Err(EngineError::TooLarge(data.len()));
        }
        let metadata = HashMap::from([
            ("encoding".to_owned(), encoding.as_bytes().to_vec()),
            ("encryption-key-id".to_owned(), key.into_bytes()),
        ]);
        let payload = Payload { metadata, data, ..Payload::default() };
        Ok(Payloads { payloads: vec![payload] })
    }

    /// Opens a value that was sealed for this execution.
    pub fn open<T: DeserializeOwned>(
        seal: &Seal,
        what: What,
        id: &str,
        sealed: &Sealed,
    ) -> Result<T, EngineError> {
        let key = sealed.0.metadata.get("encryption-key-id").map_or(&[][..], Vec::as_slice);
        let key = String::from_utf8_lossy(key);
        Ok(seal.open(&what.purpose(id), &key, &sealed.0.data)?)
    }

    /// Reads a value that was signed for this execution, and tells by whom.
    pub fn read_signed<T: DeserializeOwned>(
        what: What,
        id: &str,
        signed: &Sealed,
    ) -> Result<(PublicKey, T), EngineError> {
        let (signer, data) = signer_of(&what.purpose(id), &signed.0.data)?;
        let value = serde_json::from_slice(data);
        Ok((signer, value.map_err(|error| SealError::Form(error.to_string()))?))
    }

    /// Opens the answer to a request of this process, and tells by whom.
    pub fn open_reply<T: DeserializeOwned>(
        asked: Asked,
        id: &str,
        reply: &Sealed,
    ) -> Result<(PublicKey, T), EngineError> {
        Ok(asked.open(&What::Result.purpose(id), &reply.0.data)?)
    }
}

/// Who can read a value.
pub enum Cover<'a> {
    /// Whoever has this key.
    Key(&'a Seal),
    /// Everybody; this process has signed it.
    Signed,
    /// Whoever asked; this process has signed it.
    Reply(&'a ReplyTo),
}

const SIGNED: &str = "json/signed";

impl Sealed {
    /// Whether everybody can read it.
    pub fn is_signed_only(&self) -> bool {
        self.0.metadata.get("encoding").is_some_and(|encoding| encoding == SIGNED.as_bytes())
    }
}

/// A missing namespace says nothing about an execution.
fn is_about_namespace(status: &Status) -> bool {
    status.code() == Code::NotFound && status.message().starts_with("Namespace")
}

/// An unparsable version is tried.
fn is_older(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) < OLDEST_SERVER,
        _ => false,
    }
}

/// The kind of a sealed value, so that one is never mistaken for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Task,
    Beat,
    Result,
}

impl What {
    fn purpose(self, id: &str) -> String {
        let word = match self {
            Self::Task => "task",
            Self::Beat => "beat",
            Self::Result => "result",
        };
        format!("{word} {id}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_compared_by_number() {
        assert!(is_older("1.9.12") && is_older("1.31.2") && is_older("0.40"));
        assert!(!is_older("1.32.0") && !is_older("1.100.0") && !is_older("2.0"));
        assert!(!is_older("a build of our own"), "what says nothing is tried");
    }
}
