//! Context of an issue: its parent and sub-issues, issues and pull requests that refer to it,
//! commits that closed it, pictures and files in its texts.
//!
//! The service keeps files on its web server and redirects readers to its storage. The credential
//! is sent only to the former. Files of private repositories are available only to tokens of a
//! user; others get a 404, which is reported.

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::read::{IssuePlace, by_position, find};
use super::repositories::Known;
use super::{GithubSource, wire};
use crate::fetch::FetchError;
use crate::fetch::around::{
    Around, MAX_TOUCHED, NOT_A_FILE, ShownAddress, first_line, is_file_id, is_hash, segments,
    with_path,
};
use crate::fetch::http::WantedFile;
use crate::fetch::text::without_controls;
use crate::model::{
    Attachment, ChangeKind, FailureClass, ItemId, LinkKind, LinkedChange, LinkedContent, LinkedItem,
};

/// Most sub-issues requested.
const MAX_CHILDREN: u64 = 50;
const SERVICE: &str = "api.github.com";

impl GithubSource {
    /// `None` if the issue is deleted.
    pub async fn linked_content(&self, id: ItemId) -> Result<Option<LinkedContent>, FetchError> {
        let repositories = self.known_repositories().await?;
        let known = by_position(&repositories);
        let Some(place) = find(&known, id) else { return Ok(None) };
        let Some(issue) = self.read_issue(&place).await? else { return Ok(None) };
        let mut around = Around::of(id);
        if let Some(parent) = &issue.parent_issue_url {
            around.add_item(self.parent(parent, &repositories).await?);
        }
        let children = issue.sub_issues_summary.as_ref().map_or(0, |summary| summary.total);
        for child in self.children(&place, children).await? {
            around.add_item(linked_item(LinkKind::Child, child, &repositories));
        }
        let own = |shown: &ShownAddress| {
            // Any picture is listed, also to say why it is not read.
            shown.is_picture || self.own_file(&shown.address).is_ok()
        };
        around.add_shown(issue.body.as_deref().unwrap_or_default(), own);
        for event in self.timeline(&place).await? {
            around.add_shown(event["body"].as_str().unwrap_or_default(), own);
            add_event(&mut around, &event, place.repository, &repositories);
        }
        Ok(Some(around.finish()))
    }

    /// A parent that may not be read has no title.
    async fn parent(
        &self,
        address: &str,
        repositories: &[Known],
    ) -> Result<LinkedItem, FetchError> {
        let what = "the parent of an issue";
        let read = match self.same_server(self.http.base(), address) {
            Ok(url) => self.json(url, what).await,
            Err(error) => Err(error),
        };
        let issue: wire::GithubIssue = match read {
            Ok(issue) => issue,
            Err(failure) if is_refusal(&failure) => {
                let number = address.rsplit('/').next().and_then(|last| last.parse().ok());
                let repository_url = address.split_once("/issues/").map(|(url, _)| url.to_owned());
                wire::GithubIssue {
                    number: number.unwrap_or_default(),
                    repository_url,
                    ..wire::GithubIssue::default()
                }
            }
            Err(failure) => return Err(failure),
        };
        let text = issue.body.clone().filter(|body| !body.trim().is_empty());
        let parent = linked_item(LinkKind::Parent, issue, repositories);
        Ok(LinkedItem { text: text.map(super::decode::text), ..parent })
    }

    /// Empty where the server is too old for sub-issues.
    async fn children(
        &self,
        place: &IssuePlace<'_>,
        total: u64,
    ) -> Result<Vec<wire::GithubIssue>, FetchError> {
        if total == 0 {
            return Ok(Vec::new());
        }
        let number = place.number.to_string();
        let what = format!("the sub-issues of {}#{number}", place.repository.name);
        let path = ["repos", &place.repository.name, "issues", &number, "sub_issues"];
        let url = self.http.url(&path, &[("per_page", MAX_CHILDREN.to_string())]);
        match self.json(url, &what).await {
            Err(error) if is_refusal(&error) => Ok(Vec::new()),
            read => read,
        }
    }

    /// Adds title and files of a commit, or files of a pull request.
    pub async fn change(&self, mut change: LinkedChange) -> Result<LinkedChange, FetchError> {
        if !is_repository(&change.place) {
            return Ok(change);
        }
        let most = [("per_page", MAX_TOUCHED.to_string())];
        let touched = |list: &Value| -> Vec<String> {
            let names = list.as_array().into_iter().flatten();
            let names = names.filter_map(|file| file["filename"].as_str().map(str::to_owned));
            names.take(MAX_TOUCHED).collect()
        };
        match change.kind {
            ChangeKind::Commit => {
                let what = format!("commit {}", change.id);
                let url = self.http.url(&["repos", &change.place, "commits", &change.id], &most);
                let read: Value = self.json(url, &what).await?;
                change.title = first_line(read["commit"]["message"].as_str());
                change.files = touched(&read["files"]);
            }
            ChangeKind::PullRequest => {
                let what = format!("the files of pull request {}", change.id);
                let path = ["repos", &change.place, "pulls", &change.id, "files"];
                change.files = touched(&self.json(self.http.url(&path, &most), &what).await?);
            }
        }
        Ok(change)
    }

    pub async fn attachment(&self, file: &Attachment, limit: u64) -> Result<Vec<u8>, FetchError> {
        let url = self.own_file(&file.address).map_err(|why| {
            FetchError::new(FailureClass::Config, format!("not requested: {why}"))
        })?;
        let what = &format!("the file {:?}", file.name);
        let base = self.http.base();
        let is_storage = &|url: &Url| is_storage(url, base);
        self.http.download(WantedFile { url, what, limit, is_storage }).await
    }

    fn own_file(&self, address: &str) -> Result<Url, String> {
        own_file(address, self.http.base())
    }
}

fn is_refusal(failure: &FetchError) -> bool {
    matches!(failure.class, FailureClass::Config | FailureClass::Denied | FailureClass::Gone)
        || failure.is_missing()
}

/// An event of the timeline: a reference to the issue, or a commit that closes it.
fn add_event(around: &mut Around, event: &Value, ours: &Known, repositories: &[Known]) {
    match event["event"].as_str().unwrap_or_default() {
        "closed" | "referenced" => {
            let Some(commit) = event["commit_id"].as_str().filter(|id| is_hash(id)) else { return };
            let url = event["commit_url"].as_str().unwrap_or_default();
            let place = repository_in(url).unwrap_or_else(|| ours.name.clone());
            around.add_change(LinkedChange::new(ChangeKind::Commit, commit.to_owned(), place));
        }
        "cross-referenced" => {
            let Ok(source) = ReferringIssue::deserialize(&event["source"]["issue"]) else { return };
            let ReferringIssue { issue, pull_request } = source;
            let Some(pull_request) = pull_request else {
                return around.add_item(linked_item(LinkKind::Related, issue, repositories));
            };
            let place = issue.repository_url.as_deref().and_then(repository_in);
            let place = place.unwrap_or_else(|| ours.name.clone());
            let change =
                LinkedChange::new(ChangeKind::PullRequest, issue.number.to_string(), place);
            let state = match pull_request.merged_at {
                Some(_) => "merged".to_owned(),
                None => without_controls(issue.state.unwrap_or_default()),
            };
            let title = first_line(issue.title.as_deref());
            around.add_change(LinkedChange { title, state, ..change });
        }
        _ => {}
    }
}

/// An issue or a pull request that refers to another issue.
#[derive(Deserialize)]
struct ReferringIssue {
    #[serde(flatten)]
    issue: wire::GithubIssue,
    pull_request: Option<PullRequest>,
}

#[derive(Deserialize)]
struct PullRequest {
    merged_at: Option<String>,
}

/// An issue of one of these repositories gets an id, any other one only its name.
fn linked_item(kind: LinkKind, issue: wire::GithubIssue, repositories: &[Known]) -> LinkedItem {
    let place = issue.repository_url.as_deref().and_then(repository_in).unwrap_or_default();
    let known = repositories.iter().find(|known| known.name.eq_ignore_ascii_case(&place));
    let handle = Some(format!("{place}#{}", issue.number));
    let is_page = |url: &String| url.starts_with("https://") || url.starts_with("http://");
    LinkedItem {
        title: issue.title.map(without_controls),
        item_type: issue.kind.and_then(|kind| kind.name).map(without_controls).unwrap_or_default(),
        state: issue.state.map(without_controls).unwrap_or_default(),
        url: issue.html_url.filter(is_page).unwrap_or_default(),
        ..LinkedItem::new(kind, known.map(|known| known.item_id(issue.number)), handle)
    }
}

/// `owner/name` in an API address.
fn repository_in(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("/repos/")?;
    let name = rest.splitn(3, '/').take(2).collect::<Vec<_>>().join("/");
    is_repository(&name).then_some(name)
}

fn is_repository(name: &str) -> bool {
    let plain = |part: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !part.is_empty() && part.chars().all(allowed) && part != "." && part != ".."
    };
    name.split_once('/').is_some_and(|(owner, name)| plain(owner) && plain(name))
}

/// The web server of an API, which also keeps files.
fn web_host(base: &Url) -> &str {
    let host = base.host_str().unwrap_or_default();
    match host {
        SERVICE => "github.com",
        host if host.ends_with(".ghe.com") => host.strip_prefix("api.").unwrap_or(host),
        host => host,
    }
}

/// The address, if the service keeps files there.
fn own_file(address: &str, base: &Url) -> Result<Url, String> {
    let url = Url::parse(address).map_err(|_| "its address is not valid".to_owned())?;
    if is_storage(&url, base) && url.path().len() > 1 {
        return Ok(url);
    }
    let host = url.host_str().unwrap_or("nothing");
    let is_web = host == web_host(base)
        && url.scheme() == base.scheme()
        && url.port_or_known_default() == base.port_or_known_default();
    if !is_web {
        return Err(format!("it is on another host ({host})"));
    }
    let path = segments(&url).unwrap_or_default();
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    let is_file = match parts.as_slice() {
        ["user-attachments", "assets", id] => is_file_id(id),
        ["user-attachments", "files", id, _name] => is_file_id(id),
        ["storage", "user", user, "files", id] => is_file_id(user) && is_file_id(id),
        [owner, name, "assets", number, id] => {
            is_repository(&format!("{owner}/{name}")) && is_file_id(number) && is_file_id(id)
        }
        [owner, name, "files", number, _name] => {
            is_repository(&format!("{owner}/{name}")) && is_file_id(number)
        }
        _ => false,
    };
    let mut root = url.clone();
    root.set_path("/");
    match is_file && url.username().is_empty() && url.password().is_none() {
        // Made anew from its parts.
        true => with_path(&root, &path).ok_or_else(|| NOT_A_FILE.to_owned()),
        false => Err(NOT_A_FILE.to_owned()),
    }
}

/// The storage that the service redirects to. Such an address grants access by itself, so no
/// credential is needed.
fn is_storage(url: &Url, base: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    if url.scheme() != base.scheme() || !url.username().is_empty() {
        return false;
    }
    if base.host_str() == Some(SERVICE) {
        let is_bucket = host.starts_with("github-production-user-asset-")
            && host.ends_with(".s3.amazonaws.com");
        return is_bucket || host.ends_with(".githubusercontent.com");
    }
    // An Enterprise Server: a separate media host, or a path on the same host.
    let own = web_host(base);
    let is_media_path =
        host == own && url.port() == base.port() && url.path().starts_with("/media/");
    is_media_path || host.strip_prefix("media.") == Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_from_the_services_own_addresses_and_no_other() {
        let service = Url::parse("https://api.github.com/").unwrap();
        let own = |address: &str| own_file(address, &service).is_ok();
        for address in [
            "https://github.com/user-attachments/assets/0a1b2c",
            "https://github.com/user-attachments/files/1/server.log",
            "https://github.com/contoso/shop/assets/1/0a1b2c",
            "https://github.com/contoso/shop/files/1/server.log",
            "https://user-images.githubusercontent.com/1/2.png",
        ] {
            assert!(own(address), "{address}");
        }
        for address in [
            "http://github.com/user-attachments/assets/0a1b2c",
            "https://me@github.com/user-attachments/assets/0a1b2c",
            "https://github.com.evil.test/user-attachments/assets/0a1b2c",
            "https://evilgithub.com/user-attachments/assets/0a1b2c",
            "https://githubusercontent.com.evil.test/1/2.png",
            "https://github.com/contoso/shop/settings",
            "https://github.com/contoso/shop/files/..%2F..%2Fsettings/a",
            "https://github.com/user-attachments/assets/..;/0a",
            "https://github.com/user-attachments/assets/0a/../../settings",
            "https://github.com/user-attachments/assets",
            "https://api.github.com/user",
            "https://github.com:8443/user-attachments/assets/0a1b2c",
            "file:///etc/passwd",
            "",
        ] {
            assert!(!own(address), "{address}");
        }
        let server = Url::parse("https://github.contoso.com/api/v3").unwrap();
        assert!(own_file("https://github.contoso.com/storage/user/5/files/0a", &server).is_ok());
        assert!(own_file("https://github.com/user-attachments/assets/0a", &server).is_err());
        assert!(is_storage(&Url::parse("https://media.github.contoso.com/x").unwrap(), &server));
        assert!(!is_storage(&Url::parse("https://media.evil.test/x").unwrap(), &server));
    }

    #[test]
    fn repositories_are_read_from_addresses() {
        let name = |url: &str| repository_in(url);
        assert_eq!(name("https://api.github.com/repos/a/b/issues/3").as_deref(), Some("a/b"));
        assert_eq!(name("https://api.github.com/repos/a/b").as_deref(), Some("a/b"));
        for odd in ["", "/repos/a", "/repos/../b", "/repos/a b/c", "/repos//b"] {
            assert_eq!(name(odd), None, "{odd}");
        }
    }
}
