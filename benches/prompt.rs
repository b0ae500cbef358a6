//! How much an agent is sent per item, beside the design heartbeat replaces: one session per item,
//! raw HTML, the CLI's default flags.
//!
//! `cargo bench --bench prompt`. The items are the simulated tracker's backlog.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails may stop")]

use std::collections::HashMap;
use std::time::Instant;

use heartbeat::analyze;
use heartbeat::clean::{Budget, clean_item};
use heartbeat::config::DEFAULT_TOML;
use heartbeat::model::{
    Background, CleanItem, Complexity, Format, ItemId, ItemKey, Links, TextField, Verdict,
    WorkItem, estimate_tokens,
};
use heartbeat::prompt::{Fence, Prompts, Rendered};
use heartbeat::settings::{AgentAuth, Config};
use heartbeat::triage::{self, RequestRound};
use serde_json::Value;

/// What the CLI 2.1.325 adds to a prompt when it is started without flags (its own system prompt
/// and 13 tools), measured on a loopback API: 94,904 bytes for a prompt of 9,800.
const DEFAULT_OVERHEAD: usize = 94_904 - 9_800;

/// What it adds with ours, beside system prompt and schema: a request without either, measured the
/// same way. Most of it is protocol that no model reads.
const LEAN_OVERHEAD: usize = 995;

fn main() {
    let config: Config = toml::from_str(DEFAULT_TOML).unwrap();
    let prompts = Prompts::built_in(AgentAuth::ApiKey).unwrap();
    let fence = Fence::new(uuid::Uuid::from_u128(1));
    let raw = backlog();
    let budget = Budget::per_item(config.analyze.max_item_tokens, config.triage.max_item_tokens);
    let items: Vec<CleanItem> = raw.iter().map(|item| clean_item(item.clone(), &budget)).collect();
    let count = items.len();

    let raw_bytes: usize = raw.iter().map(raw_size).sum();
    let before = raw_bytes + count * DEFAULT_OVERHEAD;
    println!("{count} items of the simulated tracker, {raw_bytes} bytes of raw text\n");
    println!("one session per item, raw HTML, default flags (the design before):");
    row("sessions", count);
    row("bytes sent per item", before / count);

    let batches = triage::plan_batches(&items, &HashMap::new(), "", &config.triage);
    let rendered: Vec<Rendered> = batches
        .iter()
        .map(|batch| triage::render(&prompts, batch, &fence, RequestRound::First).unwrap())
        .collect();
    let fixed: usize = rendered.iter().map(fixed_size).sum();
    let sent: usize = rendered.iter().map(|one| one.user.len()).sum::<usize>() + fixed;
    println!("\ntriage, all items at once:");
    row("sessions", batches.len());
    row("bytes of ours beside the items, per session", words_beside_items(&prompts, &fence));
    row("  and of the CLI's own protocol", LEAN_OVERHEAD);
    row("bytes sent per item", sent / count);
    row("  of these fixed (system prompt, schema, the CLI's own)", fixed / count);
    row("estimated tokens in all", tokens(&rendered));
    println!("  {:<56} {:>8.1}", "times less than before", ratio(before, sent));

    let deep: Vec<Rendered> =
        items.iter().map(|item| deep_prompt(&prompts, &config, &fence, item)).collect();
    let fixed: usize = deep.iter().map(fixed_size).sum();
    let sent: usize = deep.iter().map(|one| one.user.len()).sum::<usize>() + fixed;
    println!("\ndeep analysis, one item each, with a full context budget:");
    row("bytes sent per item, first request", sent / count);
    row("  of these fixed (system prompt, schema, the CLI's own)", fixed / count);
    row("  of these code-base context", config.repository.context_tokens as usize * 4);
    println!("  {:<56} {:>8.1}", "times less than before", ratio(before, sent));

    let rounds = 200;
    let start = Instant::now();
    for _ in 0..rounds {
        for batch in &batches {
            triage::render(&prompts, batch, &fence, RequestRound::First).unwrap();
        }
    }
    let each = start.elapsed() / rounds;
    println!("\nrendering triage of {count} items takes {each:?}");
}

fn row(name: &str, figure: usize) {
    println!("  {name:<56} {figure:>8}");
}

fn ratio(before: usize, after: usize) -> f64 {
    f64::from(u32::try_from(before).unwrap()) / f64::from(u32::try_from(after).unwrap())
}

fn tokens(rendered: &[Rendered]) -> usize {
    usize::try_from(rendered.iter().map(Rendered::tokens).sum::<u64>()).unwrap()
}

/// System prompt, schema and frame of a triage session about nothing.
fn words_beside_items(prompts: &Prompts, fence: &Fence) -> usize {
    let empty = triage::Batch::default();
    let words = triage::render(prompts, &empty, fence, RequestRound::First).unwrap();
    words.system.len() + words.user.len() + words.schema.to_string().len()
}

fn fixed_size(rendered: &Rendered) -> usize {
    rendered.system.len() + rendered.schema.to_string().len() + LEAN_OVERHEAD
}

fn raw_size(item: &WorkItem) -> usize {
    item.title.len() + item.texts.iter().map(|text| text.raw.len()).sum::<usize>()
}

fn deep_prompt(prompts: &Prompts, config: &Config, fence: &Fence, item: &CleanItem) -> Rendered {
    let mut context = String::new();
    while estimate_tokens(&context) < u64::from(config.repository.context_tokens) {
        context.push_str("src/tracking/events.rs: fn merge(events: &[Event]) -> Timeline\n");
    }
    let verdict = Verdict {
        needs_deep_analysis: true,
        modules: vec!["Tracking".to_owned()],
        ..Verdict::new(item.facts.id, Complexity::Moderate, "Which step loses the newest event?")
    };
    let request = analyze::Request {
        item,
        verdict: &verdict,
        background: &Background::default(),
        code_bases: &[],
        overview: "",
        context: &context,
    };
    analyze::render(prompts, request, &config.analyze, fence).unwrap()
}

fn backlog() -> Vec<WorkItem> {
    let seed: Value = serde_json::from_str(include_str!("../src/simulate/ado/items.json")).unwrap();
    seed["items"]
        .as_array()
        .unwrap()
        .iter()
        .zip(1..)
        .map(|(item, id)| work_item(item, id))
        .collect()
}

fn work_item(item: &Value, id: i64) -> WorkItem {
    let text = |value: &Value| match value {
        Value::Array(lines) => {
            lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
        }
        value => value.as_str().unwrap_or_default().to_owned(),
    };
    let texts = item["texts"].as_object().unwrap().iter();
    WorkItem {
        key: ItemKey::new("ado", ItemId(id)),
        id: ItemId(id),
        rev: 1,
        item_type: text(&item["type"]),
        title: text(&item["title"]),
        state: text(&item["state"]),
        changed_at: "2026-11-01T00:00:00Z".parse().unwrap(),
        created_at: None,
        priority: item["priority"].as_i64(),
        severity: item["severity"].as_str().map(str::to_owned),
        area_path: Some(format!("Parcel\\{}", text(&item["area"]))),
        more_areas: Vec::new(),
        handle: None,
        finished: None,
        iteration_path: None,
        assigned_to: None,
        reporter: None,
        tags: text(&item["tags"])
            .split("; ")
            .filter(|tag| !tag.is_empty())
            .map(str::to_owned)
            .collect(),
        parent: None,
        links: Links::default(),
        url: String::new(),
        texts: texts
            .map(|(name, value)| TextField {
                name: name.clone(),
                format: Format::Html,
                raw: text(value),
            })
            .collect(),
        comments: Vec::new(),
    }
}
