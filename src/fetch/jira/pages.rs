//! The pages of one answer.
//!
//! Pages of a search are not counted but continued: the next question asks for what changed since
//! the minute of the last row, so that a row which jumps to the end while we read pushes nothing past
//! us. Only where a whole page lies within one minute, which is the finest that the language knows,
//! are the tracker's own pages followed, and that minute is read again until nothing new turns up.

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

/// What the index of Cloud may be late.
const LATE_INDEX: SignedDuration = SignedDuration::from_mins(15);
/// Once a day, so much is read again, for what was later still.
const SWEPT: SignedDuration = SignedDuration::from_hours(24);
/// When that was last done, among what is remembered.
const SWEPT_AT: &str = "swept_at";
/// How often a minute that holds more than a page is read.
const MOST_PASSES: u32 = 5;
/// Answers in a row without a new row, before a search counts as one that never ends.
const MOST_WITHOUT_NEWS: u32 = 200;

/// The pages of one answer.
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

    /// From when on to read: earlier than asked where the index may have been late.
    async fn start(&mut self, request: FetchRequest) -> Result<IssueReader, FetchError> {
        let now = self.inner.transport.http.now();
        let told = |failure: Failure| failure.into_error(now);
        let is_cloud = self.inner.transport.server().await.map_err(told)?.is_cloud;
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

/// A minute that holds more than a page.
#[derive(Debug, Default)]
struct Minute {
    pages: u32,
    new_rows: usize,
    passes: u32,
}

/// Reads the items asked for by number, and then what changed, oldest change first.
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

    /// The next items that were asked for by number.
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

    /// One answer of the search; a page too long to be taken is asked for in parts.
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

    /// Where to go on after a page that ends with a change at `last` and had so many new rows.
    fn go_on(&mut self, next: Option<Place>, last: Timestamp, new: usize) -> Result<(), Failure> {
        let advanced = minute_of(last) > minute_of(self.from);
        if next.is_some() && !advanced {
            if next == self.place {
                let message = "the tracker answers every page with the same page again; reading \
                               stops here, and the next run goes on from what is stored";
                return Err(Failure::new(FailureClass::Transient, message));
            }
            self.minute.pages += 1;
            self.minute.new_rows += new;
            self.place = next;
            return Ok(());
        }
        self.place = None;
        let again = self.minute.pages > 0 && self.minute.new_rows > 0;
        if again && self.minute.passes < MOST_PASSES {
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
        if self.without_news <= MOST_WITHOUT_NEWS {
            return Ok(());
        }
        let message = format!(
            "{MOST_WITHOUT_NEWS} pages in a row held nothing new; reading stops here, and the next \
             run goes on from what is stored"
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
                // To somebody unknown, a project without visible issues looks the same.
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
    /// One page of what changed since the minute of `from`. What a refusal means is found out: a
    /// credential that ended looks like a project that is not there.
    pub async fn changed_since(
        &self,
        from: Timestamp,
        place: Option<&Place>,
        size: usize,
        repeat: Repeat,
    ) -> Result<Found, Failure> {
        let fields = self.decoder.fields();
        let dates = self.dates.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let query = self.scope.changed_since(from, &dates);
        let failure = match self.search(&query, &fields, place, size, repeat).await {
            Err(failure) if failure.class == FailureClass::BadQuery => failure,
            other => return other,
        };
        let account = self.transport.ensure_signed_in().await?;
        if place.is_some() {
            // The same question was understood a page ago: its place is what ended.
            return Err(Failure { class: FailureClass::Transient, ..failure });
        }
        if !failure.has_code("400") || dates != Dates::Milliseconds {
            return Err(failure);
        }
        let zone = account.time_zone.as_deref().unwrap_or("UTC");
        let Ok(zone) = jiff::tz::TimeZone::get(zone) else { return Err(failure) };
        let dates = Dates::InZone(zone);
        let query = self.scope.changed_since(from, &dates);
        match self.search(&query, &fields, place, size, repeat).await {
            Ok(found) => {
                *self.dates.write().unwrap_or_else(std::sync::PoisonError::into_inner) = dates;
                Ok(found)
            }
            Err(_) => Err(self.explain_refusal(failure).await),
        }
    }

    /// Whether it is the project that is not there.
    async fn explain_refusal(&self, failure: Failure) -> Failure {
        for project in self.scope.projects() {
            if let Err(missing) = self.project(project).await {
                let told = matches!(missing.class, FailureClass::Config | FailureClass::Auth);
                return if told { missing } else { failure };
            }
        }
        failure
    }

    /// Rows of another project mean that another query ran.
    async fn ensure_asked_for(&self, decoded: &[Decoded]) -> Result<(), Failure> {
        let is_named = |(key, name): &(String, String)| {
            let ours = self.scope.projects().iter();
            ours.into_iter()
                .any(|ours| ours.eq_ignore_ascii_case(key) || ours.eq_ignore_ascii_case(name))
        };
        let stray = decoded.iter().find(|one| one.project.as_ref().is_some_and(|p| !is_named(p)));
        let Some(stray) = stray else { return Ok(()) };
        // A project that was renamed is found by its old key, and answers with the new one.
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
        Err(rewritten(&format!("it returned {handle}, which is of another project")))
    }

    async fn load_project_keys(&self) -> Result<HashSet<String>, Failure> {
        let mut keys = HashSet::new();
        for project in self.scope.projects() {
            keys.extend(self.project(project).await?.key);
        }
        Ok(keys)
    }
}
