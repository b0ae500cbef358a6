//! Context of an issue: its parent, sub-tasks and links with their titles, attached files.
//!
//! An issue contains the titles of its neighbours, so one request is enough for all of them and one
//! more for the parent's description. Files come from the server's own address: Cloud is asked to
//! send them itself and not to redirect to its storage.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::JiraSource;
use super::wire::{self, JiraNamed, JiraStatus};
use crate::fetch::around::{Around, own_address, parent_of};
use crate::fetch::http::WantedFile;
use crate::fetch::text::{encode_segment, without_controls};
use crate::fetch::{FetchError, ItemFile};
use crate::model::{
    Attachment, FailureClass, ItemId, LinkKind, LinkedContent, LinkedItem, TextField,
};

/// Path of attached files on Cloud.
const CLOUD_FILES: &str = "/rest/api/3/attachment/content/";

/// A link between two issues; one of the ends is missing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IssueLink {
    #[serde(rename = "type")]
    kind: Option<JiraNamed>,
    inward_issue: Option<wire::JiraIssue>,
    outward_issue: Option<wire::JiraIssue>,
}

#[derive(Debug, Deserialize)]
struct IssueFile {
    id: Option<Box<RawValue>>,
    filename: Option<String>,
    size: Option<u64>,
}

impl JiraSource {
    /// `None` if the issue is deleted.
    pub async fn linked_content(&self, id: ItemId) -> Result<Option<LinkedContent>, FetchError> {
        let names = ["parent", "subtasks", "issuelinks", "attachment"].map(str::to_owned);
        let found = self.issues(&[id], &names).await?;
        let Some(fields) = found.into_iter().next().and_then(|issue| issue.fields) else {
            return Ok(None);
        };
        let site = self.server().await?.site;
        let mut around = Around::of(id);
        let mut add = |kind: LinkKind, issue: wire::JiraIssue| match linked_item(kind, issue, site)
        {
            Some(item) => around.add_item(item),
            None => around.leave_out(),
        };
        if let Some(parent) = fields.get::<wire::JiraIssue>("parent") {
            add(LinkKind::Parent, parent);
        }
        for child in fields.get::<Vec<wire::JiraIssue>>("subtasks").unwrap_or_default() {
            add(LinkKind::Child, child);
        }
        for link in fields.get::<Vec<IssueLink>>("issuelinks").unwrap_or_default() {
            let kind = kind_of(link.kind.and_then(|kind| kind.name).unwrap_or_default().as_str());
            for issue in [link.inward_issue, link.outward_issue].into_iter().flatten() {
                add(kind, issue);
            }
        }
        for file in self.files(&fields).await? {
            around.add_file(file);
        }
        let mut found = around.finish();
        if let Some(parent) = parent_of(&found.items) {
            let text = self.description(parent).await?;
            if let Some(item) = found.items.iter_mut().find(|item| item.id == Some(parent)) {
                item.text = text;
            }
        }
        Ok(Some(found))
    }

    /// The description of an issue; `None` if it may not be read.
    async fn description(&self, id: ItemId) -> Result<Option<TextField>, FetchError> {
        let issues = self.issues(&[id], &["description".to_owned()]).await?;
        let decoded = self.decode(issues, self.http.now()).await?;
        let texts = decoded.into_iter().flat_map(|one| one.item.texts);
        Ok(texts.into_iter().find(|text| text.name == "description"))
    }

    /// Names and sizes of the files attached to these issues.
    pub async fn attached_files(&self, ids: &[ItemId]) -> Result<Vec<ItemFile>, FetchError> {
        let mut named = Vec::new();
        for issue in self.issues(ids, &["attachment".to_owned()]).await? {
            let Some(id) = issue.number().map(ItemId) else { continue };
            let files = self.files(&issue.fields.unwrap_or_default()).await?;
            named.extend(files.into_iter().map(|file| (id, file)));
        }
        Ok(named)
    }

    async fn files(&self, fields: &wire::JiraFields) -> Result<Vec<Attachment>, FetchError> {
        let is_cloud = self.is_cloud().await?;
        let base = self.http.base_url();
        let file = |file: IssueFile| {
            let id = file.id.as_ref().map(|id| id.get().trim_matches('"')).unwrap_or_default();
            let address = match is_cloud {
                true => format!("{base}{CLOUD_FILES}{}", encode_segment(id)),
                // The server finds it by its number; a name may be anything.
                false => {
                    let name = file.filename.as_deref().filter(|name| is_plain(name));
                    let name = encode_segment(name.unwrap_or("file"));
                    format!("{base}/secure/attachment/{}/{name}", encode_segment(id))
                }
            };
            Attachment { name: file.filename.unwrap_or_default(), address, size: file.size }
        };
        let files: Vec<IssueFile> = fields.get("attachment").unwrap_or_default();
        Ok(files.into_iter().map(file).collect())
    }

    pub async fn attachment(&self, file: &Attachment, limit: u64) -> Result<Vec<u8>, FetchError> {
        let http = &self.http;
        let mut url = own_address(&file.address, http.base(), file_path).map_err(|why| {
            FetchError::new(FailureClass::Config, format!("not requested: {why}"))
        })?;
        if url.path().contains(CLOUD_FILES) {
            url.set_query(Some("redirect=false"));
        }
        let what = &format!("the file {:?}", file.name);
        http.download(WantedFile { url, what, limit, is_storage: &|_| false }).await
    }
}

/// Whether a name means the same to every server.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    name.chars().all(plain) && name.contains(|c: char| c.is_ascii_alphanumeric())
}

/// The path of an attached file, from its address: by its number, on an own server with its name.
fn file_path(given: &[&str]) -> Option<Vec<String>> {
    let is_number = |id: &str| id.bytes().all(|byte| byte.is_ascii_digit()) && !id.is_empty();
    let known = match given {
        ["rest", "api", "2" | "3", "attachment", "content", id] => is_number(id),
        ["secure", "attachment", id, _name] => is_number(id),
        _ => false,
    };
    known.then(|| given.iter().map(|part| (*part).to_owned()).collect())
}

/// Names of links are free; these are the server's defaults.
fn kind_of(name: &str) -> LinkKind {
    match name.to_lowercase() {
        name if name.contains("duplicate") => LinkKind::Duplicate,
        name if name.contains("relate") => LinkKind::Related,
        _ => LinkKind::Other,
    }
}

/// `None` if it has no number.
fn linked_item(kind: LinkKind, issue: wire::JiraIssue, site: &str) -> Option<LinkedItem> {
    let id = issue.number().map(ItemId)?;
    let key = issue.key.map(without_controls);
    let fields = issue.fields.unwrap_or_default();
    let status = fields.get::<JiraStatus>("status").and_then(|status| status.name);
    let item_type = fields.get::<JiraNamed>("issuetype").and_then(|kind| kind.name);
    let url = key.as_ref().map(|key| format!("{site}/browse/{}", encode_segment(key)));
    Some(LinkedItem {
        title: fields.get::<String>("summary").map(without_controls),
        item_type: item_type.map(without_controls).unwrap_or_default(),
        state: status.map(without_controls).unwrap_or_default(),
        url: url.unwrap_or_default(),
        ..LinkedItem::new(kind, Some(id), key)
    })
}
