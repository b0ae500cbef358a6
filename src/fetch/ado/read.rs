//! Reads items by id.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use serde_json::json;

use super::decode::{self, Decoded, Decoder};
use super::fields::{BASIC, COMMENT_COUNT, WELL_KNOWN_TEXTS};
use super::{Call, Inner, wire};
use crate::fetch::CurrentState;
use crate::fetch::failure::{BODY_TOO_LONG, Failure};
use crate::fetch::http::Answer;
use crate::fetch::write_back::is_ours;
use crate::model::{FailureClass, ItemId, WorkItem};
use crate::settings;

/// Most ids per request.
pub(super) const MAX_BATCH: usize = 200;

/// Name of the items in messages.
const ITEMS: &str = "work items";
/// How many of our own comments may be among the requested ones.
const OWN_COMMENTS_SKIPPED: u32 = 20;

/// Error code of a field that the collection does not have.
const UNKNOWN_FIELD: &str = "TF51535";

/// The requested fields, reduced to those that the collection has.
pub(super) struct Fields {
    names: RwLock<Arc<Vec<String>>>,
    decoder: RwLock<Arc<Decoder>>,
    known: tokio::sync::OnceCell<()>,
}

impl Fields {
    pub fn new(config: &settings::Source, base_url: &str) -> Self {
        let mut names: Vec<String> = BASIC.iter().map(|&name| name.to_owned()).collect();
        if config.comments > 0 {
            names.push(COMMENT_COUNT.to_owned());
        }
        names.extend(config.text_fields.iter().cloned());
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.to_ascii_lowercase()));
        let decoder = Decoder {
            source: config.name.clone(),
            base_url: base_url.to_owned(),
            text_fields: config.text_fields.clone(),
            plain_fields: Vec::new(),
            own_tag: config.write_back_tag.clone(),
        };
        Self {
            names: RwLock::new(Arc::new(names)),
            decoder: RwLock::new(Arc::new(decoder)),
            known: tokio::sync::OnceCell::new(),
        }
    }

    pub fn names(&self) -> Arc<Vec<String>> {
        Arc::clone(&self.names.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn decoder(&self) -> Arc<Decoder> {
        Arc::clone(&self.decoder.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Drops fields that the collection does not have, and records which ones are plain text.
    fn narrow(&self, known: &[wire::Field]) {
        let kinds: HashMap<String, &str> = known
            .iter()
            .map(|field| (field.reference_name.to_ascii_lowercase(), field.kind.as_str()))
            .collect();
        let (here, missing): (Vec<String>, Vec<String>) = self
            .names()
            .iter()
            .cloned()
            .partition(|name| kinds.contains_key(&name.to_ascii_lowercase()));
        if !missing.is_empty() {
            tracing::info!(
                fields = missing.join(", "),
                "skipping fields that the collection does not have"
            );
        }
        let decoder = self.decoder();
        let plain = |name: &&String| {
            kinds.get(&name.to_ascii_lowercase()).is_some_and(|kind| *kind != "html")
        };
        let decoder = Decoder {
            source: decoder.source.clone(),
            base_url: decoder.base_url.clone(),
            text_fields: decoder.text_fields.clone(),
            plain_fields: decoder.text_fields.iter().filter(plain).cloned().collect(),
            own_tag: decoder.own_tag.clone(),
        };
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(here);
        *self.decoder.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(decoder);
    }
}

/// An undecoded response to a request for items.
#[derive(Debug)]
pub(super) struct Fetched {
    ids: Vec<ItemId>,
    /// `None`: the tracker cannot return this one item.
    answer: Option<Answer>,
}

/// Failed requests without any answer after which the server is at fault, not an item: a batch, its
/// halves and its quarters.
const MAX_WITHOUT_ANSWER: u32 = 7;

fn is_server_error(failure: &Failure) -> bool {
    matches!(failure.class, FailureClass::Transient | FailureClass::Down)
}

fn set_aside(part: &[ItemId], failure: &Failure) {
    tracing::error!(items = ?part, error = failure.message, "the tracker cannot return this item; the others are read without it");
}

/// The result of reading some ids.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// In the order of the requested ids, each once.
    pub items: Vec<WorkItem>,
    /// Requested ids that were not returned.
    pub vanished: Vec<ItemId>,
    /// Requested ids that the tracker cannot return: it fails, or the item is larger than allowed.
    pub failed: Vec<ItemId>,
}

impl Inner {
    /// Reads complete items. `unknown_change` replaces a missing change date.
    pub async fn read_items(
        &self,
        ids: &[ItemId],
        unknown_change: Timestamp,
    ) -> Result<Batch, Failure> {
        let fetched = self.fetch_items(ids).await?;
        self.decode_items(fetched, unknown_change).await
    }

    /// Requests complete items without decoding the responses.
    pub async fn fetch_items(&self, ids: &[ItemId]) -> Result<Vec<Fetched>, Failure> {
        if self.config.text_fields.iter().any(|name| !WELL_KNOWN_TEXTS.contains(&name.as_str())) {
            self.load_known_fields().await?;
        }
        let mut fetched: Vec<Fetched> = Vec::with_capacity(1);
        let mut todo = VecDeque::from([ids]);
        let (mut failures, mut alone) = (0, Vec::new());
        while let Some(part) = todo.pop_front() {
            match self.send_for(part, &self.fields.names()).await {
                Ok(answer) => fetched.push(Fetched { ids: part.to_vec(), answer: Some(answer) }),
                Err(failure) if failure.has_code(BODY_TOO_LONG) && part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    todo.extend([first, second]);
                }
                Err(failure) if failure.has_code(BODY_TOO_LONG) => {
                    set_aside(part, &failure);
                    fetched.push(Fetched { ids: part.to_vec(), answer: None });
                }
                // One item can make the server fail, so the batch is divided until it is alone.
                // If nothing at all can be read, it is the server.
                Err(failure) if is_server_error(&failure) => {
                    failures += 1;
                    if fetched.is_empty() && failures > MAX_WITHOUT_ANSWER {
                        return Err(failure);
                    }
                    match part {
                        [_] => alone.push((part, failure)),
                        part => {
                            let (first, second) = part.split_at(part.len() / 2);
                            todo.extend([first, second]);
                        }
                    }
                }
                Err(failure)
                    if failure.has_code(UNKNOWN_FIELD) && !self.fields.known.initialized() =>
                {
                    self.load_known_fields().await?;
                    todo.push_front(part);
                }
                Err(failure) => return Err(failure),
            }
        }
        for (part, failure) in alone {
            if fetched.is_empty() {
                return Err(failure);
            }
            set_aside(part, &failure);
            fetched.push(Fetched { ids: part.to_vec(), answer: None });
        }
        // In the order of the ids, however they were divided.
        let place = |one: &Fetched| ids.iter().position(|id| Some(id) == one.ids.first());
        fetched.sort_by_key(place);
        Ok(fetched)
    }

    /// Decodes fetched items, each once and only those requested.
    pub async fn decode_items(
        &self,
        fetched: Vec<Fetched>,
        unknown_change: Timestamp,
    ) -> Result<Batch, Failure> {
        let decoder = self.fields.decoder();
        let mut batch = Batch::default();
        for Fetched { ids, answer } in fetched {
            let Some(answer) = answer else {
                batch.failed.extend(ids);
                continue;
            };
            let items = self.items_of(&answer)?;
            let mut by_id: HashMap<i64, Decoded> = HashMap::with_capacity(items.len());
            for wire in items {
                let decoded = decoder.item(wire, unknown_change);
                by_id.entry(decoded.item.id.0).or_insert(decoded);
            }
            for id in ids {
                match by_id.remove(&id.0) {
                    Some(decoded) => batch.items.push(self.with_comments(decoded).await?),
                    None => batch.vanished.push(id),
                }
            }
        }
        Ok(batch)
    }

    pub async fn load_known_fields(&self) -> Result<(), Failure> {
        let learn = || async {
            let what = "the list of fields";
            let call = Call::get(vec!["_apis", "wit", "fields"], "fields", what);
            let answer = self.transport.send(&call).await?;
            let list: wire::Listing<wire::Field> = self.transport.decode(&answer, what)?;
            self.fields.narrow(&list.value.into_iter().flatten().collect::<Vec<_>>());
            Ok(())
        };
        self.fields.known.get_or_try_init(learn).await.map(|_| ())
    }

    /// Reads some fields of items.
    pub async fn read_fields(
        &self,
        ids: &[ItemId],
        names: &[String],
    ) -> Result<Vec<wire::Item>, Failure> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let answer = self.send_for(ids, names).await?;
        self.items_of(&answer)
    }

    /// Requests items by id without a project: a moved item keeps its id.
    async fn send_for(&self, ids: &[ItemId], names: &[String]) -> Result<Answer, Failure> {
        self.send_batch(&json!({ "ids": ids, "fields": names, "errorPolicy": "omit" })).await
    }

    /// Sends one request for items.
    pub async fn send_batch(&self, body: &serde_json::Value) -> Result<Answer, Failure> {
        let path = vec!["_apis", "wit", "workitemsbatch"];
        self.transport.send(&Call::post(path, "workItemsBatch", ITEMS, body)).await
    }

    pub fn items_of(&self, answer: &Answer) -> Result<Vec<wire::Item>, Failure> {
        let list: wire::Listing<wire::Item> = self.transport.decode(answer, ITEMS)?;
        Ok(list.value.into_iter().flatten().collect())
    }

    /// Items per page.
    pub fn page_size(&self) -> usize {
        let size = usize::try_from(self.config.page_size).unwrap_or(MAX_BATCH);
        size.clamp(1, MAX_BATCH)
    }

    /// Current state of these items, in the order of `ids`; deleted items are omitted.
    pub async fn current_states(&self, ids: &[ItemId]) -> Result<Vec<CurrentState>, Failure> {
        let names = ["System.State", "System.ChangedDate"].map(String::from);
        let (decoder, now) = (self.fields.decoder(), self.transport.now());
        let mut found: HashMap<ItemId, CurrentState> = HashMap::with_capacity(ids.len());
        for part in ids.chunks(MAX_BATCH) {
            for wire in self.read_fields(part, &names).await? {
                let WorkItem { id, rev, state, finished, changed_at, .. } =
                    decoder.item(wire, now).item;
                found.entry(id).or_insert(CurrentState { id, rev, state, finished, changed_at });
            }
        }
        Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
    }

    /// When each of these items last changed; vanished ones are omitted.
    pub async fn read_changes(&self, ids: &[ItemId]) -> Result<Vec<(Timestamp, ItemId)>, Failure> {
        let names = [String::from("System.ChangedDate")];
        let items = self.read_fields(ids, &names).await?;
        let decoder = self.fields.decoder();
        let changes = items.into_iter().map(|wire| {
            // Without a date it counts as changed now, so that it is read.
            let item = decoder.item(wire, self.transport.now()).item;
            (item.changed_at, item.id)
        });
        Ok(changes.collect())
    }

    /// Adds the newest comments, if configured, present, and within the rate limit.
    pub async fn with_comments(&self, decoded: Decoded) -> Result<WorkItem, Failure> {
        let Decoded { mut item, project, comment_count } = decoded;
        let wanted = self.config.comments;
        if wanted == 0 || comment_count <= 0 || self.transport.is_rate_limit_low().await {
            return Ok(item);
        }
        let project = project.unwrap_or_else(|| self.config.project.clone());
        // Our own comments neither reach the prompt nor count as a change.
        let with_ours = wanted.saturating_add(OWN_COMMENTS_SKIPPED);
        match self.read_comments(&project, item.id, with_ours).await {
            Ok(mut comments) => {
                comments.retain(|comment| !is_ours(&comment.raw));
                let too_many = comments.len().saturating_sub(wanted as usize);
                item.comments = comments.split_off(too_many);
            }
            // The item was deleted between the two requests; the next read shows it.
            Err(failure) if failure.class == FailureClass::Gone => {}
            Err(failure) => return Err(failure),
        }
        Ok(item)
    }

    /// The newest `wanted` comments, newest last.
    pub async fn read_comments(
        &self,
        project: &str,
        id: ItemId,
        wanted: u32,
    ) -> Result<Vec<crate::model::Comment>, Failure> {
        let number = id.to_string();
        let path = vec![project, "_apis", "wit", "workItems", &number, "comments"];
        let what = format!("the comments of item {id}");
        let mut call = Call::get(path, "comments", what.as_str());
        call.query = vec![("$top", wanted.to_string()), ("order", "desc".to_owned())];
        let answer = self.transport.send(&call).await?;
        let list: wire::Comments = self.transport.decode(&answer, &what)?;
        let mut comments: Vec<_> = list.comments.into_iter().filter_map(decode::comment).collect();
        comments.sort_by_key(|comment| comment.at);
        Ok(comments)
    }
}
