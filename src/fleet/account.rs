//! The account of this host's agent. Where each host has its own (`fleet.account = "per-host"`), a
//! limit or a refused credential stops only this host, also after a restart of its worker; a new
//! credential is tried at once. The coordinator handles what concerns every host, such as an
//! outage.

use std::sync::Arc;

use super::worker::Worker;
use crate::breaker::provider::{
    Hold, HoldKind, ProviderAdmission, ProviderRecord, Report, Request, is_outage,
};
use crate::model::{BoxFuture, Outcome, SessionEnd};
use crate::settings::{AgentKind, FleetAccount};
use crate::store::StoreError;

/// Computes a keyed fingerprint of an agent's credential on this host; `None` if it is unknown.
pub type Fingerprint =
    Arc<dyn Fn(AgentKind, String) -> BoxFuture<'static, Option<String>> + Send + Sync>;

impl Worker {
    /// Records what a session's end says about this host's own account.
    pub(super) async fn note_account(
        &self,
        agent: AgentKind,
        end: &SessionEnd,
    ) -> Result<(), StoreError> {
        if self.config.fleet.account == FleetAccount::Shared || is_outage(&end.outcome) {
            return Ok(());
        }
        let mut credential = None;
        if let Outcome::ProviderLimit { .. } = end.outcome {
            let fresh_key = || uuid::Uuid::now_v7().to_string();
            let ensure = move |record: &mut ProviderRecord| {
                record.fingerprint_key.get_or_insert_with(fresh_key);
                record.clone()
            };
            let record = self.journal.provider().update(agent, ensure).await?;
            credential = self.credential(agent, &record).await;
        }
        let (outcome, until, now) = (end.outcome.clone(), end.suspended_until, self.clock.now());
        let reason = outcome.to_string();
        let change = move |record: &mut ProviderRecord| {
            let credential = credential.as_deref();
            // The coordinator keeps what concerns a model.
            let (outcome, model, item) = (&outcome, "", None);
            record.note(Report { outcome, until, now, credential, reason, model, item });
            record.hold(now)
        };
        if let Some(hold) = self.journal.provider().update(agent, change).await? {
            tracing::error!(
                host = self.host,
                until = %hold.until,
                why = hold.reason,
                "the provider refused the account of this host's agent; this host asks for no work until then"
            );
        }
        Ok(())
    }

    /// Why this host's own account prevents it from taking work now.
    pub(super) async fn account_refuses(&self) -> Option<String> {
        for (agent, record) in self.accounts().await {
            let request = (self.clock.now(), self.credential(agent, &record).await);
            let ask = move |record: &mut ProviderRecord| {
                let (now, credential) = (request.0, request.1.as_deref());
                record.admit(Request { now, credential, model: "", by_hand: false })
            };
            let asked = self.journal.provider().update(agent, ask).await;
            // The next session is the probe.
            if let Ok(ProviderAdmission::Refused(hold)) = asked {
                return Some(refusal_text(agent, &hold));
            }
        }
        None
    }

    /// Whether its account was refused while this host was polling for work.
    pub(super) async fn account_was_refused(&self) -> Option<String> {
        let now = self.clock.now();
        let holds = self.accounts().await.into_iter();
        let mut holds = holds.filter_map(|(agent, record)| Some((agent, record.hold(now)?)));
        let (agent, hold) = holds.find(|(_, hold)| hold.kind != HoldKind::Probing)?;
        Some(refusal_text(agent, &hold))
    }

    /// Records that are not empty.
    async fn accounts(&self) -> Vec<(AgentKind, ProviderRecord)> {
        if self.config.fleet.account == FleetAccount::Shared {
            return Vec::new();
        }
        let all = self.journal.store().provider().all(AgentKind::ALL.to_vec()).await;
        let mut all = all.unwrap_or_default().0;
        all.retain(|(_, record)| *record != ProviderRecord::default());
        all
    }

    async fn credential(&self, agent: AgentKind, record: &ProviderRecord) -> Option<String> {
        (self.fingerprint)(agent, record.fingerprint_key.clone()?).await
    }
}

fn refusal_text(agent: AgentKind, hold: &Hold) -> String {
    format!("{} on this host is refused until {}: {}", agent.title(), hold.until, hold.reason)
}
