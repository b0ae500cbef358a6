//! How changes are listed: a search, oldest first, by minutes. Cloud's index is delayed, so a read
//! begins earlier than requested, and once a day much earlier.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::JiraSource;
use super::decode::DecodedIssue;
use super::jql::{Dates, minute_of};
use super::read::{FoundIssues, SearchPlace, rewritten};
use crate::fetch::error::BODY_TOO_LONG;
use crate::fetch::http::Repeat;
use crate::fetch::pages::{Batch, Course, Listing, Read, Remember, Rows};
use crate::fetch::{FetchError, FetchRequest, Page};
use crate::model::{FailureClass, ItemId, SourceRecord};

/// Maximum delay of Cloud's index.
const LATE_INDEX: SignedDuration = SignedDuration::from_mins(15);
/// This much is read again once a day, in case the index was delayed longer.
const SWEPT: SignedDuration = SignedDuration::from_hours(24);
/// Key of the time of the last such read.
const SWEPT_AT: &str = "swept_at";

/// The changes of the watched projects.
pub(in crate::fetch) struct SearchPages {
    jira: Arc<JiraSource>,
    changed_since: Option<Timestamp>,
    course: Course<SearchPlace>,
    seen: HashSet<ItemId>,
    cursor: Option<Timestamp>,
    /// When this read began, if it is one of those that read much again.
    swept: Option<Timestamp>,
    ended: bool,
}

impl JiraSource {
    pub(in crate::fetch) fn listing(self: Arc<Self>, request: &FetchRequest) -> SearchPages {
        SearchPages {
            course: Course::new(self.http.look_back(&self.config), minute_of),
            jira: self,
            changed_since: request.changed_since,
            seen: HashSet::new(),
            cursor: None,
            swept: None,
            ended: false,
        }
    }
}

impl Listing for SearchPages {
    fn page_size(&self) -> usize {
        self.jira.page_size()
    }

    /// Where to begin: earlier than requested if the index may have been delayed.
    async fn begin(&mut self) -> Result<(), FetchError> {
        let (now, is_cloud) = (self.jira.http.now(), self.jira.is_cloud().await?);
        let earlier = |at: Timestamp, by| at.checked_sub(by).unwrap_or(Timestamp::UNIX_EPOCH);
        self.course.from = match self.changed_since {
            None => {
                self.swept = Some(now);
                self.course.from
            }
            Some(since) if is_cloud => {
                let facts = self.jira.http.notebook.read().await?.facts;
                let swept = facts.get(SWEPT_AT).and_then(|text| text.parse::<Timestamp>().ok());
                let is_due = swept.is_none_or(|at| now.duration_since(at) >= SWEPT || at > now);
                self.swept = is_due.then_some(now);
                let since = earlier(since, LATE_INDEX);
                if is_due { since.min(earlier(now, SWEPT)) } else { since }
            }
            Some(since) => since,
        };
        Ok(())
    }

    async fn named(&mut self, ids: Vec<ItemId>) -> Result<Batch, FetchError> {
        self.jira.read_items(&ids, self.course.from).await
    }

    async fn changes(
        &mut self,
        delivered: &mut HashSet<ItemId>,
    ) -> Result<Option<Read>, FetchError> {
        while !self.ended {
            let (decoded, undelivered, next) = self.rows().await?;
            if decoded.is_empty() && self.seen.is_empty() {
                // For an anonymous user a project without visible issues looks the same.
                self.jira.ensure_signed_in().await?;
            }
            self.jira.ensure_asked_for(&decoded).await?;
            let last = decoded.iter().map(|one| one.item.changed_at).max();
            let new = decoded.iter().filter(|one| self.seen.insert(one.item.id)).count();
            let mut page = Page { undelivered, ..Page::default() };
            for one in decoded {
                if delivered.insert(one.item.id) {
                    page.items.push(self.jira.with_comments(one).await?);
                }
            }
            let more = next.is_some();
            self.ended = self.course.go_on(Rows { last, new, more, next }, None)?;
            self.cursor = self.cursor.max(last);
            page.cursor = self.cursor;
            if !page.items.is_empty() || !page.undelivered.is_empty() || self.ended {
                let remember = self.swept.filter(|_| self.ended).map(swept_at);
                return Ok(Some((page, remember)));
            }
        }
        Ok(None)
    }
}

fn swept_at(at: Timestamp) -> Remember {
    Box::new(move |remembered: &mut SourceRecord| {
        remembered.facts.insert(SWEPT_AT.into(), at.to_string());
    })
}

impl SearchPages {
    /// One response of the search, those of its rows that cannot be read, and where it goes on. If
    /// the server fails over it or sends too much, one item may be the cause: the rows are listed by
    /// number only and read in smaller parts.
    async fn rows(
        &mut self,
    ) -> Result<(Vec<DecodedIssue>, Vec<ItemId>, Option<SearchPlace>), FetchError> {
        let (from, size, place) =
            (self.course.from, self.jira.page_size(), self.course.place.as_ref());
        let whole = self.jira.changed_since(from, place, size, Repeat::Safe).await;
        let error = match whole {
            Ok(FoundIssues { issues, next }) => {
                return Ok((self.jira.decode(issues, from).await?, Vec::new(), next));
            }
            Err(error) if error.has_code("500") || error.has_code(BODY_TOO_LONG) => error,
            Err(error) => return Err(error),
        };
        let query = |dates: &Dates| self.jira.scope.changed_since(from, dates);
        let light = ["updated".to_owned()];
        let listed = self.jira.dated_search(&query, &light, place, (size, Repeat::Never)).await;
        let Ok(FoundIssues { issues, next }) = listed else { return Err(error) };
        let listed = self.jira.decode(issues, from).await?;
        let ids: Vec<ItemId> = listed.iter().map(|one| one.item.id).collect();
        let (issues, failed) = self.jira.issues_apart(&ids, &self.jira.decoder.fields()).await?;
        let dates = listed.iter().filter(|one| failed.contains(&one.item.id));
        // The cursor passes what cannot be read; it is stored as undelivered.
        self.cursor = self.cursor.max(dates.map(|one| one.item.changed_at).max());
        Ok((self.jira.decode(issues, from).await?, failed, next))
    }
}

impl JiraSource {
    /// One page of changes since the minute of `from`. A refusal is investigated, since an expired
    /// credential looks like a missing project.
    pub async fn changed_since(
        &self,
        from: Timestamp,
        place: Option<&SearchPlace>,
        size: usize,
        repeat: Repeat,
    ) -> Result<FoundIssues, FetchError> {
        let query = |dates: &Dates| self.scope.changed_since(from, dates);
        self.dated_search(&query, &self.decoder.fields(), place, (size, repeat)).await
    }

    /// A search whose query holds a date: a server that refuses numbers is asked in its time zone.
    pub async fn dated_search(
        &self,
        query: &(dyn Fn(&Dates) -> String + Sync),
        fields: &[String],
        place: Option<&SearchPlace>,
        (size, repeat): (usize, Repeat),
    ) -> Result<FoundIssues, FetchError> {
        let dates = self.dates.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let failure = match self.search(&query(&dates), fields, place, size, repeat).await {
            Err(failure) if failure.class == FailureClass::BadQuery => failure,
            other => return other,
        };
        let account = self.ensure_signed_in().await?;
        if place.is_some() {
            // The same query was accepted for the previous page: its position has expired.
            return Err(FetchError { class: FailureClass::Transient, ..failure });
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
    async fn explain_refusal(&self, failure: FetchError) -> FetchError {
        for project in self.scope.projects() {
            if let Err(missing) = self.project(project).await {
                let is_cause = matches!(missing.class, FailureClass::Config | FailureClass::Auth);
                return if is_cause { missing } else { failure };
            }
        }
        failure
    }

    /// Rows of another project mean that the server ran another query.
    async fn ensure_asked_for(&self, decoded: &[DecodedIssue]) -> Result<(), FetchError> {
        let is_named = |(key, name): &(String, String)| {
            let ours = self.scope.projects().iter();
            ours.into_iter()
                .any(|ours| ours.eq_ignore_ascii_case(key) || ours.eq_ignore_ascii_case(name))
        };
        let stray = decoded.iter().find(|one| one.project.as_ref().is_some_and(|p| !is_named(p)));
        let Some(stray) = stray else { return Ok(()) };
        // A renamed project is found by its old key, but responds with the new one.
        let keys = self.project_keys.get_or_try_init(|| self.load_project_keys()).await?;
        let is_ours = |one: &DecodedIssue| {
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

    async fn load_project_keys(&self) -> Result<HashSet<String>, FetchError> {
        let mut keys = HashSet::new();
        for project in self.scope.projects() {
            keys.extend(self.project(project).await?.key);
        }
        Ok(keys)
    }
}
