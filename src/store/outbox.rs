//! Messages to publish: comments on work items and digests of runs.
//!
//! A message is stored in the transaction that makes it due, and delivered afterwards by this run
//! or a later one; giving it up is reported. An attempt is counted before it is made, so that after
//! a crash the message is known to have possibly arrived.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use super::rows::{Ms, from_word, optional_time};
use super::subjects::{Outbox, Reader};
use super::{Journal, Sql, StoreError, suggestions};
use crate::event::Event;
use crate::model::{ItemKey, RunId, SessionId};

/// Attempts after which a message is given up.
pub const MAX_DELIVERIES: u32 = 8;
/// Wait after the first failed attempt; it doubles with each.
const FIRST_WAIT: SignedDuration = SignedDuration::from_mins(5);
/// Messages per delivery, so that one run does not pay for a long outage of the tracker.
const BATCH: u32 = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum MessageKind {
    /// A finding, for its work item.
    Comment,
    /// A run, for the webhook.
    Digest,
    /// Values for fields of a work item.
    Fields,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum MessageState {
    Pending,
    Delivered,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    pub id: i64,
    pub kind: MessageKind,
    pub run: RunId,
    pub item: Option<ItemKey>,
    pub revision: Option<i64>,
    #[serde(skip)]
    pub body: String,
    pub state: MessageState,
    /// If above 0, an earlier attempt may have arrived.
    pub attempts: u32,
    pub next_attempt: Timestamp,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub last_error: Option<String>,
}

/// Counts of messages that are not delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Undelivered {
    pub pending: u32,
    pub failed: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// With the revision that a comment created.
    Arrived(Option<i64>),
    /// There was nothing to send.
    Dropped,
    /// Will be retried.
    Failed { class: String, message: String },
    /// A retry cannot help.
    Permanent { class: String, message: String },
}

impl<R: Reader> Outbox<'_, R> {
    /// Messages that are due, oldest first.
    pub async fn due(self, kind: MessageKind, now: Timestamp) -> Result<Vec<Message>, StoreError> {
        // A wait longer than any delay was written by a wrong clock.
        let too_far = now.saturating_add(longest_wait()).unwrap_or(now);
        let sql = "SELECT * FROM outbox WHERE state = 'pending' AND kind = ?1
                       AND (next_attempt <= ?2 OR next_attempt > ?3) ORDER BY id LIMIT ?4";
        self.rows(sql, (kind.into_str(), Ms(now), Ms(too_far), BATCH), message).await
    }

    /// Messages about one item, oldest first.
    pub async fn of_item(self, key: ItemKey) -> Result<Vec<Message>, StoreError> {
        self.rows("SELECT * FROM outbox WHERE item = ?1 ORDER BY id", [key], message).await
    }

    pub async fn undelivered(self) -> Result<Undelivered, StoreError> {
        let sql = "SELECT coalesce(sum(state = 'pending'), 0), coalesce(sum(state = 'failed'), 0)
                   FROM outbox WHERE state <> 'delivered'";
        let read = |row: &Row<'_>| Ok(Undelivered { pending: row.get(0)?, failed: row.get(1)? });
        Ok(self.first_row(sql, [], read).await?.unwrap_or_default())
    }

    /// The newest undelivered messages.
    pub async fn open(self, limit: u32) -> Result<Vec<Message>, StoreError> {
        let sql = "SELECT * FROM outbox WHERE state <> 'delivered' ORDER BY id DESC LIMIT ?1";
        self.rows(sql, [limit], message).await
    }
}

impl Outbox<'_, Journal> {
    /// Begins an attempt, after `attempts` earlier ones. False if another process has begun one.
    pub async fn begin(self, id: i64, attempts: u32) -> Result<bool, StoreError> {
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, _| {
                let begun = transaction.execute(
                    "UPDATE outbox SET attempts = attempts + 1, sending = 1, next_attempt = ?2
                     WHERE id = ?1 AND state = 'pending' AND attempts = ?3",
                    params![id, Ms(now + FIRST_WAIT), attempts],
                )?;
                Ok(begun == 1)
            })
            .await
    }

    /// Ends an attempt. The revision that our own comment created is stored as seen.
    pub async fn end(self, message: Message, delivery: Delivery) -> Result<(), StoreError> {
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, events| {
                let attempts = message.attempts + 1;
                match delivery {
                    Delivery::Dropped => {
                        close(transaction, message.id, MessageState::Delivered, now)
                    }
                    Delivery::Arrived(rev) => {
                        close(transaction, message.id, MessageState::Delivered, now)?;
                        let Some((item, rev)) = message.item.zip(rev) else { return Ok(()) };
                        transaction.execute(
                        "UPDATE heartbeat_state SET revision = max(revision, ?2) WHERE key = ?1",
                        params![item, rev],
                    )?;
                        events.push(match message.kind {
                            MessageKind::Fields => {
                                suggestions::written(transaction, &item, message.run)?;
                                Event::FieldsWritten { item, rev }
                            }
                            _ => Event::FindingPublished { item, rev },
                        });
                        Ok(())
                    }
                    Delivery::Failed { class, message: error } if attempts < MAX_DELIVERIES => {
                        transaction.execute(
                            "UPDATE outbox SET last_error = ?2, next_attempt = ?3, sending = 0
                         WHERE id = ?1",
                            params![message.id, error, Ms(now + wait_after(attempts))],
                        )?;
                        events.extend(failed(message.item, class, error));
                        Ok(())
                    }
                    Delivery::Failed { class, message: error }
                    | Delivery::Permanent { class, message: error } => {
                        close(transaction, message.id, MessageState::Failed, now)?;
                        transaction.execute(
                            "UPDATE outbox SET last_error = ?2 WHERE id = ?1",
                            params![message.id, error],
                        )?;
                        let error = format!("given up after {attempts} attempt(s): {error}");
                        events.extend(failed(message.item, class, error));
                        Ok(())
                    }
                }
            })
            .await
    }
}

impl<R: Reader> Outbox<'_, R> {
    /// The writes to fields that a run made, oldest first.
    pub async fn fields_written_in(self, run: RunId) -> Result<Vec<Message>, StoreError> {
        let sql = "SELECT * FROM outbox WHERE kind = 'fields' AND state = 'delivered' AND run = ?1
                   ORDER BY id";
        self.rows(sql, [run], message).await
    }
}

impl Outbox<'_, Journal> {
    /// Queues the values for an item's fields, once for each run.
    pub async fn queue_fields(
        self,
        run: RunId,
        item: ItemKey,
        body: String,
    ) -> Result<(), StoreError> {
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, _| {
                transaction
                    .execute(
                        "INSERT OR IGNORE INTO outbox
                             (kind, mark, run, item, body, next_attempt, created_at)
                         VALUES ('fields', ?1, ?2, ?3, ?4, ?5, ?5)",
                        params![format!("fields/{run}/{item}"), run, item, body, Ms(now)],
                    )
                    .map(drop)
            })
            .await
    }
}

fn failed(item: Option<ItemKey>, class: String, message: String) -> Option<Event> {
    item.map(|item| Event::PublishFailed { item, class, message })
}

fn wait_after(attempts: u32) -> SignedDuration {
    FIRST_WAIT.saturating_mul(1 << attempts.saturating_sub(1).min(MAX_DELIVERIES))
}

fn longest_wait() -> SignedDuration {
    wait_after(MAX_DELIVERIES)
}

fn close(transaction: &Transaction<'_>, id: i64, to: MessageState, now: Timestamp) -> Sql<()> {
    transaction
        .execute(
            "UPDATE outbox SET state = ?2, ended_at = ?3, sending = 0 WHERE id = ?1",
            params![id, to.into_str(), Ms(now)],
        )
        .map(drop)
}

/// Queues a finding's comment, in the transaction that stores the finding. It refers to the item's
/// revision at that point.
pub(super) fn queue_comment(
    transaction: &Transaction<'_>,
    key: &ItemKey,
    session: SessionId,
    run: RunId,
    comment: &str,
    now: Timestamp,
) -> Sql<()> {
    transaction
        .execute(
            "INSERT OR IGNORE INTO outbox (kind, mark, run, item, revision, body, next_attempt, created_at)
             SELECT 'comment', ?2, ?3, key, revision, ?4, ?5, ?5 FROM heartbeat_state WHERE key = ?1",
            params![key, format!("comment/{session}"), run, comment, Ms(now)],
        )
        .map(drop)
}

/// Queues a run's digest, in the transaction that ends the run.
pub(super) fn queue_digest(transaction: &Transaction<'_>, run: RunId, now: Timestamp) -> Sql<()> {
    transaction
        .execute(
            "INSERT OR IGNORE INTO outbox (kind, mark, run, body, next_attempt, created_at)
             VALUES ('digest', ?1, ?2, '', ?3, ?3)",
            params![format!("digest/{run}"), run, Ms(now)],
        )
        .map(drop)
}

fn message(row: &Row<'_>) -> Sql<Message> {
    Ok(Message {
        id: row.get("id")?,
        kind: from_word(row, "kind")?,
        run: row.get("run")?,
        item: row.get("item")?,
        revision: row.get("revision")?,
        body: row.get("body")?,
        state: from_word(row, "state")?,
        attempts: row.get("attempts")?,
        next_attempt: row.get::<_, Ms>("next_attempt")?.0,
        created_at: row.get::<_, Ms>("created_at")?.0,
        ended_at: optional_time(row, "ended_at")?,
        last_error: row.get("last_error")?,
    })
}

/// Whether a crash interrupted the delivery of a comment.
pub(super) fn has_cut_off(connection: &Connection) -> Sql<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM outbox WHERE sending = 1 AND kind <> 'digest')";
    connection.query_row(sql, [], |row| row.get(0))
}

/// Makes interrupted messages due at once.
pub(super) fn resume(transaction: &Transaction<'_>, now: Timestamp) -> Sql<()> {
    let sql = "UPDATE outbox SET sending = 0, next_attempt = ?1
               WHERE sending = 1 AND kind <> 'digest'";
    transaction.execute(sql, [Ms(now)]).map(drop)
}
