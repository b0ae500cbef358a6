//! The session and the item that an event refers to.

use super::Event;
use crate::model::{ItemKey, SessionId};

impl Event {
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::SessionRegistered { session, .. }
            | Self::SessionSpawned { session, .. }
            | Self::SessionWithdrawn { session, .. }
            | Self::SessionInitialised { session, .. }
            | Self::SessionLiveness { session, .. }
            | Self::SessionProgressed { session, .. }
            | Self::SessionRetrying { session, .. }
            | Self::SessionStopping { session, .. }
            | Self::SessionEnded { session, .. }
            | Self::OrphanResolved { session, .. }
            | Self::Unkillable { session, .. }
            | Self::FindingStored { session, .. }
            | Self::FindingRejected { session, .. } => Some(*session),
            _ => None,
        }
    }

    pub fn item(&self) -> Option<&ItemKey> {
        match self {
            Self::TextAlarm { item, .. }
            | Self::ItemDecided { item, .. }
            | Self::RuleMatched { item, .. }
            | Self::ItemTriaged { item, .. }
            | Self::FieldsSuggested { item, .. }
            | Self::FieldsWritten { item, .. }
            | Self::ContextBuilt { item, .. }
            | Self::SurroundingsRead { item, .. }
            | Self::FindingStored { item, .. }
            | Self::FindingRejected { item, .. }
            | Self::FindingPublished { item, .. }
            | Self::FindingVerified { item, .. }
            | Self::PublishFailed { item, .. }
            | Self::FeedbackGiven { item, .. }
            | Self::FixFound { item, .. }
            | Self::ItemSettled { item }
            | Self::ItemDeferred { item, .. }
            | Self::ItemWaiting { item, .. }
            | Self::ItemParked { item, .. } => Some(item),
            Self::AdmissionRefused { item, .. }
            | Self::SessionRegistered { item, .. }
            | Self::SessionEnded { item, .. } => item.as_ref(),
            _ => None,
        }
    }
}
