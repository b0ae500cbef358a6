//! Triage: the prompt for all changed items, and the validation of the answer.
//!
//! Pure; the run starts the session. Items are packed into as few sessions as possible. The answer
//! is judged per id: ids that are missing, doubled, malformed or without a real reason are asked
//! again once and then get a default.

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

/// Similar items of the same batch that are named for an item.
const NEAREST: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestRound {
    First,
    /// Second request, for ids without a usable verdict.
    Again,
}

/// The prompt of one triage session.
pub fn render(
    prompts: &Prompts,
    batch: &Batch,
    fence: &Fence,
    round: RequestRound,
) -> Result<Rendered, PromptError> {
    let ids: Vec<i64> = batch.items.iter().map(|item| item.id.0).collect();
    let items: Vec<minijinja::Value> =
        batch.items.iter().map(|item| one(item, batch, fence)).collect();
    let code = fence.guard(&batch.code).trim().to_owned();
    let known = fence.guard(&known_text(batch.candidates(), None));
    let options = batch.items.iter().any(|item| !item.options.is_empty());
    let code_bases = batch.items.iter().any(|item| !item.code_bases.is_empty());
    let system = context! {
        fence => fence.tag(),
        code => !code.is_empty(),
        earlier => batch.items.iter().any(|item| !item.earlier.is_empty()),
        known => !known.is_empty(),
        options,
        code_bases,
        corrections => batch.items.iter().any(|item| !item.corrections.is_empty()),
        language => prompts.language(),
    };
    let again = round == RequestRound::Again;
    let values = context! { fence => fence.tag(), ids, items, again, code, known };
    let mut schema = schema::for_batch(TRIAGE_SCHEMA)?;
    if !options {
        schema::without(&mut schema, "set");
    }
    if !code_bases {
        schema::without(&mut schema, "code_bases");
    }
    prompts.compose((Template::TriageSystem, system), (Template::TriageUser, values), schema)
}

fn one(item: &BatchItem, batch: &Batch, fence: &Fence) -> minijinja::Value {
    context! {
        id => item.id.0,
        text => fence.guard(&item.text.text),
        near => near(item, batch),
        marks => item.text.marks(),
        earlier => fence.guard(&item.earlier),
        options => fence.guard(&item.options),
        code_bases => fence.guard(&item.code_bases.join(", ")),
        corrections => fence.guard(&item.corrections),
    }
}

/// The ids of the most similar known items, as an attribute of our own tag. Those that are to be
/// judged as well are only named if they are very similar: they are read anyway.
fn near(item: &BatchItem, batch: &Batch) -> String {
    let own = batch.ids();
    let similar = item.similar.iter().enumerate();
    let told = similar.filter(|(at, known)| *at < NEAREST || !own.contains(&known.id));
    let ids: Vec<String> = told.map(|(_, known)| known.id.to_string()).collect();
    if ids.is_empty() { String::new() } else { format!(" near=\"{}\"", ids.join(" ")) }
}
