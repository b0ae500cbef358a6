//! The word index of all items: updated with each page, searched for items similar to a new one.
//!
//! Ranked by BM25, with a higher weight for titles. Similarity is relative to the new item's own
//! score: it is indexed before the search.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::rows::from_word;
use super::subjects::{Items, Reader};
use super::{Sql, StoreError};
use crate::dedupe::ItemWords;
use crate::model::{ItemId, ItemKey, KnownTitle};

/// Neighbours per item: a duplicate is among the first three in four of five cases, and among the first
/// fifteen in more than nine of ten (`benches/duplicates`).
const MAX: usize = 15;
/// Rows read per item: itself, and others that are skipped.
const READ: u32 = 24;
/// Items searched before the connection is released.
const SEARCHED_AT_ONCE: usize = 10;
/// Minimum share of the item's own score.
const LEAST: f64 = 0.05;
/// Items indexed per transaction when an older state is opened.
const FILLED_AT_ONCE: u32 = 2_000;
/// Weight of title words and text words.
const RANK: &str = "bm25(item_words, 3.0, 1.0)";

impl<R: Reader> Items<'_, R> {
    /// The known items most similar to each of these, most similar first, the older first if equal.
    /// Items that are not indexed have none.
    pub async fn neighbours(
        self,
        items: Vec<(ItemKey, ItemWords)>,
    ) -> Result<HashMap<ItemKey, Vec<KnownTitle>>, StoreError> {
        let (mut found, mut holders) = (HashMap::with_capacity(items.len()), BTreeMap::new());
        for part in items.chunks(SEARCHED_AT_ONCE) {
            let (part, known) = (part.to_vec(), std::mem::take(&mut holders));
            let search = self.read(move |connection| {
                let reading = connection.unchecked_transaction()?;
                let mut search = Search::begin(&reading, known)?;
                let mut found = Vec::with_capacity(part.len());
                for (key, words) in part {
                    let neighbours = search.neighbours(&key, &words)?;
                    found.push((key, neighbours));
                }
                Ok((found, search.holders))
            });
            let (part, known) = search.await?;
            found.extend(part);
            holders = known;
        }
        Ok(found)
    }
}

impl<R: Reader> Items<'_, R> {
    /// The known items most similar to words that belong to no item, most similar first.
    pub async fn similar(
        self,
        words: ItemWords,
        limit: usize,
    ) -> Result<Vec<KnownTitle>, StoreError> {
        self.read(move |connection| {
            let reading = connection.unchecked_transaction()?;
            Search::begin(&reading, BTreeMap::new())?.similar(&words, limit)
        })
        .await
    }
}

struct Search<'a> {
    connection: &'a Connection,
    total: u64,
    /// Number of items that have a word; common words take a while to count.
    holders: BTreeMap<String, u64>,
}

impl<'a> Search<'a> {
    fn begin(connection: &'a Connection, holders: BTreeMap<String, u64>) -> Sql<Self> {
        let total = connection
            .query_row("SELECT count(*) FROM indexed_items", [], |row| row.get::<_, i64>(0))?;
        let total = u64::try_from(total).unwrap_or(0);
        Ok(Self { connection, total, holders })
    }

    /// The search for these words; `own` is 1 if one of the items that have them is their own.
    fn query(&mut self, words: &ItemWords, own: u64) -> Sql<Option<String>> {
        for word in words.weighted().keys() {
            self.count(word)?;
        }
        let holders = |word: &str| self.holders.get(word).map_or(0, |count| count + 1 - own);
        let terms = words.terms(self.total, holders);
        // A word with weight 2 is repeated.
        let times = |(word, weight): (&str, u32)| vec![format!("\"{word}\""); weight as usize];
        let query = terms.into_iter().flat_map(times).collect::<Vec<_>>().join(" OR ");
        Ok((!query.is_empty()).then_some(query))
    }

    fn similar(&mut self, words: &ItemWords, limit: usize) -> Sql<Vec<KnownTitle>> {
        let Some(query) = self.query(words, 0)? else { return Ok(Vec::new()) };
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT s.key, s.item_id, s.phase, s.title
             FROM (SELECT rowid AS id, {RANK} AS score FROM item_words
                   WHERE item_words MATCH ?1 ORDER BY score, rowid LIMIT ?2) AS found
             JOIN indexed_items i ON i.id = found.id
             JOIN heartbeat_state s ON s.key = i.key
             ORDER BY found.score, found.id"
        ))?;
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let found = statement.query_map(params![query, limit], |row| {
            let (id, phase) = (ItemId(row.get("item_id")?), from_word(row, "phase")?);
            Ok(KnownTitle { key: row.get("key")?, id, phase, title: row.get("title")? })
        })?;
        found.collect()
    }

    fn neighbours(&mut self, key: &ItemKey, words: &ItemWords) -> Sql<Vec<KnownTitle>> {
        let Some(query) = self.query(words, 1)? else { return Ok(Vec::new()) };
        let Some(own) = self.own_score(key, &query)? else { return Ok(Vec::new()) };
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT s.key, s.item_id, s.phase, s.title, found.score
             FROM (SELECT rowid AS id, {RANK} AS score FROM item_words
                   WHERE item_words MATCH ?1 ORDER BY score, rowid LIMIT ?2) AS found
             JOIN indexed_items i ON i.id = found.id
             JOIN heartbeat_state s ON s.key = i.key
             ORDER BY found.score, found.id"
        ))?;
        let mut rows = statement.query(params![query, READ])?;
        let mut neighbours = Vec::with_capacity(MAX);
        while let Some(row) = rows.next()? {
            let (other, score): (ItemKey, f64) = (row.get("key")?, row.get("score")?);
            // Scores are negative: the smallest is the best.
            if score > own * LEAST || neighbours.len() == MAX {
                break;
            }
            let id = ItemId(row.get("item_id")?);
            if other != *key {
                let (phase, title) = (from_word(row, "phase")?, row.get("title")?);
                neighbours.push(KnownTitle { key: other, id, phase, title });
            }
        }
        Ok(neighbours)
    }

    /// The item's own score; `None` if it is not indexed or has none of the words.
    fn own_score(&self, key: &ItemKey, query: &str) -> Sql<Option<f64>> {
        let id: Option<i64> = self
            .connection
            .prepare_cached("SELECT id FROM indexed_items WHERE key = ?1")?
            .query_row([key], |row| row.get(0))
            .optional()?;
        let Some(id) = id else { return Ok(None) };
        let sql = format!("SELECT {RANK} FROM item_words WHERE item_words MATCH ?1 AND rowid = ?2");
        let mut statement = self.connection.prepare_cached(&sql)?;
        statement.query_row(params![query, id], |row| row.get(0)).optional()
    }

    fn count(&mut self, word: &str) -> Sql<()> {
        if self.holders.contains_key(word) {
            return Ok(());
        }
        let count: Option<i64> = self
            .connection
            .prepare_cached("SELECT doc FROM item_word_counts WHERE term = ?1")?
            .query_row([word], |row| row.get(0))
            .optional()?;
        let count = count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        self.holders.insert(word.to_owned(), count);
        Ok(())
    }
}

/// Indexes an item; does nothing if its words are unchanged.
pub(super) fn index(transaction: &Transaction<'_>, key: &ItemKey, words: &ItemWords) -> Sql<()> {
    let id: Option<i64> = transaction
        .prepare_cached(
            "INSERT INTO indexed_items (key, print) VALUES (?1, ?2)
             ON CONFLICT (key) DO UPDATE SET print = ?2 WHERE print <> ?2 RETURNING id",
        )?
        .query_row(params![key, words.print()], |row| row.get(0))
        .optional()?;
    let Some(id) = id else { return Ok(()) };
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO item_words (rowid, title, text) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![id, words.title, words.text])
        .map(drop)
}

/// Indexes the titles of items stored by an older version or imported. Their texts follow when they
/// are read again.
pub(super) fn fill(connection: &mut Connection) -> Sql<()> {
    let missing =
        "SELECT (SELECT count(*) FROM heartbeat_state) > (SELECT count(*) FROM indexed_items)";
    if !connection.query_row(missing, [], |row| row.get(0))? {
        return Ok(());
    }
    let mut last = String::new();
    loop {
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let titles: Vec<(ItemKey, String)> = transaction
            .prepare_cached(
                "SELECT key, title FROM heartbeat_state
                 WHERE key > ?1 AND NOT EXISTS
                     (SELECT 1 FROM indexed_items i WHERE i.key = heartbeat_state.key)
                 ORDER BY key LIMIT ?2",
            )?
            .query_map(params![last, FILLED_AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Sql<_>>()?;
        for (key, title) in &titles {
            index(&transaction, key, &ItemWords::of_title(title))?;
        }
        transaction.commit()?;
        match titles.last() {
            Some((key, _)) => key.as_str().clone_into(&mut last),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::dedupe::ItemWords;
    use crate::event::Decision;
    use crate::model::{Complexity, Duplicate, ItemId, Verdict};
    use crate::store::tests::{State, key, page, planned, state};
    use crate::store::{DATABASE, Store, TriageResult};

    async fn known(state: &State, titles: &[(i64, &str)]) {
        let one = |(id, title): &(i64, &str)| {
            let planned = planned(*id, "f1", Decision::New);
            let words = Some(ItemWords::of_title(title));
            crate::dedupe::Planned { title: (*title).to_owned(), words, ..planned }
        };
        let record = page(titles.iter().map(one).collect());
        state.journal.items().record_page("ado", record).await.unwrap();
    }

    async fn like(state: &State, id: i64, title: &str) -> Vec<i64> {
        let wanted = vec![(key(id), ItemWords::of_title(title))];
        let mut found = state.journal.items().neighbours(wanted).await.unwrap();
        found.remove(&key(id)).unwrap().iter().map(|known| known.id.0).collect()
    }

    const BACKLOG: [(i64, &str); 8] = [
        (1, "Invoice total is wrong by a cent"),
        (2, "Totals of invoices wrong: one cent missing"),
        (3, "The page is wrong"),
        (4, "Login page is slow"),
        (5, "The button is wrong"),
        (6, "Search finds nothing after an update"),
        (7, "Export to Excel leaves out the last row"),
        (8, "Password reset mail arrives twice"),
    ];

    #[tokio::test]
    async fn rare_words_make_a_neighbour_and_an_item_is_not_its_own() {
        let state = state().await;
        known(&state, &BACKLOG).await;
        assert_eq!(like(&state, 1, BACKLOG[0].1).await[0], 2);
        assert_eq!(like(&state, 8, BACKLOG[7].1).await, Vec::<i64>::new());
        assert_eq!(like(&state, 99, "Invoice total").await, Vec::<i64>::new(), "not indexed");
    }

    #[tokio::test]
    async fn the_syntax_of_queries_means_nothing_in_a_title() {
        let state = state().await;
        let odd = "\" OR title:x* NEAR(a b) AND NOT -^ \u{0} ' ; DROP";
        known(&state, &[(1, odd), (2, odd), (3, "y")]).await;
        assert_eq!(like(&state, 1, odd).await, [2]);
    }

    #[tokio::test]
    async fn of_five_hundred_equal_items_each_has_the_oldest_and_one_group() {
        let state = state().await;
        known(&state, &BACKLOG).await;
        let title = "Cart total differs after a coupon";
        for first in (100..600).step_by(100) {
            let same: Vec<_> = (first..first + 100).map(|id| (id, title)).collect();
            known(&state, &same).await;
        }
        // More than half of the items have these words, so they carry no weight; a rarer group
        // does.
        assert_eq!(like(&state, 599, title).await, Vec::<i64>::new());
        let others: Vec<_> = (1_000..2_000).map(|id| (id, "Unlike any of these")).collect();
        known(&state, &others).await;
        assert_eq!(like(&state, 599, title).await, (100..115).collect::<Vec<_>>());
        assert_eq!(like(&state, 100, title).await, (101..116).collect::<Vec<_>>());
        let judged = |id: i64| {
            let verdict = Verdict::new(ItemId(id), Complexity::Simple, "The same coupon.");
            let duplicate = Duplicate { id: ItemId(100), why: "One coupon.".into(), source: None };
            TriageResult {
                key: key(id),
                fingerprint: "f1".into(),
                verdict: Verdict { duplicates: vec![duplicate], ..verdict },
                from_model: true,
                park: None,
                triage_only: false,
                parts: None,
                suggestions: Vec::new(),
            }
        };
        let results = (101..600).map(judged).collect();
        state.journal.results().apply_triage(None, results).await.unwrap();
        let groups = state.journal.items().duplicate_groups((101..140).map(key).collect());
        let groups = groups.await.unwrap();
        let [group] = &groups[..] else { panic!("{}", groups.len()) };
        assert_eq!((group.total, group.items.len(), group.beyond()), (500, 12, 488));
        assert_eq!((&group.items[0].key, group.items[0].why.as_str()), (&key(100), ""));
        // A later verdict without duplicates removes those of the earlier one.
        let sql = "UPDATE heartbeat_state SET phase = 'pending' WHERE item_id = 101";
        state.journal.store().transact_here(|t| t.execute(sql, [])).unwrap();
        let mut back = judged(101);
        back.verdict.duplicates.clear();
        state.journal.results().apply_triage(None, vec![back]).await.unwrap();
        assert_eq!(state.journal.items().duplicates_of(key(101)).await.unwrap().total, 0);
        assert_eq!(state.journal.items().duplicates_of(key(102)).await.unwrap().total, 499);
    }

    #[tokio::test]
    async fn an_older_state_is_indexed_by_its_titles() {
        let folder = tempfile::tempdir().unwrap();
        drop(Store::open(folder.path()).unwrap());
        let connection = rusqlite::Connection::open(folder.path().join(DATABASE)).unwrap();
        let sql = "INSERT INTO heartbeat_state (key, item_id, title, item_type, url, revision,
                 last_changed, fingerprint, phase, reason, first_seen, last_seen)
             VALUES ('ado/' || ?1, ?1, ?2, 'Bug', '', 1, 1, 'f', 'done', 'same_fingerprint', 1, 1)";
        connection.execute_batch("BEGIN").unwrap();
        for id in 0..4_100 {
            let title = format!("Report {} of station {}", id / 2, id % 7);
            connection.execute(sql, rusqlite::params![id, title]).unwrap();
        }
        connection.execute_batch("COMMIT").unwrap();
        let store = Store::open(folder.path()).unwrap();
        let words = vec![(key(4_001), ItemWords::of_title("Report 2000"))];
        let found = store.items().neighbours(words).await.unwrap();
        assert_eq!(found[&key(4_001)][0].id, ItemId(4_000));
        let count: i64 =
            connection.query_row("SELECT count(*) FROM item_words", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 4_100);
    }
}
