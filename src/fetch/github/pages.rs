//! How changes are listed: every repository in turn, each from where it was last read.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use reqwest::Url;

use super::http::link;
use super::read::{MAX_PAGE, concerns_one_repository};
use super::repositories::Known;
use super::{GithubSource, wire};
use crate::fetch::error::BODY_TOO_LONG;
use crate::fetch::http::{HttpAnswer, Request};
use crate::fetch::pages::{Batch, Course, Listing, Read, Remember, Rows};
use crate::fetch::text::instant;
use crate::fetch::{FetchError, FetchRequest, Page};
use crate::model::{FailureClass, ItemId, SourceRecord};

/// Items per page that are requested by number, with one request each.
const NAMED_ITEMS: usize = 50;
/// A page that exceeds the service's limit of ten seconds is split down to this size.
const SMALLEST_PAGE: usize = 10;

/// The repositories of a source, one after another.
pub(in crate::fetch) struct Repositories {
    github: Arc<GithubSource>,
    changed_since: Option<Timestamp>,
    /// How far this source was read according to the run's state.
    last_cursor: Option<Timestamp>,
    repositories: Vec<Known>,
    waiting: VecDeque<Known>,
    current: Option<IssueList>,
    cursor: Option<Timestamp>,
}

impl GithubSource {
    pub(in crate::fetch) fn listing(self: Arc<Self>, request: &FetchRequest) -> Repositories {
        Repositories {
            github: self,
            changed_since: request.changed_since,
            last_cursor: None,
            repositories: Vec::new(),
            waiting: VecDeque::new(),
            current: None,
            cursor: None,
        }
    }
}

impl Listing for Repositories {
    fn page_size(&self) -> usize {
        NAMED_ITEMS
    }

    async fn begin(&mut self) -> Result<(), FetchError> {
        self.last_cursor = self.github.http.notebook.read().await?.cursor;
        self.repositories = self.github.repositories().await?;
        self.waiting = self.repositories.iter().cloned().collect();
        Ok(())
    }

    async fn named(&mut self, ids: Vec<ItemId>) -> Result<Batch, FetchError> {
        self.github.read_items(&ids, &self.repositories).await
    }

    async fn changes(
        &mut self,
        delivered: &mut HashSet<ItemId>,
    ) -> Result<Option<Read>, FetchError> {
        loop {
            if self.current.is_none() {
                let Some(repository) = self.waiting.pop_front() else { return Ok(None) };
                let since = self.begin_of(&repository);
                self.current = Some(IssueList::new(&self.github, repository, since));
            }
            match self.list_page(delivered).await {
                Ok(None) => {}
                Ok(page) => return Ok(page),
                Err(error) => self.skip_unreadable(error)?,
            }
        }
    }
}

impl Repositories {
    /// Where to begin with a repository: where its last read ended, minus the overlap. That keeps
    /// the address, and with it the ETag, until something changes. A new repository is read from
    /// the look-back on, and so is everything when the run starts over.
    fn begin_of(&self, repository: &Known) -> Timestamp {
        let config = &self.github.config;
        let overlap = SignedDuration::try_from(config.overlap).unwrap_or_default();
        let earlier = |at: Timestamp| at.checked_sub(overlap).unwrap_or(at);
        let (Some(asked), Some(cursor)) = (self.changed_since, repository.cursor) else {
            return self
                .changed_since
                .filter(|_| self.repositories.len() == 1 && repository.cursor.is_none())
                .unwrap_or_else(|| self.github.http.look_back(config));
        };
        // The run's cursor was set back.
        let set_back = self.last_cursor.is_some_and(|last| asked < earlier(last));
        if set_back { asked.min(earlier(cursor)) } else { earlier(cursor) }
    }

    /// One page of the current repository.
    async fn list_page(
        &mut self,
        delivered: &mut HashSet<ItemId>,
    ) -> Result<Option<Read>, FetchError> {
        let Some(list) = &mut self.current else { return Ok(None) };
        let (rows, ended) = list.next(&self.github).await?;
        let mut page = Page::default();
        for issue in rows {
            let id = list.repository.item_id(issue.number);
            if issue.pull_request.is_some() || !self.github.filter.matches(&issue) {
                continue;
            }
            if delivered.insert(id) {
                page.items.push(self.github.item(issue, &list.repository).await?);
            }
        }
        if self.repositories.len() == 1 {
            page.cursor = list.cursor;
        }
        let mut remember = None;
        if ended {
            remember = Some(list.remember());
            self.cursor = self.cursor.max(list.cursor);
            self.current = None;
            // How far all repositories were read is known after the last one.
            if self.waiting.is_empty() {
                page.cursor = self.cursor;
            }
        }
        Ok(Some((page, remember)))
    }

    /// A repository that was deleted or blocked does not prevent the others from being read.
    fn skip_unreadable(&mut self, error: FetchError) -> Result<(), FetchError> {
        match self.current.take() {
            Some(list) if concerns_one_repository(&error) && self.repositories.len() > 1 => {
                let (repository, error) = (list.repository.name, error.message);
                tracing::warn!(repository, error, "skipped a repository that cannot be read");
                Ok(())
            }
            _ => Err(error),
        }
    }
}

/// The list of one repository, continued from row to row.
pub(super) struct IssueList {
    repository: Known,
    course: Course<Url>,
    /// Server time of the first response: later changes are for the next run.
    as_of: Option<Timestamp>,
    per_page: usize,
    cursor: Option<Timestamp>,
    requests: u32,
    /// Address and ETag of the first page, while it is the only one.
    list: Option<(String, String)>,
    seen: HashSet<i64>,
}

impl IssueList {
    pub fn new(github: &GithubSource, repository: Known, since: Timestamp) -> Self {
        let per_page = usize::try_from(github.config.page_size).unwrap_or(MAX_PAGE);
        let second = |at: Timestamp| Timestamp::from_second(at.as_second()).unwrap_or(at);
        Self {
            repository,
            course: Course::new(since, second),
            as_of: None,
            per_page: per_page.clamp(1, MAX_PAGE),
            cursor: None,
            requests: 0,
            list: None,
            seen: HashSet::new(),
        }
    }

    fn url(&self, github: &GithubSource) -> Url {
        // Whole seconds, and the second itself is included.
        let since = self.course.from.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let query = [
            ("state", "all".to_owned()),
            ("sort", "updated".to_owned()),
            ("direction", "asc".to_owned()),
            ("per_page", self.per_page.to_string()),
            ("since", since),
        ];
        github.http.url(&["repos", &self.repository.name, "issues"], &query)
    }

    /// The next rows, and whether they are the last.
    pub async fn next(
        &mut self,
        github: &GithubSource,
    ) -> Result<(Vec<wire::GithubIssue>, bool), FetchError> {
        let Some(answer) = self.ask(github).await? else {
            self.cursor = self.repository.cursor;
            return Ok((Vec::new(), true));
        };
        let what = format!("the issues of {}", self.repository.name);
        let issues: Vec<wire::GithubIssue> = github.http.decode(&answer, &what)?;
        let head_date = answer.head.date().unwrap_or_else(|| github.http.now());
        let as_of = *self.as_of.get_or_insert(head_date);
        let new = issues.iter().filter(|row| self.seen.insert(row.number)).count();
        let dates = issues.iter().filter_map(|row| row.updated_at.as_deref().and_then(instant));
        let last = dates.clone().max();
        self.cursor = self.cursor.max(dates.filter(|at| *at <= as_of).max());
        let next = link(&answer.head, "next");
        let next = next.map(|next| github.same_server(&answer.url, &next)).transpose()?;
        let more = next.is_some() || issues.len() >= self.per_page;
        if more {
            self.list = None;
        }
        let ended = self.course.go_on(Rows { last, new, more, next }, Some(as_of))?;
        Ok((issues, ended))
    }

    /// Requests a page; `None` if it is unchanged.
    async fn ask(&mut self, github: &GithubSource) -> Result<Option<HttpAnswer>, FetchError> {
        let first = self.requests == 0;
        self.requests += 1;
        let url = self.course.place.clone().unwrap_or_else(|| self.url(github));
        let address = format!("{} {}", github.reading_fingerprint, url.as_str());
        let mut request = Request::get(url, format!("the issues of {}", self.repository.name));
        if first
            && let Some((_, mark)) =
                self.repository.seen_list.as_ref().filter(|(at, _)| *at == address)
        {
            request.headers.push(("if-none-match", mark.clone()));
        }
        let answer = loop {
            match github.send(request.clone()).await {
                // The service gives up after ten seconds; a shorter page may succeed.
                Err(error) if self.course.place.is_none() && self.may_be_shorter(&error) => {
                    self.per_page = (self.per_page / 3).max(SMALLEST_PAGE);
                    request.url = self.url(github);
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

    fn may_be_shorter(&self, error: &FetchError) -> bool {
        let is_timeout = error.class == FailureClass::Transient
            && (error.has_code("502") || error.has_code("504"));
        self.per_page > SMALLEST_PAGE && (is_timeout || error.has_code(BODY_TOO_LONG))
    }

    /// How far the repository was read.
    fn remember(&mut self) -> Remember {
        let (position, cursor, list) = (self.repository.position, self.cursor, self.list.take());
        Box::new(move |remembered: &mut SourceRecord| {
            let Some(record) = remembered.repositories.get_mut(position) else { return };
            record.cursor = record.cursor.max(cursor);
            if let Some((address, mark)) = list {
                record.list_address = Some(address);
                record.list_mark = Some(mark);
            }
        })
    }
}
