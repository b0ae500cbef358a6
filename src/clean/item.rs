//! A whole work item: every text in both renderings, within a budget.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::many::each;
use super::{clean_both, trim};
use crate::model::{
    Alarms, CleanField, CleanItem, Doubt, Doubtful, Doubts, Format, TextStats, WorkItem,
};

/// How much text of one item may reach a prompt, in estimated tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// All full renderings of an item together.
    pub full_item_tokens: u32,
    /// One full rendering.
    pub full_field_tokens: u32,
    /// All tight renderings of an item together.
    pub tight_item_tokens: u32,
    /// One tight rendering.
    pub tight_field_tokens: u32,
    /// What to do with text of which nobody can say whether a reader sees it.
    pub doubtful: Doubtful,
}

impl Budget {
    /// A budget by item; one field may take three quarters of it.
    pub fn per_item(full_tokens: u32, tight_tokens: u32) -> Self {
        Self {
            full_item_tokens: full_tokens,
            full_field_tokens: full_tokens - full_tokens / 4,
            tight_item_tokens: tight_tokens,
            tight_field_tokens: tight_tokens - tight_tokens / 4,
            doubtful: Doubtful::default(),
        }
    }
}

impl Budget {
    /// The same with another choice for doubtful text.
    #[must_use]
    pub fn with_doubtful(self, doubtful: Doubtful) -> Self {
        Self { doubtful, ..self }
    }
}

/// Cleans every text of an item. The item's own `texts` and `comments` are emptied.
pub fn clean_item(mut item: WorkItem, budget: &Budget) -> CleanItem {
    let mut result = Vec::new();
    let mut alarms = Alarms::default();
    let mut stats = TextStats::default();
    let mut room = Room::new(budget);
    let title = clean_line(&item.title, &mut alarms);
    item.title = title;
    let texts = std::mem::take(&mut item.texts);
    let comments = std::mem::take(&mut item.comments);
    let comments = comments.into_iter().map(|comment| {
        let mut author = Alarms::default();
        (
            CleanField::comment_by(&clean_line(&comment.author, &mut author)),
            comment.format,
            comment.raw,
        )
    });
    let texts = texts.into_iter().map(|text| (text.name, text.format, text.raw));
    let mut add = |(name, format, raw): (String, Format, String), room: &mut Room| {
        let (field, field_alarms, field_stats) =
            clean_field(name, format, &raw, budget.doubtful, room);
        alarms = alarms.plus(field_alarms);
        stats = stats.plus(field_stats);
        field
    };
    // The newest comment often says what the item is about now, so it always has some room; the
    // others have what the texts leave, newer ones first.
    let mut comments = comments.rev();
    let newest = comments.next().map(|comment| room.quarter(|room| add(comment, room)));
    result.extend(texts.map(|text| add(text, &mut room)));
    let older = comments.map(|comment| add(comment, &mut room));
    let mut newest_first: Vec<CleanField> = newest.into_iter().chain(older).collect();
    newest_first.reverse();
    result.extend(newest_first);
    result.retain(|field| !field.full.is_empty() || !field.tight.is_empty());
    CleanItem { facts: item, fields: result, alarms, stats }
}

/// Cleans the items of a page. Those at which the cleaner panics are returned as they came: a bug, and
/// no reason to stop the others. The work on one text is bounded by its own counters, that on a page
/// by `is_out_of_time`.
pub fn clean_items(
    items: Vec<WorkItem>,
    budget: &Budget,
    is_out_of_time: impl Fn() -> bool + Sync,
) -> (Vec<CleanItem>, Vec<WorkItem>) {
    clean_each(items, |item| match is_out_of_time() {
        true => without_time(item),
        false => clean_item(item, budget),
    })
}

fn clean_each(
    items: Vec<WorkItem>,
    clean: impl Fn(WorkItem) -> CleanItem + Sync,
) -> (Vec<CleanItem>, Vec<WorkItem>) {
    let done = each(items, |item| {
        let kept = item.clone();
        catch_unwind(AssertUnwindSafe(|| clean(item))).map_err(|_| Box::new(kept))
    });
    let (mut cleaned, mut failed) = (Vec::with_capacity(done.len()), Vec::new());
    for one in done {
        match one {
            Ok(item) => cleaned.push(item),
            Err(kept) => failed.push(*kept),
        }
    }
    (cleaned, failed)
}

/// Stands for an item that could not be cleaned: its facts without its texts.
pub fn without_texts(mut item: WorkItem) -> CleanItem {
    item.texts.clear();
    item.comments.clear();
    let (alarms, stats) = (Alarms::default(), TextStats::default());
    CleanItem { facts: item, fields: Vec::new(), alarms, stats }
}

/// Stands for an item for which there was no time: a mark in place of each text.
pub fn without_time(mut item: WorkItem) -> CleanItem {
    let mut alarms = Alarms { doubts: Doubts::of(Doubt::Time), ..Alarms::default() };
    let mut stats = TextStats::default();
    item.title = clean_line(&item.title, &mut alarms);
    let texts = std::mem::take(&mut item.texts).into_iter().map(|text| (text.name, text.raw));
    let comments = std::mem::take(&mut item.comments)
        .into_iter()
        .map(|comment| ("comment".to_owned(), comment.raw));
    let mark = format!("[doubtful text left out: {}]", Doubt::Time.words());
    let fields = texts
        .chain(comments)
        .map(|(name, raw)| {
            alarms.doubtful_chars += raw.chars().count();
            stats.raw_bytes += raw.len();
            stats.cut_bytes += raw.len();
            CleanField { name, full: mark.clone(), tight: mark.clone() }
        })
        .collect();
    CleanItem { facts: item, fields, alarms, stats }
}

/// What is left of an item's budget, in bytes.
struct Room {
    full: usize,
    full_field: usize,
    tight: usize,
    tight_field: usize,
}

impl Room {
    fn new(budget: &Budget) -> Self {
        let bytes = |tokens: u32| usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(4);
        Self {
            full: bytes(budget.full_item_tokens),
            full_field: bytes(budget.full_field_tokens),
            tight: bytes(budget.tight_item_tokens),
            tight_field: bytes(budget.tight_field_tokens),
        }
    }

    /// Uses at most a quarter of it.
    fn quarter<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let (full, tight) = (self.full / 4, self.tight / 4);
        let mut part = Self { full, tight, ..*self };
        let done = work(&mut part);
        self.full -= full - part.full;
        self.tight -= tight - part.tight;
        done
    }
}

fn clean_field(
    name: String,
    format: Format,
    raw: &str,
    doubtful: Doubtful,
    room: &mut Room,
) -> (CleanField, Alarms, TextStats) {
    let (full, tight) = clean_both(raw, format, doubtful);
    let mut stats = full.stats;
    let (full_text, left_out) = trim::to_bytes(full.text, room.full_field.min(room.full));
    stats.cut_bytes += left_out;
    stats.clean_bytes = full_text.len();
    let (tight_text, left_out) = trim::to_bytes(tight.text, room.tight_field.min(room.tight));
    stats.tight_cut_bytes = left_out;
    room.full = room.full.saturating_sub(full_text.len());
    room.tight = room.tight.saturating_sub(tight_text.len());
    (CleanField { name, full: full_text, tight: tight_text }, full.alarms, stats)
}

/// A title or a name: one line, nothing invisible.
fn clean_line(text: &str, alarms: &mut Alarms) -> String {
    let visible = super::characters::visible(text, &mut alarms.invisible_chars);
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Comment, ItemId, ItemKey, Links, TextField};

    fn item(texts: &[&str], comments: &[&str]) -> WorkItem {
        let field = |raw: &&str| TextField {
            name: "System.Description".into(),
            format: Format::Html,
            raw: (*raw).to_owned(),
        };
        let comment = |raw: &&str| Comment {
            author: "Jane\u{200b} Doe".into(),
            at: None,
            format: Format::Html,
            raw: (*raw).to_owned(),
        };
        WorkItem {
            key: ItemKey::new("ado", ItemId(7)),
            id: ItemId(7),
            rev: 1,
            item_type: "Bug".into(),
            title: " Login\u{202e}\n fails ".into(),
            state: "Active".into(),
            changed_at: jiff::Timestamp::UNIX_EPOCH,
            created_at: None,
            priority: None,
            severity: None,
            area_path: None,
            more_areas: Vec::new(),
            handle: None,
            finished: None,
            iteration_path: None,
            assigned_to: None,
            tags: Vec::new(),
            parent: None,
            links: Links::default(),
            url: String::new(),
            texts: texts.iter().map(field).collect(),
            comments: comments.iter().map(comment).collect(),
        }
    }

    const ROOMY: Budget = Budget {
        full_item_tokens: 10_000,
        full_field_tokens: 10_000,
        tight_item_tokens: 10_000,
        tight_field_tokens: 10_000,
        doubtful: Doubtful::LeaveOut,
    };

    #[test]
    fn every_text_is_cleaned_in_both_renderings() {
        let link = "<p>See <a href='https://e.com/x'>docs</a></p>";
        let cleaned = clean_item(item(&[link, "<p> </p>"], &["<b>done</b>"]), &ROOMY);
        let names: Vec<_> = cleaned.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["System.Description", "comment by Jane Doe"]);
        assert_eq!(cleaned.fields[0].full, "See [docs](https://e.com/x)");
        assert_eq!(cleaned.fields[0].tight, "See docs");
        assert_eq!(cleaned.facts.title, "Login fails");
        assert!(cleaned.facts.texts.is_empty() && cleaned.facts.comments.is_empty());
        assert_eq!(cleaned.stats.raw_bytes, link.len() + 8 + 11);
    }

    #[test]
    fn an_item_on_which_the_cleaner_panics_stops_no_other() {
        let numbered = |id| WorkItem { id: ItemId(id), ..item(&["text"], &[]) };
        let (cleaned, failed) = clean_each((1..=3).map(numbered).collect(), |item| {
            assert!(item.id != ItemId(2), "a bug in the cleaner");
            without_texts(item)
        });
        let ids: Vec<_> = cleaned.iter().map(|item| item.facts.id.0).collect();
        assert_eq!((ids, failed), (vec![1, 3], vec![numbered(2)]));
    }

    #[test]
    fn hidden_text_raises_the_alarm_of_the_item() {
        let hidden = "<p>a<i hidden>psst</i></p>";
        let white = "<p style='color:white'>see?</p>";
        let cleaned = clean_item(item(&[hidden, white], &["a\u{200b}b"]), &ROOMY);
        let alarms = cleaned.alarms;
        assert_eq!((alarms.hidden_chars, alarms.low_contrast_chars), (4, 4));
        // One in the comment, one in the title; names of authors are not the text's doing.
        assert_eq!(alarms.invisible_chars, 2);
    }

    #[test]
    fn the_budget_holds_for_fields_and_for_the_item_and_favours_new_comments() {
        let long = format!("<p>{}</p>", "words and more words ".repeat(200));
        let budget = Budget::per_item(1_000, 400);
        let cleaned = clean_item(item(&[&long], &[&long, &long]), &budget);
        let full: usize = cleaned.fields.iter().map(|field| field.full.len()).sum();
        let tight: usize = cleaned.fields.iter().map(|field| field.tight.len()).sum();
        assert!(full <= 4 * 1_000 + 100, "{full}");
        assert!(tight <= 4 * 400 + 100, "{tight}");
        assert!(cleaned.fields[0].full.len() <= 4 * 750);
        assert!(cleaned.fields[2].full.len() > cleaned.fields[1].full.len());
        assert!(cleaned.fields[0].full.contains("left out]"));
        assert!(cleaned.stats.cut_bytes > 0);
    }

    #[test]
    fn the_newest_comment_has_room_beside_any_texts() {
        let long = format!("<p>{}</p>", "words and more words ".repeat(200));
        let budget = Budget::per_item(1_000, 400);
        let cleaned = clean_item(item(&[&long, &long, &long], &[&long, "<p>fixed?</p>"]), &budget);
        let newest = cleaned.fields.last().unwrap();
        assert_eq!((newest.full.as_str(), newest.tight.as_str()), ("fixed?", "fixed?"));
    }
}
