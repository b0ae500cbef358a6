//! What stands around an item: relations with their titles, commits, pull requests, attachments.

use std::collections::{BTreeMap, HashMap};

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::failure::percent_decode;
use super::look_back::development_link;
use super::{Call, Inner};
use crate::fetch::DevelopmentLink;
use crate::fetch::failure::Failure;
use crate::model::{
    Attachment, ChangeKind, FailureClass, ItemId, LinkKind, LinkedChange, LinkedItem, Surroundings,
};

/// Links that are read with their titles, and files that are listed.
const MOST_ITEMS: usize = 20;
const MOST_CHANGES: usize = 8;
const MOST_FILES: usize = 30;
/// Files of a commit that are read.
const MOST_TOUCHED: usize = 30;
const DESCRIPTION: &str = "System.Description";
/// Where the tracker keeps attached files, below an organisation or a project of it.
const FILES: &str = "/_apis/wit/attachments/";

/// An item with everything around it.
#[derive(Debug, Deserialize)]
struct Expanded {
    #[serde(default)]
    fields: BTreeMap<String, Value>,
    #[serde(default)]
    relations: Option<Vec<Relation>>,
}

#[derive(Debug, Deserialize)]
struct Relation {
    #[serde(default)]
    rel: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    attributes: Attributes,
}

#[derive(Debug, Default, Deserialize)]
struct Attributes {
    name: Option<String>,
    #[serde(rename = "resourceSize")]
    size: Option<u64>,
}

impl Inner {
    pub async fn surroundings(&self, id: ItemId) -> Result<Surroundings, Failure> {
        let number = id.to_string();
        let what = format!("the links of item {id}");
        let path = vec!["_apis", "wit", "workitems", &number];
        let mut call = Call::get(path, "workItems", what.as_str());
        call.query = vec![("$expand", "relations".to_owned())];
        let answer = self.transport.send(&call).await?;
        let expanded: Expanded = self.transport.decode(&answer, &what)?;
        let mut found = sort_out(id, &expanded);
        self.add_titles(&mut found.items).await?;
        Ok(found)
    }

    /// What may not be read, or is gone, stays without a title.
    async fn add_titles(&self, items: &mut [LinkedItem]) -> Result<(), Failure> {
        let ids: Vec<ItemId> = items.iter().map(|item| item.id).collect();
        let names = ["System.Title", "System.State", "System.WorkItemType", "System.TeamProject"];
        let names = names.map(String::from);
        let (decoder, now) = (self.fields.decoder(), self.transport.now());
        let read = self.read_fields(&ids, &names).await?;
        let mut known: HashMap<ItemId, _> =
            read.into_iter().map(|wire| decoder.item(wire, now).item).map(|i| (i.id, i)).collect();
        let parent = items.iter().find(|item| item.kind == LinkKind::Parent).map(|item| item.id);
        let mut text = None;
        if let Some(parent) = parent.filter(|parent| known.contains_key(parent)) {
            let read = self.read_fields(&[parent], &[DESCRIPTION.to_owned()]).await?;
            let read = read.into_iter().next().map(|wire| decoder.item(wire, now).item);
            text =
                read.and_then(|item| item.texts.into_iter().find(|text| text.name == DESCRIPTION));
        }
        for item in items {
            let Some(read) = known.remove(&item.id) else { continue };
            item.title = Some(read.title);
            (item.item_type, item.state, item.url) = (read.item_type, read.state, read.url);
            item.text = text.take_if(|_| item.kind == LinkKind::Parent);
        }
        Ok(())
    }

    /// Title, state and files of a commit or pull request.
    pub async fn change(&self, mut change: LinkedChange) -> Result<LinkedChange, Failure> {
        let [project, repository] = change.place.split('/').collect::<Vec<_>>()[..] else {
            return Ok(change);
        };
        if change.kind == ChangeKind::PullRequest {
            let what = format!("pull request {}", change.id);
            let path = vec![project, "_apis", "git", "pullrequests", &change.id];
            let answer = self.transport.send(&Call::get(path, "", what.as_str())).await?;
            let read: Value = self.transport.decode(&answer, &what)?;
            change.title = line(&read["title"]);
            change.state = line(&read["status"]);
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
        let what = format!("commit {commit}");
        let path = vec![project, "_apis", "git", "repositories", repository, "commits", &commit];
        let mut call = Call::get(path, "", what.as_str());
        call.query = vec![("changeCount", MOST_TOUCHED.to_string())];
        let answer = self.transport.send(&call).await?;
        let read: Value = self.transport.decode(&answer, &what)?;
        if change.kind == ChangeKind::Commit {
            change.title = line(&read["comment"]);
        }
        let touched = read["changes"].as_array().into_iter().flatten();
        let path = |change: &Value| match change["item"]["isFolder"] == true {
            true => None,
            false => {
                change["item"]["path"].as_str().map(|path| path.trim_start_matches('/').into())
            }
        };
        change.files = touched.filter_map(path).take(MOST_TOUCHED).collect();
        Ok(change)
    }

    /// The bytes of an attached file. The credential goes to the tracker's own address for them and
    /// nowhere else.
    pub async fn attachment(&self, file: &Attachment, limit: u64) -> Result<Vec<u8>, Failure> {
        let own = own_address(&file.address, self.transport.base())
            .map_err(|why| Failure::new(FailureClass::Config, format!("not asked for: {why}")))?;
        self.transport.download(own, &format!("the file {:?}", file.name), limit).await
    }
}

/// The address, if it is one of the tracker's own for attached files.
fn own_address(address: &str, base: &Url) -> Result<Url, String> {
    let url = Url::parse(address).map_err(|_| "its address is not valid".to_owned())?;
    let place = |url: &Url| {
        (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default())
    };
    if place(&url) != place(base) {
        let host = url.host_str().unwrap_or("nothing");
        return Err(format!("it is on another host ({host})"));
    }
    let inside = base.path().trim_end_matches('/').to_ascii_lowercase();
    let path = url.path().to_ascii_lowercase();
    match path.strip_prefix(&inside).is_some_and(|rest| rest.starts_with('/'))
        && path.contains(FILES)
        && url.username().is_empty()
    {
        true => Ok(url),
        false => Err("it is not one of the tracker's addresses for files".to_owned()),
    }
}

/// Relations by kind, each once, within the bounds; one item links to another directly, so a circle
/// of links goes nowhere.
fn sort_out(own: ItemId, expanded: &Expanded) -> Surroundings {
    let mut found = Surroundings::default();
    for relation in expanded.relations.iter().flatten() {
        let used = match relation.rel.as_str() {
            "AttachedFile" => {
                let name = relation.attributes.name.clone().unwrap_or_default();
                add_file(&mut found, name, &relation.url, relation.attributes.size)
            }
            "ArtifactLink" => add_change(&mut found, &relation.url),
            rel => add_item(&mut found, own, rel, &relation.url),
        };
        found.left_out += u64::from(!used);
    }
    found.items.sort_by_key(|item| (item.kind, item.id));
    found.left_out += found.items.len().saturating_sub(MOST_ITEMS) as u64;
    found.items.truncate(MOST_ITEMS);
    for text in expanded.fields.values().filter_map(Value::as_str) {
        for address in pictures(text) {
            let name = file_name(&address);
            add_file(&mut found, name, &address, None);
        }
    }
    found
}

fn add_item(found: &mut Surroundings, own: ItemId, rel: &str, url: &str) -> bool {
    let kind = match rel {
        "System.LinkTypes.Hierarchy-Reverse" => LinkKind::Parent,
        "System.LinkTypes.Hierarchy-Forward" => LinkKind::Child,
        "System.LinkTypes.Related" => LinkKind::Related,
        rel if rel.starts_with("System.LinkTypes.Duplicate") => LinkKind::Duplicate,
        // Of another organisation: its numbers are not ours.
        rel if rel.starts_with("System.LinkTypes.Remote") => return false,
        "Hyperlink" | "" => return false,
        _ => LinkKind::Other,
    };
    let Some(id) = url.rsplit('/').next().and_then(|id| id.parse().ok()).map(ItemId) else {
        return false;
    };
    if id == own || found.items.iter().any(|item| item.id == id) {
        return true;
    }
    let (item_type, state, url) = (String::new(), String::new(), String::new());
    found.items.push(LinkedItem { kind, id, title: None, item_type, state, url, text: None });
    true
}

/// A link whose address begins with the project and the repository it is kept in.
fn add_change(found: &mut Surroundings, url: &str) -> bool {
    let (kind, id) = match development_link(url) {
        Some(DevelopmentLink::Commit(id)) => (ChangeKind::Commit, id),
        Some(DevelopmentLink::PullRequest(number)) => (ChangeKind::PullRequest, number.to_string()),
        None => return false,
    };
    if found.changes.len() >= MOST_CHANGES {
        return false;
    }
    let address = percent_decode(url.splitn(6, '/').nth(5).unwrap_or_default());
    let place = address.rsplit_once('/').map(|(place, _)| place.to_owned()).unwrap_or_default();
    if !found.changes.iter().any(|known| known.kind == kind && known.id == id) {
        found.changes.push(LinkedChange {
            kind,
            id,
            place,
            title: String::new(),
            state: String::new(),
            commit: None,
            files: Vec::new(),
        });
    }
    true
}

fn add_file(found: &mut Surroundings, name: String, address: &str, size: Option<u64>) -> bool {
    // The same file is often attached and shown: what follows the path is only its name.
    let path = |address: &str| address.split('?').next().unwrap_or_default().to_ascii_lowercase();
    if found.files.iter().any(|known| path(&known.address) == path(address)) {
        return true;
    }
    if found.files.len() >= MOST_FILES {
        return false;
    }
    found.files.push(Attachment { name, address: address.to_owned(), size });
    true
}

/// Addresses of pictures in a text, be it HTML or Markdown.
fn pictures(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for tag in text.split("<img").skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        let Some((_, value)) = tag.split_once("src=") else { continue };
        let quote = value.chars().next().filter(|c| "\"'".contains(*c));
        let address = match quote {
            Some(quote) => value[1..].split(quote).next(),
            None => value.split_whitespace().next(),
        };
        found.extend(address.map(|address| address.replace("&amp;", "&")));
    }
    for picture in text.split("![").skip(1) {
        let address = picture.split_once("](").and_then(|(_, rest)| rest.split([')', ' ']).next());
        found.extend(address.map(|address| address.replace("&amp;", "&")));
    }
    found.retain(|address| address.starts_with("http"));
    found
}

/// `fileName` of the address, or its last part.
fn file_name(address: &str) -> String {
    let named = Url::parse(address).ok().and_then(|url| {
        let mut pairs = url.query_pairs();
        let named = pairs.find(|(name, _)| name.eq_ignore_ascii_case("fileName"));
        let last =
            || url.path_segments().and_then(|mut parts| parts.next_back().map(str::to_owned));
        named.map(|(_, name)| name.into_owned()).or_else(last)
    });
    named.unwrap_or_default()
}

fn is_hash(id: &str) -> bool {
    (7..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn line(value: &Value) -> String {
    value.as_str().unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}
