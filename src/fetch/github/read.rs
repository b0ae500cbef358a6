//! Reads single issues, their comments and their state.

use std::collections::HashMap;

use super::decode::{self, place_of};
use super::repositories::Known;
use super::{Inner, wire};
use crate::fetch::CurrentState;
use crate::fetch::failure::Failure;
use crate::fetch::write_back::is_ours;
use crate::model::{Comment, FailureClass, ItemId, WorkItem};

/// The service's maximum page size.
pub(super) const MAX_PAGE: usize = 100;
/// How many of our own comments may be among the requested ones.
const OWN_COMMENTS_SKIPPED: usize = 20;

/// An item's repository, and its number there.
pub(super) struct Place<'a> {
    pub repository: &'a Known,
    pub number: i64,
}

/// The repositories by position.
pub(super) fn by_position(repositories: &[Known]) -> HashMap<usize, &Known> {
    repositories.iter().map(|repository| (repository.position, repository)).collect()
}

/// Where an item is, if its repository is one of these.
pub(super) fn find<'a>(known: &HashMap<usize, &'a Known>, id: ItemId) -> Option<Place<'a>> {
    let (position, number) = place_of(id);
    let repository = known.get(&position).copied()?;
    (number > 0).then_some(Place { repository, number })
}

/// Whether it concerns one repository and not the service or the credential.
pub(super) fn concerns_one_repository(failure: &Failure) -> bool {
    matches!(failure.class, FailureClass::Config | FailureClass::Denied)
}

impl Inner {
    /// One issue in its current state; `None` if it was deleted, transferred, converted to a
    /// discussion, or is a pull request.
    pub async fn read_issue(&self, place: &Place<'_>) -> Result<Option<wire::Issue>, Failure> {
        let Place { repository, number } = place;
        let what = format!("the issue {}#{number}", repository.name);
        let url =
            self.transport.url(&["repos", &repository.name, "issues", &number.to_string()], &[]);
        let answer = match self.transport.get(url, &what).await {
            Ok(answer) => answer,
            Err(failure) if failure.has_code("410") || failure.has_code("404") => {
                // Missing rights on the whole repository look the same.
                self.repository(&repository.name).await?;
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        };
        let issue: wire::Issue = self.transport.http.decode(&answer, &what)?;
        if issue.number != *number || issue.pull_request.is_some() {
            return Ok(None);
        }
        if self.is_elsewhere(&issue, repository).await? {
            return Ok(None);
        }
        Ok(Some(issue))
    }

    /// Whether a redirect led to another repository: a transfer, unless ours was renamed.
    async fn is_elsewhere(&self, issue: &wire::Issue, ours: &Known) -> Result<bool, Failure> {
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

    /// Items by id, in order, and those that are gone.
    pub async fn read_items(
        &self,
        ids: &[ItemId],
        repositories: &[Known],
    ) -> Result<(Vec<WorkItem>, Vec<ItemId>), Failure> {
        let known = by_position(repositories);
        let (mut items, mut vanished) = (Vec::new(), Vec::new());
        for id in ids {
            let Some(place) = find(&known, *id) else {
                vanished.push(*id);
                continue;
            };
            match self.read_issue(&place).await {
                Ok(Some(issue)) if self.filter.matches(&issue) => {
                    items.push(self.item(issue, place.repository).await?);
                }
                Ok(_) => vanished.push(*id),
                // One of several repositories cannot be read now: its items stay as they are.
                Err(failure) if repositories.len() > 1 && concerns_one_repository(&failure) => {
                    let repository = &place.repository.name;
                    tracing::warn!(
                        repository,
                        error = failure.message,
                        "could not read an issue; its stored state is kept"
                    );
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok((items, vanished))
    }

    /// An issue as an item, with its newest comments if configured.
    pub async fn item(&self, issue: wire::Issue, repository: &Known) -> Result<WorkItem, Failure> {
        let (number, comments) = (issue.number, issue.comments);
        let mut item = self.decoder.item(issue, repository, self.transport.http.now());
        let wanted = usize::try_from(self.config.comments).unwrap_or(usize::MAX);
        // Read even if the limit is low: an item without its comments would look changed.
        if wanted == 0 || comments <= 0 {
            return Ok(item);
        }
        let place = Place { repository, number };
        let with_ours = wanted.saturating_add(OWN_COMMENTS_SKIPPED);
        match self.newest_comments(&place, comments, with_ours).await {
            Ok(mut comments) => {
                // Our own comments neither reach the prompt nor count as a change.
                comments.retain(|comment| !is_ours(&comment.raw));
                let too_many = comments.len().saturating_sub(wanted);
                item.comments = comments.split_off(too_many);
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
        place: &Place<'_>,
        total: i64,
        wanted: usize,
    ) -> Result<Vec<Comment>, Failure> {
        let total = usize::try_from(total).unwrap_or(0);
        let what = format!("the comments of {}#{}", place.repository.name, place.number);
        let mut pages = Vec::new();
        let mut page = total.div_ceil(MAX_PAGE).max(1);
        let mut have = 0;
        loop {
            let query = [("per_page", MAX_PAGE.to_string()), ("page", page.to_string())];
            let number = place.number.to_string();
            let path = ["repos", &place.repository.name, "issues", &number, "comments"];
            let answer = self.transport.get(self.transport.url(&path, &query), &what).await?;
            let entries: Vec<wire::CommentEntry> = self.transport.http.decode(&answer, &what)?;
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
    pub async fn current_states(&self, ids: &[ItemId]) -> Result<Vec<CurrentState>, Failure> {
        let repositories = self.known_repositories().await?;
        let known = by_position(&repositories);
        let mut states = Vec::new();
        for id in ids {
            let Some(place) = find(&known, *id) else { continue };
            let Some(issue) = self.read_issue(&place).await? else { continue };
            let now = self.transport.http.now();
            let item = self.decoder.item(issue, place.repository, now);
            let WorkItem { id, rev, state, finished, changed_at, .. } = item;
            states.push(CurrentState { id, rev, state, finished, changed_at });
        }
        Ok(states)
    }

    /// Those of these items that `source.where` still matches.
    pub async fn still_matching(&self, ids: &[ItemId]) -> Result<Vec<ItemId>, Failure> {
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

    /// The repositories found by earlier reads, without a request; the first time, all of them.
    pub async fn known_repositories(&self) -> Result<Vec<Known>, Failure> {
        let records = self.notebook.read().await?.repositories;
        if records.is_empty() {
            return self.repositories().await;
        }
        Ok(records.iter().enumerate().map(|(at, record)| Known::of(at, record)).collect())
    }
}
