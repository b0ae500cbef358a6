//! Reads a big collection by its revision stream.
//!
//! The stream only lists which items changed. They are filtered by the configured condition and
//! read like all others. A tick without changes costs one request.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use super::failure::percent_decode;
use super::fields::FieldValue;
use super::pages::Place;
use super::read::MAX_BATCH;
use super::{Call, Inner, Repeat, wire};
use crate::fetch::failure::Failure;
use crate::fetch::{FetchRequest, Page};
use crate::model::{FailureClass, ItemId};

/// Reads by the revision stream.
pub(super) struct StreamReader {
    inner: Arc<Inner>,
    since: Timestamp,
    token: Option<String>,
    also: VecDeque<ItemId>,
    /// Unread parts of the current batch, one page each.
    parts: VecDeque<Vec<ItemId>>,
    gone: Vec<ItemId>,
    /// Where to continue once the current batch is delivered.
    next_token: Option<String>,
    delivered: HashMap<ItemId, i64>,
    started: bool,
    ended: bool,
    cursor: Option<Timestamp>,
}

impl StreamReader {
    pub fn new(inner: Arc<Inner>, request: FetchRequest, token: Option<String>) -> Self {
        let since = request.changed_since.unwrap_or_else(|| inner.look_back());
        Self {
            inner,
            since,
            token,
            also: request.also.into(),
            parts: VecDeque::new(),
            gone: Vec::new(),
            next_token: None,
            delivered: HashMap::new(),
            started: false,
            ended: false,
            cursor: None,
        }
    }

    /// The next page, and where to continue once it is stored.
    pub async fn next(&mut self) -> Result<Option<(Page, Place)>, Failure> {
        loop {
            if !self.also.is_empty() {
                let size = self.inner.page_size().min(self.also.len());
                let ids: Vec<ItemId> = self.also.drain(..size).collect();
                let page = self.read(&ids).await?;
                return Ok(Some((Page { cursor: None, ..page }, Place::default())));
            }
            if let Some(ids) = self.parts.pop_front() {
                let page = self.read(&ids).await?;
                // The stream has just listed them, so they exist.
                let undelivered = [page.vanished, page.undelivered].concat();
                let page = Page { undelivered, vanished: Vec::new(), ..page };
                return Ok(Some(self.with_place(page)));
            }
            if !self.gone.is_empty() {
                let page = Page { vanished: std::mem::take(&mut self.gone), ..Page::default() };
                return Ok(Some(self.with_place(page)));
            }
            if self.ended {
                return Ok(None);
            }
            if let Some(page) = self.next_batch().await? {
                return Ok(Some(page));
            }
        }
    }

    /// The token belongs to the last page of its batch, so that no part can be lost.
    fn with_place(&mut self, page: Page) -> (Page, Place) {
        let complete = self.parts.is_empty() && self.gone.is_empty();
        let token = if complete { self.next_token.clone() } else { None };
        (page, Place { token })
    }

    async fn read(&mut self, ids: &[ItemId]) -> Result<Page, Failure> {
        let batch = self.inner.read_items(ids, self.since).await?;
        for item in &batch.items {
            self.delivered.insert(item.id, item.rev);
            self.cursor = self.cursor.max(Some(item.changed_at));
        }
        let (items, vanished, cursor) = (batch.items, batch.vanished, self.cursor);
        Ok(Page { items, vanished, cursor, undelivered: batch.failed })
    }

    /// Requests the next batch. If no item in it matches, its end is still reported at the end of
    /// the stream, so that the next run continues there.
    async fn next_batch(&mut self) -> Result<Option<(Page, Place)>, Failure> {
        let batch = self.ask().await?;
        self.started = true;
        let token = batch.token();
        self.ended = batch.is_last_batch || token.is_none();
        let mut changed = Vec::new();
        let mut gone = Vec::new();
        for revision in &batch.values {
            let id = ItemId(revision.id);
            match self.delivered.get(&id) {
                // Already read, and not newer than what was read.
                Some(seen) if revision.rev.unwrap_or(0) <= *seen => {}
                Some(_) => {
                    // It changed again while we were reading. The run ends before this batch and
                    // the next one begins with it: nothing is duplicated or skipped.
                    self.ended = true;
                    return Ok(None);
                }
                None if is_deleted(revision) => gone.push(id),
                None if !changed.contains(&id) => changed.push(id),
                None => {}
            }
        }
        changed.retain(|id| !gone.contains(id));
        let ours = self.inner.ours_among(&changed).await?;
        let size = self.inner.page_size();
        self.parts = ours.chunks(size).map(<[ItemId]>::to_vec).collect();
        self.gone = gone;
        self.next_token.clone_from(&token);
        self.token = token;
        let nothing = self.parts.is_empty() && self.gone.is_empty();
        if nothing && self.ended {
            return Ok(Some((Page::default(), Place { token: self.next_token.clone() })));
        }
        Ok(None)
    }

    async fn ask(&mut self) -> Result<wire::Revisions, Failure> {
        match self.inner.revisions(self.token.as_deref(), self.since).await {
            // A token that is too old, or from a restored collection, must not stop the source.
            Err(failure)
                if failure.class == FailureClass::BadQuery
                    && self.token.is_some()
                    && !self.started =>
            {
                tracing::warn!(
                    "the position in the revision stream is no longer valid; reading from the cursor"
                );
                self.token = None;
                self.inner.revisions(None, self.since).await
            }
            other => other,
        }
    }
}

fn is_deleted(revision: &wire::Item) -> bool {
    let fields = revision.fields.as_ref();
    let flag = fields.and_then(|fields| fields.get("System.IsDeleted"));
    matches!(flag, Some(FieldValue::Flag(true)))
}

impl wire::Revisions {
    /// Where to continue; on some servers it is only part of the link.
    fn token(&self) -> Option<String> {
        self.continuation_token.clone().or_else(|| {
            let (_, after) = self.next_link.as_deref()?.split_once("continuationToken=")?;
            after.split('&').next().map(percent_decode)
        })
    }
}

impl Inner {
    async fn revisions(
        &self,
        token: Option<&str>,
        since: Timestamp,
    ) -> Result<wire::Revisions, Failure> {
        let what = "the revision stream";
        let path =
            vec![self.config.project.as_str(), "_apis", "wit", "reporting", "workitemrevisions"];
        let mut call = Call::get(path, "workItemRevisions", what);
        call.query = vec![
            ("includeLatestOnly", "true".to_owned()),
            ("includeDeleted", "true".to_owned()),
            ("fields", "System.Id,System.IsDeleted".to_owned()),
        ];
        // A start date together with a token would start over.
        call.query.push(match token {
            Some(token) => ("continuationToken", token.to_owned()),
            None => ("startDateTime", since.to_string()),
        });
        let answer = self.transport.send(&call).await?;
        self.transport.decode(&answer, what)
    }

    /// Those of `ids` that meet the configured condition, in the given order.
    async fn ours_among(&self, ids: &[ItemId]) -> Result<Vec<ItemId>, Failure> {
        let mut ours = Vec::new();
        for part in ids.chunks(MAX_BATCH) {
            let text = super::query::query_of_ids(part, &self.config.where_clause);
            let found = self.ask_text(&text, None, Repeat::Safe).await?.ids;
            ours.extend(part.iter().filter(|id| found.contains(&id.0)));
        }
        Ok(ours)
    }
}
