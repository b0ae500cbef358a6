//! Items that the query named and no read delivered: remembered with the cursor that passes them,
//! asked for in the next runs, and reported when they are given up.

use std::collections::BTreeMap;

use super::{RunContext, RunError};
use crate::model::{ItemId, ItemKey};
use crate::store::PageRecord;

/// Runs that ask for such an item before it is given up.
const MOST_RUNS: u32 = 3;

/// What earlier runs remembered, by the number of runs that asked.
pub(super) struct Undelivered(BTreeMap<ItemId, u32>);

impl Undelivered {
    pub(super) async fn load(cx: &RunContext) -> Result<Self, RunError> {
        Ok(Self(cx.store().sources().undelivered(&cx.config.source.name).await?))
    }

    /// Adds to a page's record what its reads mean for these items.
    pub(super) fn note(
        &mut self,
        cx: &RunContext,
        delivered: impl Iterator<Item = ItemId>,
        missing: Vec<ItemId>,
        vanished: Vec<ItemId>,
        record: &mut PageRecord,
    ) {
        record.delivered = delivered.filter(|id| self.0.contains_key(id)).collect();
        for id in missing {
            let runs = self.0.get(&id).copied().unwrap_or(0) + 1;
            self.miss(cx, id, runs, record);
        }
        for id in vanished {
            match self.0.get(&id).copied() {
                Some(runs) => self.miss(cx, id, runs + 1, record),
                None => record.vanished.push(key(cx, id)),
            }
        }
    }

    fn miss(&mut self, cx: &RunContext, id: ItemId, runs: u32, record: &mut PageRecord) {
        let item = key(cx, id);
        // A later page of this run may deliver it.
        self.0.insert(id, runs);
        if runs < MOST_RUNS {
            tracing::warn!(%item, runs, "the query named this item, but the tracker did not deliver it; the next run asks again");
            record.undelivered.push((id, runs));
        } else {
            tracing::error!(%item, runs, "the query named this item, but the tracker never delivered it; giving up until it changes");
            record.delivered.push(id);
            record.given_up.push(item);
        }
    }
}

fn key(cx: &RunContext, id: ItemId) -> ItemKey {
    ItemKey::new(&cx.config.source.name, id)
}
