//! Cleans a work item: every text in both renderings, within a budget.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use visible_text::{clean_both, trim_to_bytes, without_invisible};

use crate::model::text::clip;
use crate::model::{
    Alarms, CleanField, CleanItem, Format, TextStats, UnclearTextPolicy, VisibilityIssue,
    VisibilityIssues, WorkItem,
};

/// Characters of a title or another value of one line. Trackers allow a few hundred; a file or a
/// hostile server sends any number, and a title is repeated on every page.
const MAX_LINE: usize = 1000;
/// The same for other facts, such as an area or an address.
const MAX_FACT: usize = 4000;

/// Limits of an item's text in a prompt, in estimated tokens.
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
    /// How to treat text that may or may not be visible.
    pub doubtful: UnclearTextPolicy,
}

impl Budget {
    /// A budget per item; one field may take three quarters of it.
    pub fn per_item(full_tokens: u32, tight_tokens: u32) -> Self {
        Self {
            full_item_tokens: full_tokens,
            full_field_tokens: full_tokens - full_tokens / 4,
            tight_item_tokens: tight_tokens,
            tight_field_tokens: tight_tokens - tight_tokens / 4,
            doubtful: UnclearTextPolicy::default(),
        }
    }
}

impl Budget {
    /// As [`per_item`](Self::per_item), with another choice for doubtful text.
    #[must_use]
    pub fn with_doubtful(self, doubtful: UnclearTextPolicy) -> Self {
        Self { doubtful, ..self }
    }
}

/// Cleans every text of an item. The item's own `texts` and `comments` are emptied.
pub fn clean_item(item: WorkItem, budget: &Budget) -> CleanItem {
    let texts = CleanedTexts::of(&item, budget);
    texts.of_item(item)
}

/// The cleaned texts of an item.
struct CleanedTexts {
    title: String,
    fields: Vec<CleanField>,
    alarms: Alarms,
    stats: TextStats,
}

impl CleanedTexts {
    fn of(item: &WorkItem, budget: &Budget) -> Self {
        let mut fields = Vec::new();
        let mut alarms = Alarms::default();
        let mut stats = TextStats::default();
        let mut remaining = RemainingBudget::new(budget);
        let title = clean_line(&item.title, &mut alarms);
        let comments = item.comments.iter().map(|comment| {
            let mut author = Alarms::default();
            let name = CleanField::comment_by(&clean_line(&comment.author, &mut author));
            (name, comment.format, &*comment.raw)
        });
        let names = field_names(item, &mut alarms);
        let texts = names.into_iter().zip(&item.texts);
        let texts = texts.map(|(name, text)| (name, text.format, &*text.raw));
        let mut add = |(name, format, raw): (String, Format, &str),
                       remaining: &mut RemainingBudget| {
            let (field, field_alarms, field_stats) =
                clean_field(name, format, raw, budget.doubtful, remaining);
            alarms = alarms.plus(field_alarms);
            stats = stats.plus(field_stats);
            field
        };
        // The newest comment often says what the item is about now, so it always has some room; the
        // others have what the texts leave, newer ones first.
        let mut comments = comments.rev();
        let newest =
            comments.next().map(|comment| remaining.quarter(|remaining| add(comment, remaining)));
        fields.extend(texts.map(|text| add(text, &mut remaining)));
        let older = comments.map(|comment| add(comment, &mut remaining));
        let mut newest_first: Vec<CleanField> = newest.into_iter().chain(older).collect();
        newest_first.reverse();
        fields.extend(newest_first);
        fields.retain(|field| !field.full.is_empty() || !field.tight.is_empty());
        Self { title, fields, alarms, stats }
    }

    /// Replaces the item's texts with the cleaned ones.
    fn of_item(mut self, mut item: WorkItem) -> CleanItem {
        item.title = self.title;
        item.texts = Vec::new();
        item.comments = Vec::new();
        clean_facts(&mut item, &mut self.alarms);
        CleanItem { facts: item, fields: self.fields, alarms: self.alarms, stats: self.stats }
    }
}

/// Cleans the items of a page. Items at which the cleaner panics (a bug) are returned unchanged and
/// do not stop the others. The work on one text is bounded by its counters, that on a page by
/// `is_out_of_time`.
pub fn clean_items(
    items: Vec<WorkItem>,
    budget: &Budget,
    is_out_of_time: impl Fn() -> bool,
) -> (Vec<CleanItem>, Vec<WorkItem>) {
    clean_each(items, |item| match is_out_of_time() {
        true => no_time_for(item),
        false => CleanedTexts::of(item, budget),
    })
}

fn clean_each(
    items: Vec<WorkItem>,
    clean: impl Fn(&WorkItem) -> CleanedTexts,
) -> (Vec<CleanItem>, Vec<WorkItem>) {
    let (mut cleaned, mut failed) = (Vec::with_capacity(items.len()), Vec::new());
    for item in items {
        // The cleaner only borrows the item, so that the item is unchanged after a panic.
        match catch_unwind(AssertUnwindSafe(|| clean(&item))) {
            Ok(texts) => cleaned.push(texts.of_item(item)),
            Err(_) => failed.push(item),
        }
    }
    (cleaned, failed)
}

/// Replaces an item that could not be cleaned: its facts without its texts.
pub fn without_texts(item: WorkItem) -> CleanItem {
    let (mut alarms, stats) = (Alarms::default(), TextStats::default());
    let title = clean_line(&item.title, &mut alarms);
    CleanedTexts { title, fields: Vec::new(), alarms, stats }.of_item(item)
}

/// Replaces the texts of an item for which there was no time: a mark in place of each.
fn no_time_for(item: &WorkItem) -> CleanedTexts {
    let mut alarms =
        Alarms { doubts: VisibilityIssues::of(VisibilityIssue::Time), ..Alarms::default() };
    let mut stats = TextStats::default();
    let title = clean_line(&item.title, &mut alarms);
    let names = field_names(item, &mut alarms).into_iter();
    let texts = names.zip(item.texts.iter().map(|text| &text.raw));
    let comments = item.comments.iter().map(|comment| ("comment".to_owned(), &comment.raw));
    let mark = format!("[doubtful text left out: {}]", VisibilityIssue::Time.to_text());
    let fields = texts
        .chain(comments)
        .map(|(name, raw)| {
            alarms.doubtful_chars += raw.chars().count();
            stats.raw_bytes += raw.len();
            stats.cut_bytes += raw.len();
            CleanField { name, full: mark.clone(), tight: mark.clone() }
        })
        .collect();
    CleanedTexts { title, fields, alarms, stats }
}

/// The remaining budget of an item, in bytes.
struct RemainingBudget {
    full: usize,
    full_field: usize,
    tight: usize,
    tight_field: usize,
}

impl RemainingBudget {
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
    doubtful: UnclearTextPolicy,
    remaining: &mut RemainingBudget,
) -> (CleanField, Alarms, TextStats) {
    let (full, tight) = clean_both(raw, format, doubtful);
    let mut stats = full.stats;
    let (full_text, left_out) = trim_to_bytes(full.text, remaining.full_field.min(remaining.full));
    stats.cut_bytes += left_out;
    stats.clean_bytes = full_text.len();
    let (tight_text, left_out) =
        trim_to_bytes(tight.text, remaining.tight_field.min(remaining.tight));
    stats.tight_cut_bytes = left_out;
    remaining.full = remaining.full.saturating_sub(full_text.len());
    remaining.tight = remaining.tight.saturating_sub(tight_text.len());
    (CleanField { name, full: full_text, tight: tight_text }, full.alarms, stats)
}

/// The names of an item's texts.
fn field_names(item: &WorkItem, alarms: &mut Alarms) -> Vec<String> {
    let mut names: Vec<String> = item.texts.iter().map(|text| text.name.clone()).collect();
    names.iter_mut().for_each(|name| clean_fact(name, alarms));
    names
}

/// Removes invisible characters from every fact of an item but its title, which [`CleanedTexts`]
/// contains. A fact without such characters is not changed.
fn clean_facts(item: &mut WorkItem, alarms: &mut Alarms) {
    let optional = [
        &mut item.handle,
        &mut item.severity,
        &mut item.area_path,
        &mut item.iteration_path,
        &mut item.assigned_to,
    ];
    let facts = [&mut item.item_type, &mut item.state, &mut item.url]
        .into_iter()
        .chain(optional.into_iter().flatten())
        .chain(&mut item.more_areas)
        .chain(&mut item.tags);
    for fact in facts {
        clean_fact(fact, alarms);
    }
}

/// One line, nothing invisible. Spaces stay as they are, because fingerprints depend on them.
fn clean_fact(fact: &mut String, alarms: &mut Alarms) {
    let visible = without_invisible(fact, alarms);
    let is_line_end = |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}');
    if visible.contains(is_line_end) {
        *fact = visible.replace(is_line_end, " ");
    } else if let Cow::Owned(visible) = visible {
        *fact = visible;
    }
    if fact.len() > MAX_FACT {
        *fact = clip(fact, MAX_FACT);
    }
}

/// A title or a name: one line, nothing invisible.
fn clean_line(text: &str, alarms: &mut Alarms) -> String {
    let visible = without_invisible(text, alarms);
    clip(&visible.split_whitespace().collect::<Vec<_>>().join(" "), MAX_LINE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Comment, ItemId, ItemKey, Links, TextField};

    #[test]
    fn a_title_without_end_is_cut() {
        let budget = Budget::per_item(1000, 100);
        let endless = "über ".repeat(400_000);
        let (title, tags) = (endless.clone(), vec![endless]);
        let cleaned = clean_item(WorkItem { title, tags, ..item(&["text"], &[]) }, &budget);
        let title = cleaned.facts.title;
        assert_eq!(cleaned.facts.tags[0].chars().count(), MAX_FACT);
        assert_eq!(title.chars().count(), MAX_LINE);
        assert!(title.starts_with("über über") && title.ends_with('…'), "{title}");
    }

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
            may_write: false,
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
            reporter: None,
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
        doubtful: UnclearTextPolicy::LeaveOut,
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

    /// An item whose facts all have `hidden` in them.
    fn with_facts(hidden: &str) -> WorkItem {
        let marked = |text: &str| text.replacen('~', hidden, 1);
        WorkItem {
            handle: Some(marked("SHOP~-7")),
            item_type: marked("Bu~g"),
            title: marked("Login~ fails"),
            state: marked("Act~ive"),
            severity: Some(marked("2 - Hi~gh")),
            area_path: Some(marked("Shop\\We~b")),
            more_areas: vec![marked("Shop\\A~pi")],
            iteration_path: Some(marked("Sprint~ 1")),
            assigned_to: Some(marked("Jane~ Doe")),
            reporter: None,
            tags: vec![marked("ur~gent"), "two  spaces".into()],
            url: marked("https://e.com/~7"),
            texts: vec![TextField {
                name: marked("System.Desc~ription"),
                format: Format::Html,
                raw: "<p>text</p>".into(),
            }],
            ..item(&[], &[])
        }
    }

    #[test]
    fn no_fact_has_invisible_characters_and_all_of_them_are_counted() {
        let plain = clean_item(with_facts(""), &ROOMY);
        assert_eq!(plain.facts, WorkItem { texts: Vec::new(), ..with_facts("") });
        assert_eq!(plain.alarms, Alarms::default());
        for hidden in ["\u{e0041}", "\u{202e}", "\u{200b}", "\u{2066}", "\u{1b}", "\u{feff}"] {
            let cleaned = clean_item(with_facts(hidden), &ROOMY);
            assert_eq!(cleaned.facts, plain.facts, "{hidden:?}");
            assert_eq!(cleaned.fields, plain.fields, "{hidden:?}");
            assert_eq!(cleaned.alarms.invisible_chars, 12, "{hidden:?}");
            assert_eq!(
                no_time_for(&with_facts(hidden)).of_item(with_facts(hidden)).facts,
                plain.facts,
                "{hidden:?}"
            );
            let unread = without_texts(with_facts(hidden));
            assert_eq!(unread.facts, plain.facts, "{hidden:?}");
            assert_eq!(unread.alarms.invisible_chars, 11, "{hidden:?}");
        }
    }

    #[test]
    fn a_fact_is_one_line() {
        for end in ["\n", "\r", "\t", "\u{2028}", "\u{2029}"] {
            let cleaned = clean_item(with_facts(end), &ROOMY);
            assert_eq!(cleaned.facts.tags[0], "ur gent", "{end:?}");
            assert_eq!(cleaned.facts.state, "Act ive", "{end:?}");
        }
    }

    #[test]
    fn an_item_on_which_the_cleaner_panics_stops_no_other() {
        let numbered = |id| WorkItem { id: ItemId(id), ..item(&["text"], &[]) };
        let (cleaned, failed) = clean_each((1..=3).map(numbered).collect(), |item| {
            assert!(item.id != ItemId(2), "a bug in the cleaner");
            no_time_for(item)
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
        // One in the comment, one in the title; authors' names do not count.
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
