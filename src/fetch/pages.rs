//! The pages of one read, for every tracker: first the items that are requested by number, then the
//! changes, each item once. The tracker prepares a page while the previous one is consumed; one
//! request is in flight at a time, and memory is bounded whatever the number of items.

use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::guarded::Watch;
use super::memory::Notebook;
use super::{FetchError, FetchRequest, Page, Pages};
use crate::model::{BoxFuture, FailureClass, ItemId, SourceRecord, WorkItem};

/// What to remember of a page once it is stored, besides the cursor.
pub(super) type Remember = Box<dyn FnOnce(&mut SourceRecord) + Send>;

/// A page, and what to remember of it.
pub(super) type Read = (Page, Option<Remember>);

/// A tracker's own part of one read.
pub(super) trait Listing: Send + 'static {
    /// Items per page that are requested by number.
    fn page_size(&self) -> usize;

    /// Prepares the read. Whatever this asks is older than the items that are requested by number.
    fn begin(&mut self) -> impl Future<Output = Result<(), FetchError>> + Send;

    /// Items by number, in this order.
    fn named(&mut self, ids: Vec<ItemId>)
    -> impl Future<Output = Result<Batch, FetchError>> + Send;

    /// The next changes without those delivered; `None` at the end.
    fn changes(
        &mut self,
        delivered: &mut HashSet<ItemId>,
    ) -> impl Future<Output = Result<Option<Read>, FetchError>> + Send;
}

/// The result of reading some ids.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// In the order of the requested ids, each once.
    pub items: Vec<WorkItem>,
    /// Requested ids that do not exist.
    pub vanished: Vec<ItemId>,
    /// Requested ids that the tracker cannot return: it fails, or the item is larger than allowed.
    pub failed: Vec<ItemId>,
}

/// Reads one page after another.
struct ItemReader<L> {
    listing: L,
    also: VecDeque<ItemId>,
    delivered: HashSet<ItemId>,
    started: bool,
}

impl<L: Listing> ItemReader<L> {
    async fn next(&mut self) -> Result<Option<Read>, FetchError> {
        if !self.started {
            self.listing.begin().await?;
            self.started = true;
        }
        let size = self.listing.page_size();
        let ids = take(&mut self.also, size, &mut self.delivered);
        if ids.is_empty() {
            return self.listing.changes(&mut self.delivered).await;
        }
        let Batch { items, vanished, failed } = self.listing.named(ids).await?;
        Ok(Some((Page { items, vanished, undelivered: failed, cursor: None }, None)))
    }
}

/// Up to `size` ids of a queue that were not delivered yet.
pub(super) fn take(
    queue: &mut VecDeque<ItemId>,
    size: usize,
    delivered: &mut HashSet<ItemId>,
) -> Vec<ItemId> {
    let mut ids = Vec::new();
    while ids.len() < size
        && let Some(id) = queue.pop_front()
    {
        ids.extend(delivered.insert(id).then_some(id));
    }
    ids
}

/// A running read. Its task continues only when its last page was taken, so at most two pages are in
/// memory.
pub(super) struct Reading {
    receiver: mpsc::Receiver<Result<Option<Read>, FetchError>>,
    _task: AbortOnDropHandle<()>,
    notebook: Arc<Notebook>,
    requests: Arc<AtomicU64>,
    requests_before: u64,
    cursor: Option<Timestamp>,
    remember: Vec<Remember>,
    watch: Option<Watch>,
}

impl Reading {
    pub fn start(
        listing: impl Listing,
        request: FetchRequest,
        notebook: Arc<Notebook>,
        requests: Arc<AtomicU64>,
        watch: Option<Watch>,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        let also = request.also.into();
        let mut reader = ItemReader { listing, also, delivered: HashSet::new(), started: false };
        let requests_before = requests.load(Ordering::Relaxed);
        let task = tokio::spawn(async move {
            while let Ok(slot) = sender.reserve().await {
                let read = reader.next().await;
                let more = matches!(read, Ok(Some(_)));
                slot.send(read);
                if !more {
                    break;
                }
            }
        });
        let (cursor, remember, _task) = (None, Vec::new(), AbortOnDropHandle::new(task));
        Self { receiver, _task, notebook, requests, requests_before, cursor, remember, watch }
    }
}

impl Pages for Reading {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, FetchError>> {
        Box::pin(async move {
            let read = self.receiver.recv().await.unwrap_or(Ok(None));
            let read = match &mut self.watch {
                Some(watch) => watch.saw(read).await?,
                None => read?,
            };
            let Some((page, remember)) = read else { return Ok(None) };
            self.cursor = self.cursor.max(page.cursor);
            self.remember.extend(remember);
            Ok(Some(page))
        })
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed) - self.requests_before
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async move {
            let (cursor, remember) = (self.cursor, std::mem::take(&mut self.remember));
            let keep = self.notebook.update(move |remembered| {
                remembered.cursor = remembered.cursor.max(cursor);
                remember.into_iter().for_each(|one| one(remembered));
            });
            keep.await?;
            match &mut self.watch {
                Some(watch) => watch.stored().await,
                None => Ok(()),
            }
        })
    }
}

/// Failed requests without any answer after which the server is at fault, not an item: a batch, its
/// halves and its quarters.
const MAX_WITHOUT_ANSWER: u32 = 7;

/// Ids that are requested in parts. One item can make the server fail or be larger than allowed, so
/// a part is divided until that item is alone and set aside; if nothing at all can be read, it is
/// the server.
pub(super) struct Parts {
    todo: VecDeque<Vec<ItemId>>,
    answered: bool,
    refusals: u32,
    alone: Vec<(ItemId, FetchError)>,
}

impl Parts {
    pub fn of(ids: &[ItemId], size: usize) -> Self {
        let todo = ids.chunks(size.max(1)).map(<[ItemId]>::to_vec).collect();
        Self { todo, answered: false, refusals: 0, alone: Vec::new() }
    }

    /// The ids to ask for next.
    pub fn next(&mut self) -> Option<Vec<ItemId>> {
        self.todo.pop_front()
    }

    /// Takes the result of asking for a part; `None` if it is asked for in other parts, or not at
    /// all.
    pub fn take<T>(
        &mut self,
        mut part: Vec<ItemId>,
        result: Result<T, FetchError>,
    ) -> Result<Option<T>, FetchError> {
        let error = match result {
            Ok(answer) => {
                self.answered = true;
                return Ok(Some(answer));
            }
            Err(error) if error.may_be_one_item() => error,
            Err(error) => return Err(error),
        };
        self.refusals += u32::from(!error.has_code(super::error::BODY_TOO_LONG));
        if !self.answered && self.refusals > MAX_WITHOUT_ANSWER {
            return Err(error);
        }
        match part.as_slice() {
            [one] => self.alone.push((*one, error)),
            _ => {
                let second = part.split_off(part.len() / 2);
                self.todo.extend([part, second]);
            }
        }
        Ok(None)
    }

    /// The ids that the tracker cannot return.
    pub fn finish(self) -> Result<Vec<ItemId>, FetchError> {
        let mut failed = Vec::new();
        for (id, error) in self.alone {
            if !self.answered && !error.has_code(super::error::BODY_TOO_LONG) {
                return Err(error);
            }
            let error = error.message;
            tracing::error!(item = %id, error, "the tracker cannot return this item; the others are read without it");
            failed.push(id);
        }
        Ok(failed)
    }
}

/// How often a crowded unit is read.
const MAX_PASSES: u32 = 5;
/// Consecutive responses without a new row before a list counts as endless.
const MAX_WITHOUT_NEWS: u32 = 200;

/// Where a list of changes continues that is ordered by their time.
///
/// Pages of a list are not numbered but continued: the next request asks for changes since the last
/// row, so that a row that moves to the end meanwhile does not make us miss others. Only where a
/// whole page is within one unit, the finest precision of the tracker's dates, are the tracker's
/// own pages followed, and that unit is read again until no new row appears.
pub(super) struct Course<P> {
    pub from: Timestamp,
    /// The tracker's own position within a crowded unit.
    pub place: Option<P>,
    unit: fn(Timestamp) -> Timestamp,
    pages: u32,
    new_rows: usize,
    passes: u32,
    without_news: u32,
}

/// What one response of a list had.
pub(super) struct Rows<P> {
    pub last: Option<Timestamp>,
    /// Rows that no earlier response of this read had.
    pub new: usize,
    /// More rows follow.
    pub more: bool,
    /// Where they are.
    pub next: Option<P>,
}

impl<P: PartialEq> Course<P> {
    /// `unit` is the start of the second, minute or so on that an instant is in.
    pub fn new(from: Timestamp, unit: fn(Timestamp) -> Timestamp) -> Self {
        let (pages, new_rows, passes, without_news) = (0, 0, 0, 0);
        Self { from, place: None, unit, pages, new_rows, passes, without_news }
    }

    /// Decides where to continue; true at the end. Changes since `until` are for the next run, which
    /// begins there; otherwise a busy list would never end.
    pub fn go_on(&mut self, rows: Rows<P>, until: Option<Timestamp>) -> Result<bool, FetchError> {
        self.without_news = if rows.new > 0 { 0 } else { self.without_news + 1 };
        if self.without_news > MAX_WITHOUT_NEWS {
            return Err(endless(&format!("{MAX_WITHOUT_NEWS} pages in a row had no new rows")));
        }
        let last = rows.last.unwrap_or(self.from);
        let is_within = (self.unit)(last) <= (self.unit)(self.from);
        let is_crowded = self.pages > 0 || self.passes > 0;
        let is_now = until.is_some_and(|until| (self.unit)(last) >= (self.unit)(until));
        if rows.more && is_now && !is_crowded {
            return Ok(true);
        }
        self.new_rows += rows.new;
        if is_within && rows.next.is_some() {
            if rows.next == self.place {
                return Err(endless("the tracker returns the same page for every request"));
            }
            self.pages += 1;
            self.place = rows.next;
            return Ok(false);
        }
        // The unit is complete. Rows that left it meanwhile moved others forward.
        self.place = None;
        let again = self.pages > 0 && self.new_rows > 0 && self.passes < MAX_PASSES;
        (self.pages, self.new_rows) = (0, 0);
        if again {
            self.passes += 1;
            return Ok(false);
        }
        self.passes = 0;
        self.from = last;
        Ok(!rows.more || is_within)
    }
}

fn endless(how: &str) -> FetchError {
    let message =
        format!("{how}; reading stops here, and the next run continues from the stored cursor");
    FetchError::new(FailureClass::Transient, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(class: FailureClass) -> Result<(), FetchError> {
        Err(FetchError::new(class, "no"))
    }

    #[test]
    fn one_item_is_set_aside_and_a_server_that_fails_for_all_is_not_asked_for_each() {
        let ids: Vec<ItemId> = (1..=120).map(ItemId).collect();
        let mut parts = Parts::of(&ids, 50);
        let (mut read, mut asked) = (Vec::new(), 0);
        while let Some(part) = parts.next() {
            asked += 1;
            let poisoned = part.contains(&ItemId(60));
            let result = if poisoned { failing(FailureClass::Transient) } else { Ok(()) };
            if parts.take(part.clone(), result).unwrap().is_some() {
                read.extend(part);
            }
        }
        assert_eq!(parts.finish().unwrap(), [ItemId(60)]);
        // Three parts, and two more for each of the five divisions of the one with the item.
        assert_eq!((read.len(), asked), (119, 13));
        let mut parts = Parts::of(&ids, 200);
        let mut asked = 0;
        let ended = loop {
            let part = parts.next().unwrap();
            asked += 1;
            if let Err(error) = parts.take(part, failing(FailureClass::Transient)) {
                break error.class;
            }
        };
        assert_eq!((ended, asked), (FailureClass::Transient, 8));
        let denied = Parts::of(&ids, 200).take(ids, failing(FailureClass::Denied));
        assert_eq!(denied.unwrap_err().class, FailureClass::Denied, "that is nobody's item");
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn rows(last: i64, new: usize, next: Option<u8>) -> Rows<u8> {
        Rows { last: Some(at(last)), new, more: next.is_some(), next }
    }

    #[test]
    fn a_crowded_unit_is_followed_and_read_again_until_nothing_new_appears() {
        let minute = |at: Timestamp| Timestamp::from_second(at.as_second() / 60 * 60).unwrap();
        let mut course = Course::new(at(0), minute);
        assert!(!course.go_on(rows(70, 10, Some(1)), None).unwrap());
        assert_eq!((course.from, course.place), (at(70), None), "on from the last row");
        for (place, new) in [(1, 10), (2, 10)] {
            assert!(!course.go_on(rows(75, new, Some(place)), None).unwrap());
            assert_eq!((course.from, course.place), (at(70), Some(place)));
        }
        assert!(!course.go_on(rows(130, 10, Some(3)), None).unwrap());
        assert_eq!((course.from, course.place), (at(70), None), "once more");
        assert!(!course.go_on(rows(75, 0, Some(1)), None).unwrap());
        assert!(!course.go_on(rows(130, 0, Some(2)), None).unwrap());
        assert_eq!(course.from, at(130));
        let same = course.go_on(rows(131, 1, Some(7)), None);
        assert!(!same.unwrap());
        assert!(course.go_on(rows(131, 1, Some(7)), None).is_err(), "the same page again");
    }

    #[test]
    fn a_busy_list_ends_where_it_began() {
        let mut course = Course::new(at(0), |at| at);
        assert!(!course.go_on(rows(7, 10, Some(1)), Some(at(9))).unwrap());
        assert!(course.go_on(rows(9, 10, Some(1)), Some(at(9))).unwrap());
        let mut course = Course::new(at(0), |at| at);
        let ended = (0..=MAX_WITHOUT_NEWS)
            .try_for_each(|page| course.go_on(rows(i64::from(page), 0, Some(1)), None).map(drop));
        assert!(ended.is_err());
    }
}
