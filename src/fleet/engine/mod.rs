//! The server of a fleet (Temporal, 1.32 or newer), asked by its plain calls: activities without a
//! workflow, each tried once. The only place that names the server's crates.
//!
//! Every call has its own time limit and is tried once: whoever asks knows at once whether the server
//! is there, and decides what an outage means.

mod calls;
mod connect;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use temporalio_client::tonic::{Code, Request, Status};
use temporalio_client::{Connection, ConnectionOptions};
use temporalio_protos::temporal::api::common::v1::{Payload, Payloads};

use super::order::{MOST_BYTES, Task};
use super::seal::{Seal, SealError};
use crate::settings::{Environment, Fleet};

/// The oldest server that has activities without a workflow for general use.
pub const OLDEST_SERVER: (u32, u32) = (1, 32);
/// Longest wait for an ordinary call.
const CALL: Duration = Duration::from_secs(5);
/// The server heard nothing of a host for its whole patience: by then the host has ended the session.
pub(super) const HOST_LOST: &str = "its host was not heard of any more";

/// Why the server did not do what it was asked for.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// It may have done it.
    #[error("the fleet's server {0} cannot be reached: {1}")]
    Unreachable(String, String),
    /// It has not done it, and will not until somebody changes something.
    #[error("the fleet's server {0} refuses: {1}")]
    Refused(String, String),
    #[error("{0}")]
    Seal(#[from] SealError),
    #[error(
        "an order of {0} bytes is too large for the fleet's server (at most {MOST_BYTES}): lower \
         [analyze] max_item_tokens, [triage] max_prompt_tokens or [repository] context_tokens"
    )]
    TooLarge(usize),
    #[error("{0}")]
    Settings(String),
}

impl EngineError {
    /// Nobody can tell whether the call had an effect.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Unreachable(..))
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
    /// The server's patience between two beats; none: no beats.
    pub patience: Option<Duration>,
    /// The same id may be used again after its end.
    pub again: bool,
}

/// What became of a start.
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
    /// Nothing was started; sealed, the host's own word on why.
    GivenBack(Sealed),
    /// No host took it in time.
    NotTaken,
    /// Cancelled before a host answered for it, ended by the server, or its host was lost.
    Lost(&'static str),
}

/// Something sealed, as the server has it.
#[derive(Debug, Clone)]
pub struct Sealed(Payload);

/// What the server knows of an execution.
#[derive(Debug, Clone)]
pub struct Described {
    pub is_open: bool,
    /// What its host told last; none: it never told anything.
    pub details: Option<Sealed>,
    /// When that was.
    pub told_at: Option<Timestamp>,
}

/// A task that this process took.
#[derive(Debug)]
pub struct Taken {
    pub id: String,
    pub token: Vec<u8>,
    pub input: Sealed,
}

/// The answer to a beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Yes,
    /// Ours still, and somebody wants it to end.
    CancelRequested,
    /// Not ours any more.
    No,
}

/// A process that waits for work on a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Poller {
    pub host: String,
    pub seen_at: Timestamp,
}

/// The server, for one namespace. Cheap to clone; connects when it is first asked.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    address: String,
    namespace: String,
    identity: String,
    options: ConnectionOptions,
    seal: Seal,
    connection: tokio::sync::Mutex<Option<Connection>>,
}

impl Engine {
    /// Reads the key and the certificates; connects to nothing yet.
    pub fn new(fleet: &Fleet, environment: &Environment, host: &str) -> Result<Self, EngineError> {
        let seal = Seal::read(&fleet.key_file)?;
        let options = connect::options(fleet, environment, host)?;
        Ok(Self(Arc::new(Inner {
            address: fleet.address.clone(),
            namespace: fleet.namespace.clone(),
            identity: host.to_owned(),
            options,
            seal,
            connection: tokio::sync::Mutex::new(None),
        })))
    }

    /// What the fleet's key is called.
    pub fn key_id(&self) -> &str {
        self.0.seal.key_id()
    }

    async fn connection(&self) -> Result<Connection, EngineError> {
        let mut connection = self.0.connection.lock().await;
        if let Some(connection) = &*connection {
            return Ok(connection.clone());
        }
        let connecting = Connection::connect(self.0.options.clone());
        let unreachable = |why: String| EngineError::Unreachable(self.0.address.clone(), why);
        let made = match tokio::time::timeout(CALL, connecting).await {
            Ok(Ok(made)) => made,
            Ok(Err(error)) => return Err(unreachable(connect::causes(&error))),
            Err(_) => return Err(unreachable(format!("no answer within {} s", CALL.as_secs()))),
        };
        *connection = Some(made.clone());
        Ok(made)
    }

    fn request<T>(message: T, limit: Duration) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(limit);
        request
    }

    fn failed(&self, status: &Status) -> EngineError {
        let (address, message) = (self.0.address.clone(), status.message().to_owned());
        match status.code() {
            Code::InvalidArgument
            | Code::NotFound
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented
            | Code::FailedPrecondition => EngineError::Refused(address, message),
            code => EngineError::Unreachable(address, format!("{code}: {message}")),
        }
    }

    fn seal_for(&self, purpose: &str, value: &impl Serialize) -> Result<Payloads, EngineError> {
        let (key, data) = self.0.seal.seal(purpose, value)?;
        if data.len() > MOST_BYTES {
            return Err(EngineError::TooLarge(data.len()));
        }
        let metadata = HashMap::from([
            ("encoding".to_owned(), b"binary/encrypted".to_vec()),
            ("encryption-key-id".to_owned(), key.into_bytes()),
        ]);
        let payload = Payload { metadata, data, ..Payload::default() };
        Ok(Payloads { payloads: vec![payload] })
    }

    /// Opens what was sealed for this execution.
    pub fn open<T: DeserializeOwned>(
        &self,
        what: What,
        id: &str,
        sealed: &Sealed,
    ) -> Result<T, EngineError> {
        let key = sealed.0.metadata.get("encryption-key-id").map_or(&[][..], Vec::as_slice);
        let key = String::from_utf8_lossy(key);
        Ok(self.0.seal.open(&what.purpose(id), &key, &sealed.0.data)?)
    }
}

/// What a sealed text is; one is never taken for another.
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
