//! Before anything new: what an earlier life left behind is resolved, and what it paid for is
//! used.

use super::{Run, RunError};
use crate::model::{ItemKey, SessionEnd, Stage};
use crate::store::{DeepResult, StoreError, TriageResult, UnappliedSession};
use crate::triage;

impl Run {
    /// Ends orphaned sessions, gives back claims that never became sessions, and applies results
    /// that were stored but not yet used.
    pub(super) async fn recover(&self) -> Result<(), RunError> {
        self.edges.sessions.resolve_orphans().await.map_err(StoreError::Ledger)?;
        self.journal.claims().give_back_unstarted().await?;
        for session in self.journal.store().results().unapplied().await? {
            match session.stage {
                Stage::Triage => self.apply_left_triage(session).await?,
                Stage::Deep => self.apply_left_deep(session).await?,
            }
        }
        Ok(())
    }

    /// Usable verdicts are stored; the other items are simply still in line.
    async fn apply_left_triage(&self, left: UnappliedSession) -> Result<(), RunError> {
        let ids: Vec<_> = left.subject.iter().filter_map(|(key, _)| key.item_id()).collect();
        let mut checked = match (&left.outcome, &left.output) {
            (outcome, Some(output)) if outcome.is_success() => triage::check(&ids, output),
            _ => triage::Checked::default(),
        };
        self.clear_of_secrets(&mut checked.verdicts).await;
        let judged = |(key, fingerprint): (ItemKey, String)| {
            let verdict = checked.verdicts.iter().find(|v| Some(v.id) == key.item_id())?.clone();
            Some(TriageResult { key, fingerprint, verdict, from_model: true, park: None })
        };
        let results = left.subject.into_iter().filter_map(judged).collect();
        Ok(self.journal.results().apply_triage(Some(left.session), results).await?)
    }

    async fn apply_left_deep(&self, left: UnappliedSession) -> Result<(), RunError> {
        let Some((key, fingerprint)) = left.subject.into_iter().next() else { return Ok(()) };
        let end = SessionEnd {
            output: left.output,
            usage: left.usage,
            ..SessionEnd::without_words(left.outcome)
        };
        let root = self.root_read_for(key.clone()).await?;
        let result = self.deep_result(left.session, end, left.attempt, root.as_deref());
        let result = self.without_secrets(left.session, result).await;
        let found = match &result {
            DeepResult::Finished(finding) => Some(finding.clone()),
            _ => None,
        };
        self.journal
            .results()
            .apply_deep(left.session, self.id, key.clone(), fingerprint, result)
            .await?;
        // The revision it was made from: nothing was read since.
        let seen = self.journal.store().items().get(key.clone()).await?.map(|row| row.revision);
        match (found, seen) {
            (Some(finding), Some(seen)) => self.publish(&key, seen, &finding).await,
            _ => Ok(()),
        }
    }
}
