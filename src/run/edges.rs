//! The seams of a run: what it needs from the world, in its own words.

use std::sync::Arc;

use crate::context::CodeBase;
use crate::fetch::{FetchError, Source};
use crate::model::{BoxFuture, ItemId, ItemKey};
use crate::session::{Gate, Sessions};
use crate::settings::{AgentKind, HeldSecrets};

/// Everything a run touches.
#[derive(Clone)]
pub struct Edges {
    /// The trackers, one for each configured source.
    pub trackers: Arc<[Tracker]>,
    /// Supervised agent sessions.
    pub sessions: Arc<dyn Sessions>,
    /// The code bases.
    pub code: Arc<dyn CodeBase>,
    /// The machine's say in whether another session may start.
    pub gate: Arc<dyn Gate>,
    /// What no stored text may hold.
    pub secrets: Arc<dyn Secrets>,
}

/// One configured source.
#[derive(Clone)]
pub struct Tracker {
    /// Its configured name.
    pub name: String,
    /// What items are read from.
    pub source: Arc<dyn Source>,
    /// Where findings are left, if they are.
    pub publisher: Option<Arc<dyn Publisher>>,
}

impl Edges {
    /// The tracker that an item was read from; none: its source is not configured any more.
    pub fn tracker_of(&self, item: &ItemKey) -> Option<&Tracker> {
        self.trackers.iter().find(|tracker| tracker.name == item.source())
    }

    /// Where the findings of an item are left, if they are.
    pub fn publisher_of(&self, item: &ItemKey) -> Option<&Arc<dyn Publisher>> {
        self.tracker_of(item)?.publisher.as_ref()
    }
}

/// Knows the secrets in force.
pub trait Secrets: Send + Sync {
    /// All of them, now.
    fn held(&self) -> BoxFuture<'_, HeldSecrets>;

    /// Keyed fingerprint of an agent's credential, to see whether it changed; none: unknown.
    fn agent_fingerprint<'a>(
        &'a self,
        _agent: AgentKind,
        _key: &'a str,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(async { None })
    }
}

/// A set that stays as it is.
impl Secrets for HeldSecrets {
    fn held(&self) -> BoxFuture<'_, HeldSecrets> {
        Box::pin(async { self.clone() })
    }
}

/// A finding for the work item it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publishing {
    /// Which item.
    pub id: ItemId,
    /// The revision the finding was made from.
    pub rev: i64,
    /// As Markdown.
    pub comment: String,
    /// An earlier attempt may have arrived: look for it before writing.
    pub may_be_there: bool,
}

/// Leaves findings where people work.
pub trait Publisher: Send + Sync {
    /// Leaves it, once; the revision that made.
    fn publish(&self, publishing: Publishing) -> BoxFuture<'_, Result<i64, FetchError>>;

    /// Would it be taken? Changes nothing.
    fn validate(&self, publishing: Publishing) -> BoxFuture<'_, Result<(), FetchError>>;
}
