//! The pages of one read, as a pipeline: the tracker prepares one page while the previous one is
//! decoded and the one before that is consumed. One request is in flight at a time, and memory is
//! bounded by the pipeline, whatever the number of items.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use tokio_util::task::AbortOnDropHandle;

use super::Inner;
use super::query::{MAX_ROWS, Window};
use super::read::{Fetched, MAX_BATCH};
use super::reporting::StreamReader;
use crate::fetch::ahead::{self, Ahead};
use crate::fetch::failure::Failure;
use crate::fetch::{FetchError, FetchRequest, Page, Pages};
use crate::model::{BoxFuture, FailureClass, ItemId};
use crate::settings::SourceMode;

/// Where a run may continue, besides the cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Continuation token of the revision stream.
    pub token: Option<String>,
}

enum Reader {
    Query(Box<QueryReader>),
    Stream(Box<StreamReader>),
}

impl Reader {
    async fn open(inner: &Arc<Inner>, request: FetchRequest) -> Result<Self, FetchError> {
        let inner = Arc::clone(inner);
        Ok(match inner.config.mode {
            SourceMode::Wiql => Self::Query(Box::new(QueryReader::new(inner, request))),
            SourceMode::Reporting => {
                let token = inner.notebook.read().await?.continuation_token;
                Self::Stream(Box::new(StreamReader::new(inner, request, token)))
            }
        })
    }
}

impl ahead::Reader for Reader {
    type Place = Place;

    async fn next(&mut self) -> Result<Option<(Page, Place)>, Failure> {
        match self {
            Self::Query(reader) => {
                let page = reader.next().await?;
                Ok(page.map(|page| (page, Place::default())))
            }
            Self::Stream(reader) => reader.next().await,
        }
    }
}

pub(super) struct AdoPages {
    inner: Arc<Inner>,
    requests_before: u64,
    request: Option<FetchRequest>,
    reader: Option<Ahead<Place>>,
    cursor: Option<Timestamp>,
    token: Option<String>,
}

impl AdoPages {
    pub fn new(inner: Arc<Inner>, request: FetchRequest) -> Self {
        let requests_before = inner.transport.requests();
        let request = Some(request);
        Self { inner, requests_before, request, reader: None, cursor: None, token: None }
    }
}

impl Pages for AdoPages {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, FetchError>> {
        Box::pin(async move {
            if let Some(request) = self.request.take() {
                let reader = Reader::open(&self.inner, request).await?;
                self.reader = Some(Ahead::start(reader, self.inner.transport.clock()));
            }
            let Some(reader) = &mut self.reader else { return Ok(None) };
            let Some((page, place)) = reader.next().await? else { return Ok(None) };
            self.cursor = self.cursor.max(page.cursor);
            self.token = place.token.or_else(|| self.token.take());
            Ok(Some(page))
        })
    }

    fn requests(&self) -> u64 {
        self.inner.transport.requests() - self.requests_before
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async move {
            let (cursor, token) = (self.cursor, self.token.clone());
            let remember = self.inner.notebook.update(move |remembered| {
                remembered.cursor = remembered.cursor.max(cursor);
                if token.is_some() {
                    remembered.continuation_token = token;
                }
            });
            remember.await
        })
    }
}

/// Reads by query: first the rows, then the ids requested by number, then the rows' items.
struct QueryReader {
    inner: Arc<Inner>,
    since: Timestamp,
    started: bool,
    /// Time of the first response: later changes are for the next run, so the cursor never passes
    /// it.
    as_of: Option<Timestamp>,
    also: VecDeque<ItemId>,
    windows: VecDeque<Window>,
    /// Unread rows of the current window.
    rows: VecDeque<ItemId>,
    /// Rows are ordered by date.
    ordered: bool,
    /// Newest change in a window whose rows are not ordered.
    pending: Option<Timestamp>,
    delivered: HashSet<ItemId>,
    /// Ids that were not delivered, requested once more at the end, and those of them that the
    /// query listed.
    again: VecDeque<ItemId>,
    named: HashSet<ItemId>,
    /// The batch after the one that is being decoded.
    coming: Option<Coming>,
    cursor: Option<Timestamp>,
    /// Rows per query.
    rows_at_once: usize,
    /// The window whose response was truncated there, and its last row.
    unfinished: Option<Window>,
    last_row: Option<i64>,
    /// How often a slow query may still be split; each try costs the server half a minute.
    slow_left: u32,
}

impl QueryReader {
    fn new(inner: Arc<Inner>, request: FetchRequest) -> Self {
        let since = request.changed_since.unwrap_or_else(|| inner.look_back());
        Self {
            inner,
            since,
            started: false,
            as_of: None,
            also: request.also.into(),
            windows: VecDeque::new(),
            rows: VecDeque::new(),
            ordered: true,
            pending: None,
            delivered: HashSet::new(),
            again: VecDeque::new(),
            named: HashSet::new(),
            coming: None,
            cursor: None,
            rows_at_once: MAX_ROWS,
            unfinished: None,
            last_row: None,
            slow_left: 2,
        }
    }

    async fn next(&mut self) -> Result<Option<Page>, Failure> {
        if !self.started {
            // The query comes first: items read by id are then at least as new as its response.
            self.started = true;
            self.ask_first().await?;
        }
        loop {
            if let Some(coming) = self.coming.take().or_else(|| self.send_for_more()) {
                let fetched = coming.fetched.await.map_err(interrupted)??;
                // The tracker prepares the next batch while this one is decoded.
                self.coming = self.send_for_more();
                return self.decode(fetched, coming.part).await.map(Some);
            } else if let Some(window) = self.unfinished.take() {
                let rest = self.rest_of(window);
                self.windows.push_front(rest);
            } else if let Some(window) = self.windows.pop_front() {
                self.ask(window).await?;
            } else if self.again.is_empty() {
                return Ok(None);
            } else {
                let size = self.again.len().min(self.inner.page_size());
                let ids: Vec<ItemId> = self.again.drain(..size).collect();
                self.coming = Some(self.send_for(Part::Again, ids));
            }
        }
    }

    async fn ask_first(&mut self) -> Result<(), Failure> {
        if self.inner.config.saved_query.is_empty() {
            return self.ask(Window::since(self.since)).await;
        }
        let rows = self.inner.saved_rows().await?;
        self.as_of = rows.as_of;
        let mut changes = Vec::new();
        let ids: Vec<ItemId> = rows.ids.into_iter().map(ItemId).collect();
        for part in ids.chunks(MAX_BATCH) {
            let read = self.inner.read_changes(part).await?;
            // An item that the query listed but this read omitted counts as changed, so that it is
            // read.
            let now = self.inner.transport.now();
            let left_out = part.iter().filter(|id| read.iter().all(|(_, known)| known != *id));
            changes.extend(left_out.map(|id| (now, *id)));
            changes.extend(read);
        }
        // A saved query has its own order and no date condition: both are applied here.
        changes.retain(|(changed, _)| *changed >= self.since);
        changes.sort_unstable();
        self.rows = changes.into_iter().map(|(_, id)| id).collect();
        Ok(())
    }

    async fn ask(&mut self, window: Window) -> Result<(), Failure> {
        match self.inner.rows(window, Some(self.rows_at_once)).await {
            Ok(rows) => {
                self.as_of = self.as_of.or(rows.as_of);
                self.ordered = window.after_id.is_none();
                if rows.ids.len() >= self.rows_at_once {
                    self.unfinished = Some(window);
                    self.last_row = rows.ids.last().copied();
                }
                self.rows = rows.ids.into_iter().map(ItemId).collect();
                Ok(())
            }
            Err(failure) => self.narrow(window, failure),
        }
    }

    /// The rest of a window whose response had the maximum length.
    fn rest_of(&self, window: Window) -> Window {
        if window.after_id.is_some() {
            return Window { after_id: self.last_row, ..window };
        }
        // Rows are ordered by date, so the rest is not older than the cursor; delivered items with
        // the same date are skipped by id.
        let further = self.cursor.filter(|cursor| {
            self.as_of.is_some() && cursor.as_millisecond() > window.from.as_millisecond()
        });
        match further {
            Some(from) => Window { from, ..window },
            None => window.by_id(),
        }
    }

    /// Splits a query with too many results. That is not a transport failure, so it uses no retry.
    fn narrow(&mut self, window: Window, failure: Failure) -> Result<(), Failure> {
        let halves = window.halves(self.inner.transport.now());
        match (failure.class, halves) {
            (FailureClass::TooMany, Some((early, late))) => {
                self.windows.push_front(late);
                self.windows.push_front(early);
            }
            // Too many changes in the same second, as after a bulk edit.
            (FailureClass::TooMany, None) if window.after_id.is_none() => {
                self.windows.push_front(window.by_id());
            }
            (FailureClass::TooMany, None) if self.rows_at_once > 1 => {
                self.rows_at_once /= 2;
                self.windows.push_front(window);
            }
            (FailureClass::TooSlow, Some((early, late))) if self.slow_left > 0 => {
                self.slow_left -= 1;
                self.windows.push_front(late);
                self.windows.push_front(early);
            }
            _ => return Err(failure),
        }
        Ok(())
    }

    /// Requests the next page, if ids are left.
    fn send_for_more(&mut self) -> Option<Coming> {
        let ids = |part| Some((part, self.take_ids(part))).filter(|(_, ids)| !ids.is_empty());
        let (part, ids) = [Part::Also, Part::Rows].into_iter().find_map(ids)?;
        Some(self.send_for(part, ids))
    }

    fn send_for(&self, part: Part, ids: Vec<ItemId>) -> Coming {
        let inner = Arc::clone(&self.inner);
        let fetched = tokio::spawn(async move { inner.fetch_items(&ids).await });
        Coming { part, fetched: AbortOnDropHandle::new(fetched) }
    }

    /// The ids of the next page; each id is delivered once per run.
    fn take_ids(&mut self, part: Part) -> Vec<ItemId> {
        let size = self.inner.page_size();
        let queue = if part == Part::Also { &mut self.also } else { &mut self.rows };
        let mut ids = Vec::with_capacity(size);
        while ids.len() < size
            && let Some(id) = queue.pop_front()
        {
            if self.delivered.insert(id) {
                ids.push(id);
            }
        }
        ids
    }

    async fn decode(&mut self, fetched: Vec<Fetched>, part: Part) -> Result<Page, Failure> {
        let unknown_change = self.as_of.unwrap_or(self.since);
        let batch = self.inner.decode_items(fetched, unknown_change).await?;
        if part == Part::Rows {
            self.advance(batch.items.iter().map(|item| item.changed_at));
        }
        let cursor = if part == Part::Rows { self.cursor } else { None };
        let mut page = Page { items: batch.items, cursor, ..Page::default() };
        match part {
            Part::Also => self.again.extend(batch.vanished),
            Part::Rows => {
                self.again.extend(&batch.vanished);
                self.named.extend(&batch.vanished);
                // Stored with the cursor that passes them.
                page.undelivered = batch.vanished;
            }
            Part::Again => {
                page.vanished = batch.vanished;
                page.vanished.retain(|id| !self.named.contains(id));
            }
        }
        page.undelivered.extend(batch.failed);
        Ok(page)
    }

    /// Moves the cursor to the newest change of this page that the query already knew: an item that
    /// was edited after the query has a newer date than rows still to come.
    fn advance(&mut self, changes: impl Iterator<Item = Timestamp>) {
        let known = |at: &Timestamp| self.as_of.is_none_or(|as_of| *at <= as_of);
        let newest = changes.filter(known).max();
        if self.as_of.is_none() || !self.ordered {
            self.pending = self.pending.max(newest);
            let complete = self.coming.is_none() && self.unfinished.is_none();
            let complete = complete && (self.as_of.is_some() || self.windows.is_empty());
            if complete {
                self.cursor = self.cursor.max(self.pending.take());
            }
        } else {
            self.cursor = self.cursor.max(newest);
        }
    }
}

/// A page whose request is in flight.
struct Coming {
    part: Part,
    fetched: AbortOnDropHandle<Result<Vec<Fetched>, Failure>>,
}

fn interrupted(error: tokio::task::JoinError) -> Failure {
    Failure::new(FailureClass::Transient, format!("reading was interrupted: {error}"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Requested by id.
    Also,
    /// Listed by the query.
    Rows,
    /// Not delivered the first time.
    Again,
}
