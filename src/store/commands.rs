//! Commands from comments: their effect and their answer are stored in one transaction, once per
//! comment.

use rusqlite::{OptionalExtension, params};

use super::items::requeue_item;
use super::rows::Ms;
use super::subjects::Items;
use super::{Journal, StoreError, fault};
use crate::event::Event;
use crate::model::{ItemKey, Opinion, RunId, SessionId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Only the answer.
    Nothing,
    /// Queue the item again.
    Requeue,
    /// Rate its newest finding, with this note.
    Wrong(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentCommand {
    pub item: ItemKey,
    /// The same for the same comment.
    pub mark: String,
    pub effect: Effect,
    /// A comment, as Markdown.
    pub answer: String,
}

impl Items<'_, Journal> {
    /// False if this comment was answered before, or the item is unknown: nothing is changed then.
    pub async fn carry_out(self, command: CommentCommand, run: RunId) -> Result<bool, StoreError> {
        let now = self.0.clock().now();
        let CommentCommand { item, mark, effect, answer } = command;
        self.0
            .commit(move |transaction, events| {
                let queued = transaction.execute(
                    "INSERT OR IGNORE INTO outbox
                         (kind, mark, run, item, revision, body, next_attempt, created_at)
                     SELECT 'comment', ?2, ?3, key, revision, ?4, ?5, ?5
                     FROM heartbeat_state WHERE key = ?1",
                    params![item, mark, run, answer, Ms(now)],
                )?;
                if queued == 0 {
                    return Ok(false);
                }
                fault::point();
                match effect {
                    Effect::Nothing => {}
                    Effect::Requeue => drop(requeue_item(transaction, item, Vec::new(), events)?),
                    Effect::Wrong(note) => {
                        let newest =
                            "SELECT session FROM findings WHERE key = ?1 ORDER BY id DESC LIMIT 1";
                        let session: Option<SessionId> =
                            transaction.query_row(newest, [&item], |row| row.get(0)).optional()?;
                        let Some(session) = session else { return Ok(true) };
                        let opinion = Opinion::Wrong;
                        transaction.execute(
                            "INSERT OR REPLACE INTO feedback (session, key, opinion, note, given_at)
                             VALUES (?1, ?2, ?3, ?4, ?5)",
                            params![session, item, opinion.into_str(), note, Ms(now)],
                        )?;
                        events.push(Event::FeedbackGiven { item, opinion });
                    }
                }
                Ok(true)
            })
            .await
    }
}
