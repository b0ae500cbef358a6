//! Checks findings against the code of the analysed commit: while the session can still be asked
//! about them, and before they are stored.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::RunContext;
use crate::analyze::{self, CheckError};
use crate::context::{CodeBase, CodeContext};
use crate::dedupe::QueuedItem;
use crate::evidence::{self, Seen};
use crate::model::{AnalysedCode, BoxFuture, CleanItem, Finding};
use crate::session::Examiner;

pub(super) struct Checker {
    code: Arc<dyn CodeBase>,
    root: PathBuf,
    commit: Option<String>,
    /// All of an item with several, beginning with `root`.
    code_bases: Vec<AnalysedCode>,
    /// Names in the item are not inventions of the agent.
    item: String,
}

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checker").field("root", &self.root).field("commit", &self.commit).finish()
    }
}

impl Checker {
    pub(super) fn of(cx: &RunContext, item: &QueuedItem, context: &CodeContext) -> Self {
        let commit = context.commit.as_ref().map(|commit| commit.id.clone());
        let checker = Self::late(cx, context.root.clone(), commit, context.code_bases.clone());
        Self { item: words_of(&item.item), ..checker }
    }

    /// For a finding whose session is over and whose item is not at hand.
    pub(super) fn late(
        cx: &RunContext,
        root: PathBuf,
        commit: Option<String>,
        code_bases: Vec<AnalysedCode>,
    ) -> Self {
        let code = Arc::clone(&cx.edges.code);
        Self { code, root, commit, code_bases, item: String::new() }
    }

    /// `None` if the check panicked.
    pub(super) async fn check(
        &self,
        output: Value,
        read: Option<Vec<String>>,
        now: Timestamp,
    ) -> Option<Result<Finding, CheckError>> {
        self.with_code(read, move |code, seen| {
            let mut finding = analyze::check(&output)?;
            evidence::check(&mut finding, code, seen, now);
            Ok(finding)
        })
        .await
    }

    /// A path that the agent read, as a finding cites it. It is relative to the working directory, or
    /// absolute if it is outside of that.
    fn as_cited(&self, path: &str) -> String {
        let read = self.root.join(path);
        let cited =
            |code: &AnalysedCode| Some(code.full(read.strip_prefix(&code.root).ok()?.to_str()?));
        // One code base may be inside of another.
        let within = self.code_bases.iter().filter(|code| read.starts_with(&code.root));
        let nearest = within.max_by_key(|code| code.root.as_os_str().len());
        nearest.and_then(cited).unwrap_or_else(|| path.to_owned())
    }

    /// Git is asked, so this is no work for the runtime's own threads.
    async fn with_code<T: Send + 'static>(
        &self,
        read: Option<Vec<String>>,
        work: impl FnOnce(&dyn evidence::Code, &Seen) -> T + Send + 'static,
    ) -> Option<T> {
        let code = match self.code_bases.as_slice() {
            [] => self.code.at_commit(self.root.clone(), self.commit.clone()).await,
            several => self.code.at_commits(several.to_vec()).await,
        };
        let read = read.map(|read| read.iter().map(|path| self.as_cited(path)).collect());
        let seen = Seen { read, item: self.item.clone() };
        tokio::task::spawn_blocking(move || work(&*code, &seen)).await.ok()
    }
}

impl Examiner for Checker {
    fn objection(&self, answer: Value, read: Option<Vec<String>>) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            let asked = self.with_code(read, move |code, seen| {
                let finding = analyze::check(&answer).ok()?;
                evidence::question(&evidence::doubts(&finding, code, seen))
            });
            asked.await.flatten()
        })
    }
}

fn words_of(item: &CleanItem) -> String {
    crate::prompt::item_text(item, None, crate::prompt::Detail::Full, u32::MAX).text
}
