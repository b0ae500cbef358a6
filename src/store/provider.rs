//! The records of the model providers: one for each kind of agent, each updated in one transaction.

use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{from_json, to_json};
use super::subjects::{Provider, Reader};
use super::{Journal, Sql, StoreError};
use crate::breaker::provider::{ModelRecord, ProviderRecord, Providers};
use crate::event::Event;
use crate::model::BreakerState;
use crate::settings::AgentKind;

impl<R: Reader> Provider<'_, R> {
    /// The record of an agent's provider; the default before its first session.
    pub async fn record(self, agent: AgentKind) -> Result<ProviderRecord, StoreError> {
        self.read(move |connection| load(connection, agent)).await
    }

    pub async fn all(self, agents: Vec<AgentKind>) -> Result<Providers, StoreError> {
        let one = |connection: &Connection, agent| Ok((agent, load(connection, agent)?));
        let read = move |connection: &Connection| {
            agents.into_iter().map(|agent| one(connection, agent)).collect::<Sql<Vec<_>>>()
        };
        self.read(read).await.map(Providers)
    }
}

impl Provider<'_, Journal> {
    /// Updates a record atomically. A breaker that opens or closes and a new limit are events.
    pub async fn update<T: Send + 'static>(
        self,
        agent: AgentKind,
        change: impl FnOnce(&mut ProviderRecord) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0
            .commit(move |transaction, events| {
                let before = load(transaction, agent)?;
                let mut after = before.clone();
                let value = change(&mut after);
                if after != before {
                    transaction.execute(
                        "INSERT INTO provider_record (name, record) VALUES (?1, ?2)
                         ON CONFLICT (name) DO UPDATE SET record = ?2",
                        params![agent.section(), to_json(&after)?],
                    )?;
                }
                events.extend(changes(agent, &before, &after));
                Ok(value)
            })
            .await
    }
}

/// A record is stored under the name of the agent's section; Claude's has the name that the only
/// record had in earlier versions.
fn load(connection: &Connection, agent: AgentKind) -> Sql<ProviderRecord> {
    let sql = "SELECT record FROM provider_record WHERE name = ?1";
    let row = |row: &rusqlite::Row<'_>| from_json(row, "record");
    Ok(connection.query_row(sql, [agent.section()], row).optional()?.unwrap_or_default())
}

fn changes(agent: AgentKind, before: &ProviderRecord, after: &ProviderRecord) -> Vec<Event> {
    let mut events = Vec::new();
    let agent = agent.into_str().to_owned();
    let closed = BreakerState::Closed;
    let of_model = |(name, model): (&String, &ModelRecord)| {
        let from = before.models.get(name).map_or(closed.clone(), |one| one.breaker.state.clone());
        (from, model.breaker.state.clone(), model.last_failure.clone())
    };
    let account = &after.breaker.state;
    let account = (before.breaker.state.clone(), account.clone(), after.last_failure.clone());
    for (from, to, why) in std::iter::once(account).chain(after.models.iter().map(of_model)) {
        if from != to {
            events.push(Event::ProviderBreakerChanged {
                agent: agent.clone(),
                from: from.into_str().to_owned(),
                to: to.into_str().to_owned(),
                until: to.until(),
                reason: why.unwrap_or_else(|| "it answers again".to_owned()),
            });
        }
    }
    if let Some(limit) = after.limit.clone().filter(|_| before.limit != after.limit) {
        events.push(Event::ProviderSuspended { agent, until: limit.until, reason: limit.reason });
    }
    events
}
