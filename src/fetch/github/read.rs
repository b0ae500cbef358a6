//! Reads single issues, their comments and their state.

use std::collections::HashMap;

use super::decode::{self, place_of};
use super::repositories::Known;
use super::{GithubSource, wire};
use crate::fetch::pages::{Batch, Parts};
use crate::fetch::write_back::{OWN_COMMENTS_SKIPPED, is_ours, of_others};
use crate::fetch::{CurrentState, FetchError};
use crate::model::{Comment, FailureClass, ItemId, WorkItem};

/// The service's maximum page size.
pub(super) const MAX_PAGE: usize = 100;

/// An item's repository, and its number there.
pub(in crate::fetch) struct IssuePlace<'a> {
    pub repository: &'a Known,
    pub number: i64,
}

/// The repositories by position.
pub(super) fn by_position(repositories: &[Known]) -> HashMap<usize, &Known> {
    repositories.iter().map(|repository| (repository.position, repository)).collect()
}

/// Where an item is, if its repository is one of these.
pub(super) fn find<'a>(known: &HashMap<usize, &'a Known>, id: ItemId) -> Option<IssuePlace<'a>> {
    let (position, number) = place_of(id);
    let repository = known.get(&position).copied()?;
    (number > 0).then_some(IssuePlace { repository, number })
}

/// Whether it concerns one repository and not the service or the credential.
pub(super) fn concerns_one_repository(failure: &FetchError) -> bool {
    matches!(failure.class, FailureClass::Config | FailureClass::Denied)
}

impl GithubSource {
    /// One issue in its current state; `None` if it was deleted, transferred, converted to a
    /// discussion, or is a pull request.
    pub async fn read_issue(
        &self,
        place: &IssuePlace<'_>,
    ) -> Result<Option<wire::GithubIssue>, FetchError> {
        let IssuePlace { repository, number } = place;
        let what = format!("the issue {}#{number}", repository.name);
        let url = self.http.url(&["repos", &repository.name, "issues", &number.to_string()], &[]);
        let issue: wire::GithubIssue = match self.json(url, &what).await {
            Err(error) if error.is_missing() => {
                // Missing rights on the whole repository look the same.
                self.repository(&repository.name).await?;
                return Ok(None);
            }
            read => read?,
        };
        if issue.number != *number || issue.pull_request.is_some() {
            return Ok(None);
        }
        if self.is_elsewhere(&issue, repository).await? {
            return Ok(None);
        }
        Ok(Some(issue))
    }

    /// Whether a redirect led to another repository: a transfer, unless ours was renamed.
    async fn is_elsewhere(
        &self,
        issue: &wire::GithubIssue,
        ours: &Known,
    ) -> Result<bool, FetchError> {
        let Some(address) = &issue.repository_url else { return Ok(false) };
        let is_in = |name: &str| {
            address.to_lowercase().ends_with(&format!("/repos/{}", name.to_lowercase()))
        };
        if is_in(&ours.name) {
            return Ok(false);
        }
        let now = self.repository(&ours.name).await?;
        Ok(now.id != ours.id || !is_in(&now.full_name))
    }

    /// Items by id, in order.
    pub async fn read_items(
        &self,
        ids: &[ItemId],
        repositories: &[Known],
    ) -> Result<Batch, FetchError> {
        let known = by_position(repositories);
        let (mut batch, mut parts) = (Batch::default(), Parts::of(ids, 1));
        while let Some(part) = parts.next() {
            let Some(place) = find(&known, part[0]) else {
                batch.vanished.extend(part);
                continue;
            };
            match self.read_item(&place).await {
                // One of several repositories cannot be read now: its items stay as they are.
                Err(error) if repositories.len() > 1 && concerns_one_repository(&error) => {
                    let (repository, error) = (&place.repository.name, error.message);
                    tracing::warn!(
                        repository,
                        error,
                        "could not read an issue; its stored state is kept"
                    );
                }
                read => match parts.take(part.clone(), read)? {
                    Some(Some(item)) => batch.items.push(item),
                    Some(None) => batch.vanished.extend(part),
                    None => {}
                },
            }
        }
        batch.failed = parts.finish()?;
        Ok(batch)
    }

    /// An issue that the condition matches, as an item.
    async fn read_item(&self, place: &IssuePlace<'_>) -> Result<Option<WorkItem>, FetchError> {
        match self.read_issue(place).await? {
            Some(issue) if self.filter.matches(&issue) => {
                self.item(issue, place.repository).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// An issue as an item, with its newest comments if configured.
    pub async fn item(
        &self,
        issue: wire::GithubIssue,
        repository: &Known,
    ) -> Result<WorkItem, FetchError> {
        let (number, comments) = (issue.number, issue.comments);
        let mut item = self.decoder.item(issue, repository, self.http.now());
        let wanted = self.config.comments;
        // Read even if the limit is low: an item without its comments would look changed.
        if wanted == 0 || comments <= 0 {
            return Ok(item);
        }
        let place = IssuePlace { repository, number };
        let with_ours = OWN_COMMENTS_SKIPPED.saturating_add(wanted as usize);
        match self.newest_comments(&place, comments, with_ours).await {
            Ok(comments) => {
                item.comments = of_others(comments, wanted, |comment| is_ours(&comment.raw));
            }
            // The issue was deleted between the two requests; the next read shows it.
            Err(failure) if failure.class == FailureClass::Config => {}
            Err(failure) => return Err(failure),
        }
        Ok(item)
    }

    /// The newest comments, newest last. The service lists them only oldest first, so the last
    /// pages are requested.
    pub async fn newest_comments(
        &self,
        place: &IssuePlace<'_>,
        total: i64,
        wanted: usize,
    ) -> Result<Vec<Comment>, FetchError> {
        let total = usize::try_from(total).unwrap_or(0);
        let what = format!("the comments of {}#{}", place.repository.name, place.number);
        let mut pages = Vec::new();
        let mut page = total.div_ceil(MAX_PAGE).max(1);
        let mut have = 0;
        loop {
            let query = [("per_page", MAX_PAGE.to_string()), ("page", page.to_string())];
            let number = place.number.to_string();
            let path = ["repos", &place.repository.name, "issues", &number, "comments"];
            let entries: Vec<wire::GithubComment> =
                self.json(self.http.url(&path, &query), &what).await?;
            have += entries.len();
            pages.push(entries);
            if page == 1 || have >= wanted {
                break;
            }
            page -= 1;
        }
        Ok(pages.into_iter().rev().flatten().filter_map(decode::comment).collect())
    }

    /// State of these items; deleted ones are omitted.
    pub async fn current_states(&self, ids: &[ItemId]) -> Result<Vec<CurrentState>, FetchError> {
        let repositories = self.known_repositories().await?;
        let known = by_position(&repositories);
        let mut states = Vec::new();
        for id in ids {
            let Some(place) = find(&known, *id) else { continue };
            let Some(issue) = self.read_issue(&place).await? else { continue };
            states.push(self.decoder.item(issue, place.repository, self.http.now()).into());
        }
        Ok(states)
    }

    /// Those of these items that `source.where` still matches.
    pub async fn still_matching(&self, ids: &[ItemId]) -> Result<Vec<ItemId>, FetchError> {
        let repositories = self.known_repositories().await?;
        let known = by_position(&repositories);
        let mut matching = Vec::new();
        for id in ids {
            let Some(place) = find(&known, *id) else { continue };
            if self.read_issue(&place).await?.is_some_and(|issue| self.filter.matches(&issue)) {
                matching.push(*id);
            }
        }
        Ok(matching)
    }

    /// The number of the issue with this name; `None` if its repository is none of ours.
    pub async fn number_of(&self, name: &str) -> Result<Option<ItemId>, FetchError> {
        let Some((repository, number)) = name.rsplit_once('#') else { return Ok(None) };
        let Ok(number) = number.parse() else { return Ok(None) };
        let known = self.known_repositories().await?;
        let found = known.iter().find(|known| known.name.eq_ignore_ascii_case(repository));
        Ok(found.map(|known| known.item_id(number)))
    }

    /// The repositories found by earlier reads, without a request; the first time, all of them.
    pub async fn known_repositories(&self) -> Result<Vec<Known>, FetchError> {
        let records = self.http.notebook.read().await?.repositories;
        if records.is_empty() {
            return self.repositories().await;
        }
        Ok(records.iter().enumerate().map(|(at, record)| Known::of(at, record)).collect())
    }
}
