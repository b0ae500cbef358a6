//! The tools: what each takes, and what it answers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ServerParts;
use crate::analyze::parts::grades_line;
use crate::cli::error::CommandError;
use crate::cli::{feedback, show};
use crate::context::{self, Index, Options, Query, Subject, weights_of};
use crate::dedupe::ItemWords;
use crate::model::Opinion;
use crate::model::text::{clip, in_words};
use crate::report::moment::day;
use crate::report::paint::Paint;
use crate::report::{why, worth};
use crate::store::{DuplicateItem, FindingRow};

/// Longer texts are cut: what they are about is near the top.
const MAX_TEXT_LEN: usize = 20_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindingsArgs {
    /// Only findings that contain all of these words, in the item's title or in the finding
    #[serde(default)]
    words: String,
    /// Also findings that a person rated wrong or done, or whose item a commit has fixed
    #[serde(default)]
    closed: bool,
    /// Newest first, instead of the most worthwhile first
    #[serde(default)]
    newest: bool,
    /// How many to list, 1 to 50; 10 if left out
    // Clients that convert words by the type of an argument know no union.
    #[schemars(extend("type" = "integer"))]
    limit: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ItemArgs {
    /// The item as people name it: 4101, PARCEL-4, contoso/web#12, or its address
    item: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SimilarArgs {
    /// The text of a report; its first line counts as its title
    text: String,
    /// How many to list, 1 to 20; 5 if left out
    #[schemars(extend("type" = "integer"))]
    limit: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ContextArgs {
    /// What the work is about, such as a report or an error message; its first line counts as title
    text: String,
    /// Words or names likely in the code
    #[serde(default)]
    terms: Vec<String>,
    /// One of the configured code bases, by its path or the end of its path; the first if left out
    #[serde(default)]
    code_base: String,
    /// How many files to list, 1 to 30; 10 if left out
    #[schemars(extend("type" = "integer"))]
    limit: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FeedbackArgs {
    /// The item as people name it
    item: String,
    rating: Opinion,
    /// Why, in a sentence
    #[serde(default)]
    note: String,
}

/// In the order in which they are useful.
pub(super) fn all() -> Vec<Tool> {
    let reads = |name: &'static str, about: &'static str| {
        Tool::new(name, about, Arc::default())
            .with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
    };
    vec![
        reads(
            "findings",
            "Lists findings of heartbeat's analyses, those worth reading first at the top: by risk, \
             confidence and the item's priority.",
        )
        .with_input_schema::<FindingsArgs>(),
        reads(
            "finding",
            "One finding as a task: evidence with files, suggested change, tests, pitfalls, what was \
             not checked.",
        )
        .with_input_schema::<ItemArgs>(),
        reads("item", "Everything heartbeat knows about a work item: triage, sessions, history.")
            .with_input_schema::<ItemArgs>(),
        reads("why", "Why an item was analysed or not, and what happens to it next.")
            .with_input_schema::<ItemArgs>(),
        reads(
            "similar",
            "Known work items that resemble a text. Use it before reporting or fixing something.",
        )
        .with_input_schema::<SimilarArgs>(),
        reads("context", "The files of the code base that matter most for a text, ranked.")
            .with_input_schema::<ContextArgs>(),
        Tool::new("feedback", "Rates the newest finding of an item.", Arc::default())
            .with_annotations(
                ToolAnnotations::new()
                    .read_only(false)
                    .destructive(false)
                    .idempotent(true)
                    .open_world(false),
            )
            .with_input_schema::<FeedbackArgs>(),
    ]
}

/// `None` if there is no such tool.
pub(super) async fn call(
    server: &ServerParts,
    name: &str,
    arguments: Value,
) -> Option<Result<String, CommandError>> {
    Some(match name {
        "findings" => match read(arguments) {
            Ok(args) => findings(server, &args).await,
            Err(error) => Err(error),
        },
        "finding" => match read::<ItemArgs>(arguments) {
            Ok(args) => server.brief_of(&args.item).await,
            Err(error) => Err(error),
        },
        "item" => match read(arguments) {
            Ok(args) => item(server, &args).await,
            Err(error) => Err(error),
        },
        "why" => match read(arguments) {
            Ok(args) => why(server, &args).await,
            Err(error) => Err(error),
        },
        "similar" => match read(arguments) {
            Ok(args) => similar(server, args).await,
            Err(error) => Err(error),
        },
        "context" => match read(arguments) {
            Ok(args) => ranked_files(server, args).await,
            Err(error) => Err(error),
        },
        "feedback" => match read(arguments) {
            Ok(args) => rate(server, args).await,
            Err(error) => Err(error),
        },
        _ => return None,
    })
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, CommandError> {
    serde_json::from_value(arguments)
        .map_err(|error| CommandError::Usage(format!("the arguments do not fit: {error}")))
}

fn limited(limit: Option<u32>, usual: u32, most: u32) -> usize {
    limit.unwrap_or(usual).clamp(1, most) as usize
}

/// Nothing is left to do with it.
fn is_closed(row: &FindingRow) -> bool {
    let rated = row.feedback.as_ref().map(|feedback| feedback.opinion);
    row.fix.is_some() || matches!(rated, Some(Opinion::Wrong | Opinion::Done))
}

async fn findings(server: &ServerParts, args: &FindingsArgs) -> Result<String, CommandError> {
    let words = args.words.split_whitespace().take(10).map(|word| clip(word, 100)).collect();
    let (store, names) = server.named_store().await?;
    let mut found = store.findings().search(words).await?;
    found.retain(|row| args.closed || !is_closed(row));
    if !args.newest {
        worth::sort(&mut found);
    }
    let (all, limit) = (found.len(), limited(args.limit, 10, 50));
    let mut data = String::new();
    for row in found.iter().take(limit) {
        let finding = &row.finding;
        let stale = if row.stale.is_some() { ", its files have changed since" } else { "" };
        let rated = row.feedback.as_ref().map(|f| format!(", rated {}", f.opinion));
        let _: std::fmt::Result = writeln!(
            data,
            "{} {}\n  {}, {}{stale}{}\n  {}",
            names.name(&row.key),
            clip(&row.title, 120),
            day(row.created_at),
            grades_line(finding),
            rated.unwrap_or_default(),
            clip(&finding.summary, 300),
        );
    }
    if all == 0 {
        return Ok("No finding matches.".to_owned());
    }
    let lead = format!(
        "{} of {all} findings. The tool `finding` shows one of them whole.",
        all.min(limit)
    );
    Ok(server.marked(&lead, &data))
}

async fn item(server: &ServerParts, args: &ItemArgs) -> Result<String, CommandError> {
    let (store, names) = server.named_store().await?;
    let history = show::item_history(&store, &server.config, &args.item).await?;
    let text = show::render_item_history(&history, Paint::choose(Some("1"), None, false));
    let lead = format!("What heartbeat knows about {}.", names.name(&history.item.key));
    Ok(server.marked(&lead, &names.in_text(text)))
}

/// From the stored decisions, with the words of `heartbeat why`.
async fn why(server: &ServerParts, args: &ItemArgs) -> Result<String, CommandError> {
    let (store, names) = server.named_store().await?;
    let history = show::item_history(&store, &server.config, &args.item).await?;
    let (item, same) = (&history.item, &history.duplicates);
    let told = why::known(item, !history.findings.is_empty(), same, |key| names.name(key));
    let others = same.items.iter().filter(|other| other.key != item.key).take(10);
    let line = |other: &DuplicateItem| {
        format!("\nLikely duplicate: {} {}", names.name(&other.key), clip(&other.title, 120))
    };
    let data = told + &others.map(line).collect::<String>();
    Ok(server.marked(&format!("Why {} was analysed or not.", names.name(&item.key)), &data))
}

async fn similar(server: &ServerParts, args: SimilarArgs) -> Result<String, CommandError> {
    let limit = limited(args.limit, 5, 20);
    let words = ItemWords::of_text(&clip(&args.text, MAX_TEXT_LEN));
    let (store, names) = server.named_store().await?;
    let found = store.items().similar(words, limit).await?;
    if found.is_empty() {
        return Ok("No known item resembles this text.".to_owned());
    }
    let line = |item: &crate::model::KnownTitle| {
        format!("{} ({}) {}\n", names.name(&item.key), in_words(item.phase), clip(&item.title, 200))
    };
    let data: String = found.iter().map(line).collect();
    let lead = format!("{} known items, the most similar first.", found.len());
    Ok(server.marked(&lead, &data))
}

async fn ranked_files(server: &ServerParts, args: ContextArgs) -> Result<String, CommandError> {
    let repository = code_base(server, &args.code_base)?;
    let terms = args.terms.into_iter().take(50).map(|term| clip(&term, 200));
    let subject = Subject::from_text(&clip(&args.text, MAX_TEXT_LEN)).with_terms(terms);
    let (weights, indexes) = (weights_of(&server.config.ranking), server.folder.join("index"));
    let (root, limit) = (repository.clone(), limited(args.limit, 10, 30));
    let ranked = tokio::task::spawn_blocking(move || {
        let query = Query::of(&subject);
        Index::ask(&root, &indexes, &Options::default(), |index: &Index| {
            context::rank(index, &query, &weights, limit)
        })
    });
    let failed = |error: context::ContextError| CommandError::Command(Box::new(error));
    let ranked = ranked.await.map_err(|_panicked| failed(context::ContextError::Worker))?;
    let (files, _) = ranked.map_err(failed)?;
    if files.is_empty() {
        return Ok("No file of the code base matches this text.".to_owned());
    }
    let line = |file: &context::RankedFile| {
        let why = file.reasons.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
        format!("{}  ({why})\n", file.path)
    };
    let data: String = files.iter().map(line).collect();
    let lead = format!("{} files of {}, best first.", files.len(), repository.display());
    Ok(server.marked(&lead, &data))
}

/// Only configured code bases: a tool that reads any folder would be a way around an agent's limits.
fn code_base(server: &ServerParts, wanted: &str) -> Result<PathBuf, CommandError> {
    let known = server.config.code_bases();
    let chosen = known.iter().find(|path| Path::new(path).ends_with(wanted));
    let chosen = if wanted.is_empty() { known.first() } else { chosen };
    chosen.cloned().ok_or_else(|| {
        let names: Vec<String> = known.iter().map(|path| path.display().to_string()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        CommandError::NotFound(format!("no such code base; the configured ones are: {names}"))
    })
}

async fn rate(server: &ServerParts, args: FeedbackArgs) -> Result<String, CommandError> {
    let ((store, names), config) = (server.named_store().await?, &server.config);
    let rating = (args.item.as_str(), args.rating, args.note.as_str());
    let key = feedback::give(&store, config, &server.clock, rating).await?;
    Ok(format!("Marked the newest finding of {} as {}.", names.name(&key), args.rating))
}
