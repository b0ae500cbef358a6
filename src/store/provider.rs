//! The provider's own limits: no session starts before the stated reset.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{OptionalExtension, params};

use super::rows::Ms;
use super::subjects::{Provider, Reader};
use super::{Journal, StoreError};
use crate::event::Event;

/// The longest limits are weekly; a later time was written by a clock that was wrong.
const LONGEST_SUSPENSION: SignedDuration = SignedDuration::from_hours(24 * 8);

/// The row that keeps what is wrong with the agent's configuration, beside the provider's own.
const AGENT_CONFIGURATION: &str = "agent configuration";

impl Provider<'_, Journal> {
    /// Remembers what is wrong with the agent's configuration, for those who look; or that nothing
    /// is, by what a session has shown. It holds nobody up: the next run tries again.
    pub async fn note_agent_fault(self, fault: Option<String>) -> Result<(), StoreError> {
        let known = self.agent_fault(self.0.clock().now()).await?;
        if fault == known {
            return Ok(());
        }
        let until = self.0.clock().now().saturating_add(LONGEST_SUSPENSION).unwrap_or_default();
        self.0
            .commit(move |transaction, _| {
                transaction
                    .execute("DELETE FROM provider WHERE name = ?1", [AGENT_CONFIGURATION])?;
                if let Some(fault) = fault {
                    transaction.execute(
                        "INSERT INTO provider (name, until, reason) VALUES (?1, ?2, ?3)",
                        params![AGENT_CONFIGURATION, Ms(until), fault],
                    )?;
                }
                Ok(())
            })
            .await
    }

    /// Remembers that the provider called `name` refuses work until `until`, or for the longest time
    /// that is believed: then it is asked again.
    pub async fn suspend(
        self,
        name: &'static str,
        until: Timestamp,
        reason: String,
    ) -> Result<(), StoreError> {
        let furthest = self.0.clock().now().saturating_add(LONGEST_SUSPENSION).unwrap_or(until);
        let until = until.min(furthest);
        self.0
            .commit(move |transaction, events| {
                transaction.execute(
                    "INSERT INTO provider (name, until, reason) VALUES (?1, ?2, ?3)
                 ON CONFLICT (name) DO UPDATE SET until = ?2, reason = ?3
                 WHERE until < ?2 OR until > ?4",
                    params![name, Ms(until), reason, Ms(furthest)],
                )?;
                events.push(Event::ProviderSuspended { until, reason });
                Ok(())
            })
            .await
    }
}

impl<R: Reader> Provider<'_, R> {
    /// What was last found wrong with the agent's configuration, unless a session has worked since.
    pub async fn agent_fault(self, now: Timestamp) -> Result<Option<String>, StoreError> {
        let fault = self.suspension(AGENT_CONFIGURATION, now).await?;
        Ok(fault.map(|(_, reason)| reason))
    }

    /// Until when the provider refuses work, and why; none if it does not.
    pub async fn suspension(
        self,
        name: &'static str,
        now: Timestamp,
    ) -> Result<Option<(Timestamp, String)>, StoreError> {
        let furthest = now.saturating_add(LONGEST_SUSPENSION).unwrap_or(now);
        self.read(move |connection| {
            connection
                .query_row(
                    "SELECT until, reason FROM provider
                     WHERE name = ?1 AND until > ?2 AND until <= ?3",
                    params![name, Ms(now), Ms(furthest)],
                    |row| Ok((row.get::<_, Ms>(0)?.0, row.get(1)?)),
                )
                .optional()
        })
        .await
    }
}
