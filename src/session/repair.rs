//! One more request to an agent: its CLI does not enforce the schema and the answer does not fit, or
//! the answer claims what the code does not have.
//!
//! It is the same session: the same row under another keeper, the same budget, the rest of the same
//! time. A second answer that does not fit is a failure.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::SessionSpec;
use super::agent::{Agent, AgentCommand, Task};
use super::finished::{Finished, Row};
use super::sessions::lay_out;
use crate::model::{FailureKind, Outcome, SessionEnd, SessionId};
use crate::prompt::schema::violations;

/// With less time left nothing is asked.
const LEAST_TIME: Duration = Duration::from_secs(10);

/// Bytes of the rejected answer that are quoted.
const MAX_ANSWER_LEN: usize = 32 << 10;

/// Validation errors that are listed.
const MAX_COMPLAINTS: usize = 20;

/// The session that asks again; `None` if another request would not help.
pub fn question(
    spec: &SessionSpec,
    agent: &dyn Agent,
    end: &SessionEnd,
    finished: &Finished,
) -> Option<SessionSpec> {
    use FailureKind::{SchemaIgnored, SchemaViolated};
    let misfit = matches!(end.outcome, Outcome::BadOutput { why: SchemaIgnored | SchemaViolated });
    let answer = finished.result.as_ref()?.text.as_ref()?.raw();
    misfit.then(|| again(spec, agent, finished, &remark(answer, &spec.task)))?
}

/// The session that asks about claims of its answer; `None` if time or money does not suffice.
pub fn question_about(
    spec: &SessionSpec,
    agent: &dyn Agent,
    finished: &Finished,
    answer: &Value,
    objection: &str,
) -> Option<SessionSpec> {
    // A gateway counts both questions together. Without one the second is bounded by what is left,
    // which has to be enough for a whole answer.
    let spent = finished.usage.cost;
    let affordable = spent.is_some_and(|spent| spent.micros() <= spec.worst_case.micros() / 2);
    if spec.gateway.is_none() && !affordable {
        return None;
    }
    let answer = answer.to_string();
    let cut = &answer[..answer.floor_char_boundary(MAX_ANSWER_LEN)];
    again(
        spec,
        agent,
        finished,
        &format!("An earlier answer to all of this was:\n\n{cut}\n\n{objection}"),
    )
}

fn again(
    spec: &SessionSpec,
    agent: &dyn Agent,
    finished: &Finished,
    remark: &str,
) -> Option<SessionSpec> {
    let left = spec.limits.hard.saturating_sub(finished.duration);
    if finished.row != Some(Row::Close) || left < LEAST_TIME {
        return None;
    }
    // A CLI may resume a session whose id it knows.
    let session = SessionId(Uuid::now_v7());
    let task = Task {
        session,
        prompt: format!("{}\n\n{remark}", spec.task.prompt),
        spent: finished.usage.cost.unwrap_or_default(),
        // The first agent had its own folder, so nothing in it can be trusted.
        scratch: spec.scratch.join(session.to_string()),
        ..(*spec.task).clone()
    };
    // Keeps the configured command's own arguments.
    let before = spec.args.len().saturating_sub(agent.command(&spec.task).args.len());
    let command = agent.command(&task);
    if let Err(error) = lay_out(&task, &command) {
        tracing::warn!(%error, "the folder for a second question cannot be created");
        return None;
    }
    let confinement = spec.confinement.clone().map(|mut confinement| {
        for path in confinement.write.iter_mut().filter(|path| **path == spec.task.scratch) {
            path.clone_from(&task.scratch);
        }
        confinement
    });
    let AgentCommand { args: own, env, stdin, .. } = command;
    let args = spec.args[..before].iter().cloned().chain(own).collect();
    if let Some(gateway) = &spec.gateway {
        gateway.allow_another_question();
    }
    let mut limits = spec.limits.clone();
    limits.hard = left;
    limits.init = limits.init.min(left);
    let task = Box::new(task);
    Some(SessionSpec { args, env, stdin, limits, task, confinement, ..spec.clone() })
}

fn remark(answer: &str, task: &Task) -> String {
    let cut = &answer[..answer.floor_char_boundary(MAX_ANSWER_LEN)];
    let complaints = match serde_json::from_str(answer) {
        Ok(value) => violations(&task.schema, &value),
        Err(_) => vec!["it is not one JSON object and nothing else".to_owned()],
    };
    let shown = complaints.iter().take(MAX_COMPLAINTS).map(String::as_str);
    format!(
        "An earlier answer to all of this was not in the form that is asked for: {}. It was:\n\n\
         {cut}\n\nAnswer again, in the form that is asked for and without any other word.",
        shown.collect::<Vec<_>>().join("; ")
    )
}

/// Combines both ends: the second result, and the usage of both.
pub fn together(first: SessionEnd, second: SessionEnd) -> SessionEnd {
    let usage = first.usage.plus(&second.usage);
    let duration = first.duration + second.duration;
    let swept = first.swept + second.swept;
    let mut transcript = first.transcript.clone();
    transcript.lines.extend(second.transcript.lines.iter().cloned());
    let reads = first.reads.max(second.reads);
    let files_read = match (&first.files_read, &second.files_read) {
        (Some(first), Some(second)) => Some([first.as_slice(), second].concat()),
        (first, second) => first.clone().or_else(|| second.clone()),
    };
    let survivors = second.survivors;
    let counts = second.outcome.is_success() || survivors > 0;
    let end = if counts { second } else { first };
    SessionEnd { usage, duration, swept, transcript, reads, files_read, survivors, ..end }
}
