//! Triage: what is asked about all changed items at once, and how the answer is checked.
//!
//! Everything here is pure; the run's step starts the session. Items go into as few sessions as
//! fit. An answer counts per id: what is missing, doubled, malformed or a placeholder is asked
//! again once, for those ids only, and then falls back to a stated default.

mod answer;
mod batch;
mod fallback;

use minijinja::context;

use crate::prompt::{
    Fence, PromptError, Prompts, Rendered, TRIAGE_SCHEMA, Template, known_text, schema,
};

pub use answer::{
    Answer, Checked, check, check_answer, check_late_answer, related_groups, usable_terms,
};
pub use batch::{Batch, BatchItem, plan_batches};
pub use fallback::{Destination, Fallback, fallback};

/// Is a batch asked about for the first time?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// Yes.
    First,
    /// Once more, for ids whose first answer was of no use.
    Again,
}

/// The words of one triage session.
pub fn render(
    prompts: &Prompts,
    batch: &Batch,
    fence: &Fence,
    asking: Asking,
) -> Result<Rendered, PromptError> {
    let ids: Vec<i64> = batch.items.iter().map(|item| item.id.0).collect();
    let items: Vec<minijinja::Value> = batch.items.iter().map(|item| one(item, fence)).collect();
    let code = fence.guard(&batch.code).trim().to_owned();
    let known = fence.guard(&known_text(batch.candidates(), None));
    let system = context! {
        fence => fence.tag(),
        code => !code.is_empty(),
        earlier => batch.items.iter().any(|item| !item.earlier.is_empty()),
        known => !known.is_empty(),
        language => prompts.language(),
    };
    let again = asking == Asking::Again;
    let values = context! { fence => fence.tag(), ids, items, again, code, known };
    let schema = schema::for_batch(TRIAGE_SCHEMA, batch.items.len())?;
    prompts.compose((Template::TriageSystem, system), (Template::TriageUser, values), schema)
}

fn one(item: &BatchItem, fence: &Fence) -> minijinja::Value {
    context! {
        id => item.id.0,
        text => fence.guard(&item.text.text),
        near => near(item),
        marks => item.text.marks(),
        earlier => fence.guard(&item.earlier),
    }
}

/// Which of the known items are closest to this one, as an attribute of the program's own tag.
fn near(item: &BatchItem) -> String {
    let ids: Vec<String> = item.similar.iter().map(|known| known.id.to_string()).collect();
    if ids.is_empty() { String::new() } else { format!(" near=\"{}\"", ids.join(" ")) }
}
