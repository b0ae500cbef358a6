//! Reads issues by query or number, their comments and their state.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::json;

use super::decode::{DecodedIssue, Server, comment, is_our_comment};
use super::priority::Priorities;
use super::wire::{self, JiraComment};
use super::{JiraSource, jql};
use crate::fetch::http::{Repeat, Request};
use crate::fetch::pages::{Batch, Parts};
use crate::fetch::write_back::{OWN_COMMENTS_SKIPPED, of_others};
use crate::fetch::{CurrentState, FetchError};
use crate::model::{FailureClass, Format, ItemId, WorkItem};

/// Issues per response.
pub(super) const MAX_PAGE: usize = 100;
/// Issues that a search on Cloud reads from the database instead of its delayed index.
const MAX_RECONCILED: usize = 50;
const SEARCH: &str = "the search";

/// Where a search continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::fetch) enum SearchPlace {
    Token(String),
    /// Data Center: number of rows before it.
    Offset(u64),
}

/// One response of a search.
#[derive(Debug)]
pub(in crate::fetch) struct FoundIssues {
    pub issues: Vec<wire::JiraIssue>,
    /// `None` at the end. A page with fewer rows than requested is not the end.
    pub next: Option<SearchPlace>,
}

impl JiraSource {
    /// Issues per page.
    pub fn page_size(&self) -> usize {
        let size = usize::try_from(self.config.page_size).unwrap_or(MAX_PAGE);
        size.clamp(1, MAX_PAGE)
    }

    /// One page of a search.
    pub async fn search(
        &self,
        query: &str,
        fields: &[String],
        place: Option<&SearchPlace>,
        size: usize,
        repeat: Repeat,
    ) -> Result<FoundIssues, FetchError> {
        let is_cloud = self.is_cloud().await?;
        let mut body = json!({ "jql": query, "fields": fields, "maxResults": size });
        match place {
            Some(SearchPlace::Token(token)) => body["nextPageToken"] = json!(token),
            Some(SearchPlace::Offset(rows)) => body["startAt"] = json!(rows),
            None => {}
        }
        let path: &[&str] = if is_cloud { &["search", "jql"] } else { &["search"] };
        let request = Request::post(self.url(path, &[]).await?, SEARCH, &body);
        let found: wire::JiraSearch = self.http.json(&Request { repeat, ..request }).await?;
        let warnings = found.warning_messages.unwrap_or_default();
        if let Some(warning) = warnings.first() {
            return Err(rewritten(&crate::model::Untrusted::new(warning.clone()).line(200)));
        }
        let Some(issues) = found.issues else {
            let message = format!("{} returned no rows for a search", self.http.base_url());
            return Err(FetchError::new(FailureClass::Transient, message));
        };
        let next = if is_cloud {
            found.next_page_token.filter(|_| found.is_last != Some(true)).map(SearchPlace::Token)
        } else {
            let rows = found.start_at.unwrap_or(0) + issues.len() as u64;
            let more = found.total.is_some_and(|total| rows < total) && !issues.is_empty();
            more.then_some(SearchPlace::Offset(rows))
        };
        Ok(FoundIssues { issues, next })
    }

    /// What decoding needs to know about this server.
    pub async fn server(&self) -> Result<Server<'_>, FetchError> {
        let server = self.deployment().await?;
        let format = if server.is_cloud { Format::Adf } else { Format::Wiki };
        let priorities = self.priorities.get_or_try_init(|| self.load_priorities()).await?;
        Ok(Server { site: &server.site, format, priorities })
    }

    /// Names are free, so their order is requested. If the list may not be read, the default names
    /// apply.
    async fn load_priorities(&self) -> Result<Priorities, FetchError> {
        let listed = self.get(&["priority"], &[], "the list of priorities").await;
        let listed: Vec<wire::JiraNamed> = match listed {
            Ok(listed) => listed,
            Err(failure)
                if matches!(failure.class, FailureClass::Denied | FailureClass::Config) =>
            {
                Vec::new()
            }
            Err(failure) => return Err(failure),
        };
        Ok(Priorities::new(&self.config.priority_labels, listed))
    }

    /// Decodes issues, each once; those without a number are logged and omitted.
    pub async fn decode(
        &self,
        issues: Vec<wire::JiraIssue>,
        unknown_change: Timestamp,
    ) -> Result<Vec<DecodedIssue>, FetchError> {
        let server = self.server().await?;
        let mut seen = HashSet::new();
        let mut decoded = Vec::with_capacity(issues.len());
        for issue in issues {
            match self.decoder.item(issue, server, unknown_change) {
                Some(one) if seen.insert(one.item.id) => decoded.push(one),
                Some(_) => {}
                None => tracing::warn!("skipped an issue without a number"),
            }
        }
        Ok(decoded)
    }

    /// Issues by number, in any project; missing ones are omitted.
    pub async fn issues(
        &self,
        ids: &[ItemId],
        fields: &[String],
    ) -> Result<Vec<wire::JiraIssue>, FetchError> {
        Ok(self.issues_apart(ids, fields).await?.0)
    }

    /// Issues by number, and those that the server cannot return; missing ones are omitted.
    pub async fn issues_apart(
        &self,
        ids: &[ItemId],
        fields: &[String],
    ) -> Result<(Vec<wire::JiraIssue>, Vec<ItemId>), FetchError> {
        let (mut found, mut parts) = (Vec::new(), Parts::of(ids, MAX_PAGE));
        while let Some(part) = parts.next() {
            let read = self.issues_at_once(&part, fields).await;
            found.extend(parts.take(part, read)?.into_iter().flatten());
        }
        Ok((found, parts.finish()?))
    }

    async fn issues_at_once(
        &self,
        ids: &[ItemId],
        fields: &[String],
    ) -> Result<Vec<wire::JiraIssue>, FetchError> {
        if self.is_cloud().await? {
            let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let body = json!({ "issueIdsOrKeys": names, "fields": fields });
            let found: wire::JiraSearch =
                self.ask(&["issue", "bulkfetch"], "issues", &body).await?;
            return Ok(found.issues.unwrap_or_default());
        }
        // The server may refuse the whole query because of one invisible number.
        let mut found = Vec::new();
        let mut parts = vec![ids];
        while let Some(part) = parts.pop() {
            match self.issues_by_query(part, fields).await {
                Err(error) if error.class == FailureClass::BadQuery => {
                    if part.len() > 1 {
                        let (first, second) = part.split_at(part.len() / 2);
                        parts.extend([second, first]);
                    }
                }
                issues => found.extend(issues?),
            }
        }
        Ok(found)
    }

    async fn issues_by_query(
        &self,
        ids: &[ItemId],
        fields: &[String],
    ) -> Result<Vec<wire::JiraIssue>, FetchError> {
        let query = jql::of_ids(ids);
        let mut issues = Vec::new();
        let mut place = None;
        loop {
            let size = ids.len().max(1);
            let found = self.search(&query, fields, place.as_ref(), size, Repeat::Safe).await?;
            let is_empty = found.issues.is_empty();
            issues.extend(found.issues);
            place = found.next;
            if place.is_none() || is_empty {
                return Ok(issues);
            }
        }
    }

    /// Items by number in the order of `ids`.
    pub async fn read_items(
        &self,
        ids: &[ItemId],
        unknown_change: Timestamp,
    ) -> Result<Batch, FetchError> {
        let (found, failed) = self.issues_apart(ids, &self.decoder.fields()).await?;
        let decoded = self.decode(found, unknown_change).await?;
        let mut by_id: HashMap<ItemId, DecodedIssue> =
            decoded.into_iter().map(|one| (one.item.id, one)).collect();
        let mut batch = Batch { failed, ..Batch::default() };
        for id in ids {
            match by_id.remove(id) {
                Some(decoded) => batch.items.push(self.with_comments(decoded).await?),
                None if batch.failed.contains(id) => {}
                None => batch.vanished.push(*id),
            }
        }
        if !batch.vanished.is_empty() {
            // For an anonymous user every item looks deleted.
            self.ensure_signed_in().await?;
        }
        Ok(batch)
    }

    /// Adds the newest comments, if configured. An issue contains some of them; more are requested
    /// only if that is not enough and the rate limit allows it.
    pub async fn with_comments(&self, decoded: DecodedIssue) -> Result<WorkItem, FetchError> {
        let DecodedIssue { mut item, mut comments, comment_count, .. } = decoded;
        let wanted = self.config.comments;
        if wanted == 0 || comment_count == 0 {
            return Ok(item);
        }
        let with_ours = (u64::from(wanted) + OWN_COMMENTS_SKIPPED as u64).min(comment_count);
        if (comments.len() as u64) < with_ours && !self.http.is_rate_limit_low().await {
            match self.newest_comments(item.id, with_ours).await {
                Ok(newest) => {
                    let format = self.server().await?.format;
                    comments =
                        newest.into_iter().filter_map(|entry| comment(entry, format)).collect();
                }
                // The item was deleted between the two requests; the next read shows it.
                Err(failure) if failure.has_code("404") => {}
                Err(failure) => return Err(failure),
            }
        }
        item.comments = of_others(comments, wanted, is_our_comment);
        Ok(item)
    }

    /// The newest comments of an issue, in no particular order.
    pub async fn newest_comments(
        &self,
        id: ItemId,
        wanted: u64,
    ) -> Result<Vec<JiraComment>, FetchError> {
        let number = id.to_string();
        let what = format!("the comments of item {id}");
        let path = ["issue", number.as_str(), "comment"];
        let query = [
            ("orderBy", "-created".to_owned()),
            ("maxResults", wanted.min(MAX_PAGE as u64).to_string()),
        ];
        let found: wire::JiraComments = self.get(&path, &query, &what).await?;
        Ok(found.comments)
    }

    /// State of these items; deleted ones are omitted.
    pub async fn current_states(&self, ids: &[ItemId]) -> Result<Vec<CurrentState>, FetchError> {
        let fields = ["status", "resolution", "updated"].map(str::to_owned);
        let mut states = Vec::new();
        for part in ids.chunks(MAX_PAGE) {
            let issues = self.issues(part, &fields).await?;
            for decoded in self.decode(issues, self.http.now()).await? {
                states.push(decoded.item.into());
            }
        }
        if states.len() < ids.len() {
            self.ensure_signed_in().await?;
        }
        Ok(states)
    }

    /// Those of these items that the configured condition matches.
    pub async fn still_matching(&self, ids: &[ItemId]) -> Result<Vec<ItemId>, FetchError> {
        let mut matching = Vec::new();
        for part in ids.chunks(MAX_RECONCILED) {
            matching.extend(self.matching_among(part).await?);
        }
        if matching.is_empty() && !ids.is_empty() {
            self.ensure_signed_in().await?;
        }
        Ok(matching)
    }

    /// The number of the issue with this key; `None` if there is none that the account may read.
    pub async fn number_of(&self, key: &str) -> Result<Option<ItemId>, FetchError> {
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if key.is_empty() || !key.chars().all(is_key) {
            return Ok(None);
        }
        let (path, what) = (["issue", key], format!("issue {key}"));
        let query = [("fields", "updated".to_owned())];
        match self.get::<wire::JiraIssue>(&path, &query, &what).await {
            Ok(issue) => Ok(issue.number().map(ItemId)),
            Err(failure) if failure.class == FailureClass::Gone => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn matching_among(&self, ids: &[ItemId]) -> Result<Vec<ItemId>, FetchError> {
        let query = self.scope.among(ids);
        let fields = ["updated".to_owned()];
        let is_cloud = self.is_cloud().await?;
        let mut body = json!({ "jql": query, "fields": fields, "maxResults": ids.len() });
        let path: &[&str] = if is_cloud { &["search", "jql"] } else { &["search"] };
        if is_cloud {
            body["reconcileIssues"] = json!(ids);
        }
        let found: wire::JiraSearch = self.ask(path, SEARCH, &body).await?;
        let numbers = found.issues.unwrap_or_default();
        Ok(numbers.iter().filter_map(wire::JiraIssue::number).map(ItemId).collect())
    }
}

/// The server rewrote the query, so its result is not what was requested.
pub(super) fn rewritten(how: &str) -> FetchError {
    let message = format!(
        "the tracker rewrites the query ({how}); correct source.where or \
         source.project"
    );
    FetchError::new(FailureClass::BadQuery, message)
}
