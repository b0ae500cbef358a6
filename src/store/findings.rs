//! Findings, with their item and session.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;

use super::rows::{Ms, from_json, from_optional_word};
use super::subjects::{Findings, Reader};
use super::{Journal, Sql, StoreError, suggestions};
use crate::event::Event;
use crate::model::{
    Feedback, Finding, Fix, FixScore, ItemKey, MadeWith, Opinion, RunId, SessionId, Stale, Usd,
};

/// A finding with its origin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FindingRow {
    pub key: ItemKey,
    pub title: String,
    pub url: String,
    /// The item's area; empty if it is unknown.
    pub area: String,
    /// The person the item is assigned to; empty if there is none.
    pub assigned_to: String,
    /// The item's priority: 1 is the most urgent.
    pub priority: Option<i64>,
    /// The item's revision that was analysed.
    pub revision: i64,
    pub session: SessionId,
    pub run: RunId,
    pub created_at: Timestamp,
    /// Cost of its session; `None` if it is no longer recorded.
    pub cost: Option<Usd>,
    /// `None` for findings of earlier versions.
    pub made_with: Option<MadeWith>,
    /// A user's rating.
    pub feedback: Option<Feedback>,
    /// What fixed the item, according to commits.
    pub fix: Option<Fix>,
    /// Commits that changed its files since; `None` if there are none.
    pub stale: Option<Stale>,
    pub finding: Finding,
}

impl FindingRow {
    /// How well it predicted the fix, if there is one.
    pub fn score(&self) -> Option<FixScore> {
        self.fix.as_ref().map(|fix| fix.score(self.created_at))
    }
}

impl<R: Reader> Findings<'_, R> {
    /// Findings of one item, newest first.
    pub async fn of_item(self, key: ItemKey) -> Result<Vec<FindingRow>, StoreError> {
        let sql = format!("{FINDINGS} WHERE f.key = ?1 ORDER BY f.id DESC");
        self.rows(sql, [key], finding).await
    }

    /// Findings of one run, in the order they were stored.
    pub async fn in_run(self, run: RunId) -> Result<Vec<FindingRow>, StoreError> {
        let sql = format!("{FINDINGS} WHERE f.run = ?1 ORDER BY f.id");
        self.rows(sql, [run], finding).await
    }

    /// Findings stored in `[from, to)`, in order.
    pub async fn between(
        self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<FindingRow>, StoreError> {
        let sql =
            format!("{FINDINGS} WHERE f.created_at >= ?1 AND f.created_at < ?2 ORDER BY f.id");
        self.rows(sql, (Ms(from), Ms(to)), finding).await
    }

    /// Times of the findings stored since `since`, oldest first.
    pub async fn times_since(self, since: Timestamp) -> Result<Vec<Timestamp>, StoreError> {
        let sql = "SELECT created_at FROM findings WHERE created_at >= ?1 ORDER BY id";
        self.rows(sql, [Ms(since)], |row| Ok(row.get::<_, Ms>(0)?.0)).await
    }

    /// The finding of this session.
    pub async fn of_session(self, session: SessionId) -> Result<Option<FindingRow>, StoreError> {
        self.first_row(format!("{FINDINGS} WHERE f.session = ?1"), [session], finding).await
    }

    pub async fn newest(self, limit: u32) -> Result<Vec<FindingRow>, StoreError> {
        self.rows(format!("{FINDINGS} ORDER BY f.id DESC LIMIT ?1"), [limit], finding).await
    }
}

/// Findings that a search looks at, newest first.
const MAX_SEARCHED: u32 = 2_000;

impl<R: Reader> Findings<'_, R> {
    /// The newest finding of each item, newest first, if its title or its text contains all of these
    /// words; case is ignored for ASCII letters.
    pub async fn search(self, words: Vec<String>) -> Result<Vec<FindingRow>, StoreError> {
        let has_word =
            " AND (instr(lower(s.title), lower(?)) > 0 OR instr(lower(f.finding), lower(?)) > 0)";
        let sql = format!(
            "{FINDINGS} WHERE f.id = (SELECT max(id) FROM findings n WHERE n.key = f.key){}
             ORDER BY f.id DESC LIMIT {MAX_SEARCHED}",
            has_word.repeat(words.len())
        );
        let values: Vec<String> = words.into_iter().flat_map(|word| [word.clone(), word]).collect();
        self.rows(sql, rusqlite::params_from_iter(values), finding).await
    }
}

impl Findings<'_, Journal> {
    /// Stores a user's rating of the newest finding of an item, replacing an earlier one. "Wrong" with
    /// a note also applies to a verdict without a finding, and triage of similar items is told. False
    /// if there is nothing to rate.
    pub async fn give_feedback(
        self,
        item: ItemKey,
        opinion: Opinion,
        note: String,
    ) -> Result<bool, StoreError> {
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, events| {
                let newest = "SELECT session FROM findings WHERE key = ?1 ORDER BY id DESC LIMIT 1";
                let session: Option<SessionId> =
                    transaction.query_row(newest, [&item], |row| row.get(0)).optional()?;
                if opinion == Opinion::Wrong && !note.is_empty() {
                    suggestions::correct(transaction, &item, &note, now)?;
                }
                let Some(session) = session else {
                    // A verdict without a finding can be wrong as well.
                    let judged = "SELECT verdict IS NOT NULL FROM heartbeat_state WHERE key = ?1";
                    let judged: Option<bool> =
                        transaction.query_row(judged, [&item], |row| row.get(0)).optional()?;
                    let told =
                        judged == Some(true) && opinion == Opinion::Wrong && !note.is_empty();
                    if told {
                        events.push(Event::FeedbackGiven { item, opinion });
                    }
                    return Ok(told);
                };
                transaction.execute(
                    "INSERT OR REPLACE INTO feedback (session, key, opinion, note, given_at)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![session, item, opinion.into_str(), note, Ms(now)],
                )?;
                events.push(Event::FeedbackGiven { item, opinion });
                Ok(true)
            })
            .await
    }
}

pub(super) const FINDINGS: &str =
    "SELECT f.*, s.title, s.url, s.area_path, s.assigned_to, s.priority, b.spent AS cost,
            o.opinion, o.note, o.given_at, x.fixed_at, x.commits, x.changed, x.named, x.hits,
            t.commits AS later, t.total, t.files
     FROM findings f JOIN heartbeat_state s USING (key)
     LEFT JOIN budget b ON b.session = f.session
     LEFT JOIN feedback o ON o.session = f.session
     LEFT JOIN fixes x ON x.session = f.session
     LEFT JOIN stale_findings t ON t.session = f.session";

pub(super) fn finding(row: &Row<'_>) -> Sql<FindingRow> {
    Ok(FindingRow {
        key: row.get("key")?,
        title: row.get("title")?,
        url: row.get("url")?,
        area: row.get::<_, Option<String>>("area_path")?.unwrap_or_default(),
        assigned_to: row.get::<_, Option<String>>("assigned_to")?.unwrap_or_default(),
        priority: row.get("priority")?,
        revision: row.get("revision")?,
        session: row.get("session")?,
        run: row.get("run")?,
        created_at: row.get::<_, Ms>("created_at")?.0,
        cost: row.get("cost")?,
        made_with: made_with(row)?,
        feedback: feedback(row)?,
        fix: fix(row)?,
        stale: super::stale::stale(row)?,
        finding: from_json(row, "finding")?,
    })
}

fn made_with(row: &Row<'_>) -> Sql<Option<MadeWith>> {
    let (model, prompt) = (row.get::<_, Option<_>>("model")?, row.get::<_, Option<_>>("prompt")?);
    Ok(model.zip(prompt).map(|(model, prompt)| MadeWith { model, prompt }))
}

pub(super) fn fix(row: &Row<'_>) -> Sql<Option<Fix>> {
    let Some(Ms(fixed_at)) = row.get::<_, Option<Ms>>("fixed_at")? else { return Ok(None) };
    let (commits, changed) = (from_json(row, "commits")?, from_json(row, "changed")?);
    let (named, hits) = (row.get("named")?, row.get("hits")?);
    Ok(Some(Fix { fixed_at, commits, changed, named, hits }))
}

fn feedback(row: &Row<'_>) -> Sql<Option<Feedback>> {
    let Some(opinion) = from_optional_word(row, "opinion")? else { return Ok(None) };
    let given_at = row.get::<_, Ms>("given_at")?.0;
    Ok(Some(Feedback { opinion, note: row.get("note")?, given_at }))
}
