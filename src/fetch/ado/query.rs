//! Queries for changed items: builds the texts (pure), sends them, reads the rows.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::AdoSource;
use super::wire::{QueryResult, SavedQuery};
use crate::fetch::FetchError;
use crate::fetch::http::{HttpAnswer, Repeat, Request};
use crate::fetch::text::instant;
use crate::model::{FailureClass, ItemId};

/// The tracker refuses longer texts.
pub const MAX_QUERY_LEN: usize = 32_000;

/// Rows per query: one less than the tracker's limit.
pub const MAX_ROWS: usize = 19_999;

/// A range of change dates, `from <= changed < to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub from: Timestamp,
    /// `None`: open, so that a fast server clock loses nothing.
    pub to: Option<Timestamp>,
    /// Set when the window is read in the order of ids: only ids above it.
    pub after_id: Option<i64>,
}

impl Window {
    /// Everything since `from`.
    pub fn since(from: Timestamp) -> Self {
        Self { from, to: None, after_id: None }
    }

    /// Two halves; `None` if it is too short to split. `now` is the end of an open window.
    pub fn halves(self, now: Timestamp) -> Option<(Self, Self)> {
        let end = self.to.unwrap_or(now);
        let length = end.duration_since(self.from);
        if self.after_id.is_some() || length < SignedDuration::from_secs(2) {
            return None;
        }
        let middle = self.from.checked_add(length / 2).ok()?;
        // Literals have milliseconds, and both halves must meet at the same one.
        let middle = Timestamp::from_millisecond(middle.as_millisecond()).ok()?;
        let early = Self { from: self.from, to: Some(middle), after_id: None };
        Some((early, Self { from: middle, to: self.to, after_id: None }))
    }

    /// The same window ordered by id, from the lowest.
    pub fn by_id(self) -> Self {
        Self { after_id: Some(self.after_id.unwrap_or(0)), ..self }
    }
}

/// The query for the items of `window` that meet `condition`.
///
/// Ascending, so that a truncated page loses nothing; the date first, as the tracker recommends for
/// speed.
pub fn query(window: Window, condition: &str) -> String {
    let mut text =
        String::from("SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project");
    text.push_str(" AND [System.ChangedDate] >= ");
    text.push_str(&date(window.from));
    if let Some(to) = window.to {
        text.push_str(" AND [System.ChangedDate] < ");
        text.push_str(&date(to));
    }
    if let Some(id) = window.after_id {
        text.push_str(&format!(" AND [System.Id] > {id}"));
    }
    if !condition.trim().is_empty() {
        text.push_str(&format!(" AND ({})", condition.trim()));
    }
    text.push_str(match window.after_id {
        Some(_) => " ORDER BY [System.Id] ASC",
        None => " ORDER BY [System.ChangedDate] ASC, [System.Id] ASC",
    });
    text
}

/// The query for those of `ids` that meet `condition`.
pub fn query_of_ids(ids: &[ItemId], condition: &str) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project AND [System.Id] \
         IN ({})",
        ids.join(", ")
    );
    if !condition.trim().is_empty() {
        text.push_str(&format!(" AND ({})", condition.trim()));
    }
    text
}

/// A date literal: always UTC and marked as such, whatever the account's time zone is.
pub fn date(at: Timestamp) -> String {
    literal(&at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

/// A string literal; the language has no parameters, only this escape.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::fetch) struct Rows {
    /// In the query's order, each once.
    pub ids: Vec<i64>,
    /// Server time of the response.
    pub as_of: Option<Timestamp>,
}

const WHAT: &str = "the query";

impl AdoSource {
    /// Sends one request to validate the query; the rows are ignored.
    pub async fn check(&self) -> Result<(), FetchError> {
        if !self.config.saved_query.is_empty() {
            return self.send("queries", &self.saved_query(WHAT).once()).await.map(|_| ());
        }
        let window = Window::since(self.http.look_back(&self.config));
        self.ask(window, Some(1), Repeat::Never).await.map(|_| ())
    }

    /// Rows of the configured condition within `window`, at most `top`.
    pub async fn rows(&self, window: Window, top: Option<usize>) -> Result<Rows, FetchError> {
        self.ask(window, top, Repeat::Safe).await
    }

    async fn ask(
        &self,
        window: Window,
        top: Option<usize>,
        repeat: Repeat,
    ) -> Result<Rows, FetchError> {
        let text = query(window, &self.config.where_clause);
        self.ask_text(&text, top, repeat).await
    }

    pub async fn ask_text(
        &self,
        text: &str,
        top: Option<usize>,
        repeat: Repeat,
    ) -> Result<Rows, FetchError> {
        if text.chars().count() > MAX_QUERY_LEN {
            let message = format!(
                "source.where makes the query longer than {MAX_QUERY_LEN} \
                                   characters"
            );
            return Err(FetchError::new(FailureClass::BadQuery, message));
        }
        let path = self.scoped(&["_apis", "wit", "wiql"]);
        // Has an effect only in the query string.
        let mut query = vec![("timePrecision", "true".to_owned())];
        query.extend(top.map(|top| ("$top", top.to_string())));
        let request = Request::post(self.http.url(&path, &query), WHAT, &json!({ "query": text }));
        let answer = self.send("wiql", &Request { repeat, ..request }).await?;
        self.read_rows(&answer)
    }

    fn read_rows(&self, answer: &HttpAnswer) -> Result<Rows, FetchError> {
        let result: QueryResult = self.http.decode(answer, "the rows of a query")?;
        if result.work_items.is_none() && result.work_item_relations.is_none() {
            let message = format!("{} returned no rows for a query", self.http.base_url());
            let failure = FetchError::new(FailureClass::Transient, message);
            return Err(failure.with_request_id(answer.request_id.as_deref()));
        }
        let as_of = result.as_of.as_deref().and_then(instant);
        Ok(Rows { ids: result.ids(), as_of })
    }

    /// Rows of the configured saved query, named by id or path.
    pub async fn saved_rows(&self) -> Result<Rows, FetchError> {
        let id = self.saved_query_id().await?;
        let url = self.http.url(&self.scoped(&["_apis", "wit", "wiql", &id]), &[]);
        let answer = self.send("wiql", &Request::get(url, WHAT)).await?;
        self.read_rows(&answer)
    }

    async fn saved_query_id(&self) -> Result<String, FetchError> {
        let name = &self.config.saved_query;
        if uuid::Uuid::parse_str(name).is_ok() {
            return Ok(name.clone());
        }
        let request = self.saved_query("the saved query (source.saved_query)");
        let saved: SavedQuery = self.json("queries", request).await?;
        if saved.is_folder {
            let message = format!("source.saved_query {name:?} is a folder, not a query");
            return Err(FetchError::new(FailureClass::Config, message));
        }
        Ok(saved.id)
    }

    fn saved_query(&self, what: &str) -> Request {
        let name = self.config.saved_query.replace('\\', "/");
        let path = [self.config.project.as_str(), "_apis", "wit", "queries", &name];
        Request::get(self.http.url(&path, &[]), what)
    }

    /// Those of these items that the configured condition matches.
    pub async fn still_matching(&self, ids: &[ItemId]) -> Result<Vec<ItemId>, FetchError> {
        let text = query_of_ids(ids, &self.config.where_clause);
        let rows = self.ask_text(&text, None, Repeat::Never).await?;
        Ok(rows.ids.into_iter().map(ItemId).collect())
    }

    /// A path below the configured project and team.
    fn scoped<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let mut path = vec![self.config.project.as_str(), self.config.team.as_str()];
        path.extend(rest);
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_query_has_its_date_first_and_keeps_the_condition_together() {
        let window = Window::since(at("2026-11-16T01:02:03.4567Z"));
        assert_eq!(
            query(window, "[System.State] = 'New' OR [System.State] = 'Active'"),
            "SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project AND \
             [System.ChangedDate] >= '2026-11-16T01:02:03.456Z' AND ([System.State] = 'New' OR \
             [System.State] = 'Active') ORDER BY [System.ChangedDate] ASC, [System.Id] ASC"
        );
        let by_id = Window { to: Some(at("2026-11-17T00:00:00Z")), ..window }.by_id();
        assert!(query(by_id, " ").ends_with(
            " AND [System.ChangedDate] < '2026-11-17T00:00:00.000Z' AND [System.Id] > 0 ORDER BY \
             [System.Id] ASC"
        ));
    }

    #[test]
    fn quotes_are_doubled() {
        assert_eq!(literal("Sam's 'Area'"), "'Sam''s ''Area'''");
    }

    #[test]
    fn halves_meet_and_leave_nothing_out() {
        let now = at("2026-11-16T00:00:00Z");
        let window = Window::since(at("2026-11-01T00:00:00.001Z"));
        let (early, late) = window.halves(now).unwrap();
        assert_eq!(early.from, window.from);
        assert_eq!(early.to, Some(late.from));
        assert_eq!(late.to, None, "the newest part stays open");
        let short = Window { from: at("2026-11-15T23:59:59Z"), ..window };
        assert_eq!(short.halves(now), None);
        let ahead = Window { from: at("2026-11-17T00:00:00Z"), ..window };
        assert_eq!(ahead.halves(now), None, "a server clock ahead of ours");
        assert_eq!(window.by_id().halves(now), None);
    }

    #[test]
    fn ids_and_condition_go_into_one_query() {
        let text = query_of_ids(&[ItemId(3), ItemId(5)], "[System.State] = 'New'");
        assert!(text.contains("[System.Id] IN (3, 5) AND ([System.State] = 'New')"), "{text}");
    }
}
