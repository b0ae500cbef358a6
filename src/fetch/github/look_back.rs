//! Closed issues, what fixed them, and their earlier texts, for the backtest.
//!
//! The REST API has no earlier texts: an issue as of a time has the title and comments of that time
//! and its current body, marked where it may have changed since.

use jiff::Timestamp;
use serde_json::Value;

use super::decode::place_of;
use super::pages::IssueList;
use super::read::{IssuePlace, by_position, find};
use super::repositories::Known;
use super::{GithubSource, wire};
use crate::fetch::text::instant;
use crate::fetch::{
    AsOf, DevelopmentLink, FetchError, FinishedItem, FinishedRequest, LinkedItem, PastText,
};
use crate::fixes::ItemName;
use crate::model::{ItemId, WorkItem};

/// Most timeline pages read per issue.
const MAX_PAGES: usize = 10;

impl GithubSource {
    /// Closed issues that changed since then, ordered by number.
    pub async fn finished(
        &self,
        request: &FinishedRequest,
    ) -> Result<Vec<FinishedItem>, FetchError> {
        let mut found = Vec::new();
        for repository in self.repositories().await? {
            // Without the ETag: unchanged lists are needed too.
            let repository = Known { seen_list: None, ..repository };
            let mut list = IssueList::new(self, repository.clone(), request.since);
            loop {
                let (rows, ended) = list.next(self).await?;
                for issue in rows {
                    let watched = !request.watched_only || self.filter.matches(&issue);
                    if issue.pull_request.is_none() && watched {
                        let item = self.decoder.item(issue, &repository, request.since);
                        found.extend((item.finished == Some(true)).then(|| finished_item(item)));
                    }
                }
                if ended {
                    break;
                }
            }
        }
        found.sort_by_key(|item| item.id);
        found.dedup_by_key(|item| item.id);
        Ok(found)
    }

    /// Commits that closed or name these issues, and pull requests that refer to them.
    pub async fn development_links(&self, ids: &[ItemId]) -> Result<Vec<LinkedItem>, FetchError> {
        let repositories = self.known_repositories().await?;
        let known = by_position(&repositories);
        let mut links = Vec::new();
        for id in ids {
            let Some(place) = find(&known, *id) else { continue };
            let events = self.timeline(&place).await?;
            let found = events.iter().filter_map(|event| development_link(event, place.repository));
            links.extend(found.map(|link| (*id, link)));
        }
        links.sort();
        links.dedup();
        Ok(links)
    }

    /// These issues as of a time; one that did not exist yet is omitted.
    pub async fn as_of(&self, ids: &[ItemId], at: Timestamp) -> Result<Vec<AsOf>, FetchError> {
        let repositories = self.known_repositories().await?;
        let known = by_position(&repositories);
        let mut items = Vec::new();
        for id in ids {
            let Some(place) = find(&known, *id) else { continue };
            let Some(issue) = self.read_issue(&place).await? else { continue };
            let mut item = self.item(issue, place.repository).await?;
            if item.created_at.is_some_and(|created| created > at) {
                continue;
            }
            let events = self.timeline(&place).await?;
            if let Some(title) = title_at(&events, at) {
                item.title = title;
            }
            rewind_fields(&mut item, &events, at);
            item.comments.retain(|comment| comment.at.is_some_and(|written| written <= at));
            item.finished = Some(false);
            item.state = "open".to_owned();
            // Nothing has changed since then, so the body has not either.
            let is_same = item.changed_at <= at;
            let text = if is_same { PastText::OfThatTime } else { PastText::Unknown };
            items.push(AsOf { item, text });
        }
        Ok(items)
    }

    /// The timeline of an issue, oldest first; empty if it is deleted.
    pub async fn timeline(&self, place: &IssuePlace<'_>) -> Result<Vec<Value>, FetchError> {
        let number = place.number.to_string();
        let what = format!("the timeline of {}#{number}", place.repository.name);
        let path = ["repos", &place.repository.name, "issues", &number, "timeline"];
        let mut url = self.http.url(&path, &[("per_page", "100".to_owned())]);
        let mut events = Vec::new();
        for _ in 0..MAX_PAGES {
            let (page, next): (Vec<Value>, _) = match self.page(url, &what).await {
                Err(error) if error.is_missing() => break,
                page => page?,
            };
            events.extend(page);
            let Some(next) = next else { break };
            url = next;
        }
        Ok(events)
    }
}

fn finished_item(item: WorkItem) -> FinishedItem {
    let name = ItemName::of_page(&item.url, place_of(item.id).1);
    // The list does not tell the number of links; the timeline does.
    FinishedItem::new(item, name, 1)
}

/// The code change of an event: a commit, or a pull request of the same repository.
fn development_link(event: &Value, repository: &Known) -> Option<DevelopmentLink> {
    match event["event"].as_str()? {
        "closed" | "referenced" => {
            let commit = event["commit_id"].as_str()?;
            let is_id = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_id.then(|| DevelopmentLink::Commit(commit.to_owned()))
        }
        "cross-referenced" => {
            let source: wire::GithubIssue =
                serde_json::from_value(event["source"]["issue"].clone()).ok()?;
            let is_ours = source.repository_url.as_deref().is_none_or(|url| {
                url.to_lowercase().ends_with(&format!("/repos/{}", repository.name.to_lowercase()))
            });
            (source.pull_request.is_some() && is_ours)
                .then_some(DevelopmentLink::PullRequest(source.number))
        }
        _ => None,
    }
}

/// Takes back later changes of labels and assignee, newest first.
fn rewind_fields(item: &mut WorkItem, events: &[Value], at: Timestamp) {
    let later = |event: &&Value| {
        event["created_at"].as_str().and_then(instant).is_some_and(|when| when > at)
    };
    for event in events.iter().rev().filter(later) {
        let text = |name: &str, part: &str| event[name][part].as_str().map(str::to_owned);
        match (event["event"].as_str().unwrap_or_default(), text("label", "name")) {
            ("labeled", Some(label)) => item.tags.retain(|tag| *tag != label),
            ("unlabeled", Some(label)) if !item.tags.contains(&label) => item.tags.push(label),
            ("assigned", _) if item.assigned_to == text("assignee", "login") => {
                item.assigned_to = None;
            }
            ("unassigned", _) => item.assigned_to = text("assignee", "login"),
            _ => {}
        }
    }
}

/// The title before the first later renaming.
fn title_at(events: &[Value], at: Timestamp) -> Option<String> {
    let later = events.iter().find(|event| {
        event["event"] == "renamed"
            && event["created_at"].as_str().and_then(instant).is_some_and(|when| when > at)
    })?;
    later["rename"]["from"]
        .as_str()
        .map(|title| crate::fetch::text::without_controls(title.to_owned()))
}
