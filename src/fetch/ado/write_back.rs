//! Writes a finding to its item: one patch, tested against the revision that was analysed.

use reqwest::Method;
use serde_json::{Value, json};

use super::{AdoSource, Call, Inner, wire};
use crate::fetch::FetchError;
use crate::fetch::failure::Failure;
use crate::fetch::write_back::{WriteBack, Written, ensure_writable};
use crate::model::{FailureClass, Format};

/// How many of the newest comments are searched for our mark.
const COMMENTS_SEARCHED: u32 = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Apply,
    ValidateOnly,
}

impl AdoSource {
    /// Writes a comment and a tag in one revision.
    ///
    /// It never overwrites: if the item has changed, it returns [`FailureClass::Conflict`], and the
    /// caller reads the item again and decides again. It never writes twice: an existing comment is
    /// recognised by its mark.
    pub async fn write_back(&self, write: &WriteBack<'_>) -> Result<Written, FetchError> {
        self.write(write, Mode::Apply).await
    }

    /// Asks the tracker whether it would accept the write; nothing is changed.
    pub async fn validate_write_back(&self, write: &WriteBack<'_>) -> Result<(), FetchError> {
        self.write(write, Mode::ValidateOnly).await.map(|_| ())
    }

    async fn write(&self, write: &WriteBack<'_>, mode: Mode) -> Result<Written, FetchError> {
        ensure_writable(&self.0.transport, &self.0.notebook, write).await?;
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
            // The tested revision makes ours the next one, whatever came later.
            return Ok(Written { rev: write.rev + 1, repeated: true });
        }
        Err(failure.into_error(now))
    }
}

impl Inner {
    async fn patch(&self, write: &WriteBack<'_>, mode: Mode) -> Result<i64, Failure> {
        let number = write.id.to_string();
        let path = vec!["_apis", "wit", "workitems", &number];
        let what = format!("a write to item {number}");
        let mut call = Call::get(path, "workItems", what.as_str());
        call.method = Method::PATCH;
        call.body = Some(("application/json-patch+json", patch(write).to_string().into_bytes()));
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

fn patch(write: &WriteBack<'_>) -> Value {
    let mark = write.mark();
    let comment = match write.format {
        Format::Markdown => json!({
            "format": "Markdown",
            "text": format!("{}\n\n_{mark}_", write.comment),
        }),
        _ => json!(format!("{}<div><small>{mark}</small></div>", write.comment)),
    };
    let mut operations = vec![json!({ "op": "test", "path": "/rev", "value": write.rev })];
    if !write.tag.is_empty() {
        // `add` merges into the set of tags.
        operations.push(json!({ "op": "add", "path": "/fields/System.Tags", "value": write.tag }));
    }
    operations.push(json!({ "op": "add", "path": "/fields/System.History", "value": comment }));
    Value::from(operations)
}
