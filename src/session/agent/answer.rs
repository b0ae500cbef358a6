//! The answer of a CLI that does not check it: found in its text and judged by our own schema.

use serde_json::Value;

use super::prose::embedded_object;
use super::{AgentResult, Task};
use crate::model::{FailureKind, Foreign, Stage};
use crate::prompt::schema::violations;

/// Puts the answer that `text` holds into `result`, or why it is none. `without` is said of a text
/// that holds no object at all.
pub fn put_into(result: &mut AgentResult, wanted: &AnswerWanted, text: &str, without: FailureKind) {
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
        Some(object) => result.structured_output = Some(Foreign::new(object)),
    }
    result.text = Some(Foreign::new(text.to_owned()));
}

/// What an answer must be like.
#[derive(Debug, Clone)]
pub struct AnswerWanted {
    schema: Value,
    stage: Stage,
}

impl AnswerWanted {
    pub fn of(task: &Task) -> Self {
        Self { schema: task.schema.clone(), stage: task.stage }
    }

    /// What the stage can use is no misfit: triage's verdicts are checked one by one later, and asked
    /// for again one by one; a finding may lack what earlier versions did not ask for.
    fn is_misfit(&self, object: &Value) -> bool {
        let usable = match self.stage {
            Stage::Triage => object["verdicts"].is_array(),
            Stage::Deep => crate::analyze::check(object).is_ok(),
        };
        !usable && !violations(&self.schema, object).is_empty()
    }
}

/// What a CLI without a place for them is told beside its question: what to do and how to answer. The
/// first character is never one that a CLI takes for a command.
pub fn told_in_one(task: &Task) -> String {
    format!(
        "# Instructions\n\n{}\n\n# Form of the answer\n\nAnswer with exactly one JSON object that \
         fits this JSON schema: no other words, no code fence. It may be as long as it has to be.\n\
         \n{}\n\n# Question\n\n{}",
        task.system_prompt.trim(),
        crate::prompt::schema::in_order(&task.schema),
        task.prompt
    )
}
