//! `heartbeat suggest`: what was written to fields of items.

use clap::{Args, Subcommand};

use super::error::CommandError;
use super::exit::Code;
use crate::app::undo::{Undone, undo};

#[derive(Debug, Clone, Args)]
pub struct SuggestArgs {
    #[command(subcommand)]
    pub command: SuggestCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub enum SuggestCommand {
    /// Take back what a run wrote to fields (suggest.write), each only if nobody has changed it since
    Undo {
        /// The run, or the beginning of its id, as `heartbeat runs` prints it
        run: String,
    },
}

impl super::Context {
    pub(super) async fn suggest(&self, args: &SuggestArgs) -> Result<Code, CommandError> {
        let SuggestCommand::Undo { run } = &args.command;
        let (run, undone) = undo(&self.start_options(false), run).await?;
        let left = undone.iter().any(|one| one.left.is_some());
        let answer = serde_json::json!({ "run": run, "items": undone });
        self.print(&answer, |_| render(&undone))?;
        Ok(if left { Code::SomeFailed } else { Code::Done })
    }
}

fn render(undone: &[Undone]) -> String {
    if undone.is_empty() {
        return "this run wrote nothing to fields\n".to_owned();
    }
    let one = |one: &Undone| {
        let fields = one.fields.join(", ");
        match &one.left {
            None => format!("{}: taken back: {fields}\n", one.item),
            Some(why) => format!("{}: left: {fields}: {why}\n", one.item),
        }
    };
    undone.iter().map(one).collect()
}
