//! Links and attachments of an item, for its analysis: linked items with titles, commits and pull
//! requests with the files they changed, pictures and small text files. What cannot be read is
//! skipped and reported; it never stops an analysis.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use super::RunContext;
use crate::clean::{self, FileKind, clean_text, harmless_name, kind_of_file};
use crate::dedupe::QueuedItem;
use crate::event::Event;
use crate::fetch::Source;
use crate::model::{
    Attachment, AttachmentUse, ChangeKind, Format, ItemId, ItemKey, LinkedChange, LinkedContent,
    LinkedItem, ReadLinkedContent, Stage, text,
};
use crate::prompt::cut_to_tokens;
use crate::session::{Attached, AttachedFile};

/// Of the parent's text.
const EXTRACT_TOKENS: usize = 150;
/// Of one text file.
const TEXT_TOKENS: u32 = 1_500;
const TEXT_READ: u64 = 64 << 10;
/// Files listed per commit or pull request.
const MAX_TOUCHED: usize = 8;
/// Attached files whose names triage gets, and characters per name.
const MAX_NAMED: usize = 5;
const MAX_NAME_LEN: usize = 60;
const BYTES_PER_TOKEN: usize = crate::model::BYTES_PER_TOKEN;

/// Text for a deep prompt, not fenced yet, and the files for the session.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) links: String,
    pub(super) files: String,
    pub(super) attached: Option<Attached>,
    /// What was read, for display.
    pub(super) read: Option<Box<ReadLinkedContent>>,
}

/// `roots` are the code bases, which may contain linked commits.
pub(super) async fn gather(cx: &RunContext, item: &QueuedItem, roots: &[PathBuf]) -> Gathered {
    let settings = &cx.config.analyze;
    if settings.link_tokens == 0 && settings.max_attachments == 0 {
        return Gathered::default();
    }
    let Some(tracker) = cx.edges.tracker_of(item.key()) else { return Gathered::default() };
    let details = &tracker.source;
    let read = cx.stop.unless_stopped(details.linked_content(item.id())).await;
    let mut found = match read {
        Some(Ok(Some(found))) => found,
        Some(Ok(None)) | None => return Gathered::default(),
        Some(Err(error)) => {
            tracing::warn!(item = %item.key(), %error, "could not read the item's links; the analysis continues without them");
            return Gathered::default();
        }
    };
    let files = std::mem::take(&mut found.files);
    if settings.link_tokens == 0 {
        found = LinkedContent::default();
    }
    for change in &mut found.changes {
        *change = with_details(cx, details, roots, change.clone()).await;
    }
    let mut used = Vec::with_capacity(files.len());
    let mut taking = Taking::default();
    for file in files {
        let note = taking.take(cx, details, &file).await;
        used.push(AttachmentUse { name: clean_line(&file.name), size: file.size, note });
    }
    let (links, files) = (links_text(cx, &found), taking.text());
    let attached = (!taking.files.is_empty())
        .then_some(Attached { marker: taking.marker, files: taking.files });
    let LinkedContent { items, changes, left_out, .. } = found;
    let read = Box::new(ReadLinkedContent { items, changes, files: used, left_out });
    cx.emit(Event::SurroundingsRead { item: item.key().clone(), read: read.clone() });
    Gathered { links, files, attached, read: Some(read) }
}

/// The names and sizes of attached files for triage, with one cheap request per source. Without them
/// triage only has their number.
pub(super) async fn file_names(cx: &RunContext, items: &[QueuedItem]) -> HashMap<ItemKey, String> {
    let mut names = HashMap::new();
    let mut ids: BTreeMap<&str, Vec<ItemId>> = BTreeMap::new();
    let has_files = |item: &&QueuedItem| item.facts().links.files > 0;
    for item in items.iter().filter(has_files).filter(|_| cx.config.analyze.max_attachments > 0) {
        ids.entry(item.key().source()).or_default().push(item.id());
    }
    for (source, ids) in ids {
        let first = ids.first().map(|id| ItemKey::new(source, *id));
        let Some(tracker) = first.and_then(|key| cx.edges.tracker_of(&key)) else { continue };
        let named = match cx.stop.unless_stopped(tracker.source.attached_files(ids)).await {
            Some(Ok(named)) => named.unwrap_or_default(),
            Some(Err(error)) => {
                tracing::warn!(source, %error, "could not read the names of attached files; triage continues without them");
                continue;
            }
            None => return names,
        };
        let mut files: HashMap<ItemId, Vec<Attachment>> = HashMap::new();
        for (id, file) in named {
            files.entry(id).or_default().push(file);
        }
        let line = |(id, files): (ItemId, Vec<_>)| (ItemKey::new(source, id), names_line(&files));
        names.extend(files.into_iter().map(line));
    }
    names
}

/// Such as `screen.png (120 kB), server.log (3 kB) and 2 more`.
fn names_line(files: &[Attachment]) -> String {
    let one = |file: &Attachment| {
        let name: String = clean_line(&file.name).chars().take(MAX_NAME_LEN).collect();
        let size = file.size.map(|size| format!(" ({})", text::size(size))).unwrap_or_default();
        format!("{}{size}", if name.is_empty() { "without a name" } else { &name })
    };
    let names: Vec<String> = files.iter().take(MAX_NAMED).map(one).collect();
    match files.len().saturating_sub(MAX_NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Title and files from the code base if it has the commit, otherwise from the tracker.
async fn with_details(
    cx: &RunContext,
    details: &Arc<dyn Source>,
    roots: &[PathBuf],
    change: LinkedChange,
) -> LinkedChange {
    for root in roots.iter().filter(|_| change.kind == ChangeKind::Commit) {
        if let Some(known) = cx.edges.code.commit(root.clone(), change.id.clone()).await {
            return LinkedChange { title: known.title, files: known.files, ..change };
        }
    }
    match cx.stop.unless_stopped(details.change(change.clone())).await {
        Some(Ok(change)) => change,
        Some(Err(error)) => {
            tracing::debug!(change = change.id, %error, "could not read a linked change");
            change
        }
        None => change,
    }
}

fn links_text(cx: &RunContext, found: &LinkedContent) -> String {
    let mut lines: Vec<String> = found.items.iter().map(|item| item_line(cx, item)).collect();
    lines.extend(found.changes.iter().map(change_line));
    let (kept, cut) = cut_to_tokens(&lines.join("\n"), cx.config.analyze.link_tokens);
    match (found.left_out, cut) {
        (0, 0) => kept,
        (0, _) => format!("{kept}\n(more links are left out)"),
        (more, _) => format!("{kept}\n(and {more} more links)"),
    }
}

fn item_line(cx: &RunContext, item: &LinkedItem) -> String {
    let (kind, name) = (item.kind.into_str(), clean_line(&item.name()));
    let Some(title) = &item.title else { return format!("{kind} {name}: cannot be read") };
    let mut facts = [&item.item_type, &item.state].map(|fact| clean_line(fact)).to_vec();
    facts.retain(|fact| !fact.is_empty());
    let mut text = format!("{kind} {name} ({}): {}", facts.join(", "), clean_line(title));
    if let Some(raw) = &item.text {
        let options = clean::Options {
            rendering: clean::Rendering::Tight,
            doubtful: cx.config.text.doubtful,
            max_bytes: Some(EXTRACT_TOKENS * BYTES_PER_TOKEN),
        };
        let extract = line(&clean_text(&raw.raw, raw.format, &options).text);
        if !extract.is_empty() {
            text.push_str(&format!("\n  it says: {extract}"));
        }
    }
    text
}

fn change_line(change: &LinkedChange) -> String {
    let id = clean_line(&change.id);
    let name = match change.kind {
        ChangeKind::Commit => format!("commit {}", id.get(..10).unwrap_or(&id)),
        ChangeKind::PullRequest => format!("pull request {id}"),
    };
    let state = if change.state.is_empty() {
        String::new()
    } else {
        format!(" ({})", clean_line(&change.state))
    };
    let title = match change.title.trim() {
        "" => "cannot be read".to_owned(),
        title => clean_line(title),
    };
    let files: Vec<String> =
        change.files.iter().take(MAX_TOUCHED).map(|file| clean_line(file)).collect();
    let more = change.files.len().saturating_sub(MAX_TOUCHED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let files = if files.is_empty() {
        String::new()
    } else {
        format!("; touched {}{more}", files.join(", "))
    };
    format!("{name}{state}: {title}{files}")
}

/// Untrusted text on one line, without invisible characters.
fn clean_line(text: &str) -> String {
    line(&clean_text(text, Format::Plain, &clean::Options::default()).text)
}

fn line(text: &str) -> String {
    let line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Files being collected for a session.
struct Taking {
    /// Placeholder for the session's folder until that is known.
    marker: String,
    files: Vec<AttachedFile>,
    lines: Vec<String>,
    taken: u32,
}

impl Default for Taking {
    fn default() -> Self {
        let marker = format!("/attached-{}", uuid::Uuid::new_v4().simple());
        Self { marker, files: Vec::new(), lines: Vec::new(), taken: 0 }
    }
}

impl Taking {
    /// Takes one file if it fits; returns what was done with it, as text.
    async fn take(
        &mut self,
        cx: &RunContext,
        details: &Arc<dyn Source>,
        file: &Attachment,
    ) -> String {
        let settings = &cx.config.analyze;
        if settings.max_attachments == 0 {
            return "not read: analyze.max_attachments is 0".to_owned();
        }
        if self.taken >= settings.max_attachments {
            return format!("not read: only the first {} files are used", settings.max_attachments);
        }
        let limit = settings.max_attachment_size;
        if file.size.is_some_and(|size| size > limit) {
            let limit = text::size(limit);
            return format!("not read: larger than {limit} (analyze.max_attachment_size)");
        }
        let bytes = match cx.stop.unless_stopped(details.attachment(file.clone(), limit)).await {
            Some(Ok(bytes)) => bytes,
            Some(Err(error)) => return error.message,
            None => return "not read: the run was stopped".to_owned(),
        };
        let agent = cx.config.agent_of(Stage::Deep);
        match kind_of_file(&bytes) {
            FileKind::Refused(why) => format!("refused: {why}"),
            FileKind::Text => self.take_text(&file.name, &bytes),
            FileKind::Picture { width, height, .. } if !agent.sees_pictures() => {
                let shown = clean_line(&file.name);
                self.lines.push(format!(
                    "picture, {width} x {height}, named {shown:?}: it cannot be shown to you"
                ));
                self.taken += 1;
                format!("not shown: {} cannot read pictures (analyze.agent)", agent.title())
            }
            FileKind::Picture { extension, width, height } => {
                let name = harmless_name(self.files.len() + 1, &file.name, extension);
                let (marker, shown) = (&self.marker, clean_line(&file.name));
                self.lines
                    .push(format!("{marker}/{name}: picture, {width} x {height}, named {shown:?}"));
                self.files.push(AttachedFile { name, bytes });
                self.taken += 1;
                format!("given to the analysis as a picture of {width} x {height}")
            }
        }
    }

    fn take_text(&mut self, name: &str, bytes: &[u8]) -> String {
        let read = bytes.len().min(usize::try_from(TEXT_READ).unwrap_or(usize::MAX));
        let text = String::from_utf8_lossy(&bytes[..read]);
        let text = clean_text(&text, Format::Plain, &clean::Options::default()).text;
        let (text, cut) = cut_to_tokens(text.trim(), TEXT_TOKENS);
        let cut = if cut > 0 || read < bytes.len() { " (its beginning)" } else { "" };
        self.lines.push(format!("text file named {:?}{cut}:\n{text}", clean_line(name)));
        self.taken += 1;
        format!("given to the analysis as text{cut}")
    }

    fn text(&self) -> String {
        self.lines.join("\n")
    }
}
