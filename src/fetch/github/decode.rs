//! Converts GitHub's JSON to the program's types (pure).

use jiff::Timestamp;

use super::repositories::Known;
use super::wire;
use crate::fetch::text::{instant, without_controls};
use crate::model::{Comment, Format, ItemId, ItemKey, Links, TextField, WorkItem};
use crate::settings;

/// Name of the only long text.
pub const BODY: &str = "Description";

/// Context of decoding.
#[derive(Debug)]
pub struct GithubDecoder {
    source: String,
    /// The label set by write-back, which does not count as a change.
    own_label: String,
    area_labels: Vec<String>,
    priority: Ranks,
    severity: Ranks,
}

/// Labels by rank, rank 1 first; `|` separates several of one rank.
#[derive(Debug)]
struct Ranks(Vec<Vec<String>>);

impl Ranks {
    fn new(labels: &[String]) -> Self {
        let rank = |text: &String| text.split('|').map(|name| name.trim().to_lowercase()).collect();
        Self(labels.iter().map(rank).collect())
    }

    /// The best rank among these labels, and its label.
    fn of<'a>(&self, labels: &'a [String]) -> Option<(i64, &'a str)> {
        self.0.iter().zip(1..).find_map(|(names, rank)| {
            let found = labels.iter().find(|label| names.contains(&label.to_lowercase()))?;
            Some((rank, found.as_str()))
        })
    }
}

impl GithubDecoder {
    pub fn new(config: &settings::Source) -> Self {
        Self {
            source: config.name.clone(),
            own_label: config.write_back_tag.clone(),
            area_labels: config.area_labels.iter().map(|text| text.to_lowercase()).collect(),
            priority: Ranks::new(&config.priority_labels),
            severity: Ranks::new(&config.severity_labels),
        }
    }

    /// Decodes one issue. Missing fields are left empty, and a missing change date becomes
    /// `unknown_change`.
    pub fn item(
        &self,
        wire: wire::GithubIssue,
        repository: &Known,
        unknown_change: Timestamp,
    ) -> WorkItem {
        let id = repository.item_id(wire.number);
        let created_at = wire.created_at.as_deref().and_then(instant);
        let changed_at =
            wire.updated_at.as_deref().and_then(instant).or(created_at).unwrap_or(unknown_change);
        let mut tags: Vec<String> =
            wire.labels.iter().map(|label| without_controls(label.name().to_owned())).collect();
        tags.retain(|tag| !tag.is_empty() && !tag.eq_ignore_ascii_case(&self.own_label));
        let state = without_controls(wire.state.unwrap_or_default());
        let mut areas = self.areas(&repository.name, &tags);
        let title = |named: wire::GithubNamed| named.title.or(named.name).map(without_controls);
        let parent = wire.parent_issue_url.as_deref().and_then(|url| repository.number_in(url));
        let first_assignee = wire.assignees.into_iter().flatten().next();
        WorkItem {
            key: ItemKey::new(&self.source, id),
            id,
            rev: changed_at.as_millisecond(),
            handle: Some(format!("{}#{}", repository.name, wire.number)),
            item_type: wire.kind.and_then(title).unwrap_or_else(|| "Issue".to_owned()),
            title: without_controls(wire.title.unwrap_or_default()),
            finished: match state.as_str() {
                "open" => Some(false),
                "closed" => Some(true),
                _ => None,
            },
            state,
            changed_at,
            created_at,
            priority: self.priority.of(&tags).map(|(rank, _)| rank),
            severity: self.severity.of(&tags).map(|(rank, label)| format!("{rank} - {label}")),
            area_path: Some(areas.remove(0)),
            more_areas: areas,
            iteration_path: wire.milestone.and_then(title),
            assigned_to: first_assignee.map(|account| without_controls(account.login)),
            reporter: wire.user.map(|account| without_controls(account.login)),
            tags,
            parent: parent.map(|number| repository.item_id(number)),
            links: Links {
                items: wire.sub_issues_summary.map_or(0, |summary| summary.total),
                ..Links::default()
            },
            url: page_for_people(wire.html_url, repository, wire.number),
            texts: wire.body.filter(|body| !body.trim().is_empty()).map(text).into_iter().collect(),
            comments: Vec::new(),
        }
    }

    /// The repository and, below it, each label that names an area; if there are such labels, the
    /// repository alone comes last.
    fn areas(&self, repository: &str, tags: &[String]) -> Vec<String> {
        let area = |tag: &String| {
            let lower = tag.to_lowercase();
            let prefix = self.area_labels.iter().find(|prefix| lower.starts_with(*prefix))?;
            let name = tag.get(prefix.len()..)?.trim();
            (!name.is_empty()).then(|| format!("{repository}/{name}"))
        };
        let mut areas: Vec<String> = tags.iter().filter_map(area).collect();
        areas.push(repository.to_owned());
        areas
    }
}

pub fn text(raw: String) -> TextField {
    TextField { name: BODY.to_owned(), format: Format::RawMarkdown, raw }
}

/// The web page's address as the tracker gives it, if it is valid.
fn page_for_people(given: Option<String>, repository: &Known, number: i64) -> String {
    let is_page = |url: &String| {
        (url.starts_with("https://") || url.starts_with("http://"))
            && !url.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    given
        .filter(is_page)
        .unwrap_or_else(|| format!("https://github.com/{}/issues/{number}", repository.name))
}

/// Decodes one comment; `None` if it is empty.
pub fn comment(wire: wire::GithubComment) -> Option<Comment> {
    let raw = wire.body.filter(|body| !body.trim().is_empty())?;
    Some(Comment {
        author: wire.user.map(|user| without_controls(user.login)).unwrap_or_default(),
        at: wire.created_at.as_deref().and_then(instant),
        format: Format::RawMarkdown,
        raw,
        may_write: matches!(
            wire.author_association.as_deref(),
            Some("OWNER" | "MEMBER" | "COLLABORATOR")
        ),
    })
}

/// The id of an issue of one of several repositories.
pub fn item_id(position: usize, number: i64) -> ItemId {
    let position = i64::try_from(position).unwrap_or(i64::MAX / NUMBERS);
    ItemId(position.saturating_mul(NUMBERS).saturating_add(number))
}

/// Position of the repository, and the issue's number in it.
pub fn place_of(id: ItemId) -> (usize, i64) {
    (usize::try_from(id.0 / NUMBERS).unwrap_or(usize::MAX), id.0 % NUMBERS)
}

/// Issue numbers reserved for each repository, far above the largest one on the service. A hundred
/// million repositories still stay below the largest integer that JSON keeps exact.
const NUMBERS: i64 = 10_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn decoder() -> GithubDecoder {
        let mut config: crate::settings::Config =
            toml::from_str(crate::config::DEFAULT_TOML).unwrap();
        config.source.name = "gh".into();
        config.source.area_labels = vec!["area/".into(), "component: ".into()];
        config.source.priority_labels = ["P0|urgent", "P1", "P2"].map(Into::into).to_vec();
        config.source.severity_labels = vec!["sev: critical".into(), "sev: high".into()];
        GithubDecoder::new(&config.source)
    }

    fn repository(position: usize) -> Known {
        Known { position, id: 7, name: "contoso/shop".into(), ..Known::default() }
    }

    fn decode(value: Value, position: usize) -> WorkItem {
        let unknown = "2026-01-01T00:00:00Z".parse().unwrap();
        decoder().item(serde_json::from_value(value).unwrap(), &repository(position), unknown)
    }

    #[test]
    fn an_issue_with_nothing_but_its_number_is_an_item() {
        let item = decode(json!({ "number": 42 }), 0);
        assert_eq!((item.id, item.key.as_str()), (ItemId(42), "gh/42"));
        assert_eq!(item.handle.as_deref(), Some("contoso/shop#42"));
        assert_eq!(item.changed_at.to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(item.url, "https://github.com/contoso/shop/issues/42");
        assert_eq!((item.item_type.as_str(), item.finished), ("Issue", None));
        assert_eq!(item.area_path.as_deref(), Some("contoso/shop"));
    }

    #[test]
    fn numbers_of_several_repositories_differ() {
        assert_eq!(decode(json!({ "number": 42 }), 3).id, ItemId(30_000_042));
        assert_eq!(place_of(ItemId(30_000_042)), (3, 42));
        assert_eq!(place_of(ItemId(42)), (0, 42));
        assert_eq!(place_of(ItemId(-5)).0, usize::MIN, "and is found nowhere");
    }

    #[test]
    fn labels_give_area_priority_and_severity_and_ours_gives_nothing() {
        let item = decode(
            json!({
                "number": 1, "state": "closed", "state_reason": "not_planned",
                "labels": [{ "name": "Area/Billing" }, { "name": "URGENT" }, "p2",
                           { "name": "sev: high" }, { "name": "component: api" },
                           { "name": "heartbeat" }, { "name": null }],
                "milestone": { "title": "v2" }, "assignees": [{ "login": "ann" }],
                "type": { "name": "Bug" }, "updated_at": "2026-11-01T10:00:00Z",
                "parent_issue_url": "https://api.github.com/repos/contoso/shop/issues/7",
                "sub_issues_summary": { "total": 3 }, "body": "a\r\nb",
            }),
            1,
        );
        assert_eq!(
            item.areas().collect::<Vec<_>>(),
            ["contoso/shop/Billing", "contoso/shop/api", "contoso/shop"]
        );
        assert_eq!((item.priority, item.severity.as_deref()), (Some(1), Some("2 - sev: high")));
        assert!(!item.tags.contains(&"heartbeat".to_owned()), "{:?}", item.tags);
        assert_eq!((item.finished, item.item_type.as_str()), (Some(true), "Bug"));
        assert_eq!(item.iteration_path.as_deref(), Some("v2"));
        assert_eq!(item.assigned_to.as_deref(), Some("ann"));
        assert_eq!((item.parent, item.links.items), (Some(ItemId(10_000_007)), 3));
        assert_eq!(item.rev, item.changed_at.as_millisecond());
        assert_eq!(item.texts[0].format, Format::RawMarkdown);
    }

    #[test]
    fn odd_values_do_no_harm() {
        let item = decode(
            json!({
                "number": 1, "title": "a\u{0}\nb", "body": null, "user": null, "assignees": null,
                "html_url": "javascript:alert(1)", "updated_at": "yesterday",
                "parent_issue_url": "https://api.github.com/repos/other/one/issues/7",
            }),
            0,
        );
        assert_eq!(item.title, "a\u{FFFD}\u{FFFD}b");
        assert_eq!(item.url, "https://github.com/contoso/shop/issues/1");
        assert_eq!(
            (item.parent, item.texts.len()),
            (None, 0),
            "a parent elsewhere is unknown here"
        );
    }

    proptest! {
        #[test]
        fn every_place_is_found_again(position in 0_usize..1000, number in 1..NUMBERS) {
            prop_assert_eq!(place_of(item_id(position, number)), (position, number));
        }
    }
}
