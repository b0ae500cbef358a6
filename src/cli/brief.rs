//! `heartbeat brief`: the newest finding of an item as a task for a coding agent.

use super::error::CommandError;
use super::exit::Code;
use super::{Context, show};
use crate::brief::brief;
use crate::prompt::Fence;

impl Context {
    pub(super) async fn brief(&self, item: &str) -> Result<Code, CommandError> {
        let (store, config) = self.needed_state()?;
        self.learn_names(&store).await?;
        let key = show::find_key(&store, &config, item).await?;
        let row = store.items().get(key.clone()).await?;
        let finding = store.findings().of_item(key.clone()).await?.into_iter().next();
        let (Some(row), Some(finding)) = (row, finding) else {
            return Err(CommandError::NotFound(format!(
                "{} has no finding to hand on; `heartbeat why {item}` says why",
                self.name_of(&key)
            )));
        };
        let fence = Fence::new(uuid::Uuid::now_v7());
        let mut text = brief(&row, &finding, &self.name_of(&key), &fence);
        self.secrets(&config).await.remove_from(&mut text);
        let json = serde_json::json!({ "item": key, "brief": text });
        self.print(&json, |_| text.clone())?;
        Ok(Code::Done)
    }
}
