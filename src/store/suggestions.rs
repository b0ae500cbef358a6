//! Suggested values for fields: what they are made from, how often they were right, and what people
//! did with them.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, Row, Transaction, params};
use serde::Serialize;

use super::rows::{Ms, from_json, from_word, optional_time, to_json};
use super::subjects::{Reader, Suggestions};
use super::{Journal, Sql, StoreError};
use crate::dedupe::Planned;
use crate::event::Event;
use crate::model::{ChosenBy, Fate, Field, ItemFields, ItemKey, RunId, Suggestion, TrackRecord};
use crate::suggest::{Example, Figure, Figures, fate, words_kept};

/// Earlier items that vote, the newest ones: a team's habits change.
const MAX_REMEMBERED: u32 = 5_000;
/// Suggestions looked at when time alone decides their fate.
const SETTLED_AT_ONCE: u32 = 500;
/// How long a suggestion waits for a person before its fate is decided without a change.
const WAIT: SignedDuration = SignedDuration::from_hours(14 * 24);

/// An item that was read before.
#[derive(Debug, Clone, PartialEq)]
pub struct RememberedItem {
    pub key: ItemKey,
    pub created_at: Option<Timestamp>,
    pub changed_at: Timestamp,
    pub words: Example,
    pub fields: ItemFields,
}

/// A suggestion with its origin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SuggestionRow {
    #[serde(flatten)]
    pub suggestion: Suggestion,
    pub title: String,
    pub run: Option<RunId>,
    pub made_at: Timestamp,
    /// Heartbeat wrote the value to the tracker.
    pub written: bool,
    pub decided_at: Option<Timestamp>,
}

/// What people did with the suggestions for one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldOutcome {
    pub field: Field,
    pub area: String,
    pub shown: bool,
    pub fate: Fate,
    pub count: u32,
}

impl<R: Reader> Suggestions<'_, R> {
    /// The items of a source that were read last, newest first.
    pub async fn remembered(self, source: String) -> Result<Vec<RememberedItem>, StoreError> {
        let sql =
            "SELECT * FROM item_fields WHERE source = ?1 ORDER BY changed_at DESC, key LIMIT ?2";
        self.rows(sql, (source, MAX_REMEMBERED), remembered).await
    }

    pub async fn fields_of(self, key: ItemKey) -> Result<Option<ItemFields>, StoreError> {
        let sql = "SELECT fields FROM item_fields WHERE key = ?1";
        self.first_row(sql, [key], |row| from_json(row, "fields")).await
    }

    /// How often the suggestions for a source's items were right.
    pub async fn figures(self, source: String) -> Result<Figures, StoreError> {
        self.read(move |connection| figures(connection, &source)).await
    }

    /// The measured records of a source, as stored.
    pub async fn measured(self, source: String) -> Result<Vec<Figure>, StoreError> {
        self.read(move |connection| measured(connection, &source)).await
    }

    /// What people said was wrong about items of a source, by item.
    pub async fn corrections(self, source: String) -> Result<HashMap<ItemKey, String>, StoreError> {
        let sql =
            "SELECT key, note FROM corrections WHERE source = ?1 ORDER BY given_at DESC LIMIT ?2";
        let rows = self.rows(sql, (source, MAX_REMEMBERED), |row| Ok((row.get(0)?, row.get(1)?)));
        Ok(rows.await?.into_iter().collect())
    }

    /// Of one item, in the order of the fields.
    pub async fn of_item(self, key: ItemKey) -> Result<Vec<SuggestionRow>, StoreError> {
        let sql = format!("{SUGGESTIONS} WHERE g.key = ?1 ORDER BY g.made_at DESC, g.rowid");
        self.rows(sql, [key], suggestion).await
    }

    /// Those of one run.
    pub async fn in_run(self, run: RunId) -> Result<Vec<SuggestionRow>, StoreError> {
        let sql = format!("{SUGGESTIONS} WHERE g.run = ?1 ORDER BY s.item_id, g.rowid");
        self.rows(sql, [run], suggestion).await
    }

    /// Those made in `[from, to)`.
    pub async fn between(
        self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<SuggestionRow>, StoreError> {
        let sql = format!(
            "{SUGGESTIONS} WHERE g.made_at >= ?1 AND g.made_at < ?2 ORDER BY s.item_id, g.rowid"
        );
        self.rows(sql, (Ms(from), Ms(to)), suggestion).await
    }

    /// What people did with the suggestions made since then.
    pub async fn outcomes(self, since: Timestamp) -> Result<Vec<FieldOutcome>, StoreError> {
        let sql = "SELECT field, area, shown, fate, count(*) AS count FROM suggestions
                   WHERE made_at >= ?1 GROUP BY field, area, shown, fate";
        self.rows(sql, [Ms(since)], |row| {
            Ok(FieldOutcome {
                field: from_word(row, "field")?,
                area: row.get("area")?,
                shown: row.get("shown")?,
                fate: from_word(row, "fate")?,
                count: row.get("count")?,
            })
        })
        .await
    }
}

impl Suggestions<'_, Journal> {
    /// Replaces the measured records of a source.
    pub async fn set_figures(
        self,
        source: String,
        by: ChosenBy,
        figures: Vec<Figure>,
    ) -> Result<(), StoreError> {
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, _| {
                transaction.execute(
                    "DELETE FROM suggestion_figures WHERE source = ?1 AND chosen_by = ?2",
                    params![source, by.into_str()],
                )?;
                let mut insert = transaction.prepare_cached(
                    "INSERT INTO suggestion_figures (source, field, chosen_by, area, cutoff, hits,
                         of_items, needed, covered, measured_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                )?;
                for figure in figures.iter().filter(|figure| figure.by == by) {
                    insert.execute(params![
                        source,
                        figure.field.into_str(),
                        by.into_str(),
                        figure.area,
                        figure.cutoff,
                        figure.record.right,
                        figure.record.of,
                        figure.needed,
                        figure.covered,
                        Ms(now),
                    ])?;
                }
                Ok(())
            })
            .await
    }

    /// What a person says about the suggestions for one field of an item; false if there is none.
    /// It counts for this field in this area only.
    pub async fn rate(self, key: ItemKey, field: Field, right: bool) -> Result<bool, StoreError> {
        let now = self.0.clock().now();
        let fate = if right { Fate::Kept } else { Fate::Changed };
        self.0
            .commit(move |transaction, _| {
                let rated = transaction.execute(
                    "UPDATE suggestions SET fate = ?3, decided_at = ?4 WHERE key = ?1 AND field = ?2",
                    params![key, field.into_str(), fate.into_str(), Ms(now)],
                )?;
                Ok(rated > 0)
            })
            .await
    }

    /// Values that heartbeat wrote were taken back; the revision of that is not news either.
    pub async fn taken_back(self, key: ItemKey, rev: i64) -> Result<(), StoreError> {
        let now = self.0.clock().now();
        self.0
            .commit(move |transaction, _| {
                transaction.execute(
                    "UPDATE suggestions SET written = 0, fate = 'changed', decided_at = ?2
                     WHERE key = ?1 AND written = 1",
                    params![key, Ms(now)],
                )?;
                transaction
                    .execute(
                        "UPDATE heartbeat_state SET revision = max(revision, ?2) WHERE key = ?1",
                        params![key, rev],
                    )
                    .map(drop)
            })
            .await
    }

    /// Decides the fate of suggestions that have waited long enough.
    pub async fn settle_overdue(self) -> Result<(), StoreError> {
        let now = self.0.clock().now();
        let before = now.checked_sub(WAIT).unwrap_or(Timestamp::MIN);
        let waiting = "SELECT DISTINCT g.key FROM suggestions g JOIN item_fields USING (key)
                       WHERE g.fate = 'open' AND g.made_at <= ?1 LIMIT ?2";
        let keys: Vec<ItemKey> =
            self.rows(waiting, (Ms(before), SETTLED_AT_ONCE), |row| row.get(0)).await?;
        if keys.is_empty() {
            return Ok(());
        }
        self.0
            .commit(move |transaction, _| {
                for key in &keys {
                    let fields = transaction.query_row(
                        "SELECT fields FROM item_fields WHERE key = ?1",
                        [key],
                        |row| from_json(row, "fields"),
                    )?;
                    settle(transaction, key, &fields, now)?;
                }
                Ok(())
            })
            .await
    }
}

/// Notes which suggestions of a run heartbeat wrote itself.
pub(super) fn written(transaction: &Transaction<'_>, key: &ItemKey, run: RunId) -> Sql<()> {
    transaction
        .execute(
            "UPDATE suggestions SET written = 1
             WHERE key = ?1 AND run = ?2 AND EXISTS
                 (SELECT 1 FROM outbox o, json_each(o.body, '$.changes') c
                  WHERE o.mark = 'fields/' || ?2 || '/' || ?1
                    AND c.value ->> '$.field' = suggestions.field
                    AND c.value ->> '$.value' = suggestions.value)",
            params![key, run],
        )
        .map(drop)
}

/// Keeps a person's note on what was wrong, for triage of similar items.
pub(super) fn correct(
    transaction: &Transaction<'_>,
    key: &ItemKey,
    note: &str,
    now: Timestamp,
) -> Sql<()> {
    transaction
        .execute(
            "INSERT OR REPLACE INTO corrections (key, source, note, given_at) VALUES (?1, ?2, ?3, ?4)",
            params![key, key.source(), note, Ms(now)],
        )
        .map(drop)
}

/// Remembers an item's words and fields, and decides what became of its suggestions.
pub(super) fn remember(
    transaction: &Transaction<'_>,
    planned: &Planned,
    now: Timestamp,
) -> Sql<()> {
    let Some(fields) = &planned.fields else { return Ok(()) };
    let words = planned.words.as_ref().map(|words| {
        let kept = words_kept(&words.title, &words.text);
        format!("{}\n{}", kept.title, kept.text)
    });
    transaction
        .prepare_cached(
            "INSERT INTO item_fields (key, source, created_at, changed_at, words, fields)
             VALUES (?1, ?2, ?3, ?4, coalesce(?5, ''), ?6)
             ON CONFLICT (key) DO UPDATE SET changed_at = ?4, words = coalesce(?5, words),
                 fields = ?6",
        )?
        .execute(params![
            planned.key,
            planned.key.source(),
            planned.created_at.map(Ms),
            Ms(planned.changed_at),
            words,
            to_json(fields)?,
        ])?;
    settle(transaction, &planned.key, fields, now)
}

/// Compares the open suggestions of an item with what its fields are now.
fn settle(
    transaction: &Transaction<'_>,
    key: &ItemKey,
    fields: &ItemFields,
    now: Timestamp,
) -> Sql<()> {
    let open: Vec<(i64, Suggestion, Timestamp, bool)> = transaction
        .prepare_cached("SELECT rowid, * FROM suggestions WHERE key = ?1 AND fate = 'open'")?
        .query_map([key], |row| {
            let made_at = row.get::<_, Ms>("made_at")?.0;
            Ok((row.get("rowid")?, plain(row)?, made_at, row.get("written")?))
        })?
        .collect::<Sql<_>>()?;
    for (id, suggestion, made_at, written) in open {
        let fate = fate(&suggestion, fields, (made_at, now), written);
        if fate != Fate::Open {
            transaction
                .prepare_cached(
                    "UPDATE suggestions SET fate = ?2, decided_at = ?3 WHERE rowid = ?1",
                )?
                .execute(params![id, fate.into_str(), Ms(now)])?;
        }
    }
    Ok(())
}

/// Stores what triage led to, in the transaction that stores its verdict. An open suggestion of an
/// earlier reading that is not made any more is dropped.
pub(super) fn store(
    transaction: &Transaction<'_>,
    key: &ItemKey,
    suggestions: &[Suggestion],
    run: Option<RunId>,
    now: Timestamp,
) -> Sql<Option<Event>> {
    transaction
        .prepare_cached("DELETE FROM suggestions WHERE key = ?1 AND fate = 'open' AND written = 0")?
        .execute([key])?;
    let mut insert = transaction.prepare_cached(
        "INSERT OR IGNORE INTO suggestions (key, source, field, value, area, before, chosen_by,
             score, hits, of_items, shown, run, made_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    for one in suggestions {
        insert.execute(params![
            key,
            key.source(),
            one.field.into_str(),
            one.value,
            one.area,
            one.before,
            one.by.into_str(),
            one.score,
            one.record.map(|record| record.right),
            one.record.map(|record| record.of),
            one.shown,
            run,
            Ms(now),
        ])?;
    }
    let shown = suggestions.iter().filter(|one| one.shown);
    let fields: Vec<String> =
        shown.map(|one| format!("{} {}", one.field.word(), one.value)).collect();
    Ok((!fields.is_empty()).then(|| Event::FieldsSuggested { item: key.clone(), fields }))
}

const SUGGESTIONS: &str =
    "SELECT g.*, s.title FROM suggestions g JOIN heartbeat_state s USING (key)";

fn suggestion(row: &Row<'_>) -> Sql<SuggestionRow> {
    Ok(SuggestionRow {
        suggestion: plain(row)?,
        title: row.get("title")?,
        run: row.get("run")?,
        made_at: row.get::<_, Ms>("made_at")?.0,
        written: row.get("written")?,
        decided_at: optional_time(row, "decided_at")?,
    })
}

fn plain(row: &Row<'_>) -> Sql<Suggestion> {
    let record: (Option<u32>, Option<u32>) = (row.get("hits")?, row.get("of_items")?);
    Ok(Suggestion {
        key: row.get("key")?,
        field: from_word(row, "field")?,
        value: row.get("value")?,
        before: row.get("before")?,
        area: row.get("area")?,
        by: from_word(row, "chosen_by")?,
        score: row.get("score")?,
        record: record.0.zip(record.1).map(|(right, of)| TrackRecord { right, of }),
        shown: row.get("shown")?,
        fate: from_word(row, "fate")?,
    })
}

fn remembered(row: &Row<'_>) -> Sql<RememberedItem> {
    let words: String = row.get("words")?;
    let (title, text) = words.split_once('\n').unwrap_or((&words, ""));
    Ok(RememberedItem {
        key: row.get("key")?,
        created_at: optional_time(row, "created_at")?,
        changed_at: row.get::<_, Ms>("changed_at")?.0,
        words: Example { title: title.to_owned(), text: text.to_owned() },
        fields: from_json(row, "fields")?,
    })
}

fn measured(connection: &Connection, source: &str) -> Sql<Vec<Figure>> {
    connection
        .prepare_cached("SELECT * FROM suggestion_figures WHERE source = ?1")?
        .query_map([source], |row| {
            Ok(Figure {
                field: from_word(row, "field")?,
                by: from_word(row, "chosen_by")?,
                area: row.get("area")?,
                cutoff: row.get("cutoff")?,
                record: TrackRecord { right: row.get("hits")?, of: row.get("of_items")? },
                needed: row.get("needed")?,
                covered: row.get("covered")?,
            })
        })?
        .collect()
}

/// What was measured, and what people did with suggestions since. Those that nobody touched say
/// nothing about whether they were right.
fn figures(connection: &Connection, source: &str) -> Sql<Figures> {
    let since: Vec<((Field, ChosenBy, String), TrackRecord)> = connection
        .prepare_cached(
            "SELECT g.field, g.chosen_by, g.area, sum(g.fate = 'kept') AS hits, count(*) AS of_items
             FROM suggestions g
             WHERE g.source = ?1 AND g.fate IN ('kept', 'changed')
               AND g.decided_at > coalesce(
                   (SELECT max(measured_at) FROM suggestion_figures f
                    WHERE f.source = g.source AND f.field = g.field AND f.chosen_by = g.chosen_by), 0)
             GROUP BY g.field, g.chosen_by, g.area",
        )?
        .query_map([source], |row| {
            let key = (from_word(row, "field")?, from_word(row, "chosen_by")?, row.get("area")?);
            Ok((key, TrackRecord { right: row.get("hits")?, of: row.get("of_items")? }))
        })?
        .collect::<Sql<_>>()?;
    Ok(Figures::new(measured(connection, source)?, since))
}
