//! Answers of CLIs that do not enforce a schema: extracted from the text and validated here.

use serde_json::Value;

use super::prose::embedded_object;
use super::{AgentResult, Task};
use crate::model::{FailureKind, Stage, Untrusted};
use crate::prompt::schema::violations;

/// Stores the answer found in `text` in `result`, or the reason why there is none. `without` is the
/// failure for a text that holds no object.
pub fn store_answer(
    result: &mut AgentResult,
    wanted: &AnswerSpec,
    text: &str,
    without: FailureKind,
) {
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    let whole = serde_json::from_str(text).ok().filter(Value::is_object);
    match whole.or_else(|| embedded_object(text)) {
        None => result.misfit = Some(without),
        Some(object) if wanted.is_misfit(&object) => {
            result.misfit = Some(FailureKind::SchemaViolated);
        }
        Some(object) => result.structured_output = Some(Untrusted::new(object)),
    }
    result.text = Some(Untrusted::new(text.to_owned()));
}

#[derive(Debug, Clone)]
pub struct AnswerSpec {
    schema: Value,
    stage: Stage,
}

impl AnswerSpec {
    pub fn of(task: &Task) -> Self {
        Self { schema: task.schema.clone(), stage: task.stage }
    }

    /// An answer the stage can use is not a misfit: triage verdicts are validated and asked for
    /// again one by one; a finding may lack fields that earlier versions did not have.
    fn is_misfit(&self, object: &Value) -> bool {
        let usable = match self.stage {
            Stage::Triage => object["verdicts"].is_array(),
            Stage::Locate => object["items"].is_array(),
            Stage::Deep => crate::analyze::check(object).is_ok(),
        };
        !usable && !violations(&self.schema, object).is_empty()
    }
}

/// Instructions and question in one text, for a CLI without a system prompt. The first character is
/// never one that a CLI interprets as a command.
pub fn combined_prompt(task: &Task) -> String {
    format!(
        "# Instructions\n\n{}\n\n# Form of the answer\n\nAnswer with exactly one JSON object that \
         fits this JSON schema: no other words, no code fence. It may be as long as it has to be.\n\
         \n{}\n\n# Question\n\n{}",
        task.system_prompt.trim(),
        crate::prompt::schema::in_order(&task.schema),
        task.prompt
    )
}
