//! Leaving a finding on its item: one patch, tested against the revision it was made from.

use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::failure::Failure;
use super::{AdoSource, Call, Inner, wire};
use crate::fetch::FetchError;
use crate::model::{BreakerState, FailureClass, Format, ItemId};

/// How many of the newest comments are searched for our mark.
const COMMENTS_SEARCHED: u32 = 200;
/// How the mark begins.
const MARK: &str = "heartbeat ref ";

/// A comment and a tag for one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBack<'a> {
    /// Which item.
    pub id: ItemId,
    /// The revision the finding was made from.
    pub rev: i64,
    /// The comment.
    pub comment: &'a str,
    /// How it is written; anything but Markdown is taken for HTML.
    pub format: Format,
    /// The tag; empty: none.
    pub tag: &'a str,
    /// An earlier attempt may have arrived: its mark is searched for first.
    pub may_be_there: bool,
}

/// What a write left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The revision our write made: to be kept as seen, so that it wakes nobody.
    pub rev: i64,
    /// It was there already: an earlier try had arrived although its answer was lost.
    pub repeated: bool,
}

impl WriteBack<'_> {
    /// A text that is the same for the same finding and is found again in the comment.
    fn mark(&self) -> String {
        let digest = Sha256::digest(format!("{}\n{}", self.id, self.comment));
        let hex: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        format!("{MARK}{hex}")
    }

    fn patch(&self) -> Value {
        let mark = self.mark();
        let comment = match self.format {
            Format::Markdown => json!({
                "format": "Markdown",
                "text": format!("{}\n\n_{mark}_", self.comment),
            }),
            _ => json!(format!("{}<div><small>{mark}</small></div>", self.comment)),
        };
        let mut operations = vec![json!({ "op": "test", "path": "/rev", "value": self.rev })];
        if !self.tag.is_empty() {
            // `add` merges into the set of tags.
            operations
                .push(json!({ "op": "add", "path": "/fields/System.Tags", "value": self.tag }));
        }
        operations.push(json!({ "op": "add", "path": "/fields/System.History", "value": comment }));
        Value::from(operations)
    }
}

/// Whether a comment is one of ours: it ends with a mark. A person who quotes one adds to it.
pub fn is_ours(comment: &str) -> bool {
    let Some((_, after)) = comment.rsplit_once(MARK) else { return false };
    let hex = after.chars().take_while(char::is_ascii_hexdigit).count();
    let rest = after[hex..].replace("</small>", "").replace("</div>", "").replace("</p>", "");
    hex == 12 && rest.trim_matches(|c: char| c == '_' || c == '*' || c.is_whitespace()).is_empty()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Apply,
    ValidateOnly,
}

impl AdoSource {
    /// Writes a comment and a tag in one revision.
    ///
    /// It never overwrites: if the item has moved on, the answer is
    /// [`FailureClass::Conflict`], and the caller reads it again and decides again. It never
    /// writes twice: a comment that is already there is recognised by its mark.
    pub async fn write_back(&self, write: &WriteBack<'_>) -> Result<Written, FetchError> {
        self.write(write, Mode::Apply).await
    }

    /// Asks the tracker whether it would take the write; nothing is changed.
    pub async fn validate_write_back(&self, write: &WriteBack<'_>) -> Result<(), FetchError> {
        self.write(write, Mode::ValidateOnly).await.map(|_| ())
    }

    async fn write(&self, write: &WriteBack<'_>, mode: Mode) -> Result<Written, FetchError> {
        self.ensure_writable(write).await?;
        let now = self.0.transport.now();
        if write.may_be_there && mode == Mode::Apply {
            let there = self.0.has_mark(write).await;
            if there.map_err(|failure| failure.into_error(now))? {
                return Ok(Written { rev: write.rev + 1, repeated: true });
            }
        }
        let failure = match self.0.patch(write, mode).await {
            Ok(rev) => return Ok(Written { rev, repeated: false }),
            Err(failure) => failure,
        };
        if failure.class == FailureClass::Conflict
            && mode == Mode::Apply
            && self.0.has_mark(write).await.map_err(|failure| failure.into_error(now))?
        {
            // The tested revision makes ours the one right after it, whatever came later.
            return Ok(Written { rev: write.rev + 1, repeated: true });
        }
        Err(failure.into_error(now))
    }

    /// Writing is optional: it gives way to everything else, and never carries our own secret.
    async fn ensure_writable(&self, write: &WriteBack<'_>) -> Result<(), FetchError> {
        let remembered = self.0.notebook.read().await?;
        let now = self.0.transport.now();
        if let BreakerState::Open { until, .. } = remembered.breaker.state
            && until > now
        {
            let message = format!("the circuit breaker is open until {until}; nothing was written");
            let error = FetchError::new(FailureClass::BreakerOpen, message);
            return Err(FetchError { not_before: Some(until), ..error });
        }
        if let Some(limit) = remembered.rate_limit.filter(|limit| limit.is_low(now)) {
            let message = "the tracker's rate limit is nearly used up; nothing was written";
            let error = FetchError::new(FailureClass::Throttled, message);
            return Err(FetchError { not_before: limit.reset, ..error });
        }
        if self.0.transport.contains_credential(write.comment).await? {
            let message = format!(
                "the finding for item {} contains the tracker's credential; nothing was written",
                write.id
            );
            return Err(FetchError::new(FailureClass::Denied, message));
        }
        self.0.transport.load_agreed_versions().await
    }
}

impl Inner {
    async fn patch(&self, write: &WriteBack<'_>, mode: Mode) -> Result<i64, Failure> {
        let number = write.id.to_string();
        let path = vec!["_apis", "wit", "workitems", &number];
        let what = format!("a write to item {number}");
        let mut call = Call::get(path, "workItems", what.as_str());
        call.method = Method::PATCH;
        call.body = Some(("application/json-patch+json", write.patch().to_string().into_bytes()));
        if mode == Mode::ValidateOnly {
            call.query.push(("validateOnly", "true".to_owned()));
        }
        let answer = self.transport.send(&call).await?;
        let item: wire::Item = self.transport.decode(&answer, "the item that was written")?;
        Ok(item.rev.unwrap_or(write.rev + 1))
    }

    async fn has_mark(&self, write: &WriteBack<'_>) -> Result<bool, Failure> {
        let project = &self.config.project;
        let comments = self.read_comments(project, write.id, COMMENTS_SEARCHED).await?;
        let mark = write.mark();
        Ok(comments.iter().any(|comment| comment.raw.contains(&mark)))
    }
}

impl AdoSource {
    /// Current state of these items, in the order of `ids`; items that are gone are omitted.
    pub async fn read_current_states(
        &self,
        ids: &[ItemId],
    ) -> Result<Vec<crate::fetch::CurrentState>, FetchError> {
        let read = async {
            let mut all = Vec::with_capacity(ids.len());
            for part in ids.chunks(super::read::LARGEST_BATCH) {
                all.extend(self.0.current_states(part).await?);
            }
            Ok(all)
        };
        self.0.transport.load_agreed_versions().await?;
        read.await.map_err(|failure: Failure| failure.into_error(self.0.transport.now()))
    }
}
