//! Reads issues by query or number, their comments and their state.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::json;

use super::decode::{Decoded, Server, comment, is_our_comment};
use super::http::Call;
use super::priority::Priorities;
use super::wire::{self, CommentEntry};
use super::{Inner, jql};
use crate::fetch::CurrentState;
use crate::fetch::failure::Failure;
use crate::fetch::http::Repeat;
use crate::model::{FailureClass, Format, ItemId, WorkItem};

/// Issues per response.
pub(super) const MAX_PAGE: usize = 100;
/// Issues that a search on Cloud reads from the database instead of its delayed index.
const MAX_RECONCILED: usize = 50;
/// How many of our own comments may be among the requested ones.
const OWN_COMMENTS_SKIPPED: u64 = 20;
/// Name of the issues in messages.
const ISSUES: &str = "issues";
pub(super) const SEARCH: &str = "the search";

/// Where a search continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Token(String),
    /// Data Center: number of rows before it.
    Offset(u64),
}

/// One response of a search.
#[derive(Debug)]
pub(super) struct Found {
    pub issues: Vec<wire::Issue>,
    /// `None` at the end. A page with fewer rows than requested is not the end.
    pub next: Option<Place>,
}

impl Inner {
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
        place: Option<&Place>,
        size: usize,
        repeat: Repeat,
    ) -> Result<Found, Failure> {
        let is_cloud = self.transport.server().await?.is_cloud;
        let mut body = json!({ "jql": query, "fields": fields, "maxResults": size });
        match place {
            Some(Place::Token(token)) => body["nextPageToken"] = json!(token),
            Some(Place::Offset(rows)) => body["startAt"] = json!(rows),
            None => {}
        }
        let path: &[&str] = if is_cloud { &["search", "jql"] } else { &["search"] };
        let call = Call { repeat, ..Call::ask(path, SEARCH, body) };
        let found: wire::Search = self.transport.json(call).await?;
        let warnings = found.warning_messages.unwrap_or_default();
        if let Some(warning) = warnings.first() {
            return Err(rewritten(&crate::model::Untrusted::new(warning.clone()).line(200)));
        }
        let Some(issues) = found.issues else {
            let message =
                format!("{} returned no rows for a search", self.transport.http.base_url());
            return Err(Failure::new(FailureClass::Transient, message));
        };
        let next = if is_cloud {
            found.next_page_token.filter(|_| found.is_last != Some(true)).map(Place::Token)
        } else {
            let rows = found.start_at.unwrap_or(0) + issues.len() as u64;
            let more = found.total.is_some_and(|total| rows < total) && !issues.is_empty();
            more.then_some(Place::Offset(rows))
        };
        Ok(Found { issues, next })
    }

    /// What decoding needs to know about this server.
    pub async fn server(&self) -> Result<Server<'_>, Failure> {
        let server = self.transport.server().await?;
        let format = if server.is_cloud { Format::Adf } else { Format::Wiki };
        let priorities = self.priorities.get_or_try_init(|| self.load_priorities()).await?;
        Ok(Server { site: &server.site, format, priorities })
    }

    /// Names are free, so their order is requested. If the list may not be read, the default names
    /// apply.
    async fn load_priorities(&self) -> Result<Priorities, Failure> {
        let listed = self.transport.json(Call::get(&["priority"], "the list of priorities")).await;
        let listed: Vec<wire::Named> = match listed {
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
        issues: Vec<wire::Issue>,
        unknown_change: Timestamp,
    ) -> Result<Vec<Decoded>, Failure> {
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
    ) -> Result<Vec<wire::Issue>, Failure> {
        if self.transport.server().await?.is_cloud {
            let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let body = json!({ "issueIdsOrKeys": names, "fields": fields });
            let call = Call::ask(&["issue", "bulkfetch"], ISSUES, body);
            let found: wire::Search = self.transport.json(call).await?;
            return Ok(found.issues.unwrap_or_default());
        }
        // The server may refuse the whole query because of one invisible number.
        let mut found = Vec::new();
        let mut parts = vec![ids];
        while let Some(part) = parts.pop() {
            match self.issues_by_query(part, fields).await {
                Ok(issues) => found.extend(issues),
                Err(failure) if failure.class == FailureClass::BadQuery && part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                Err(failure) if failure.class == FailureClass::BadQuery => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(found)
    }

    async fn issues_by_query(
        &self,
        ids: &[ItemId],
        fields: &[String],
    ) -> Result<Vec<wire::Issue>, Failure> {
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

    /// Items by number in the order of `ids`, and those that are gone.
    pub async fn read_items(
        &self,
        ids: &[ItemId],
        unknown_change: Timestamp,
    ) -> Result<(Vec<WorkItem>, Vec<ItemId>), Failure> {
        let found = self.issues(ids, &self.decoder.fields()).await?;
        let decoded = self.decode(found, unknown_change).await?;
        let mut by_id: HashMap<ItemId, Decoded> =
            decoded.into_iter().map(|one| (one.item.id, one)).collect();
        let (mut items, mut gone) = (Vec::new(), Vec::new());
        for id in ids {
            match by_id.remove(id) {
                Some(decoded) => items.push(self.with_comments(decoded).await?),
                None => gone.push(*id),
            }
        }
        if !gone.is_empty() {
            // For an anonymous user every item looks deleted.
            self.transport.ensure_signed_in().await?;
        }
        Ok((items, gone))
    }

    /// Adds the newest comments, if configured. An issue contains some of them; more are requested
    /// only if that is not enough and the rate limit allows it.
    pub async fn with_comments(&self, decoded: Decoded) -> Result<WorkItem, Failure> {
        let Decoded { mut item, mut comments, comment_count, .. } = decoded;
        let wanted = u64::from(self.config.comments);
        if wanted == 0 || comment_count == 0 {
            return Ok(item);
        }
        let with_ours = (wanted + OWN_COMMENTS_SKIPPED).min(comment_count);
        if (comments.len() as u64) < with_ours && !self.transport.http.is_rate_limit_low().await {
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
        // Our own comments neither reach the prompt nor count as a change.
        comments.retain(|comment| !is_our_comment(comment));
        comments.sort_by_key(|comment| comment.at);
        let too_many = comments.len().saturating_sub(usize::try_from(wanted).unwrap_or(usize::MAX));
        item.comments = comments.split_off(too_many);
        Ok(item)
    }

    /// The newest comments of an issue, in no particular order.
    pub async fn newest_comments(
        &self,
        id: ItemId,
        wanted: u64,
    ) -> Result<Vec<CommentEntry>, Failure> {
        let number = id.to_string();
        let what = format!("the comments of item {id}");
        let path = ["issue", number.as_str(), "comment"];
        let query = [
            ("orderBy", "-created".to_owned()),
            ("maxResults", wanted.min(MAX_PAGE as u64).to_string()),
        ];
        let call = Call { query: &query, ..Call::get(&path, &what) };
        let found: wire::Comments = self.transport.json(call).await?;
        Ok(found.comments)
    }

    /// State of these items; deleted ones are omitted.
    pub async fn current_states(&self, ids: &[ItemId]) -> Result<Vec<CurrentState>, Failure> {
        let fields = ["status", "resolution", "updated"].map(str::to_owned);
        let mut states = Vec::new();
        for part in ids.chunks(MAX_PAGE) {
            let issues = self.issues(part, &fields).await?;
            for decoded in self.decode(issues, self.transport.http.now()).await? {
                let WorkItem { id, rev, state, finished, changed_at, .. } = decoded.item;
                states.push(CurrentState { id, rev, state, finished, changed_at });
            }
        }
        if states.len() < ids.len() {
            self.transport.ensure_signed_in().await?;
        }
        Ok(states)
    }

    /// Those of these items that the configured condition matches.
    pub async fn still_matching(&self, ids: &[ItemId]) -> Result<Vec<ItemId>, Failure> {
        let mut matching = Vec::new();
        for part in ids.chunks(MAX_RECONCILED) {
            matching.extend(self.matching_among(part).await?);
        }
        if matching.is_empty() && !ids.is_empty() {
            self.transport.ensure_signed_in().await?;
        }
        Ok(matching)
    }

    /// The number of the issue with this key; `None` if there is none that the account may read.
    pub async fn number_of(&self, key: &str) -> Result<Option<ItemId>, Failure> {
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if key.is_empty() || !key.chars().all(is_key) {
            return Ok(None);
        }
        let (path, what) = (["issue", key], format!("issue {key}"));
        let query = [("fields", "updated".to_owned())];
        let call = Call { query: &query, ..Call::get(&path, &what) };
        match self.transport.json::<wire::Issue>(call).await {
            Ok(issue) => Ok(issue.number().map(ItemId)),
            Err(failure) if failure.class == FailureClass::Gone => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn matching_among(&self, ids: &[ItemId]) -> Result<Vec<ItemId>, Failure> {
        let query = self.scope.among(ids);
        let fields = ["updated".to_owned()];
        let is_cloud = self.transport.server().await?.is_cloud;
        let mut body = json!({ "jql": query, "fields": fields, "maxResults": ids.len() });
        let path: &[&str] = if is_cloud { &["search", "jql"] } else { &["search"] };
        if is_cloud {
            body["reconcileIssues"] = json!(ids);
        }
        let found: wire::Search = self.transport.json(Call::ask(path, SEARCH, body)).await?;
        let numbers = found.issues.unwrap_or_default();
        Ok(numbers.iter().filter_map(wire::Issue::number).map(ItemId).collect())
    }
}

/// The server rewrote the query, so its result is not what was requested.
pub(super) fn rewritten(how: &str) -> Failure {
    let message = format!(
        "the tracker rewrites the query ({how}); correct source.where or \
         source.project"
    );
    Failure::new(FailureClass::BadQuery, message)
}
