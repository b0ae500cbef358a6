//! The pages of one read.
//!
//! Pages of a search are not numbered but continued: the next query asks for changes since the
//! minute of the last row, so that a row that moves to the end meanwhile does not make us miss
//! others. Only where a whole page is within one minute, the finest precision of the language, are
//! the tracker's own pages followed, and that minute is read again until no new row appears.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Inner;
use super::decode::Decoded;
use super::jql::{Dates, minute_of};
use super::read::{Found, Place, rewritten};
use crate::fetch::ahead::{Ahead, Reader};
use crate::fetch::failure::{BODY_TOO_LONG, Failure};
use crate::fetch::http::Repeat;
use crate::fetch::{FetchError, FetchRequest, Page, Pages};
use crate::model::{BoxFuture, FailureClass, ItemId};

/// Maximum delay of Cloud's index.
const LATE_INDEX: SignedDuration = SignedDuration::from_mins(15);
/// This much is read again once a day, in case the index was delayed longer.
const SWEPT: SignedDuration = SignedDuration::from_hours(24);
/// Key of the time of the last such read.
const SWEPT_AT: &str = "swept_at";
/// How often a minute with more than a page is read.
const MAX_PASSES: u32 = 5;
/// Consecutive responses without a new row before a search counts as endless.
const MAX_WITHOUT_NEWS: u32 = 200;

pub(super) struct JiraPages {
    inner: Arc<Inner>,
    requests_before: u64,
    request: Option<FetchRequest>,
    reader: Option<Ahead<bool>>,
    cursor: Option<Timestamp>,
    swept: Option<Timestamp>,
    ended: bool,
}

impl JiraPages {
    pub fn new(inner: Arc<Inner>, request: FetchRequest) -> Self {
        let requests_before = inner.transport.http.requests();
        let request = Some(request);
        Self {
            inner,
            requests_before,
            request,
            reader: None,
            cursor: None,
            swept: None,
            ended: false,
        }
    }

    /// Where to begin: earlier than requested if the index may have been delayed.
    async fn start(&mut self, request: FetchRequest) -> Result<IssueReader, FetchError> {
        let now = self.inner.transport.http.now();
        let to_error = |failure: Failure| failure.into_error(now);
        let is_cloud = self.inner.transport.server().await.map_err(to_error)?.is_cloud;
        let earlier = |at: Timestamp, by| at.checked_sub(by).unwrap_or(Timestamp::UNIX_EPOCH);
        let from = match request.changed_since {
            None => {
                self.swept = Some(now);
                self.inner.look_back()
            }
            Some(since) if is_cloud => {
                let facts = self.inner.notebook.read().await?.facts;
                let swept = facts.get(SWEPT_AT).and_then(|text| text.parse::<Timestamp>().ok());
                let is_due = swept.is_none_or(|at| now.duration_since(at) >= SWEPT || at > now);
                self.swept = is_due.then_some(now);
                let since = earlier(since, LATE_INDEX);
                if is_due { since.min(earlier(now, SWEPT)) } else { since }
            }
            Some(since) => since,
        };
        Ok(IssueReader::new(Arc::clone(&self.inner), from, request.also))
    }
}

impl Pages for JiraPages {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, FetchError>> {
        Box::pin(async move {
            if let Some(request) = self.request.take() {
                let reader = self.start(request).await?;
                self.reader = Some(Ahead::start(reader, self.inner.clock.clone()));
            }
            let Some(reader) = &mut self.reader else { return Ok(None) };
            let Some((page, ended)) = reader.next().await? else {
                self.ended = true;
                return Ok(None);
            };
            self.ended |= ended;
            self.cursor = self.cursor.max(page.cursor);
            Ok(Some(page))
        })
    }

    fn requests(&self) -> u64 {
        self.inner.transport.http.requests() - self.requests_before
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async move {
            let cursor = self.cursor;
            let swept = self.swept.filter(|_| self.ended);
            let remember = self.inner.notebook.update(move |remembered| {
                remembered.cursor = remembered.cursor.max(cursor);
                if let Some(at) = swept {
                    remembered.facts.insert(SWEPT_AT.into(), at.to_string());
                }
            });
            remember.await
        })
    }
}

/// A minute with more than a page.
#[derive(Debug, Default)]
struct Minute {
    pages: u32,
    new_rows: usize,
    passes: u32,
}

/// Reads the items requested by number, then the changes, oldest first.
struct IssueReader {
    inner: Arc<Inner>,
    also: VecDeque<ItemId>,
    from: Timestamp,
    place: Option<Place>,
    minute: Minute,
    delivered: HashSet<ItemId>,
    cursor: Option<Timestamp>,
    page_size: usize,
    without_news: u32,
    any_rows: bool,
    ended: bool,
}

impl IssueReader {
    fn new(inner: Arc<Inner>, from: Timestamp, also: Vec<ItemId>) -> Self {
        Self {
            page_size: inner.page_size(),
            inner,
            also: also.into(),
            from,
            place: None,
            minute: Minute::default(),
            delivered: HashSet::new(),
            cursor: None,
            without_news: 0,
            any_rows: false,
            ended: false,
        }
    }

    /// The next items requested by number.
    async fn named(&mut self) -> Result<Page, Failure> {
        let mut ids = Vec::with_capacity(self.page_size);
        while ids.len() < self.page_size
            && let Some(id) = self.also.pop_front()
        {
            if self.delivered.insert(id) {
                ids.push(id);
            }
        }
        let (items, vanished) = self.inner.read_items(&ids, self.from).await?;
        Ok(Page { items, vanished, ..Page::default() })
    }

    /// One response of the search; a page above the size limit is split.
    async fn ask(&mut self) -> Result<Found, Failure> {
        loop {
            let place = self.place.as_ref();
            match self.inner.changed_since(self.from, place, self.page_size, Repeat::Safe).await {
                Err(failure) if failure.has_code(BODY_TOO_LONG) && self.page_size > 1 => {
                    self.page_size /= 2;
                }
                other => return other,
            }
        }
    }

    /// Decides where to continue after a page that ends with a change at `last` and had `new` new
    /// rows.
    fn go_on(&mut self, next: Option<Place>, last: Timestamp, new: usize) -> Result<(), Failure> {
        let advanced = minute_of(last) > minute_of(self.from);
        if next.is_some() && !advanced {
            if next == self.place {
                let message = "the tracker returns the same page for every request; reading \
                               stops here, and the next run continues from the stored cursor";
                return Err(Failure::new(FailureClass::Transient, message));
            }
            self.minute.pages += 1;
            self.minute.new_rows += new;
            self.place = next;
            return Ok(());
        }
        self.place = None;
        let again = self.minute.pages > 0 && self.minute.new_rows > 0;
        if again && self.minute.passes < MAX_PASSES {
            let passes = self.minute.passes + 1;
            self.minute = Minute { passes, ..Minute::default() };
            return Ok(());
        }
        self.minute = Minute::default();
        self.ended = next.is_none();
        self.from = last;
        Ok(())
    }

    fn note_news(&mut self, new: usize) -> Result<(), Failure> {
        self.without_news = if new > 0 { 0 } else { self.without_news + 1 };
        if self.without_news <= MAX_WITHOUT_NEWS {
            return Ok(());
        }
        let message = format!(
            "{MAX_WITHOUT_NEWS} pages in a row had no new rows; reading stops here, and the next \
             run continues from the stored cursor"
        );
        Err(Failure::new(FailureClass::Transient, message))
    }
}

impl Reader for IssueReader {
    /// Whether this page is the last.
    type Place = bool;

    async fn next(&mut self) -> Result<Option<(Page, bool)>, Failure> {
        if !self.also.is_empty() {
            return self.named().await.map(|page| Some((page, false)));
        }
        while !self.ended {
            let Found { issues, next } = self.ask().await?;
            if issues.is_empty() && !self.any_rows {
                // For an anonymous user a project without visible issues looks the same.
                self.inner.transport.ensure_signed_in().await?;
            }
            self.any_rows |= !issues.is_empty();
            let decoded = self.inner.decode(issues, self.from).await?;
            self.inner.ensure_asked_for(&decoded).await?;
            let last = decoded.iter().map(|one| one.item.changed_at).max().unwrap_or(self.from);
            let mut items = Vec::with_capacity(decoded.len());
            for one in decoded {
                if self.delivered.insert(one.item.id) {
                    items.push(self.inner.with_comments(one).await?);
                }
            }
            self.note_news(items.len())?;
            self.go_on(next, last, items.len())?;
            self.cursor = self.cursor.max(Some(last).filter(|_| self.any_rows));
            if !items.is_empty() || self.ended {
                let page = Page { items, cursor: self.cursor, ..Page::default() };
                return Ok(Some((page, self.ended)));
            }
        }
        Ok(None)
    }
}

impl Inner {
    /// One page of changes since the minute of `from`. A refusal is investigated, since an expired
    /// credential looks like a missing project.
    pub async fn changed_since(
        &self,
        from: Timestamp,
        place: Option<&Place>,
        size: usize,
        repeat: Repeat,
    ) -> Result<Found, Failure> {
        let query = |dates: &Dates| self.scope.changed_since(from, dates);
        self.dated_search(&query, &self.decoder.fields(), place, (size, repeat)).await
    }

    /// A search whose query holds a date: a server that refuses numbers is asked in its time zone.
    pub async fn dated_search(
        &self,
        query: &(dyn Fn(&Dates) -> String + Sync),
        fields: &[String],
        place: Option<&Place>,
        (size, repeat): (usize, Repeat),
    ) -> Result<Found, Failure> {
        let dates = self.dates.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let failure = match self.search(&query(&dates), fields, place, size, repeat).await {
            Err(failure) if failure.class == FailureClass::BadQuery => failure,
            other => return other,
        };
        let account = self.transport.ensure_signed_in().await?;
        if place.is_some() {
            // The same query was accepted for the previous page: its position has expired.
            return Err(Failure { class: FailureClass::Transient, ..failure });
        }
        if !failure.has_code("400") || dates != Dates::Milliseconds {
            return Err(failure);
        }
        let zone = account.time_zone.as_deref().unwrap_or("UTC");
        let Ok(zone) = jiff::tz::TimeZone::get(zone) else { return Err(failure) };
        let dates = Dates::InZone(zone);
        match self.search(&query(&dates), fields, place, size, repeat).await {
            Ok(found) => {
                *self.dates.write().unwrap_or_else(std::sync::PoisonError::into_inner) = dates;
                Ok(found)
            }
            Err(_) => Err(self.explain_refusal(failure).await),
        }
    }

    /// Checks whether the project is missing.
    async fn explain_refusal(&self, failure: Failure) -> Failure {
        for project in self.scope.projects() {
            if let Err(missing) = self.project(project).await {
                let is_cause = matches!(missing.class, FailureClass::Config | FailureClass::Auth);
                return if is_cause { missing } else { failure };
            }
        }
        failure
    }

    /// Rows of another project mean that the server ran another query.
    async fn ensure_asked_for(&self, decoded: &[Decoded]) -> Result<(), Failure> {
        let is_named = |(key, name): &(String, String)| {
            let ours = self.scope.projects().iter();
            ours.into_iter()
                .any(|ours| ours.eq_ignore_ascii_case(key) || ours.eq_ignore_ascii_case(name))
        };
        let stray = decoded.iter().find(|one| one.project.as_ref().is_some_and(|p| !is_named(p)));
        let Some(stray) = stray else { return Ok(()) };
        // A renamed project is found by its old key, but responds with the new one.
        let keys = self.project_keys.get_or_try_init(|| self.load_project_keys()).await?;
        let is_ours = |one: &Decoded| {
            one.project
                .as_ref()
                .is_none_or(|project| is_named(project) || keys.contains(&project.0))
        };
        if decoded.iter().all(is_ours) {
            return Ok(());
        }
        let handle = stray.item.handle.clone().unwrap_or_default();
        Err(rewritten(&format!("it returned {handle}, which belongs to another project")))
    }

    async fn load_project_keys(&self) -> Result<HashSet<String>, Failure> {
        let mut keys = HashSet::new();
        for project in self.scope.projects() {
            keys.extend(self.project(project).await?.key);
        }
        Ok(keys)
    }
}
