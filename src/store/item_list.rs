//! The list of all known items: filtered by state, reason and text, in parts.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::item_rows::{ItemRow, item};
use super::rows::{from_optional_json, from_word};
use super::subjects::{Items, Reader};
use super::{Sql, StoreError};
use crate::event::Reason;
use crate::model::Alarms;

/// State of an item, as shown to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ItemState {
    /// Finished with a finding, or known before the first run.
    Done,
    /// Finished by triage alone.
    Settled,
    /// Waiting, or being analysed now.
    Queued,
    /// The last attempt failed, and another one follows.
    Failed,
    /// Left to users.
    Parked,
    /// Gone from the source.
    Gone,
}

/// The state of a row, in SQL.
const STATE: &str = "CASE phase WHEN 'done' THEN iif(reason = 'not_needed', 'settled', 'done')
     WHEN 'pending' THEN 'queued' WHEN 'claimed' THEN 'queued' WHEN 'waiting' THEN 'failed'
     WHEN 'parked' THEN 'parked' ELSE 'gone' END";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemSort {
    /// Changed last.
    #[default]
    Changed,
    /// Highest number.
    Number,
    /// Most attempts.
    Attempts,
}

impl ItemSort {
    const fn sql(self) -> &'static str {
        match self {
            Self::Changed => "last_changed DESC, item_id DESC",
            Self::Number => "item_id DESC",
            Self::Attempts => "attempts DESC, last_changed DESC, item_id DESC",
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct ItemQuery {
    pub state: Option<ItemState>,
    pub reason: Option<Reason>,
    /// Substring of the key, the title, the type, the area or triage's reason.
    pub words: String,
    pub sort: ItemSort,
    pub limit: u32,
    pub offset: u32,
}

/// Number of items with this state and reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Facet {
    pub state: ItemState,
    pub reason: Reason,
    pub count: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedItem {
    #[serde(flatten)]
    pub row: ItemRow,
    pub state: ItemState,
    /// The newest alarm about its text.
    pub alarms: Option<Alarms>,
    /// The answer: what its newest finding says.
    pub summary: Option<String>,
}

/// A part of the list.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ItemList {
    /// Number of items that match the query.
    pub total: u32,
    /// Of all items that match the text, in any state.
    pub facets: Vec<Facet>,
    pub items: Vec<ListedItem>,
}

impl<R: Reader> Items<'_, R> {
    pub async fn list(self, query: ItemQuery) -> Result<ItemList, StoreError> {
        self.read(move |connection| read_list(connection, &query)).await
    }

    /// Number of items in each state.
    pub async fn state_counts(self) -> Result<Vec<(ItemState, u32)>, StoreError> {
        let sql = format!("SELECT {STATE} AS state, count(*) AS n FROM heartbeat_state GROUP BY 1");
        self.rows(sql, [], |row| Ok((from_word(row, "state")?, row.get("n")?))).await
    }

    /// The newest alarm about an item's text.
    pub async fn alarms(self, key: crate::model::ItemKey) -> Result<Option<Alarms>, StoreError> {
        let sql = format!("SELECT {ALARMS} FROM (SELECT ?1 AS key)");
        let found = self.first_row(sql, [key], |row| from_optional_json(row, 0)).await?;
        Ok(found.flatten())
    }
}

/// The body of the newest alarm about the row with this key.
const ALARMS: &str = "(SELECT json_extract(body, '$.alarms') FROM events
     WHERE item = key AND event = 'text_alarm' ORDER BY seq DESC LIMIT 1)";

/// What the newest finding about the row with this key says.
const SUMMARY: &str = "(SELECT json_extract(finding, '$.summary') FROM findings f
     WHERE f.key = heartbeat_state.key ORDER BY f.id DESC LIMIT 1)";

fn read_list(connection: &Connection, query: &ItemQuery) -> Sql<ItemList> {
    let words = query.words.trim();
    let with_words = "(?1 = '' OR instr(lower(key || ' ' || title || ' ' || item_type || ' ' ||
         coalesce(area_path, '') || ' ' || coalesce(json_extract(verdict, '$.reason'), '')), lower(?1)))";
    let facets = connection
        .prepare_cached(&format!(
            "SELECT {STATE} AS state, reason, count(*) AS n FROM heartbeat_state
             WHERE {with_words} GROUP BY 1, 2 ORDER BY 1, n DESC"
        ))?
        .query_map([words], |row| {
            let (state, reason) = (from_word(row, "state")?, from_word(row, "reason")?);
            Ok(Facet { state, reason, count: row.get("n")? })
        })?
        .collect::<Sql<Vec<_>>>()?;
    let fits = |facet: &&Facet| {
        query.state.is_none_or(|state| facet.state == state)
            && query.reason.is_none_or(|reason| facet.reason == reason)
    };
    let total = facets.iter().filter(fits).map(|facet| facet.count).sum();
    let state = query.state.as_ref().map(ItemState::into_str);
    let reason = query.reason.as_ref().map(Reason::into_str);
    let values = params![words, state, reason, query.limit, query.offset];
    let items = connection
        .prepare_cached(&format!(
            "SELECT *, {STATE} AS state, {ALARMS} AS alarms, {SUMMARY} AS summary FROM heartbeat_state
             WHERE {with_words} AND (?2 IS NULL OR state = ?2) AND (?3 IS NULL OR reason = ?3)
             ORDER BY {} LIMIT ?4 OFFSET ?5",
            query.sort.sql()
        ))?
        .query_map(values, |row| {
            let (state, alarms) = (from_word(row, "state")?, from_optional_json(row, "alarms")?);
            let summary = row.get("summary")?;
            Ok(ListedItem { row: item(row)?, state, alarms, summary })
        })?
        .collect::<Sql<Vec<_>>>()?;
    Ok(ItemList { total, facets, items })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ItemKey;
    use crate::store::{DATABASE, Store};

    const ROWS: &str = r#"
        INSERT INTO heartbeat_state (key, item_id, title, item_type, url, revision, last_changed,
            fingerprint, phase, reason, verdict, first_seen, last_seen) VALUES
        ('ado/1', 1, 'Cart is empty', 'Bug', '', 1, 10, '', 'done', 'first_seen', NULL, 0, 0),
        ('ado/2', 2, 'Typo in footer', 'Bug', '', 1, 20, '', 'done', 'not_needed',
         '{"id":2,"complexity":"trivial","needs_deep_analysis":false,"reason":"Only a CAPTION."}', 0, 0),
        ('ado/3', 3, 'Slow search', 'Task', '', 1, 30, '', 'pending', 'load', NULL, 0, 0),
        ('ado/4', 4, 'Crash', 'Bug', '', 1, 40, '', 'claimed', 'in_flight', NULL, 0, 0),
        ('ado/5', 5, 'Hang', 'Bug', '', 1, 50, '', 'waiting', 'backoff', NULL, 0, 0),
        ('ado/6', 6, 'Leak', 'Bug', '', 1, 60, '', 'parked', 'attempts_exhausted', NULL, 0, 0),
        ('ado/7', 7, 'Gone', 'Bug', '', 1, 70, '', 'vanished', 'deleted', NULL, 0, 0);
        INSERT INTO events (at, event, item, body) VALUES
        (0, 'text_alarm', 'ado/5', '{"event":"text_alarm","item":"ado/5","alarms":
            {"hidden_chars":9,"low_contrast_chars":0,"invisible_chars":0}}'),
        (1, 'text_alarm', 'ado/5', '{"event":"text_alarm","item":"ado/5","alarms":
            {"hidden_chars":7,"low_contrast_chars":0,"invisible_chars":0}}');
    "#;

    async fn listed(query: ItemQuery) -> ItemList {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("state")).unwrap();
        let file = folder.path().join("state").join(DATABASE);
        Connection::open(file).unwrap().execute_batch(ROWS).unwrap();
        let alarms = store.items().alarms(ItemKey::from_stored("ado/5".into())).await.unwrap();
        assert_eq!(alarms.unwrap().hidden_chars, 7, "the newest one");
        assert!(
            store.items().alarms(ItemKey::from_stored("ado/1".into())).await.unwrap().is_none()
        );
        store.items().list(query).await.unwrap()
    }

    fn ids(list: &ItemList) -> Vec<&str> {
        list.items.iter().map(|item| item.row.key.as_str()).collect()
    }

    #[tokio::test]
    async fn every_item_has_one_state_and_is_counted_in_it() {
        let list = listed(ItemQuery { limit: 100, ..ItemQuery::default() }).await;
        assert_eq!((list.total, list.items.len()), (7, 7));
        let states: Vec<_> = list.items.iter().rev().map(|item| item.state).collect();
        use ItemState::{Done, Failed, Gone, Parked, Queued, Settled};
        assert_eq!(states, [Done, Settled, Queued, Queued, Failed, Parked, Gone]);
        assert_eq!(list.facets.len(), 7, "two reasons for queued: {:?}", list.facets);
        let alarmed: Vec<_> = list.items.iter().filter(|item| item.alarms.is_some()).collect();
        assert_eq!(alarmed.len(), 1);
        assert_eq!(alarmed[0].row.key.as_str(), "ado/5");
    }

    #[tokio::test]
    async fn state_reason_and_place_select() {
        let queued =
            || ItemQuery { state: Some(ItemState::Queued), limit: 1, ..ItemQuery::default() };
        let list = listed(queued()).await;
        assert_eq!((list.total, ids(&list)), (2, vec!["ado/4"]), "the last changed first");
        assert_eq!(list.facets.len(), 7, "the other states are still offered");
        assert_eq!(ids(&listed(ItemQuery { offset: 1, ..queued() }).await), ["ado/3"]);
        let by_number = ItemQuery { sort: ItemSort::Number, limit: 2, ..ItemQuery::default() };
        assert_eq!(ids(&listed(by_number).await), ["ado/7", "ado/6"]);
        let for_load = ItemQuery { reason: Some(Reason::Load), ..queued() };
        let list = listed(for_load).await;
        assert_eq!((list.total, ids(&list)), (1, vec!["ado/3"]));
    }

    #[tokio::test]
    async fn words_find_settled_items_by_the_reason_of_triage() {
        let words =
            |words: &str| ItemQuery { words: words.into(), limit: 9, ..ItemQuery::default() };
        let list = listed(words(" caption ")).await;
        assert_eq!((list.total, ids(&list)), (1, vec!["ado/2"]));
        assert_eq!(
            list.facets,
            [Facet { state: ItemState::Settled, reason: Reason::NotNeeded, count: 1 }]
        );
        assert_eq!(ids(&listed(words("CART")).await), ["ado/1"]);
        assert!(listed(words("%")).await.items.is_empty(), "no pattern");
    }
}
