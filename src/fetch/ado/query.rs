//! Asking which items changed.

use jiff::Timestamp;
use serde_json::json;

use super::decode::parse_instant;
use super::wiql::{LONGEST_QUERY, Window, query};
use super::wire::{QueryResult, SavedQuery};
use super::{Call, Inner, Repeat};
use crate::fetch::failure::Failure;
use crate::fetch::http::Answer;
use crate::model::FailureClass;

/// Rows of a query.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// Ids in the query's order, each once.
    pub ids: Vec<i64>,
    /// The server's time of the answer.
    pub as_of: Option<Timestamp>,
}

const WHAT: &str = "the query";

impl Inner {
    /// One request: is the question understood? The rows do not matter.
    pub async fn check(&self) -> Result<(), Failure> {
        if !self.config.saved_query.is_empty() {
            let path = self.saved_query_path();
            let call = Call { repeat: Repeat::Never, ..Call::get(path, "queries", WHAT) };
            return self.transport.send(&call).await.map(|_| ());
        }
        let window = Window::since(self.look_back());
        self.ask(window, Some(1), Repeat::Never).await.map(|_| ())
    }

    /// The start of the very first read.
    pub fn look_back(&self) -> Timestamp {
        let now = self.transport.now();
        now.checked_sub(self.config.look_back).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Rows of the configured condition within `window`, `top` at most.
    pub async fn rows(&self, window: Window, top: Option<usize>) -> Result<Rows, Failure> {
        self.ask(window, top, Repeat::Safe).await
    }

    async fn ask(
        &self,
        window: Window,
        top: Option<usize>,
        repeat: Repeat,
    ) -> Result<Rows, Failure> {
        let text = query(window, &self.config.where_clause);
        self.ask_text(&text, top, repeat).await
    }

    /// Sends one query.
    pub async fn ask_text(
        &self,
        text: &str,
        top: Option<usize>,
        repeat: Repeat,
    ) -> Result<Rows, Failure> {
        if text.chars().count() > LONGEST_QUERY {
            let message = format!(
                "source.where makes the query longer than {LONGEST_QUERY} \
                                   characters"
            );
            return Err(Failure::new(FailureClass::BadQuery, message));
        }
        let path = self.scoped(&["_apis", "wit", "wiql"]);
        let mut call = Call::post(path, "wiql", WHAT, &json!({ "query": text }));
        // Only in the query string does this have an effect.
        call.query.push(("timePrecision", "true".to_owned()));
        call.query.extend(top.map(|top| ("$top", top.to_string())));
        call.repeat = repeat;
        let answer = self.transport.send(&call).await?;
        self.read_rows(&answer)
    }

    fn read_rows(&self, answer: &Answer) -> Result<Rows, Failure> {
        let result: QueryResult = self.transport.decode(answer, "the rows of a query")?;
        if result.work_items.is_none() && result.work_item_relations.is_none() {
            let message = format!("{} returned no rows for a query", self.transport.base_url());
            let failure = Failure::new(FailureClass::Transient, message);
            return Err(failure.with_request_id(answer.request_id.as_deref()));
        }
        let as_of = result.as_of.as_deref().and_then(parse_instant);
        Ok(Rows { ids: result.ids(), as_of })
    }

    /// Rows of the configured saved query, named by id or path.
    pub async fn saved_rows(&self) -> Result<Rows, Failure> {
        let id = self.saved_query_id().await?;
        let call = Call::get(self.scoped(&["_apis", "wit", "wiql", &id]), "wiql", WHAT);
        let answer = self.transport.send(&call).await?;
        self.read_rows(&answer)
    }

    async fn saved_query_id(&self) -> Result<String, Failure> {
        let name = &self.config.saved_query;
        if uuid::Uuid::parse_str(name).is_ok() {
            return Ok(name.clone());
        }
        let path = self.saved_query_path();
        let what = "the saved query (source.saved_query)";
        let answer = self.transport.send(&Call::get(path, "queries", what)).await?;
        let saved: SavedQuery = self.transport.decode(&answer, what)?;
        if saved.is_folder {
            let message = format!("source.saved_query {name:?} is a folder, not a query");
            return Err(Failure::new(FailureClass::Config, message));
        }
        Ok(saved.id)
    }

    fn saved_query_path(&self) -> Vec<&str> {
        let mut path = vec![self.config.project.as_str(), "_apis", "wit", "queries"];
        let name = self.config.saved_query.split(['/', '\\']);
        path.extend(name.filter(|part| !part.is_empty()));
        path
    }

    /// A path below the configured project and team.
    pub fn scoped<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let mut path = vec![self.config.project.as_str(), self.config.team.as_str()];
        path.extend(rest);
        path
    }
}
