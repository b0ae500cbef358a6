//! The scripted agent's answers: fixed rules instead of a model.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::AgentInvocation;
use super::parcel::Script;
use super::prompt::{ParsedPrompt, PromptItem};
use super::stream::{ScriptLines, ScriptTurn};

/// How a session ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScriptEnding {
    /// With a valid answer.
    Good,
    /// With an answer that lacks these ids.
    Without { ids: Vec<i64> },
    /// With a provider error.
    Failure,
    /// With a provider limit.
    Limit { resets_at: i64 },
    /// With prose instead of the structured answer.
    Prose,
    /// Never, after it has read its files.
    Hang,
}

/// The limit that prompts state.
const MAX_WRITTEN_FILES: usize = 5;

/// Words that make an item look difficult.
const HARD_WORDS: [&str; 22] = [
    "crash",
    "deadlock",
    "race",
    "timeout",
    "times out",
    "leak",
    "intermittent",
    "corrupt",
    "regression",
    "memory",
    "slow",
    "hang",
    "data loss",
    "duplicate",
    "concurren",
    "inconsistent",
    "exception",
    "stack trace",
    "rounding",
    "retry",
    "encoding",
    "performance",
];

/// All lines of a session. Items that the script knows get its answers, all others those of the
/// rules below.
pub(super) fn session(
    invocation: &AgentInvocation,
    prompt: &str,
    ending: &ScriptEnding,
    script: Option<&Script>,
) -> Vec<Value> {
    let mut lines = ScriptLines::begin(invocation, prompt);
    match ending {
        ScriptEnding::Failure => return lines.provider_error(),
        ScriptEnding::Limit { resets_at } => return lines.provider_limit(*resets_at),
        ScriptEnding::Good
        | ScriptEnding::Without { .. }
        | ScriptEnding::Prose
        | ScriptEnding::Hang => {}
    }
    let parsed = ParsedPrompt::read(prompt);
    let schema = invocation.schema.clone().unwrap_or_default();
    if let Some(of_verdict) = schema.pointer("/properties/verdicts/items") {
        let mut items = parsed.items.clone();
        if let ScriptEnding::Without { ids } = ending {
            items.retain(|item| !ids.contains(&item.id));
        }
        let written = |item| script.and_then(|script| script.verdict(item, &items, of_verdict));
        let verdicts: Vec<Value> = items
            .iter()
            .map(|item| written(item).unwrap_or_else(|| verdict(item, &items)))
            .collect();
        return lines.answer(json!({ "verdicts": verdicts }));
    }
    if schema.pointer("/properties/items").is_some() {
        let items: Vec<Value> = parsed.items.iter().map(ordered).collect();
        return lines.answer(json!({ "items": items }));
    }
    let item = parsed.deep_item().cloned().unwrap_or_default();
    let written = script.and_then(|script| script.finding(&item.title, &schema));
    let files = match &written {
        Some(finding) => contents(named_in(finding), MAX_WRITTEN_FILES, &invocation.code_bases),
        None => {
            let paths = parsed.paths(&invocation.code_bases);
            contents(paths, invocation.max_output_files, &invocation.code_bases)
        }
    };
    for (path, content) in &files {
        let place = place_of(path, &invocation.code_bases);
        lines
            .turn(ScriptTurn::Read { path: &place.to_string_lossy(), content: content.as_deref() });
    }
    match ending {
        ScriptEnding::Prose => lines.prose("I looked at the code, and the cause is a nested loop."),
        ScriptEnding::Hang => lines.unfinished(),
        _ => lines.answer(written.unwrap_or_else(|| finding(&item, &files))),
    }
}

/// Paths of a finding's files, in order.
fn named_in(finding: &Value) -> Vec<String> {
    let files = finding["files"].as_array().into_iter().flatten();
    files.filter_map(|file| file["path"].as_str().map(str::to_owned)).collect()
}

/// The candidate files of an item: those whose path has a word of its title first, then the others
/// in the given order.
fn ordered(item: &PromptItem) -> Value {
    const MAX: usize = 6;
    let candidate = |line: &str| {
        let (number, rest) = line.split_once(' ')?;
        Some((number.parse::<i64>().ok()?, rest.split(" (").next()?.to_lowercase()))
    };
    let mut files: Vec<(i64, String)> = item.text.lines().filter_map(candidate).collect();
    let words: Vec<String> = terms(item).into_iter().map(str::to_lowercase).collect();
    files.sort_by_key(|(_, path)| !words.iter().any(|word| path.contains(word.as_str())));
    let file = |(number, _): &(i64, String)| json!({ "file": number, "functions": [] });
    let files: Vec<Value> = files.iter().take(MAX).map(file).collect();
    json!({ "item": item.id, "files": files })
}

fn verdict(item: &PromptItem, all: &[PromptItem]) -> Value {
    let hard = hard_words(&item.text);
    let is_bug = item.kind().eq_ignore_ascii_case("bug");
    let urgent = item.priority().is_some_and(|priority| priority <= 2);
    let deep = (is_bug && (urgent || !hard.is_empty())) || hard.len() >= 2;
    let complexity = match (hard.len(), is_bug, item.text.len()) {
        (3.., ..) => "complex",
        (1.., ..) => "moderate",
        (0, true, _) | (0, false, 400..) => "simple",
        _ => "trivial",
    };
    let kind = if item.kind().is_empty() { "Item" } else { item.kind() };
    let reason = match (hard.as_slice(), deep) {
        ([], true) => format!("{kind} of high priority about \"{}\".", short(&item.title)),
        ([], false) => {
            format!("{kind} about \"{}\" that needs no code to decide.", short(&item.title))
        }
        (words, _) => {
            format!("{kind} about \"{}\" that mentions {}.", short(&item.title), words.join(", "))
        }
    };
    let same =
        |other: &&PromptItem| other.id != item.id && other.title.eq_ignore_ascii_case(&item.title);
    let twins: Vec<i64> = all.iter().filter(same).map(|other| other.id).take(20).collect();
    let why = |id: &i64| json!({ "id": id, "why": "Both have the same title." });
    let duplicates: Vec<Value> = twins.iter().map(why).collect();
    let modules: Vec<&str> = item.area().into_iter().collect();
    let mut verdict = json!({
        "id": item.id, "complexity": complexity, "needs_deep_analysis": deep,
        "modules": modules, "reason": reason, "related": [], "doubt": "",
        "confidence": if hard.is_empty() { "medium" } else { "high" },
        "terms": if deep { json!(terms(item)) } else { json!([]) }, "duplicates": duplicates,
        "ask": "", "set": item.first_options(),
    });
    if let Some(names) = item.code_bases() {
        verdict["code_bases"] = json!(names);
    }
    verdict
}

/// The longest words of the title.
fn terms(item: &PromptItem) -> Vec<&str> {
    let mut words: Vec<&str> = item.title.split(|c: char| !c.is_alphanumeric()).collect();
    words.retain(|word| word.chars().count() > 3);
    words.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
    words.truncate(4);
    words
}

fn hard_words(text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    HARD_WORDS.into_iter().filter(|word| stands_in(&text, word)).collect()
}

/// Only at the beginning of a word: "changed" does not contain "hang".
fn stands_in(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| !text[..at].ends_with(char::is_alphanumeric))
}

/// As many whole words as fit.
fn short(text: &str) -> String {
    const MAX: usize = 72;
    if text.chars().count() <= MAX {
        return text.to_owned();
    }
    let cut: String = text.chars().take(MAX).collect();
    format!("{}\u{2026}", cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words))
}

/// Where a file is that a prompt names.
fn place_of(path: &str, code_bases: &[(String, PathBuf)]) -> PathBuf {
    let inside = |(name, folder): &(String, PathBuf)| {
        let own = path.strip_prefix(name.as_str())?.strip_prefix(':')?;
        Some(if folder.is_absolute() { folder.join(own) } else { own.into() })
    };
    code_bases.iter().find_map(inside).unwrap_or_else(|| path.into())
}

/// The first of these files, with their content if they exist.
fn contents(
    paths: Vec<String>,
    most: usize,
    code_bases: &[(String, PathBuf)],
) -> Vec<(String, Option<String>)> {
    const MAX_BYTES: usize = 2_000;
    let mut files: Vec<(String, Option<String>)> = paths
        .into_iter()
        .take(40)
        .map(|path| {
            let content = std::fs::read(place_of(&path, code_bases)).ok();
            let text = content.map(|bytes| {
                String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_BYTES)]).into_owned()
            });
            (path, text)
        })
        .collect();
    files.sort_by_key(|(_, content)| content.is_none());
    files.truncate(most);
    files
}

fn finding(item: &PromptItem, files: &[(String, Option<String>)]) -> Value {
    let title = match item.title.as_str() {
        "" => "the item".to_owned(),
        title => short(title),
    };
    let hard = hard_words(&item.text);
    let place = files.first().map_or("the code base", |(path, _)| path.as_str());
    let causes: Vec<String> = match hard.as_slice() {
        [] => vec![format!("The behaviour described in \"{title}\" is decided in {place}.")],
        words => words
            .iter()
            .take(3)
            .map(|word| {
                format!("The item mentions \"{word}\", which is most likely handled in {place}.")
            })
            .collect(),
    };
    let references: Vec<Value> = files
        .iter()
        .map(|(path, content)| match content {
            Some(text) => json!({ "path": path, "reason": format!("Read: {} lines that are relevant to \"{title}\".", text.lines().count()) }),
            None => json!({ "path": path, "reason": "Named in the given context, not read." }),
        })
        .collect();
    let read = files.iter().filter(|(_, content)| content.is_some()).count();
    let quoted = files.iter().filter_map(|(path, content)| {
        let lines = content.as_deref()?.lines().zip(1..);
        let (quote, line) = lines.max_by_key(|(text, _)| text.trim().len())?;
        let shows = "The longest line that was read.";
        Some(json!({ "path": path, "line": line, "last_line": line, "quote": quote, "shows": shows }))
    });
    json!({
        "evidence": quoted.collect::<Vec<_>>(),
        "patch": "",
        "patch_test": "",
        "summary": format!("The cause of \"{title}\" is most likely in {place}. This answer comes from a scripted agent with fixed rules."),
        "likely_causes": causes,
        "files": references,
        "suggested_change": format!("1. Reproduce what the item describes.\n2. Follow it through {place}.\n3. Change it there and add a test."),
        "risk": if hard.len() >= 3 { "high" } else { "low" },
        "effort": if hard.len() >= 2 { "medium" } else { "small" },
        "confidence": if read > 0 { "medium" } else { "low" },
        "open_questions": if read > 0 { json!([]) } else { json!(["Which part of the code base does it concern?"]) },
    })
}
