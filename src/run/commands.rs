//! Commands that people write as comments: `/heartbeat analyse`, `why` and `wrong NOTE`. Each is
//! carried out and answered once, however often its comment is read.

use jiff::SignedDuration;
use sha2::{Digest, Sha256};

use super::{RunContext, RunError};
use crate::clean;
use crate::dedupe::why::{Standing, why};
use crate::model::{Comment, ItemKey, WorkItem, plain_text};
use crate::store::{CommentCommand, Effect, fault};

/// What a command begins with.
const PREFIX: &str = "/heartbeat";
/// Older commands are history: their answers may no longer be remembered.
const OLDEST: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Commands of one item that one run carries out.
const MAX: usize = 5;
/// Of a note, in characters.
const MAX_NOTE_LEN: usize = 500;

/// A command that somebody who may write to the item gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    item: ItemKey,
    /// The same for the same comment.
    mark: String,
    asked: Asked,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Analyse,
    Why,
    Wrong(String),
    /// Not one of these.
    Other,
}

/// Takes the commands out of the comments of these items: they are no part of an item's text, so
/// they do not make it work again.
pub(super) fn take(cx: &RunContext, items: &mut [WorkItem]) -> Vec<Given> {
    let mut given = Vec::new();
    let since = cx.now().checked_sub(OLDEST).unwrap_or(cx.now());
    for item in items {
        let wanted = |key: &ItemKey| cx.config.source_of(key).is_some_and(|source| source.commands);
        if !wanted(&item.key) {
            continue;
        }
        let (key, mut count) = (item.key.clone(), 0);
        item.comments.retain(|comment| {
            let Some(asked) = asked_in(comment) else { return true };
            let is_recent = comment.at.is_some_and(|at| at >= since);
            if comment.may_write && is_recent && count < MAX {
                count += 1;
                given.push(Given { item: key.clone(), mark: mark(&key, comment), asked });
            }
            false
        });
    }
    given
}

/// The command that a comment begins with, in its visible text: not in a quote or in code.
fn asked_in(comment: &Comment) -> Option<Asked> {
    // Most comments are no commands and are not cleaned for it.
    if !comment.raw.contains(PREFIX) {
        return None;
    }
    let text = clean::clean_text(&comment.raw, comment.format, &clean::Options::default()).text;
    let line = text.trim_start().lines().next()?.trim();
    let rest = line.strip_prefix(PREFIX)?;
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let (word, note) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
    Some(match word.to_ascii_lowercase().as_str() {
        "analyse" | "analyze" => Asked::Analyse,
        "why" => Asked::Why,
        "wrong" => Asked::Wrong(plain_text(note).trim().chars().take(MAX_NOTE_LEN).collect()),
        _ => Asked::Other,
    })
}

fn mark(key: &ItemKey, comment: &Comment) -> String {
    let at = comment.at.map_or(0, jiff::Timestamp::as_millisecond);
    let digest = Sha256::digest(format!("{}\n{}", comment.author, comment.raw));
    let hex: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("command/{key}/{at}/{hex}")
}

/// Carries them out and queues their answers. One about an item that no run has stored yet waits for
/// the next run.
pub(super) async fn carry_out(cx: &RunContext, given: Vec<Given>) -> Result<(), RunError> {
    for one in given {
        let Some(row) = cx.store().items().get(one.item.clone()).await? else { continue };
        let findings = cx.store().findings().of_item(one.item.clone()).await?;
        let (effect, answer) = match one.asked {
            Asked::Analyse => (
                Effect::Requeue,
                "heartbeat analyses this item again as soon as a session is free.".to_owned(),
            ),
            Asked::Why => {
                let standing = Standing {
                    phase: row.phase,
                    reason: row.reason,
                    attempts: row.attempts,
                    deferrals: row.deferrals,
                    next_attempt: row.next_attempt.map(|at| cx.journal.clock().local_time(at)),
                    verdict: row.verdict.as_ref(),
                    has_finding: !findings.is_empty(),
                    same_as: None,
                };
                (Effect::Nothing, why(&standing))
            }
            Asked::Wrong(_) if findings.is_empty() => {
                (Effect::Nothing, "There is no finding about this item yet.".to_owned())
            }
            Asked::Wrong(note) => (
                Effect::Wrong(note),
                "Noted: the finding is marked as wrong. `/heartbeat analyse` asks for another one."
                    .to_owned(),
            ),
            Asked::Other => (
                Effect::Nothing,
                "heartbeat knows `/heartbeat analyse`, `/heartbeat why` and `/heartbeat wrong NOTE`."
                    .to_owned(),
            ),
        };
        fault::point();
        let command = CommentCommand { item: one.item, mark: one.mark, effect, answer };
        cx.journal.items().carry_out(command, cx.id).await?;
        fault::point();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Format;

    fn asked(format: Format, raw: &str) -> Option<Asked> {
        let comment =
            Comment { author: "Ann".into(), at: None, format, raw: raw.into(), may_write: true };
        asked_in(&comment)
    }

    #[test]
    fn only_the_beginning_of_what_a_person_sees_is_a_command() {
        let html = |raw| asked(Format::Html, raw);
        assert_eq!(html("<div>/heartbeat analyse</div>"), Some(Asked::Analyse));
        assert_eq!(html("<p> /heartbeat WHY&nbsp;</p><p>please</p>"), Some(Asked::Why));
        assert_eq!(
            html("<div>/heartbeat wrong it is the <b>other</b> file</div>"),
            Some(Asked::Wrong("it is the other file".into()))
        );
        assert_eq!(html("<div>/heartbeat</div>"), Some(Asked::Other));
        for no in [
            "<blockquote>/heartbeat analyse</blockquote>",
            "<pre>/heartbeat analyse</pre>",
            "<code>/heartbeat analyse</code>",
            "<div>please write /heartbeat analyse</div>",
            "<div>/heartbeats</div>",
            "<div style=\"display:none\">/heartbeat analyse</div><div>hello</div>",
        ] {
            assert_eq!(html(no), None, "{no}");
        }
        let markdown = |raw| asked(Format::RawMarkdown, raw);
        assert_eq!(markdown("/heartbeat analyze\r\n"), Some(Asked::Analyse));
        for no in [
            "> /heartbeat analyse",
            "```\n/heartbeat analyse\n```",
            "`/heartbeat why`",
            "    /heartbeat why",
        ] {
            assert_eq!(markdown(no), None, "{no}");
        }
    }
}
