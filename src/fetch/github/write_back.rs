//! Writes a finding to its issue: a comment with a mark, and a label.
//!
//! There are no revisions to test, so the mark is searched for before a comment that may already
//! exist is written again.

use std::time::Duration;

use serde_json::json;

use super::read::{IssuePlace, by_position, find};
use super::{GithubSource, wire};
use crate::fetch::FetchError;
use crate::fetch::write_back::{WriteBack, Written, gone};
use crate::model::{FailureClass, code_ranges};

/// How many of the newest comments are searched for our mark.
const COMMENTS_SEARCHED: usize = 200;
/// The service requires this delay between two writes.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);
/// In characters.
const MAX_COMMENT_LEN: usize = 65_536;

impl GithubSource {
    /// Writes a comment and sets a label, once.
    pub async fn write(&self, write: &WriteBack<'_>) -> Result<Written, FetchError> {
        let repositories = self.known_repositories().await?;
        let known = by_position(&repositories);
        let place = find(&known, write.id).ok_or_else(|| gone(write.id))?;
        let issue = self.issue_to_write(&place, write).await?;
        let mut repeated = false;
        if write.may_be_there {
            let mark = write.mark();
            let comments = self.newest_comments(&place, issue.comments, COMMENTS_SEARCHED).await?;
            repeated = comments.iter().any(|comment| comment.raw.contains(&mark));
        }
        if !repeated {
            let what = format!("a comment on {}#{}", place.repository.name, place.number);
            let body = json!({ "body": comment_text(write) });
            self.post(self.issue_url(&place, "comments"), &what, &body).await?;
            tokio::time::sleep(BETWEEN_WRITES).await;
        }
        let has_label = |issue: &wire::GithubIssue| {
            issue.labels.iter().any(|label| label.name().eq_ignore_ascii_case(write.tag))
        };
        if !write.tag.is_empty() && !has_label(&issue) {
            self.set_label(&place, write.tag).await;
        }
        // The time of our own write counts as seen.
        let after = self.read_issue(&place).await?;
        let rev =
            after.map(|issue| self.decoder.item(issue, place.repository, self.http.now()).rev);
        Ok(Written { rev: rev.unwrap_or(write.rev), repeated })
    }

    /// The comment counts with or without the label: a label that is refused or silently dropped
    /// for lack of rights is logged, not a failure.
    async fn set_label(&self, place: &IssuePlace<'_>, tag: &str) {
        let what = format!("a label on {}#{}", place.repository.name, place.number);
        let body = json!({ "labels": [tag] });
        let answer = self.post(self.issue_url(place, "labels"), &what, &body).await;
        let set: Result<Vec<wire::Label>, FetchError> =
            answer.and_then(|answer| self.http.decode(&answer, &what));
        match set {
            Ok(labels) if labels.iter().any(|label| label.name().eq_ignore_ascii_case(tag)) => {}
            Ok(_) => tracing::warn!(
                label = tag,
                "could not set the label: the credential lacks the right to triage or push"
            ),
            Err(failure) => {
                tracing::warn!(label = tag, error = failure.message, "could not set the label");
            }
        }
    }

    /// Checks whether the issue would accept a comment; nothing is changed.
    pub async fn validate(&self, write: &WriteBack<'_>) -> Result<(), FetchError> {
        let repositories = self.known_repositories().await?;
        let known = by_position(&repositories);
        let place = find(&known, write.id).ok_or_else(|| gone(write.id))?;
        let issue = self.issue_to_write(&place, write).await?;
        let name = &place.repository.name;
        let denied = if self.repository(name).await?.archived {
            format!("the repository {name} is archived and accepts no comments")
        } else if issue.locked {
            format!(
                "the issue {name}#{} is locked; only users with push access can comment",
                place.number
            )
        } else {
            return Ok(());
        };
        Err(FetchError::new(FailureClass::Denied, denied))
    }

    /// The issue in its current state. If it was closed since the finding was made, nothing is
    /// written.
    async fn issue_to_write(
        &self,
        place: &IssuePlace<'_>,
        write: &WriteBack<'_>,
    ) -> Result<wire::GithubIssue, FetchError> {
        let issue = self.read_issue(place).await?.ok_or_else(|| gone(write.id))?;
        let item = self.decoder.item(issue.clone(), place.repository, self.http.now());
        if item.rev != write.rev && item.finished == Some(true) && !write.may_be_there {
            let message =
                format!("{}#{} was closed in the meantime", place.repository.name, place.number);
            return Err(FetchError::new(FailureClass::Conflict, message));
        }
        Ok(issue)
    }

    fn issue_url(&self, place: &IssuePlace<'_>, part: &str) -> reqwest::Url {
        let number = place.number.to_string();
        self.http.url(&["repos", &place.repository.name, "issues", &number, part], &[])
    }
}

/// The comment with an invisible mark by which it is found again.
fn comment_text(write: &WriteBack<'_>) -> String {
    let mark = format!("\n\n<!-- {} -->", write.mark());
    let text = without_mentions(write.comment);
    let room = MAX_COMMENT_LEN - mark.chars().count();
    if text.chars().count() <= room {
        return text + &mark;
    }
    let note = "\n\n[… shortened; the whole finding is in heartbeat's report]";
    let kept: String = text.chars().take(room - note.chars().count()).collect();
    // Half of a line could end within code, whose beginning would then no longer be code.
    let kept = kept.rsplit_once('\n').map_or("", |(whole_lines, _)| whole_lines);
    format!("{kept}{note}{mark}")
}

/// Disables `@name` mentions in quoted text, which would notify uninvolved users. Mentions in code
/// have no effect, so code is unchanged.
fn without_mentions(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let code = code_ranges(text);
    let is_code = |at: usize| code.iter().any(|range| range.contains(&at));
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        out.push(character);
        let is_name = characters.peek().is_some_and(|(_, next)| next.is_ascii_alphanumeric());
        if character == '@' && is_name && !is_code(at) {
            out.push('\u{200B}');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::write_back::is_ours;
    use crate::model::{Format, ItemId};

    fn write(comment: &str) -> WriteBack<'_> {
        let (id, format) = (ItemId(7), Format::Markdown);
        WriteBack { id, rev: 1, comment, format, tag: "heartbeat", may_be_there: false }
    }

    #[test]
    fn a_comment_carries_its_mark_calls_nobody_and_fits() {
        let text = comment_text(&write("ask @ann about `@Inject` and a@b"));
        assert!(text.contains("@\u{200B}ann") && text.contains("`@Inject`"), "{text}");
        assert!(is_ours(&text), "{text}");
        assert!(!is_ours(&format!("> {text}\n\nI disagree")), "a quote is not ours");
        let long = "x".repeat(70_000);
        let text = comment_text(&write(&long));
        assert!(text.chars().count() <= MAX_COMMENT_LEN && is_ours(&text));
        assert!(text.contains("shortened"));
    }

    #[test]
    fn a_cut_does_not_open_what_was_code() {
        let line = "see `<img src=x>` there\n";
        let lines = line.repeat(MAX_COMMENT_LEN / line.len() + 1);
        for shift in 0..line.len() {
            let text = comment_text(&write(&format!("{}{lines}", "x".repeat(shift))));
            let html = |event: &pulldown_cmark::Event<'_>| {
                matches!(event, pulldown_cmark::Event::InlineHtml(_))
            };
            assert_eq!(pulldown_cmark::Parser::new(&text).filter(html).count(), 0);
        }
    }

    #[test]
    fn a_single_backtick_does_not_let_names_through() {
        assert_eq!(without_mentions("``a`` `@x`"), "``a`` `@x`");
        assert_eq!(without_mentions("it's a ` and @all"), "it's a ` and @\u{200B}all");
    }
}
