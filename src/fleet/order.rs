//! Messages between coordinator and workers. Signed or sealed in transit; see `keys`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::keys::{PublicKey, ReplyTo, SessionKey};
use crate::event::Liveness;
use crate::model::text::clip;
use crate::model::{SessionEnd, SessionId, SessionRef};
use crate::prompt::Rendered;
use crate::session::{Attached, AttachedFile, Job};
use crate::settings::{Analyze, Config, Timeouts, TriageSettings};

/// Protocol version. Increase it with every change that an older worker or coordinator would
/// misunderstand; it is part of the queue's name.
pub const WIRE: u32 = 1;
/// The largest sealed order in bytes: the server refuses two megabytes.
pub const MAX_BYTES: usize = 1_500_000;

/// Kinds of steps in a heartbeat, and the length of a kind's name.
const MAX_STEP_KINDS: usize = 16;
const STEP_CHARS: usize = 40;

/// The content of an execution: signed by its sender, readable by everybody.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Nothing: it only takes the id, so that a start in doubt is refused.
    Void,
    /// By the coordinator: a session waits for a host, which asks for its order.
    Offer(Offer),
    /// By a host: it takes the session that was offered to it. The answer is its order.
    Claim(Claim),
    /// By the coordinator: how did this session end? The answer is a [`Report`].
    Report { session: SessionId, reply_to: ReplyTo },
    /// The right to run, which the coordinator takes itself.
    Run,
}

/// A session that waits for a host, without anything about its work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Offer {
    pub wire: u32,
    pub session: SessionId,
    /// Heartbeat timeout, in milliseconds.
    pub heartbeat_timeout_ms: u64,
}

/// A host's request for the order of the session that it was offered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Claim {
    pub session: SessionId,
    pub host: String,
    pub reply_to: ReplyTo,
}

/// One session's work, with everything its host needs besides its own configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    pub wire: u32,
    #[serde(flatten)]
    pub session: SessionRef,
    #[serde(rename = "words")]
    pub prompt_text: PromptText,
    /// The code base it may read; `None`: an empty folder.
    pub checkout: Option<Checkout>,
    pub triage: TriageSettings,
    pub analyze: Analyze,
    pub timeouts: Timeouts,
    /// Files of the item that the agent may read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Files>,
    /// Heartbeat timeout, in milliseconds.
    #[serde(rename = "patience_ms")]
    pub heartbeat_timeout_ms: u64,
}

/// The complete prompt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PromptText {
    pub system: String,
    pub user: String,
    pub schema: serde_json::Value,
}

/// Files of an item: the placeholder for their folder in the prompt, and each by name, in base64.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Files {
    pub marker: String,
    pub files: Vec<(String, String)>,
}

/// A code base by name and commit: every host has its own copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    pub name: String,
    pub commit: String,
}

impl Order {
    /// The order for a job, with the coordinator's limits.
    pub fn new(job: &Job, checkout: Option<Checkout>, config: &Config) -> Self {
        let Rendered { system, user, schema } = job.prompt.clone();
        Self {
            wire: WIRE,
            session: job.session.clone(),
            prompt_text: PromptText { system, user, schema },
            checkout,
            triage: job.triage.clone().unwrap_or_else(|| config.triage.clone()),
            analyze: job.analyze.clone().unwrap_or_else(|| config.analyze.clone()),
            timeouts: config.timeouts.clone(),
            files: job.attached.as_ref().map(|attached| Files {
                marker: attached.marker.clone(),
                files: attached
                    .files
                    .iter()
                    .map(|file| (file.name.clone(), STANDARD.encode(&file.bytes)))
                    .collect(),
            }),
            heartbeat_timeout_ms: u64::try_from(config.fleet.lease.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub fn prompt(&self) -> Rendered {
        let PromptText { system, user, schema } = self.prompt_text.clone();
        Rendered { system, user, schema }
    }

    /// Files that the agent may read. A file whose bytes cannot be decoded, or whose name is a
    /// path, is omitted.
    pub fn attached(&self) -> Option<Attached> {
        let Files { marker, files } = self.files.clone()?;
        let files = files
            .into_iter()
            .filter(|(name, _)| !name.contains('/') && !name.starts_with('.'))
            .filter_map(|(name, bytes)| {
                Some(AttachedFile { name, bytes: STANDARD.decode(bytes).ok()? })
            })
            .collect();
        Some(Attached { marker, files })
    }

    /// A host's configuration for this session: its own agent, machine and repositories, the
    /// coordinator's limits.
    pub fn config_on(&self, host: &Config) -> Config {
        Config {
            triage: self.triage.clone(),
            analyze: self.analyze.clone(),
            timeouts: self.timeouts.clone(),
            ..host.clone()
        }
    }
}

/// A worker's report with every heartbeat: below two kilobytes, without any text of an item.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Beat {
    pub host: String,
    /// Version of the worker's heartbeat program.
    pub build: String,
    /// The agent's pid on its host, once it runs.
    pub pid: Option<u32>,
    /// Effective containment.
    pub tier: String,
    pub model: Option<String>,
    /// Steps of the session so far, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub steps: BTreeMap<String, u32>,
    pub liveness: Option<Liveness>,
}

impl Beat {
    /// Some kinds contain a name that the agent reported: both their number and their length are
    /// bounded, because a heartbeat must stay small.
    pub fn count_step(&mut self, what: &str) {
        let what = clip(what, STEP_CHARS);
        if self.steps.len() < MAX_STEP_KINDS || self.steps.contains_key(&what) {
            *self.steps.entry(what).or_default() += 1;
        }
    }
}

/// How a session ended, reported by its host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    pub session: SessionId,
    pub host: String,
    pub end: SessionEnd,
}

/// What a host knows of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "one at a time")]
pub enum Report {
    Ended(Done),
    Running,
    /// It could not start it, for this reason.
    NotStarted(String),
    Unknown,
}

/// Report of the holder of the right to run with every heartbeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    pub host: String,
    pub pid: u32,
    /// Number of runs of this state: a lower one is an old copy of the state.
    pub generation: i64,
}

/// An order as it is handed to one host, which alone can read it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Letter {
    pub order: Order,
    /// The host that it is for.
    pub host: String,
    /// By the server's clock, which both sides know.
    pub expires_at: Timestamp,
    /// Seals what the host reports about this session.
    pub key: SessionKey,
}

/// Why a host does not carry out an order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderRefusal {
    #[error(
        "the order is signed with the key {0}, which is not in [fleet] coordinator: write the \
         coordinator's public key there (`heartbeat doctor` on the coordinator prints it); if it \
         is there, somebody else gives orders on this server"
    )]
    NotTheCoordinator(String),
    #[error("the order is for host {0}, not for this one")]
    OtherHost(String),
    #[error("the order is for another session than the one that was offered")]
    OtherSession,
    #[error("the order expired at {0} by the server's clock")]
    Expired(Timestamp),
}

impl Letter {
    /// Whether this host may carry it out: by the coordinator, for this host, this session and now.
    /// That it does so only once: the letter is sealed to one request, and the host keeps the ids of
    /// its sessions.
    pub fn ensure_for(
        &self,
        signer: &PublicKey,
        coordinators: &[String],
        (host, session, now): (&str, SessionId, Timestamp),
    ) -> Result<(), OrderRefusal> {
        ensure_coordinator(signer, coordinators)?;
        if self.host != host {
            return Err(OrderRefusal::OtherHost(self.host.clone()));
        }
        if self.order.session.id != session {
            return Err(OrderRefusal::OtherSession);
        }
        if now > self.expires_at {
            return Err(OrderRefusal::Expired(self.expires_at));
        }
        Ok(())
    }
}

/// Whether this is the key of the coordinator.
pub fn ensure_coordinator(signer: &PublicKey, coordinators: &[String]) -> Result<(), OrderRefusal> {
    let signer = signer.to_string();
    match coordinators.contains(&signer) {
        true => Ok(()),
        false => Err(OrderRefusal::NotTheCoordinator(signer)),
    }
}
