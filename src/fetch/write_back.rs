//! Writes a finding to its item: the part that all trackers share.

use sha2::{Digest, Sha256};

use super::FetchError;
use super::http::Http;
use crate::model::{BreakerState, Comment, FailureClass, Format, ItemId};

/// Prefix of the mark.
const MARK: &str = "heartbeat ref ";

/// A comment and a tag for one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBack<'a> {
    pub id: ItemId,
    /// The revision that was analysed.
    pub rev: i64,
    pub comment: &'a str,
    /// Format of the comment; anything but Markdown is treated as HTML.
    pub format: Format,
    /// Empty: no tag.
    pub tag: &'a str,
    /// An earlier attempt may have arrived: its mark is searched for first.
    pub may_be_there: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The revision our write created: stored as seen, so that it does not count as a change.
    pub rev: i64,
    /// An earlier attempt had arrived although its response was lost.
    pub repeated: bool,
}

impl WriteBack<'_> {
    /// A text that is the same for the same finding, by which the comment is found again.
    pub(super) fn mark(&self) -> String {
        let digest = Sha256::digest(format!("{}\n{}", self.id, self.comment));
        let hex: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        format!("{MARK}{hex}")
    }
}

/// Whether a comment is ours: it ends with a mark. A user who quotes one adds to it.
pub fn is_ours(comment: &str) -> bool {
    let Some((_, after)) = comment.rsplit_once(MARK) else { return false };
    let hex = after.chars().take_while(char::is_ascii_hexdigit).count();
    let rest = after[hex..].replace("</small>", "").replace("</div>", "").replace("</p>", "");
    let rest = rest.replace("-->", "");
    hex == 12 && rest.trim_matches(|c: char| c == '_' || c == '*' || c.is_whitespace()).is_empty()
}

/// How many of our own comments may be among those that are requested.
pub(super) const OWN_COMMENTS_SKIPPED: usize = 20;

/// The newest `wanted` comments, newest last, without our own: they neither reach the prompt nor
/// count as a change.
pub(super) fn of_others(
    mut comments: Vec<Comment>,
    wanted: u32,
    is_ours: impl Fn(&Comment) -> bool,
) -> Vec<Comment> {
    comments.retain(|comment| !is_ours(comment));
    comments.sort_by_key(|comment| comment.at);
    let too_many = comments.len().saturating_sub(usize::try_from(wanted).unwrap_or(usize::MAX));
    comments.split_off(too_many)
}

/// An item that a finding or a value cannot be written to, because it is no longer there.
pub(super) fn gone(id: ItemId) -> FetchError {
    let message = format!("item {id}: deleted, moved, or no longer visible");
    FetchError::new(FailureClass::Gone, message)
}

/// Checks that writing is allowed: it is optional, so it yields to everything else, and it never
/// sends our own secret.
pub(super) async fn ensure_writable(http: &Http, write: &WriteBack<'_>) -> Result<(), FetchError> {
    let remembered = http.notebook.read().await?;
    let now = http.now();
    if let BreakerState::Open { until, .. } = remembered.breaker.state
        && until > now
    {
        let at = http.clock().local_time(until);
        let message = format!("the circuit breaker is open until {at}; nothing was written");
        let error = FetchError::new(FailureClass::BreakerOpen, message);
        return Err(FetchError { not_before: Some(until), ..error });
    }
    if let Some(limit) = remembered.rate_limit.filter(|limit| limit.is_low(now)) {
        let message = "the tracker's rate limit is nearly used up; nothing was written";
        let error = FetchError::new(FailureClass::Throttled, message);
        return Err(FetchError { not_before: limit.reset, ..error });
    }
    if http.contains_credential(write.comment).await? {
        let message = format!(
            "the finding for item {} contains the tracker's credential; nothing was written",
            write.id
        );
        return Err(FetchError::new(FailureClass::Denied, message));
    }
    Ok(())
}
