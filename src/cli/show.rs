//! `runs`, `sessions`, `show`: runs, sessions and findings.

use std::fmt::Write as _;

use serde::Serialize;

use super::error::CommandError;
use crate::analyze;
use crate::event::fold::RunView;
use crate::event::{Event, Recorded};
use crate::model::text::{clip, in_words, seconds, size};
use crate::model::{
    Alarms, ItemId, ItemKey, ReadLinkedContent, SessionTranscript, TranscriptLine, name_in,
};
use crate::report::fixes::{fix_line, stale_line};
use crate::report::lines::{line, short_key};
use crate::report::moment::{date_time, day, minute, version};
use crate::report::names::Names;
use crate::report::paint::Paint;
use crate::report::suggestions::{SuggestedLine, lines};
use crate::settings::Config;
use crate::store::{
    AttemptRow, DuplicateGroup, FindingRow, ItemRow, Message, MessageState, RunRow, SessionRow,
    Store, SuggestionRow,
};

/// For what is recorded as running but is verified not to be.
pub(super) const CRASHED: &str = "crashed; the next start cleans up";

/// The start of a run's id, which is its time. Runs on one state never start at the same moment.
pub(super) fn beginning(id: impl std::fmt::Display) -> String {
    id.to_string().chars().take(18).collect()
}

/// `is_held`: whether the run lock is held.
pub fn render_runs(runs: &[RunRow], is_held: bool) -> String {
    let one = |run: &RunRow| {
        let (started, words) = (date_time(run.started_at), describe_run(run, is_held, 20));
        format!("{}  {started}  {words}\n", beginning(run.run))
    };
    if runs.is_empty() {
        return "no runs yet\n".to_owned();
    }
    runs.iter().map(one).collect()
}

/// How a run went, without its time; figures on a separate line, indented by `indent`. A run
/// without an end is in progress only if the run lock is held.
pub(super) fn describe_run(run: &RunRow, is_held: bool, indent: usize) -> String {
    let open = if is_held { "in progress" } else { CRASHED };
    let outcome = run.outcome.map_or_else(|| open.into(), in_words);
    let took = run
        .ended_at
        .map(|end| end.duration_since(run.started_at).as_millis())
        .and_then(|ms| u64::try_from(ms).ok())
        .map(|ms| format!(" after {}", seconds(ms)))
        .unwrap_or_default();
    let figures = run.summary.map_or_else(String::new, |s| {
        format!(
            "\n{:indent$}{} fetched, {} triaged, {} analysed, {} deferred, {}",
            "",
            s.fetched,
            s.triaged,
            s.analysed,
            s.deferred,
            s.cost_text()
        )
    });
    format!("{outcome}{took}{figures}")
}

/// `is_held`: whether the run lock is held.
pub fn render_sessions(sessions: &[SessionRow], is_held: bool) -> String {
    let one = |row: &SessionRow| {
        let open = match (row.alive, is_held) {
            (true, _) => "alive",
            // The work is claimed and the keeper is being started.
            (false, true) => "starting",
            (false, false) => CRASHED,
        };
        let host = row.host.as_deref();
        let outcome = row.outcome.as_ref();
        let outcome = outcome.map_or_else(|| open.into(), |outcome| outcome.text_on(host));
        let cached = row.usage.map(|usage| usage.cached_text()).unwrap_or_default();
        let cost = format!(", {}{cached}", row.money.to_text());
        let item = row.session.item.as_ref().map(short_key).unwrap_or_default();
        let attempt = match row.session.attempt {
            0 | 1 => String::new(),
            later => format!(", attempt {later}"),
        };
        format!(
            "{}  {}  {:<6} {item:<7} {outcome}{cost}{attempt}\n",
            row.session.id.short(),
            date_time(row.started_at),
            row.session.stage.into_str(),
        )
    };
    if sessions.is_empty() {
        return "no sessions yet\n".to_owned();
    }
    sessions.iter().map(one).collect()
}

/// Everything that `heartbeat show ITEM` prints.
#[derive(Debug, Serialize)]
pub struct ItemHistory {
    pub item: ItemRow,
    /// Newest first.
    pub findings: Vec<FindingRow>,
    /// Oldest first.
    pub attempts: Vec<AttemptRow>,
    /// Items that report the same problem, including this one.
    pub duplicates: DuplicateGroup,
    /// What triage suggests, as shown to people.
    pub suggested: Vec<SuggestedLine>,
    /// Suggested values, with those that are not right often enough to be shown.
    pub suggestions: Vec<SuggestionRow>,
    /// Comments for it and their delivery, oldest first.
    pub comments: Vec<Message>,
    /// Oldest first.
    pub sessions: Vec<SessionRow>,
    /// Of its newest session.
    pub transcript: Option<SessionTranscript>,
    /// Links and attachments, as last read.
    pub surroundings: Option<ReadLinkedContent>,
    /// Hidden or doubtful text, when its text was last read.
    pub alarms: Option<Alarms>,
    /// The rule that applied when it was last processed, and what it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    pub events: Vec<Recorded>,
}

/// `item` is a number or a key.
pub async fn item_history(
    store: &Store,
    config: &Config,
    item: &str,
) -> Result<ItemHistory, CommandError> {
    let key = find_key(store, config, item).await?;
    let row = store.items().get(key.clone()).await?.ok_or_else(|| {
        CommandError::NotFound(format!(
            "{} (state in {})",
            unknown_item(&key),
            store.folder().display()
        ))
    })?;
    let events = store.events().of_item(key.clone()).await?;
    let alarm = |recorded: &Recorded| match &recorded.event {
        Event::TextAlarm { alarms, .. } => Some(*alarms),
        _ => None,
    };
    let rule = |recorded: &Recorded| match &recorded.event {
        Event::RuleMatched { rule, changes, .. } => Some(format!("{rule}: {changes}")),
        _ => None,
    };
    let sessions = store.sessions().of_item(key.clone()).await?;
    let transcript = match sessions.last() {
        Some(newest) => store.sessions().transcript(newest.session.id).await?,
        None => None,
    };
    let duplicates = store.items().duplicates_of(key.clone()).await?;
    let suggestions = store.suggestions().of_item(key.clone()).await?;
    Ok(ItemHistory {
        suggested: lines(&suggestions, row.verdict.as_ref(), (&duplicates, &key)),
        suggestions,
        duplicates,
        transcript,
        alarms: events.iter().rev().find_map(alarm),
        rule: events.iter().rev().find_map(rule),
        surroundings: newest_linked_content(&events),
        item: row,
        findings: store.findings().of_item(key.clone()).await?,
        attempts: store.sessions().attempts_of(key.clone()).await?,
        comments: store.outbox().of_item(key).await?,
        sessions,
        events,
    })
}

/// An item may exist in the tracker, or even be linked to a known one: only those that the query
/// returned have a history.
fn unknown_item(key: &ItemKey) -> String {
    let name = short_key(key);
    format!("{name} is not among the items that the query returned; `heartbeat items` lists them")
}

/// Why an item could not be requeued.
pub async fn why_not_requeued(
    store: &Store,
    key: &ItemKey,
    is_held: bool,
) -> Result<String, CommandError> {
    if store.items().get(key.clone()).await?.is_none() {
        return Ok(unknown_item(key));
    }
    let alive = store.sessions().of_item(key.clone()).await?.iter().any(|session| session.alive);
    Ok(if alive || is_held {
        format!("a session for {} is running; `heartbeat kill` ends it", short_key(key))
    } else {
        format!("the session for {} {CRASHED} and requeues the item", short_key(key))
    })
}

fn render_duplicates(group: &DuplicateGroup, own: &ItemKey) -> String {
    let mut text = String::new();
    for item in group.items.iter().filter(|item| item.key != *own) {
        let (key, title) = (short_key(&item.key), clip(&item.title, 80));
        let _: std::fmt::Result = write!(text, "\nlikely duplicate: {key} {title}");
        if !item.why.is_empty() {
            let _: std::fmt::Result = write!(text, " ({})", item.why);
        }
    }
    if group.beyond() > 0 {
        let _: std::fmt::Result = write!(text, "\n  and {} more", group.beyond());
    }
    text
}

/// The links and attachments read last.
fn newest_linked_content(events: &[Recorded]) -> Option<ReadLinkedContent> {
    events.iter().rev().find_map(|recorded| match &recorded.event {
        Event::SurroundingsRead { read, .. } => Some(ReadLinkedContent::clone(read)),
        _ => None,
    })
}

/// One line per link and file, each preceded by a line break.
pub(super) fn render_linked_content(read: &ReadLinkedContent) -> String {
    let ReadLinkedContent { items, changes, files, left_out } = read;
    let mut text = String::new();
    for item in items {
        let title = item.title.as_deref().unwrap_or("cannot be read");
        let (kind, title) = (in_words(item.kind), clip(title, 80));
        let name = clip(&item.name(), 80);
        let _: std::fmt::Result = write!(text, "\n{kind}: {name} {title} {}", item.url);
    }
    for change in changes {
        let (kind, id) = (in_words(change.kind), clip(&change.id, 10));
        let (state, title) = (&change.state, clip(&change.title, 80));
        let _: std::fmt::Result = write!(text, "\n{kind}: {id} {state} {title}");
    }
    for file in files {
        let size = file.size.map(|bytes| format!(" ({})", size(bytes))).unwrap_or_default();
        let name = clip(&file.name, 60);
        let _: std::fmt::Result = write!(text, "\nattached: {name}{size}: {}", file.note);
    }
    if *left_out > 0 {
        let _: std::fmt::Result = write!(text, "\n  and {left_out} more links");
    }
    text
}

fn render_attempts(attempts: &[AttemptRow]) -> String {
    let one = |attempt: &AttemptRow| {
        let (outcome, host) = (attempt.outcome.as_ref(), attempt.host.as_deref());
        let outcome = outcome.map_or_else(|| "in progress".into(), |outcome| outcome.text_on(host));
        let cost =
            attempt.usage.map(|usage| format!(", {}", usage.cost_text())).unwrap_or_default();
        let counted = if attempt.counted { "" } else { ", not counted" };
        format!(
            "\nattempt {} at {}: {outcome}{cost}{counted}",
            attempt.attempt,
            date_time(attempt.claimed_at)
        )
    };
    attempts.iter().map(one).collect()
}

fn render_comments(comments: &[Message]) -> String {
    let one = |comment: &Message| {
        let state = match comment.state {
            MessageState::Pending => "waiting for delivery",
            MessageState::Delivered => "delivered",
            MessageState::Failed => "given up",
        };
        let why =
            comment.last_error.as_deref().filter(|_| comment.state != MessageState::Delivered);
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let (made, attempts) = (date_time(comment.created_at), comment.attempts);
        format!("\ncomment from {made}: {state} after {attempts} attempt(s){why}")
    };
    comments.iter().map(one).collect()
}

/// Transcript lines shown on a terminal; `--json` has all stored lines.
const TRANSCRIPT_LINES: usize = 20;

fn render_transcript(transcript: &SessionTranscript) -> String {
    let one = |line: &TranscriptLine| {
        let (after, text) = (seconds(line.after_ms), clip(&line.text.replace('\n', " "), 160));
        format!("  {after:>8}  {:<6}  {text}\n", in_words(line.kind))
    };
    let shown: String = transcript.lines.iter().take(TRANSCRIPT_LINES).map(one).collect();
    let beyond = transcript.lines.len().saturating_sub(TRANSCRIPT_LINES);
    let beyond = beyond + usize::try_from(transcript.left_out).unwrap_or(usize::MAX);
    match beyond {
        0 => shown,
        more => format!("{shown}  and {more} more lines; the dashboard and --json have them\n"),
    }
}

/// The key of an item as people name it: `4106`, `#4106`, `PARCEL-4`, `contoso/web#12`, its address,
/// `web#123` or `web/123`. A number that several sources have is ambiguous.
pub async fn find_key(store: &Store, config: &Config, item: &str) -> Result<ItemKey, CommandError> {
    let named = name_in(item);
    let item = named.as_deref().unwrap_or(item);
    if let Some(key) = Names::read(store).await?.key(item) {
        return Ok(key);
    }
    let item = item.rsplit_once("/_workitems/edit/").map_or(item, |(_, number)| number);
    if item.contains('/') && !item.contains('#') {
        return Ok(ItemKey::from_stored(item.to_owned()));
    }
    let (source, number) = item.rsplit_once('#').unwrap_or(("", item));
    let id = number.parse().map(ItemId).map_err(|_| {
        CommandError::Usage(format!(
            "{item:?} is not an item that the query returned; pass its number, such as 123 or \
             #123, its key, such as PARCEL-4 or contoso/web#12, or its address"
        ))
    })?;
    if !source.is_empty() {
        return Ok(ItemKey::new(source, id));
    }
    if let [only] = config.sources() {
        return Ok(ItemKey::new(&only.name, id));
    }
    let known = store.items().with_number(id).await?;
    match known.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(CommandError::NotFound(format!(
            "{id} is not among the items that the queries returned; `heartbeat items` lists them"
        ))),
        several => {
            let keys: Vec<&str> = several.iter().map(ItemKey::as_str).collect();
            let keys = keys.join(" or ");
            Err(CommandError::Usage(format!("several sources have an item {id}; pass {keys}")))
        }
    }
}

pub fn render_item_history(history: &ItemHistory, paint: Paint) -> String {
    let item = &history.item;
    let area = item.area_path.as_deref().filter(|area| !area.is_empty());
    let area = area.map(|area| format!(" · {area}")).unwrap_or_default();
    let name = format!("{} {}", short_key(&item.key), item.title);
    let mut text = format!(
        "{}\n{}{area} · {} · changed {}\n{}\n\n{} ({})",
        paint.bold(&name),
        item.item_type,
        version(item.revision),
        date_time(item.last_changed),
        item.url,
        in_words(item.phase),
        item.reason.to_text(),
    );
    if let Some(alarms) = history.alarms {
        let words = format!("ALARM: {}, removed from every prompt or marked", alarms.to_text());
        let _: std::fmt::Result = write!(text, "\n{}", paint.red(&words));
    }
    let way = render_way(history);
    if history.findings.is_empty() {
        text.push_str(&way);
        text.push('\n');
    } else {
        // What a reader came for; how it came about follows.
        text.push('\n');
        text.extend(history.findings.iter().map(|row| render_finding(row, paint)));
        let _: std::fmt::Result = writeln!(text, "\n{}{way}", paint.bold("How it came about"));
    }
    let _: std::fmt::Result = writeln!(text, "\n{}", paint.bold("History"));
    let mut view = RunView::default();
    for recorded in &history.events {
        view.apply(recorded);
        if let Some(line) = line(recorded, &view) {
            let _: std::fmt::Result = writeln!(text, "  {} {line}", day(recorded.at));
        }
    }
    if let Some(transcript) = &history.transcript {
        let _: std::fmt::Result = writeln!(text, "\n{}", paint.bold("Newest session"));
        text.push_str(&render_transcript(transcript));
    }
    text
}

/// Triage, what belongs to the item, and the attempts at it; each line begins with its newline.
fn render_way(history: &ItemHistory) -> String {
    let item = &history.item;
    let mut text = String::new();
    if let Some(rule) = &history.rule {
        let _: std::fmt::Result = write!(text, "\nrule {rule}");
    }
    if let Some(verdict) = &item.verdict {
        let _: std::fmt::Result = write!(
            text,
            "\ntriage: {}, {}: {}",
            in_words(verdict.complexity),
            if verdict.needs_deep_analysis { "deep analysis" } else { "no deep analysis" },
            verdict.reason
        );
        if !verdict.doubt.is_empty() {
            let _: std::fmt::Result = write!(text, "\n  doubt: {}", verdict.doubt);
        }
        if !verdict.terms.is_empty() {
            let terms = verdict.terms.join(", ");
            let _: std::fmt::Result = write!(text, "\n  search terms: {terms}");
        }
    }
    for one in &history.suggested {
        let _: std::fmt::Result = write!(text, "\nsuggested: {}", clip(&one.text(), 200));
    }
    text.push_str(&render_duplicates(&history.duplicates, &item.key));
    text.extend(history.surroundings.iter().map(render_linked_content));
    text.push_str(&render_attempts(&history.attempts));
    text.push_str(&render_comments(&history.comments));
    text
}

fn render_finding(row: &FindingRow, paint: Paint) -> String {
    let title = format!("Finding of {} on {}", minute(row.created_at), version(row.revision));
    let finding = paint.markdown(&analyze::markdown(&row.finding));
    format!("\n{}\n{}\n{finding}", paint.bold(&title), remarks(row))
}

/// Feedback and later commits about a finding.
fn remarks(row: &FindingRow) -> String {
    let feedback = row.feedback.as_ref().map(ToString::to_string);
    feedback
        .into_iter()
        .chain(stale_line(row))
        .chain(fix_line(row))
        .map(|remark| format!("{remark}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Reason;
    use crate::report::digest::samples::report;

    fn history() -> ItemHistory {
        let report = report("The total is wrong");
        let item = ItemRow { reason: Reason::SameFingerprint, ..report.open.first[0].clone() };
        ItemHistory {
            item,
            findings: report.findings,
            attempts: Vec::new(),
            duplicates: DuplicateGroup::default(),
            suggested: Vec::new(),
            suggestions: Vec::new(),
            comments: Vec::new(),
            sessions: Vec::new(),
            transcript: Some(SessionTranscript::default()),
            surroundings: None,
            alarms: None,
            rule: None,
            events: Vec::new(),
        }
    }

    #[test]
    fn the_finding_comes_before_the_history_and_the_session() {
        let text = render_item_history(&history(), Paint::Plain);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(at("parked (") < at("Finding of"), "{text}");
        assert!(at("Finding of") < at("How it came about"), "{text}");
        assert!(at("Assessment") < at("History") && at("History") < at("Newest session"), "{text}");
        assert!(text.contains("(no change since)"), "{text}");
    }

    #[test]
    fn an_empty_list_says_so() {
        assert_eq!(render_sessions(&[], false), "no sessions yet\n");
        assert_eq!(render_runs(&[], false), "no runs yet\n");
    }

    #[tokio::test]
    async fn an_unknown_item_is_named_with_the_command_that_lists_the_known_ones() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let config: Config = toml::from_str(crate::config::DEFAULT_TOML).unwrap();
        let shown = item_history(&store, &config, "4101").await.unwrap_err().to_string();
        let retried = why_not_requeued(&store, &ItemKey::new("ado", ItemId(4101)), false).await;
        for said in [shown, retried.unwrap()] {
            assert!(said.contains("not among the items that the query returned"), "{said}");
            assert!(said.contains("`heartbeat items`") && !said.contains("status"), "{said}");
        }
    }
}
