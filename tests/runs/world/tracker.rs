//! The scripted tracker: reading, light reads, and writing to items.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use heartbeat::fetch::{
    CurrentState, FetchError, FetchRequest, FieldWrite, ItemFile, Page, Pages, Source,
};
use heartbeat::model::{
    Attachment, BoxFuture, FailureClass, Format, ItemId, ItemKey, LinkedContent, Links, TextField,
    WorkItem,
};
use heartbeat::run::{FieldWriter, Publisher, Publishing};

use super::{Outside, Post, Tracked, mark};

pub struct Tracker(pub String, pub Arc<Mutex<Outside>>);

fn work_item(source: &str, id: i64, tracked: &Tracked) -> WorkItem {
    WorkItem {
        key: ItemKey::new(source, ItemId(id)),
        id: ItemId(id),
        rev: tracked.rev,
        item_type: "Bug".into(),
        title: tracked.title.clone(),
        state: if tracked.open { "Active" } else { "Closed" }.into(),
        changed_at: tracked.changed_at,
        created_at: None,
        priority: Some(tracked.priority),
        severity: None,
        area_path: Some(format!("Shop\\Team {}", id % 2)),
        more_areas: Vec::new(),
        handle: None,
        finished: None,
        iteration_path: None,
        reporter: Some(tracked.reporter.clone()).filter(|reporter| !reporter.is_empty()),
        assigned_to: Some(tracked.owner.clone()).filter(|owner| !owner.is_empty()),
        tags: vec![format!("rev {}", tracked.rev)],
        parent: None,
        links: Links::default(),
        url: format!("https://example.test/{id}"),
        texts: vec![TextField {
            name: "System.Description".into(),
            format: Format::Plain,
            raw: mark(id, tracked.version),
        }],
        comments: Vec::new(),
    }
}

fn files(outside: &Outside, id: ItemId) -> impl Iterator<Item = Attachment> + '_ {
    outside.attached.get(&id.0).into_iter().flatten().map(|(name, read)| Attachment {
        name: name.clone(),
        address: String::new(),
        size: read.as_ref().ok().map(|bytes| bytes.len() as u64),
    })
}

impl Source for Tracker {
    fn open(&self, request: FetchRequest) -> BoxFuture<'_, Result<Box<dyn Pages>, FetchError>> {
        let mut outside = self.1.lock().unwrap();
        outside.opened += 1;
        let wanted = |id: i64, item: &Tracked| {
            request.changed_since.is_none_or(|since| item.changed_at >= since)
                || request.also.contains(&ItemId(id))
        };
        let empty = outside.answers_empty;
        let mut items: Vec<WorkItem> = outside
            .items
            .iter()
            .filter(|(id, _)| !empty && !outside.unlisted.contains(id))
            .filter(|(id, item)| wanted(**id, item))
            .map(|(id, item)| work_item(&self.0, *id, item))
            .collect();
        for item in &mut items {
            item.links.files =
                outside.attached.get(&item.id.0).map_or(0, |files| files.len() as u64);
        }
        items.sort_by_key(|item| item.changed_at);
        let cursor = items.iter().map(|item| item.changed_at).max();
        let held_back = &mut outside.undelivered;
        let is_held_back = |item: &mut WorkItem| match held_back.get_mut(&item.id.0) {
            Some(reads @ 1..) => {
                *reads -= 1;
                true
            }
            _ => false,
        };
        let undelivered: Vec<ItemId> =
            items.extract_if(.., is_held_back).map(|item| item.id).collect();
        let gone = |id: &&ItemId| {
            empty || outside.unlisted.contains(&id.0) || !outside.items.contains_key(&id.0)
        };
        let vanished: Vec<ItemId> = request.also.iter().filter(gone).copied().collect();
        let size = if outside.page_size == 0 { 3 } else { outside.page_size };
        let mut pages: VecDeque<Page> = items
            .chunks(size)
            .map(|items| Page {
                items: items.to_vec(),
                cursor: items.iter().map(|item| item.changed_at).max(),
                ..Page::default()
            })
            .collect();
        pages.push_back(Page { vanished, undelivered, cursor, ..Page::default() });
        let until_failure = outside.pages_until_failure.take();
        let scripted = Scripted { pages, until_failure, hangs: outside.tracker_hangs };
        Box::pin(async move { Ok(Box::new(scripted) as Box<dyn Pages>) })
    }

    fn attached_files(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<ItemFile>>, FetchError>> {
        let mut outside = self.1.lock().unwrap();
        outside.names_asked += 1;
        let named = ids.iter().flat_map(|id| files(&outside, *id).map(move |file| (*id, file)));
        let named = named.collect();
        Box::pin(async move { Ok(Some(named)) })
    }

    fn linked_content(
        &self,
        id: ItemId,
    ) -> BoxFuture<'_, Result<Option<LinkedContent>, FetchError>> {
        let outside = self.1.lock().unwrap();
        let items = outside.linked.get(&id.0).cloned().unwrap_or_default();
        let files = files(&outside, id).collect();
        Box::pin(
            async move { Ok(Some(LinkedContent { items, files, ..LinkedContent::default() })) },
        )
    }

    fn attachment(&self, file: Attachment, _: u64) -> BoxFuture<'_, Result<Vec<u8>, FetchError>> {
        let outside = self.1.lock().unwrap();
        let all = outside.attached.values().flatten();
        let found = all.into_iter().find(|(name, _)| *name == file.name).unwrap().1.clone();
        let read = found.map_err(|why| FetchError::new(FailureClass::Config, why));
        Box::pin(async move { read })
    }

    fn still_matching(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<ItemId>>, FetchError>> {
        let outside = self.1.lock().unwrap();
        let asked = ids.into_iter().filter(|id| outside.out_of_query != Some(id.0)).collect();
        Box::pin(async move { Ok(Some(asked)) })
    }

    fn current_states(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<CurrentState>>, FetchError>> {
        let outside = self.1.lock().unwrap();
        let current = ids
            .into_iter()
            .filter_map(|id| outside.items.get(&id.0).map(|item| (id, item)))
            .map(|(id, item)| {
                let item = work_item(&self.0, id.0, item);
                let WorkItem { rev, state, finished, changed_at, .. } = item;
                CurrentState { id, rev, state, finished, changed_at }
            })
            .collect();
        Box::pin(async move { Ok(Some(current)) })
    }
}

struct Scripted {
    pages: VecDeque<Page>,
    until_failure: Option<u32>,
    hangs: bool,
}

impl Pages for Scripted {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, FetchError>> {
        Box::pin(async move {
            if self.hangs {
                return std::future::pending().await;
            }
            if self.until_failure == Some(0) {
                return Err(FetchError::new(FailureClass::Transient, "the tracker went away"));
            }
            self.until_failure = self.until_failure.map(|pages| pages - 1);
            Ok(self.pages.pop_front())
        })
    }

    fn requests(&self) -> u64 {
        1
    }
}

/// Accepts findings for items in their current revision only.
pub struct Letterbox(pub Arc<Mutex<Outside>>);

impl Publisher for Letterbox {
    fn publish(&self, publishing: Publishing) -> BoxFuture<'_, Result<i64, FetchError>> {
        let mut outside = self.0.lock().unwrap();
        let rev = outside.items.get(&publishing.id.0).map(|item| item.rev);
        let post = outside.deliveries.front().copied();
        let left = outside.published.get_or_insert_default();
        if publishing.may_be_there && left.iter().any(|(id, _)| *id == publishing.id.0) {
            return Box::pin(async move { Ok(publishing.rev + 1) });
        }
        let failed = |class| Box::pin(async move { Err(FetchError::new(class, "not taken")) });
        match post {
            Some(Post::Fails) => {
                outside.deliveries.pop_front();
                return failed(FailureClass::Transient);
            }
            Some(Post::Denied) => {
                outside.deliveries.pop_front();
                return failed(FailureClass::Denied);
            }
            Some(Post::AnswerLost) => {
                left.push((publishing.id.0, publishing.rev));
                outside.deliveries.pop_front();
                return failed(FailureClass::Transient);
            }
            None => {}
        }
        let taken = if rev == Some(publishing.rev) {
            let left = (publishing.id.0, publishing.rev);
            outside.published.get_or_insert_default().push(left);
            Ok(publishing.rev + 1)
        } else {
            Err(FetchError::new(FailureClass::Conflict, "the item moved on"))
        };
        Box::pin(async move { taken })
    }

    fn validate(&self, _: Publishing) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Writes owners, with the rule of every tracker: nothing that a person set meanwhile is overwritten,
/// and what is there already is not written again.
pub struct Owners(pub Arc<Mutex<Outside>>);

impl FieldWriter for Owners {
    fn set_fields(&self, write: FieldWrite) -> BoxFuture<'_, Result<i64, FetchError>> {
        let mut guard = self.0.lock().unwrap();
        let outside = &mut *guard;
        let failed = |class, why: &'static str| -> BoxFuture<'_, Result<i64, FetchError>> {
            Box::pin(async move { Err(FetchError::new(class, why)) })
        };
        let post = outside.deliveries.pop_front();
        let dies = outside.dies_at_write.take();
        if dies == Some(false) {
            outside.crash.as_ref().unwrap().send_replace(true);
            return Box::pin(std::future::pending());
        }
        if post == Some(Post::Fails) {
            return failed(FailureClass::Transient, "not taken");
        }
        let changed_at = outside.tick();
        let item = outside.items.get_mut(&write.id.0).unwrap();
        let [change] = &write.changes[..] else { panic!("one field: {write:?}") };
        if item.owner != change.value {
            if item.owner != change.expected {
                return failed(FailureClass::Gone, "a person was faster");
            }
            item.owner.clone_from(&change.value);
            (item.rev, item.changed_at) = (item.rev + 1, changed_at);
            outside.written.get_or_insert_default().push(write.id.0);
        }
        let rev = outside.items[&write.id.0].rev;
        if dies == Some(true) {
            outside.crash.as_ref().unwrap().send_replace(true);
            return Box::pin(std::future::pending());
        }
        match post {
            Some(Post::AnswerLost) => failed(FailureClass::Transient, "no answer"),
            _ => Box::pin(async move { Ok(rev) }),
        }
    }
}
