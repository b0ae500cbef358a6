//! Deep analysis: the prompt for one item, the validation and the formatting of the finding.
//!
//! Pure; the run starts the session and knows the repository.

mod check;
mod markdown;
pub mod parts;

use minijinja::context;

use crate::model::{AnalysedCode, Background, CleanItem, Verdict};
use crate::prompt::{
    DEEP_SCHEMA, Detail, Fence, PromptError, Prompts, Rendered, Template, earlier_text, item_text,
    known_text,
};
use crate::settings::Analyze;

pub use check::{CheckError, check};
pub use markdown::{comment, markdown, markdown_of};

#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub item: &'a CleanItem,
    pub verdict: &'a Verdict,
    pub background: &'a Background,
    /// The code bases of an item with several, beginning with the working directory; else empty.
    pub code_bases: &'a [AnalysedCode],
    /// Overview of the repository; may be empty.
    pub overview: &'a str,
    /// Relevant places in the code; may be empty.
    pub context: &'a str,
}

/// Similar items that a deep session is told about.
const MAX_SIMILAR: usize = 3;

/// The prompt of one deep session.
pub fn render(
    prompts: &Prompts,
    request: Request<'_>,
    config: &Analyze,
    fence: &Fence,
) -> Result<Rendered, PromptError> {
    let Background { parent, earlier, similar, links, files, .. } = request.background;
    let item = item_text(request.item, parent.as_deref(), Detail::Full, config.max_item_tokens);
    let earlier = earlier.as_ref().map(|earlier| earlier_text(earlier, Detail::Full));
    let earlier = fence.guard(&earlier.unwrap_or_default());
    let known =
        fence.guard(&known_text(similar.iter().take(MAX_SIMILAR), Some(&request.item.facts.key)));
    let (links, files) = (fence.guard(links), fence.guard(files));
    let max_files_read = config.max_files_read;
    let overview = fence.guard(request.overview).trim().to_owned();
    let context = fence.guard(request.context).trim().to_owned();
    let system = context! {
        fence => fence.tag(),
        max_files_read,
        code_bases => folders(request.code_bases),
        overview => !overview.is_empty(),
        context => !context.is_empty(),
        earlier => !earlier.is_empty(),
        known => !known.is_empty(),
        links => !links.is_empty(),
        files => !files.is_empty(),
        language => prompts.language(),
    };
    let values = context! {
        fence => fence.tag(),
        id => request.item.facts.id.0,
        item => fence.guard(&item.text),
        marks => item.marks(),
        verdict => fence.guard(&verdict_text(request.verdict)),
        earlier,
        known,
        links,
        files,
        overview,
        context,
        max_files_read,
    };
    let schema = serde_json::from_str(DEEP_SCHEMA)?;
    prompts.compose((Template::DeepSystem, system), (Template::DeepUser, values), schema)
}

/// Where each of several code bases is, in one sentence.
fn folders(code_bases: &[AnalysedCode]) -> String {
    let folder = |(at, code): (usize, &AnalysedCode)| match at {
        0 => format!("`{}` is the working directory", code.name),
        _ => format!("`{}` is {}", code.name, code.root.display()),
    };
    code_bases.iter().enumerate().map(folder).collect::<Vec<_>>().join(", ")
}

fn verdict_text(verdict: &Verdict) -> String {
    let mut text = format!("question: {}\n{:?}", verdict.reason, verdict.complexity);
    if let Some(confidence) = verdict.confidence {
        text.push_str(&format!(", confidence {}", confidence.to_string().to_lowercase()));
    }
    if !verdict.doubt.is_empty() {
        text.push_str(&format!("\ndoubt: {}", verdict.doubt));
    }
    for (name, words) in [("modules", &verdict.modules), ("searched for", &verdict.terms)] {
        if !words.is_empty() {
            text.push_str(&format!("\n{name}: {}", words.join(", ")));
        }
    }
    let here = verdict.related.iter().map(ToString::to_string);
    let elsewhere = verdict.related_elsewhere.iter().map(ToString::to_string);
    let related: Vec<String> = here.chain(elsewhere).collect();
    if !related.is_empty() {
        text.push_str(&format!("\nrelated items: {}", related.join(", ")));
    }
    text
}
