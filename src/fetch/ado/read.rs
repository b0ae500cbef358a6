//! Reads items by id.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::decode::{self, AdoDecoded, AdoDecoder};
use super::fields::{BASIC, COMMENT_COUNT, WELL_KNOWN_TEXTS};
use super::{AdoSource, wire};
use crate::fetch::http::Request;
use crate::fetch::pages::{Batch, Parts};
use crate::fetch::write_back::{OWN_COMMENTS_SKIPPED, is_ours, of_others};
use crate::fetch::{CurrentState, FetchError};
use crate::model::{FailureClass, ItemId, WorkItem};
use crate::settings;

/// Most ids per request.
pub(super) const MAX_BATCH: usize = 200;

/// Error code of a field that the collection does not have.
const UNKNOWN_FIELD: &str = "TF51535";

/// The requested fields, reduced to those that the collection has.
pub(super) struct Fields {
    names: RwLock<Arc<Vec<String>>>,
    decoder: RwLock<Arc<AdoDecoder>>,
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
        let decoder = AdoDecoder {
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

    pub fn decoder(&self) -> Arc<AdoDecoder> {
        Arc::clone(&self.decoder.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Drops fields that the collection does not have, and records which ones are plain text.
    fn narrow(&self, known: &[wire::AdoField]) {
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
        let decoder = AdoDecoder {
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

impl AdoSource {
    /// Reads complete items, each once and only those requested. `unknown_change` replaces a missing
    /// change date.
    pub async fn read_items(
        &self,
        ids: &[ItemId],
        unknown_change: Timestamp,
    ) -> Result<Batch, FetchError> {
        self.load_custom_fields().await?;
        let mut parts = Parts::of(ids, MAX_BATCH);
        let mut found: HashMap<ItemId, AdoDecoded> = HashMap::with_capacity(ids.len());
        while let Some(part) = parts.next() {
            let mut read = self.read_fields(&part, &self.fields.names()).await;
            if read.as_ref().is_err_and(|error| error.has_code(UNKNOWN_FIELD))
                && !self.fields.known.initialized()
            {
                self.load_known_fields().await?;
                read = self.read_fields(&part, &self.fields.names()).await;
            }
            for wire in parts.take(part, read)?.into_iter().flatten() {
                let decoded = self.fields.decoder().item(wire, unknown_change);
                found.entry(decoded.item.id).or_insert(decoded);
            }
        }
        let mut batch = Batch { failed: parts.finish()?, ..Batch::default() };
        for id in ids {
            match found.remove(id) {
                Some(decoded) => batch.items.push(self.with_comments(decoded).await?),
                None if batch.failed.contains(id) => {}
                None => batch.vanished.push(*id),
            }
        }
        Ok(batch)
    }

    /// Which of the configured texts there are and how they are kept, unless they are the usual
    /// ones.
    pub async fn load_custom_fields(&self) -> Result<(), FetchError> {
        let is_usual = |name: &String| WELL_KNOWN_TEXTS.contains(&name.as_str());
        match self.config.text_fields.iter().all(is_usual) {
            true => Ok(()),
            false => self.load_known_fields().await,
        }
    }

    async fn load_known_fields(&self) -> Result<(), FetchError> {
        let learn = || async {
            let url = self.http.url(&["_apis", "wit", "fields"], &[]);
            let request = Request::get(url, "the list of fields");
            let list: wire::AdoList<wire::AdoField> = self.json("fields", request).await?;
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
    ) -> Result<Vec<wire::AdoItem>, FetchError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        // Without a project: a moved item keeps its id.
        self.batch(&json!({ "ids": ids, "fields": names, "errorPolicy": "omit" })).await
    }

    /// Sends one request for items.
    pub async fn batch<T: DeserializeOwned>(&self, body: &Value) -> Result<Vec<T>, FetchError> {
        let url = self.http.url(&["_apis", "wit", "workitemsbatch"], &[]);
        let request = Request::post(url, "work items", body);
        let list: wire::AdoList<T> = self.json("workItemsBatch", request).await?;
        Ok(list.value.into_iter().flatten().collect())
    }

    /// Items per page.
    pub fn page_size(&self) -> usize {
        let size = usize::try_from(self.config.page_size).unwrap_or(MAX_BATCH);
        size.clamp(1, MAX_BATCH)
    }

    /// Current state of these items, in the order of `ids`; deleted items are omitted.
    pub async fn current_states(&self, ids: &[ItemId]) -> Result<Vec<CurrentState>, FetchError> {
        let names = ["System.State", "System.ChangedDate"].map(String::from);
        let (decoder, now) = (self.fields.decoder(), self.http.now());
        let mut found: HashMap<ItemId, CurrentState> = HashMap::with_capacity(ids.len());
        for part in ids.chunks(MAX_BATCH) {
            for wire in self.read_fields(part, &names).await? {
                let item = decoder.item(wire, now).item;
                found.entry(item.id).or_insert(item.into());
            }
        }
        Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
    }

    /// When each of these items last changed; vanished ones are omitted.
    pub async fn read_changes(
        &self,
        ids: &[ItemId],
    ) -> Result<Vec<(Timestamp, ItemId)>, FetchError> {
        let names = [String::from("System.ChangedDate")];
        let items = self.read_fields(ids, &names).await?;
        let decoder = self.fields.decoder();
        let changes = items.into_iter().map(|wire| {
            // Without a date it counts as changed now, so that it is read.
            let item = decoder.item(wire, self.http.now()).item;
            (item.changed_at, item.id)
        });
        Ok(changes.collect())
    }

    /// Adds the newest comments, if configured, present, and within the rate limit.
    pub async fn with_comments(&self, decoded: AdoDecoded) -> Result<WorkItem, FetchError> {
        let AdoDecoded { mut item, project, comment_count } = decoded;
        let wanted = self.config.comments;
        if wanted == 0 || comment_count <= 0 || self.http.is_rate_limit_low().await {
            return Ok(item);
        }
        let project = project.unwrap_or_else(|| self.config.project.clone());
        let with_ours = OWN_COMMENTS_SKIPPED.saturating_add(wanted as usize);
        match self.read_comments(&project, item.id, with_ours).await {
            Ok(comments) => {
                item.comments = of_others(comments, wanted, |comment| is_ours(&comment.raw));
            }
            // The item was deleted between the two requests; the next read shows it.
            Err(failure) if failure.class == FailureClass::Gone => {}
            Err(failure) => return Err(failure),
        }
        Ok(item)
    }

    /// The newest `wanted` comments.
    pub async fn read_comments(
        &self,
        project: &str,
        id: ItemId,
        wanted: usize,
    ) -> Result<Vec<crate::model::Comment>, FetchError> {
        let number = id.to_string();
        let path = [project, "_apis", "wit", "workItems", &number, "comments"];
        let query = [("$top", wanted.to_string()), ("order", "desc".to_owned())];
        let what = format!("the comments of item {id}");
        let request = Request::get(self.http.url(&path, &query), what);
        let list: wire::AdoComments = self.json("comments", request).await?;
        Ok(list.comments.into_iter().filter_map(decode::comment).collect())
    }
}
