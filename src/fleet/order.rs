//! Messages between coordinator and workers. Sealed in transit; see `seal`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::event::Liveness;
use crate::model::text::clip;
use crate::model::{SessionEnd, SessionId, SessionRef};
use crate::prompt::Rendered;
use crate::session::{Attached, AttachedFile, Job};
use crate::settings::{Analyze, Config, Timeouts, Triage};

/// Protocol version. Increase it with every change that an older worker or coordinator would
/// misunderstand; it is part of the queue's name.
pub const WIRE: u32 = 1;
/// The largest sealed order in bytes: the server refuses two megabytes.
pub const MAX_BYTES: usize = 1_500_000;

/// Kinds of steps in a heartbeat, and the length of a kind's name.
const MAX_STEP_KINDS: usize = 16;
const STEP_CHARS: usize = 40;

/// The content of an execution.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Nothing: it only takes the id, so that a start in doubt is refused.
    Void,
    Session(Box<Order>),
    /// Ask a host how this session ended.
    Report(SessionId),
    /// The right to run, which the coordinator takes itself.
    Run,
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
    pub triage: Triage,
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
