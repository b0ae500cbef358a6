//! The pages of one read: every repository in turn, each from where it was last read.
//!
//! Pages of a list are not numbered but continued: the next request asks for changes since the last
//! row, so that a row that moves to the end meanwhile does not make us miss others. Only where a
//! whole page has the same second are the service's links followed, and that second is read again
//! until no new row appears.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use reqwest::Url;

use super::decode::instant;
use super::http::link;
use super::read::{MAX_PAGE, concerns_one_repository};
use super::repositories::Known;
use super::{Inner, wire};
use crate::fetch::ahead::{Ahead, Reader};
use crate::fetch::failure::Failure;
use crate::fetch::http::{Answer, Request};
use crate::fetch::{FetchError, FetchRequest, Page, Pages};
use crate::model::{BoxFuture, FailureClass, ItemId};

/// Items per page that are requested by number, with one request each.
const NAMED_ITEMS: usize = 50;
/// How often a second with more than a page is read.
const MAX_PASSES: u32 = 5;
/// A page that exceeds the service's limit of ten seconds is split down to this size.
const SMALLEST_PAGE: usize = 10;

/// How far a repository was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    position: usize,
    cursor: Option<Timestamp>,
    /// Address and ETag of a list that was complete in one page.
    list: Option<(String, String)>,
}

pub(super) struct GithubPages {
    inner: Arc<Inner>,
    requests_before: u64,
    request: Option<FetchRequest>,
    reader: Option<Ahead<Option<Read>>>,
    cursor: Option<Timestamp>,
    read: Vec<Read>,
}

impl GithubPages {
    pub fn new(inner: Arc<Inner>, request: FetchRequest) -> Self {
        let requests_before = inner.transport.http.requests();
        let request = Some(request);
        Self { inner, requests_before, request, reader: None, cursor: None, read: Vec::new() }
    }
}

impl Pages for GithubPages {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, FetchError>> {
        Box::pin(async move {
            if let Some(request) = self.request.take() {
                let last = self.inner.notebook.read().await?.cursor;
                let reader = IssueReader::new(Arc::clone(&self.inner), request, last);
                self.reader = Some(Ahead::start(reader, self.inner.clock.clone()));
            }
            let Some(reader) = &mut self.reader else { return Ok(None) };
            let Some((page, read)) = reader.next().await? else { return Ok(None) };
            self.cursor = self.cursor.max(page.cursor);
            self.read.extend(read);
            Ok(Some(page))
        })
    }

    fn requests(&self) -> u64 {
        self.inner.transport.http.requests() - self.requests_before
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async move {
            let (cursor, read) = (self.cursor, std::mem::take(&mut self.read));
            let remember = self.inner.notebook.update(move |remembered| {
                remembered.cursor = remembered.cursor.max(cursor);
                for read in read {
                    let Some(record) = remembered.repositories.get_mut(read.position) else {
                        continue;
                    };
                    record.cursor = record.cursor.max(read.cursor);
                    if let Some((address, mark)) = read.list {
                        record.list_address = Some(address);
                        record.list_mark = Some(mark);
                    }
                }
            });
            remember.await
        })
    }
}

/// Reads the items requested by number, then the repositories one after another.
struct IssueReader {
    inner: Arc<Inner>,
    changed_since: Option<Timestamp>,
    /// How far this source was read according to the run's state.
    last_cursor: Option<Timestamp>,
    also: VecDeque<ItemId>,
    repositories: Vec<Known>,
    waiting: Option<VecDeque<Known>>,
    current: Option<List>,
    delivered: HashSet<ItemId>,
    cursor: Option<Timestamp>,
}

impl IssueReader {
    fn new(inner: Arc<Inner>, request: FetchRequest, last_cursor: Option<Timestamp>) -> Self {
        Self {
            inner,
            changed_since: request.changed_since,
            last_cursor,
            also: request.also.into(),
            repositories: Vec::new(),
            waiting: None,
            current: None,
            delivered: HashSet::new(),
            cursor: None,
        }
    }

    async fn named_items(&mut self) -> Result<Page, Failure> {
        let size = self.also.len().min(NAMED_ITEMS);
        let mut ids: Vec<ItemId> = self.also.drain(..size).collect();
        ids.retain(|id| self.delivered.insert(*id));
        let (items, vanished) = self.inner.read_items(&ids, &self.repositories).await?;
        Ok(Page { items, vanished, ..Page::default() })
    }

    /// Where to begin with a repository: where its last read ended, minus the overlap. That keeps
    /// the address, and with it the ETag, until something changes. A new repository is read from
    /// the look-back on, and so is everything when the run starts over.
    fn begin(&self, repository: &Known) -> Timestamp {
        let overlap = SignedDuration::try_from(self.inner.config.overlap).unwrap_or_default();
        let earlier = |at: Timestamp| at.checked_sub(overlap).unwrap_or(at);
        let (Some(asked), Some(cursor)) = (self.changed_since, repository.cursor) else {
            return self
                .changed_since
                .filter(|_| self.repositories.len() == 1 && repository.cursor.is_none())
                .unwrap_or_else(|| self.inner.look_back());
        };
        // The run's cursor was set back.
        let set_back = self.last_cursor.is_some_and(|last| asked < earlier(last));
        if set_back { asked.min(earlier(cursor)) } else { earlier(cursor) }
    }

    /// One page of the current repository; `None` if it has no more.
    async fn list_page(&mut self) -> Result<Option<(Page, Option<Read>)>, Failure> {
        let Some(list) = &mut self.current else { return Ok(None) };
        let (rows, ended) = list.next(&self.inner).await?;
        let mut page = Page::default();
        for issue in rows {
            let id = list.repository.item_id(issue.number);
            if issue.pull_request.is_some() || !self.inner.filter.matches(&issue) {
                continue;
            }
            if self.delivered.insert(id) {
                page.items.push(self.inner.item(issue, &list.repository).await?);
            }
        }
        if self.repositories.len() == 1 {
            page.cursor = list.cursor;
        }
        let mut read = None;
        if ended {
            read = Some(list.read());
            self.cursor = self.cursor.max(list.cursor);
            self.current = None;
            // How far all repositories were read is known after the last one.
            if self.waiting.as_ref().is_some_and(VecDeque::is_empty) {
                page.cursor = self.cursor;
            }
        }
        Ok(Some((page, read)))
    }

    /// A repository that was deleted or blocked does not prevent the others from being read.
    fn skip_unreadable(&mut self, failure: Failure) -> Result<(), Failure> {
        let skippable = concerns_one_repository(&failure);
        match self.current.take() {
            Some(list) if skippable && self.repositories.len() > 1 => {
                let repository = list.repository.name;
                tracing::warn!(
                    repository,
                    error = failure.message,
                    "skipped a repository that cannot be read"
                );
                Ok(())
            }
            _ => Err(failure),
        }
    }
}

impl Reader for IssueReader {
    type Place = Option<Read>;

    async fn next(&mut self) -> Result<Option<(Page, Option<Read>)>, Failure> {
        loop {
            if self.waiting.is_none() {
                self.repositories = self.inner.repositories().await?;
                self.waiting = Some(self.repositories.iter().cloned().collect());
            }
            if !self.also.is_empty() {
                return Ok(Some((self.named_items().await?, None)));
            }
            if self.current.is_none() {
                let Some(repository) = self.waiting.as_mut().and_then(VecDeque::pop_front) else {
                    return Ok(None);
                };
                let since = self.begin(&repository);
                self.current = Some(List::new(&self.inner, repository, since));
            }
            match self.list_page().await {
                Ok(Some(page)) => return Ok(Some(page)),
                Ok(None) => {}
                Err(failure) => self.skip_unreadable(failure)?,
            }
        }
    }
}

/// The list of one repository, continued from row to row.
pub(super) struct List {
    repository: Known,
    since: Timestamp,
    /// Server time of the first response: later changes are for the next run.
    as_of: Option<Timestamp>,
    per_page: usize,
    /// Set while a second with more than a page is read by the service's links.
    crowded: Option<Crowded>,
    cursor: Option<Timestamp>,
    requests: u32,
    /// Address and ETag of the first page, while it is the only one.
    list: Option<(String, String)>,
    seen: HashSet<i64>,
}

/// A second with more than a page.
struct Crowded {
    next: Url,
    passes: u32,
    found_new: bool,
}

impl List {
    pub fn new(inner: &Inner, repository: Known, since: Timestamp) -> Self {
        let per_page = usize::try_from(inner.config.page_size).unwrap_or(MAX_PAGE);
        Self {
            repository,
            since,
            as_of: None,
            per_page: per_page.clamp(1, MAX_PAGE),
            crowded: None,
            cursor: None,
            requests: 0,
            list: None,
            seen: HashSet::new(),
        }
    }

    fn url(&self, inner: &Inner) -> Url {
        // Whole seconds, and the second itself is included.
        let since = self.since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let query = [
            ("state", "all".to_owned()),
            ("sort", "updated".to_owned()),
            ("direction", "asc".to_owned()),
            ("per_page", self.per_page.to_string()),
            ("since", since),
        ];
        inner.transport.url(&["repos", &self.repository.name, "issues"], &query)
    }

    /// The next rows, and whether they are the last.
    pub async fn next(&mut self, inner: &Inner) -> Result<(Vec<wire::Issue>, bool), Failure> {
        let url = match &self.crowded {
            Some(crowded) => crowded.next.clone(),
            None => self.url(inner),
        };
        let Some(answer) = self.ask(inner, url).await? else {
            self.cursor = self.repository.cursor;
            return Ok((Vec::new(), true));
        };
        let what = format!("the issues of {}", self.repository.name);
        let rows: Vec<wire::Issue> = inner.transport.http.decode(&answer, &what)?;
        let head_date = answer.head.date().unwrap_or_else(|| inner.transport.http.now());
        let as_of = *self.as_of.get_or_insert(head_date);
        let fresh = rows.iter().filter(|row| self.seen.insert(row.number)).count();
        let dates = rows.iter().filter_map(|row| row.updated_at.as_deref().and_then(instant));
        let last = dates.clone().max();
        self.cursor = self.cursor.max(dates.filter(|at| *at <= as_of).max());
        let next = link(&answer.head, "next");
        let is_full = next.is_some() || rows.len() >= self.per_page;
        let ended = self.go_on(inner, &answer, next, Seen { last, fresh, is_full })?;
        Ok((rows, ended))
    }

    /// Requests a page; `None` if it is unchanged.
    async fn ask(&mut self, inner: &Inner, url: Url) -> Result<Option<Answer>, Failure> {
        let first = self.requests == 0;
        self.requests += 1;
        let address = format!("{} {}", inner.reading_fingerprint, url.as_str());
        let what = format!("the issues of {}", self.repository.name);
        let mut request = Request::get(url, what);
        if first
            && let Some((_, mark)) =
                self.repository.seen_list.as_ref().filter(|(at, _)| *at == address)
        {
            request.headers.push(("if-none-match", mark.clone()));
        }
        let answer = loop {
            match inner.transport.send(request.clone()).await {
                // The service gives up after ten seconds; a shorter page may succeed.
                Err(failure)
                    if failure.class == FailureClass::Transient
                        && self.per_page > SMALLEST_PAGE
                        && self.crowded.is_none()
                        && (failure.has_code("502") || failure.has_code("504")) =>
                {
                    self.per_page = (self.per_page / 3).max(SMALLEST_PAGE);
                    request.url = self.url(inner);
                    request.headers.clear();
                }
                other => break other?,
            }
        };
        if answer.head.status == 304 {
            return Ok(None);
        }
        self.list = None;
        if first && let Some(mark) = answer.head.header("etag") {
            self.list = Some((address, mark));
        }
        Ok(Some(answer))
    }

    /// Decides how to continue; true at the end.
    fn go_on(
        &mut self,
        inner: &Inner,
        answer: &Answer,
        next: Option<String>,
        seen: Seen,
    ) -> Result<bool, Failure> {
        let Seen { last, fresh, is_full } = seen;
        let moved_on = last.filter(|last| last.as_second() > self.since.as_second());
        if let Some(crowded) = &mut self.crowded {
            crowded.found_new |= fresh > 0;
            if moved_on.is_none()
                && let Some(next) = next
            {
                crowded.next = inner.transport.same_server(&crowded.next, &next)?;
                return Ok(false);
            }
            // The second is complete. Rows that left it meanwhile moved others forward.
            if crowded.found_new && crowded.passes < MAX_PASSES {
                let (passes, found_new) = (crowded.passes + 1, false);
                self.crowded = Some(Crowded { next: self.url(inner), passes, found_new });
                return Ok(false);
            }
            self.crowded = None;
            if let Some(last) = moved_on {
                self.since = last;
            }
            return Ok(!is_full || moved_on.is_none());
        }
        if !is_full {
            return Ok(true);
        }
        self.list = None;
        // Changes since the second in which we began are for the next run, which begins with that
        // second; otherwise a busy repository would never end.
        let now = self.as_of.map(Timestamp::as_second);
        if last.is_some_and(|last| now.is_some_and(|now| last.as_second() >= now)) {
            return Ok(true);
        }
        match (moved_on, next) {
            (Some(last), _) => self.since = last,
            (None, Some(next)) => {
                let next = inner.transport.same_server(&answer.url, &next)?;
                self.crowded = Some(Crowded { next, passes: 1, found_new: fresh > 0 });
            }
            (None, None) => return Ok(true),
        }
        Ok(false)
    }

    fn read(&mut self) -> Read {
        Read { position: self.repository.position, cursor: self.cursor, list: self.list.take() }
    }
}

/// The rows of one response.
struct Seen {
    last: Option<Timestamp>,
    fresh: usize,
    is_full: bool,
}
