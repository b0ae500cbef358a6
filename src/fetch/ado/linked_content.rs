//! Context of an item: relations with their titles, commits, pull requests, attachments.

use std::collections::{BTreeMap, HashMap};

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::AdoSource;
use super::http::percent_decode;
use super::look_back::development_link;
use super::wire::Relation;
use crate::fetch::around::{
    Around, MAX_TOUCHED, first_line, is_file_id, is_hash, own_address, parent_of,
};
use crate::fetch::http::{Request, WantedFile};
use crate::fetch::{DevelopmentLink, FetchError, ItemFile};
use crate::model::{
    Attachment, ChangeKind, FailureClass, ItemId, LinkKind, LinkedChange, LinkedContent, LinkedItem,
};

const DESCRIPTION: &str = "System.Description";
/// Path of attached files, below an organisation or a project of it.
const FILES: [&str; 3] = ["_apis", "wit", "attachments"];

/// An item with its relations.
#[derive(Debug, Deserialize)]
struct Expanded {
    #[serde(default)]
    fields: BTreeMap<String, Value>,
    #[serde(default)]
    relations: Option<Vec<Relation>>,
}

impl AdoSource {
    pub async fn linked_content(&self, id: ItemId) -> Result<LinkedContent, FetchError> {
        let number = id.to_string();
        let path = ["_apis", "wit", "workitems", &number];
        let url = self.http.url(&path, &[("$expand", "relations".to_owned())]);
        let request = Request::get(url, format!("the links of item {id}"));
        let expanded: Expanded = self.json("workItems", request).await?;
        let mut found = sort_out(id, &expanded);
        self.add_titles(&mut found.items).await?;
        Ok(found)
    }

    /// Items that are deleted or may not be read get no title.
    async fn add_titles(&self, items: &mut [LinkedItem]) -> Result<(), FetchError> {
        let ids: Vec<ItemId> = items.iter().filter_map(|item| item.id).collect();
        let names = ["System.Title", "System.State", "System.WorkItemType", "System.TeamProject"];
        let names = names.map(String::from);
        let (decoder, now) = (self.fields.decoder(), self.http.now());
        let read = self.read_fields(&ids, &names).await?;
        let mut known: HashMap<ItemId, _> =
            read.into_iter().map(|wire| decoder.item(wire, now).item).map(|i| (i.id, i)).collect();
        let mut text = None;
        if let Some(parent) = parent_of(items).filter(|parent| known.contains_key(parent)) {
            let read = self.read_fields(&[parent], &[DESCRIPTION.to_owned()]).await?;
            let read = read.into_iter().next().map(|wire| decoder.item(wire, now).item);
            text =
                read.and_then(|item| item.texts.into_iter().find(|text| text.name == DESCRIPTION));
        }
        for item in items {
            let Some(read) = item.id.and_then(|id| known.remove(&id)) else { continue };
            item.title = Some(read.title);
            (item.item_type, item.state, item.url) = (read.item_type, read.state, read.url);
            item.text = text.take_if(|_| item.kind == LinkKind::Parent);
        }
        Ok(())
    }

    /// Title, state and files of a commit or pull request.
    pub async fn change(&self, mut change: LinkedChange) -> Result<LinkedChange, FetchError> {
        let [project, repository] = change.place.split('/').collect::<Vec<_>>()[..] else {
            return Ok(change);
        };
        if change.kind == ChangeKind::PullRequest {
            let url = self.http.url(&[project, "_apis", "git", "pullrequests", &change.id], &[]);
            let request = Request::get(url, format!("pull request {}", change.id));
            let read: Value = self.http.json(&request).await?;
            change.title = first_line(read["title"].as_str());
            change.state = first_line(read["status"].as_str());
            change.commit = read["lastMergeCommit"]["commitId"].as_str().map(str::to_owned);
        }
        let of_request = change.commit.clone().filter(|id| is_hash(id));
        let commit = match change.kind {
            ChangeKind::Commit => change.id.clone(),
            ChangeKind::PullRequest => match of_request {
                Some(commit) => commit,
                None => return Ok(change),
            },
        };
        let path = [project, "_apis", "git", "repositories", repository, "commits", &commit];
        let url = self.http.url(&path, &[("changeCount", MAX_TOUCHED.to_string())]);
        let read: Value = self.http.json(&Request::get(url, format!("commit {commit}"))).await?;
        if change.kind == ChangeKind::Commit {
            change.title = first_line(read["comment"].as_str());
        }
        let touched = read["changes"].as_array().into_iter().flatten();
        let path = |change: &Value| match change["item"]["isFolder"] == true {
            true => None,
            false => {
                change["item"]["path"].as_str().map(|path| path.trim_start_matches('/').into())
            }
        };
        change.files = touched.filter_map(path).take(MAX_TOUCHED).collect();
        Ok(change)
    }

    /// The bytes of an attached file. The credential is sent only to the tracker's own address for
    /// files.
    pub async fn attachment(&self, file: &Attachment, limit: u64) -> Result<Vec<u8>, FetchError> {
        let url = own_address(&file.address, self.http.base(), file_path).map_err(|why| {
            FetchError::new(FailureClass::Config, format!("not requested: {why}"))
        })?;
        let what = &format!("the file {:?}", file.name);
        self.http.download(WantedFile { url, what, limit, is_storage: &|_| false }).await
    }

    /// Names and sizes of the files attached to these items.
    pub async fn attached_files(&self, ids: &[ItemId]) -> Result<Vec<ItemFile>, FetchError> {
        let items = self.with_relations(ids).await?;
        let files = |item: &super::wire::WithRelations| {
            let id = ItemId(item.id);
            let files = item.relations.iter().flatten().filter_map(Relation::file);
            files.map(|file| (id, file)).collect::<Vec<_>>()
        };
        Ok(items.iter().flat_map(files).collect())
    }
}

/// The path of an attached file below an organisation, from an address in a text.
fn file_path(given: &[&str]) -> Option<Vec<String>> {
    let (id, before) = given.split_last()?;
    let of_project = before.get(before.len().checked_sub(FILES.len())?..)?;
    let is_files = of_project.iter().zip(FILES).all(|(given, own)| given.eq_ignore_ascii_case(own));
    let is_known = is_files && before.len() <= FILES.len() + 1 && is_file_id(id);
    is_known.then(|| FILES.iter().chain([id]).map(|part| (*part).to_owned()).collect())
}

/// Relations by kind, each once, within the limits.
fn sort_out(own: ItemId, expanded: &Expanded) -> LinkedContent {
    let mut around = Around::of(own);
    for relation in expanded.relations.iter().flatten() {
        if let Some(file) = relation.file() {
            around.add_file(file);
        } else if let Some(change) = change_of(relation) {
            around.add_change(change);
        } else if let Some(item) = item_of(relation) {
            around.add_item(item);
        } else {
            around.leave_out();
        }
    }
    for text in expanded.fields.values().filter_map(Value::as_str) {
        around.add_shown(text, |shown| shown.is_picture);
    }
    around.finish()
}

fn item_of(relation: &Relation) -> Option<LinkedItem> {
    let number = relation.url.rsplit('/').next()?.parse().ok().map(ItemId)?;
    let kind = match relation.rel.as_str() {
        "System.LinkTypes.Hierarchy-Reverse" => LinkKind::Parent,
        "System.LinkTypes.Hierarchy-Forward" => LinkKind::Child,
        "System.LinkTypes.Related" => LinkKind::Related,
        rel if rel.starts_with("System.LinkTypes.Duplicate") => LinkKind::Duplicate,
        // Of another organisation: its numbers differ, and our credential must not be sent there.
        rel if rel.starts_with("System.LinkTypes.Remote") => {
            let kind = if rel.ends_with("Related") { LinkKind::Related } else { LinkKind::Other };
            let url = Url::parse(&relation.url).ok()?;
            let owner = url.path_segments()?.next()?.to_owned();
            let item = LinkedItem::new(kind, None, Some(format!("{owner}#{number}")));
            return Some(LinkedItem { url: relation.url.clone(), ..item });
        }
        "Hyperlink" | "ArtifactLink" | "" => return None,
        _ => LinkKind::Other,
    };
    Some(LinkedItem::new(kind, Some(number), None))
}

/// A link whose address begins with its project and repository.
fn change_of(relation: &Relation) -> Option<LinkedChange> {
    let url = relation.url.as_str();
    let (kind, id) = match development_link(url).filter(|_| relation.rel == "ArtifactLink")? {
        DevelopmentLink::Commit(id) => (ChangeKind::Commit, id),
        DevelopmentLink::PullRequest(number) => (ChangeKind::PullRequest, number.to_string()),
    };
    let address = percent_decode(url.splitn(6, '/').nth(5).unwrap_or_default());
    let place = address.rsplit_once('/').map(|(place, _)| place.to_owned()).unwrap_or_default();
    Some(LinkedChange::new(kind, id, place))
}
