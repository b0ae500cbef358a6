//! What is known about the model provider: one record, changed in one transaction.

use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{from_json, to_json};
use super::subjects::{Provider, Reader};
use super::{Journal, Sql, StoreError};
use crate::breaker::provider::ProviderRecord;
use crate::event::Event;

/// The one provider so far.
const AGENT: &str = "agent";

impl<R: Reader> Provider<'_, R> {
    /// The record; the default before the first session.
    pub async fn record(self) -> Result<ProviderRecord, StoreError> {
        self.read(load).await
    }
}

impl Provider<'_, Journal> {
    /// Changes the record, whoever else changes it. A breaker that opens or closes and a new limit
    /// are events.
    pub async fn update<T: Send + 'static>(
        self,
        change: impl FnOnce(&mut ProviderRecord) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0
            .commit(move |transaction, events| {
                let before = load(transaction)?;
                let mut after = before.clone();
                let value = change(&mut after);
                if after != before {
                    transaction.execute(
                        "INSERT INTO provider_record (name, record) VALUES (?1, ?2)
                         ON CONFLICT (name) DO UPDATE SET record = ?2",
                        params![AGENT, to_json(&after)?],
                    )?;
                }
                events.extend(changes(&before, &after));
                Ok(value)
            })
            .await
    }
}

fn load(connection: &Connection) -> Sql<ProviderRecord> {
    let sql = "SELECT record FROM provider_record WHERE name = ?1";
    let found = connection.query_row(sql, [AGENT], |row| from_json(row, "record")).optional()?;
    Ok(found.unwrap_or_default())
}

fn changes(before: &ProviderRecord, after: &ProviderRecord) -> Vec<Event> {
    let mut events = Vec::new();
    let (from, to) = (&before.breaker.state, &after.breaker.state);
    if from != to {
        let reason = after.last_failure.clone().unwrap_or_else(|| "it answers again".to_owned());
        events.push(Event::ProviderBreakerChanged {
            from: from.into_str().to_owned(),
            to: to.into_str().to_owned(),
            until: to.until(),
            reason,
        });
    }
    if let Some(limit) = after.limit.clone().filter(|_| before.limit != after.limit) {
        events.push(Event::ProviderSuspended { until: limit.until, reason: limit.reason });
    }
    events
}
