//! The code base of an item, as far as it can be had.
//!
//! A code base without a picture is told and does not stop the analysis: the agent then works from
//! the item and what it reads itself. One that is not there at all is no fault of the item: nothing
//! is started for it, it stays in line, and the run says which folder is missing.

use std::path::PathBuf;

use super::{CodeContext, CodeError, Run, RunError, Work};
use crate::event::{Event, Reason};
use crate::model::{ItemKey, Verdict};

impl Run {
    /// What is known of the code before the agent's first token; an error: there is no code base.
    pub(super) async fn context_of(
        &self,
        work: &Work,
        verdict: Verdict,
    ) -> Result<CodeContext, CodeError> {
        let item = work.item.item.key.clone();
        match self.edges.code.context(work.item.clone(), verdict).await {
            Ok(context) => {
                let (files, tokens) = (context.files, context.tokens);
                let root = Some(context.root.clone());
                self.emit(Event::ContextBuilt { item, files, tokens, root });
                Ok(context)
            }
            Err(CodeError::Unreadable { root, why }) => {
                tracing::error!(%item, root = %root.display(), %why, "no code-base context");
                let (files, tokens) = (0, 0);
                self.emit(Event::ContextBuilt { item, files, tokens, root: Some(root.clone()) });
                let (overview, context) = (String::new(), String::new());
                Ok(CodeContext { root, overview, context, files, tokens })
            }
            Err(missing @ CodeError::Missing(_)) => Err(missing),
        }
    }

    /// An item whose code base is not there waits for it.
    pub(super) async fn without_code(
        &self,
        item: ItemKey,
        missing: &CodeError,
    ) -> Result<(), RunError> {
        let fault = RunError::NoCodeBase(missing.clone());
        self.note_fault(Some(item.clone()), Reason::NoCodeBase, fault);
        Ok(self.journal.items().defer(vec![item], Reason::NoCodeBase).await?)
    }

    /// The code base that a session of an earlier life read for this item, if it is still there.
    pub(super) async fn root_read_for(&self, item: ItemKey) -> Result<Option<PathBuf>, RunError> {
        let told = self.journal.store().events().of_item(item).await?;
        let built = told.into_iter().rev().find_map(|recorded| match recorded.event {
            Event::ContextBuilt { root, .. } => root,
            _ => None,
        });
        Ok(built.filter(|root| root.is_dir()))
    }
}
