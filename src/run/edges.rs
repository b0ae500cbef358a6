//! The interfaces through which a run has side effects.

use std::sync::Arc;

use crate::context::CodeBase;
use crate::fetch::{FetchError, FieldWrite, Source};
use crate::model::{BoxFuture, ItemId, ItemKey};
use crate::ports::HeldCredentials;
use crate::session::{Gate, Sessions};
use crate::settings::{AgentKind, HeldSecrets};

#[derive(Clone)]
pub struct Edges {
    /// One per configured source.
    pub trackers: Arc<[Tracker]>,
    pub sessions: Arc<dyn Sessions>,
    pub code: Arc<dyn CodeBase>,
    /// Whether the machine admits another session.
    pub gate: Arc<dyn Gate>,
    /// Secrets to remove from every stored text.
    pub secrets: Arc<dyn Secrets>,
}

#[derive(Clone)]
pub struct Tracker {
    pub name: String,
    /// Delivers its items, behind the circuit breaker, and reads single ones.
    pub source: Arc<dyn Source>,
    /// Writes findings to the tracker; `None` if write-back is off.
    pub publisher: Option<Arc<dyn Publisher>>,
    /// Writes suggested values to fields; `None` if that is off.
    pub writer: Option<Arc<dyn FieldWriter>>,
}

impl Edges {
    /// `None` if the item's source is no longer configured.
    pub fn tracker_of(&self, item: &ItemKey) -> Option<&Tracker> {
        self.trackers.iter().find(|tracker| tracker.name == item.source())
    }

    /// `None` if nothing is written to fields of this item.
    pub fn writer_of(&self, item: &ItemKey) -> Option<&Arc<dyn FieldWriter>> {
        self.tracker_of(item)?.writer.as_ref()
    }

    /// `None` if findings of this item are not written back.
    pub fn publisher_of(&self, item: &ItemKey) -> Option<&Arc<dyn Publisher>> {
        self.tracker_of(item)?.publisher.as_ref()
    }
}

/// Writes values to fields of items.
pub trait FieldWriter: Send + Sync {
    /// Writes them once; returns the item's revision after it.
    fn set_fields(&self, write: FieldWrite) -> BoxFuture<'_, Result<i64, FetchError>>;
}

pub trait Secrets: HeldCredentials {
    /// Keyed fingerprint of an agent's credential, to detect a change; `None` if unknown. May read a
    /// small file.
    fn agent_fingerprint(&self, _agent: AgentKind, _key: &str) -> Option<String> {
        None
    }
}

/// A fixed set.
impl Secrets for HeldSecrets {}

/// A finding to write to its work item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publishing {
    pub id: ItemId,
    /// The revision that the finding was made from.
    pub rev: i64,
    /// As Markdown.
    pub comment: String,
    /// An earlier attempt may have succeeded: check before writing.
    pub may_be_there: bool,
}

/// Writes findings to the tracker.
pub trait Publisher: Send + Sync {
    /// Writes the comment once; returns the new revision.
    fn publish(&self, publishing: Publishing) -> BoxFuture<'_, Result<i64, FetchError>>;

    /// Whether the tracker would accept it. Changes nothing.
    fn validate(&self, publishing: Publishing) -> BoxFuture<'_, Result<(), FetchError>>;
}
