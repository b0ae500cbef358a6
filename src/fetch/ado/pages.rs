//! How changes are listed: a query for the rows, then the rows' items in batches. A query with too
//! many rows is narrowed, and what a batch does not return is requested once more at the end.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use super::AdoSource;
use super::query::{MAX_ROWS, Window};
use super::read::MAX_BATCH;
use crate::fetch::pages::{Batch, Listing, Read, take};
use crate::fetch::{FetchError, FetchRequest, Page};
use crate::model::{FailureClass, ItemId};

pub(in crate::fetch) struct Rows {
    ado: Arc<AdoSource>,
    since: Timestamp,
    /// Time of the first response: later changes are for the next run, so the cursor never passes
    /// it.
    as_of: Option<Timestamp>,
    windows: VecDeque<Window>,
    /// Unread rows of the current window.
    rows: VecDeque<ItemId>,
    /// Rows are ordered by date.
    ordered: bool,
    /// Newest change in a window whose rows are not ordered.
    pending: Option<Timestamp>,
    /// Ids that were not delivered, requested once more at the end, and those of them that the
    /// query listed.
    again: VecDeque<ItemId>,
    listed: HashSet<ItemId>,
    cursor: Option<Timestamp>,
    /// Rows per query.
    rows_at_once: usize,
    /// The window whose response was truncated there, and its last row.
    unfinished: Option<Window>,
    last_row: Option<i64>,
    /// How often a slow query may still be split; each try costs the server half a minute.
    slow_left: u32,
}

impl AdoSource {
    pub(in crate::fetch) fn listing(self: Arc<Self>, request: &FetchRequest) -> Rows {
        Rows {
            since: request.changed_since.unwrap_or_else(|| self.http.look_back(&self.config)),
            ado: self,
            as_of: None,
            windows: VecDeque::new(),
            rows: VecDeque::new(),
            ordered: true,
            pending: None,
            again: VecDeque::new(),
            listed: HashSet::new(),
            cursor: None,
            rows_at_once: MAX_ROWS,
            unfinished: None,
            last_row: None,
            slow_left: 2,
        }
    }
}

impl Listing for Rows {
    fn page_size(&self) -> usize {
        self.ado.page_size()
    }

    /// The query comes first: items read by id are then at least as new as its response.
    async fn begin(&mut self) -> Result<(), FetchError> {
        if self.ado.config.saved_query.is_empty() {
            return self.ask(Window::since(self.since)).await;
        }
        let rows = self.ado.saved_rows().await?;
        self.as_of = rows.as_of;
        let mut changes = Vec::new();
        let ids: Vec<ItemId> = rows.ids.into_iter().map(ItemId).collect();
        for part in ids.chunks(MAX_BATCH) {
            let read = self.ado.read_changes(part).await?;
            // An item that the query listed but this read omitted counts as changed, so that it is
            // read.
            let now = self.ado.http.now();
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

    async fn named(&mut self, ids: Vec<ItemId>) -> Result<Batch, FetchError> {
        let mut batch = self.read(&ids).await?;
        self.again.extend(std::mem::take(&mut batch.vanished));
        Ok(batch)
    }

    async fn changes(
        &mut self,
        delivered: &mut HashSet<ItemId>,
    ) -> Result<Option<Read>, FetchError> {
        let size = self.page_size();
        loop {
            let ids = take(&mut self.rows, size, delivered);
            if !ids.is_empty() {
                return Ok(Some((self.page(&ids).await?, None)));
            } else if let Some(window) = self.unfinished.take() {
                let rest = self.rest_of(window);
                self.windows.push_front(rest);
            } else if let Some(window) = self.windows.pop_front() {
                self.ask(window).await?;
            } else if self.again.is_empty() {
                return Ok(None);
            } else {
                let ids: Vec<ItemId> = self.again.drain(..size.min(self.again.len())).collect();
                let Batch { items, mut vanished, failed } = self.read(&ids).await?;
                vanished.retain(|id| !self.listed.contains(id));
                let page = Page { items, vanished, undelivered: failed, cursor: None };
                return Ok(Some((page, None)));
            }
        }
    }
}

impl Rows {
    async fn read(&self, ids: &[ItemId]) -> Result<Batch, FetchError> {
        self.ado.read_items(ids, self.as_of.unwrap_or(self.since)).await
    }

    /// A page of listed items.
    async fn page(&mut self, ids: &[ItemId]) -> Result<Page, FetchError> {
        let Batch { items, vanished, failed } = self.read(ids).await?;
        self.advance(items.iter().map(|item| item.changed_at));
        self.again.extend(&vanished);
        self.listed.extend(&vanished);
        // Stored with the cursor that passes them.
        let undelivered = [vanished, failed].concat();
        Ok(Page { items, undelivered, cursor: self.cursor, vanished: Vec::new() })
    }

    async fn ask(&mut self, window: Window) -> Result<(), FetchError> {
        match self.ado.rows(window, Some(self.rows_at_once)).await {
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
            Err(error) => self.narrow(window, error),
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
    fn narrow(&mut self, window: Window, error: FetchError) -> Result<(), FetchError> {
        match (error.class, window.halves(self.ado.http.now())) {
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
            _ => return Err(error),
        }
        Ok(())
    }

    /// Moves the cursor to the newest change of this page that the query already knew: an item that
    /// was edited after the query has a newer date than rows still to come.
    fn advance(&mut self, changes: impl Iterator<Item = Timestamp>) {
        let known = |at: &Timestamp| self.as_of.is_none_or(|as_of| *at <= as_of);
        let newest = changes.filter(known).max();
        if self.as_of.is_some() && self.ordered {
            self.cursor = self.cursor.max(newest);
            return;
        }
        self.pending = self.pending.max(newest);
        let complete = self.rows.is_empty() && self.unfinished.is_none();
        if complete && (self.as_of.is_some() || self.windows.is_empty()) {
            self.cursor = self.cursor.max(self.pending.take());
        }
    }
}
