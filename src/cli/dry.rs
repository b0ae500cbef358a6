//! Formats a dry run.

use std::fmt::Write as _;

use super::show::render_linked_content;
use crate::event::{Decision, Reason};
use crate::model::text::clip;
use crate::model::{Tier, tokens_of_bytes};
use crate::report::lines::short_key;
use crate::run::{DryRun, DryRunDecision, DryRunPrompt};

pub fn render(dry_run: &DryRun) -> String {
    let mut text = String::from("Decisions\n");
    for decision in &dry_run.decisions {
        render_decision(&mut text, decision);
    }
    // Writing to a string cannot fail.
    let _: std::fmt::Result = writeln!(text, "  {}", counts(dry_run));
    for prompt in &dry_run.prompts {
        render_prompt(&mut text, prompt);
    }
    if let Some(answer) = &dry_run.write_back {
        let _: std::fmt::Result = writeln!(text, "\nWrite-back: {answer}.");
    }
    for trouble in &dry_run.trouble {
        let _: std::fmt::Result = writeln!(text, "\nNot analysed: {trouble}.");
    }
    let _: std::fmt::Result = writeln!(
        text,
        "\nA run would start at most {} sessions and spend at most {} (budget {} per run).",
        dry_run.sessions_at_most, dry_run.worst_case, dry_run.budget_per_run
    );
    if let Some(expected) = dry_run.expected {
        let _: std::fmt::Result =
            writeln!(text, "About {expected} is to be expected, by the cost of earlier sessions.");
    }
    text.push_str("Nothing was started or written.\n");
    let seen = dry_run.decisions.iter().filter(|one| one.reason == Reason::Baseline).count();
    if seen > 0 {
        // Otherwise a first look at a new configuration has nothing to show.
        let _: std::fmt::Result = writeln!(
            text,
            "\nThe first run marks {seen} item(s) that exist already as seen and analyses those that \
             change later.\nTo see what working on them now would do and cost:\n  \
             heartbeat --dry-run --set schedule.first_run=process"
        );
    }
    text
}

/// What is planned for an item, in one word.
fn plan(decision: &DryRunDecision) -> &'static str {
    match decision.reason {
        Reason::Baseline => "baseline",
        _ => decision.decision.into_str(),
    }
}

/// Such as `100 new, 4900 deferred, 12 unchanged`.
fn counts(dry_run: &DryRun) -> String {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for decision in &dry_run.decisions {
        let name = plan(decision);
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let unchanged = Decision::Unchanged.into_str();
    counts.retain(|(name, _)| *name != unchanged);
    counts.push((unchanged, dry_run.unchanged));
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    parts.join(", ")
}

fn render_decision(text: &mut String, decision: &DryRunDecision) {
    let saving = decision.text.map_or_else(String::new, |stats| {
        format!(
            " · text {} → {} tokens",
            tokens_of_bytes(stats.raw_bytes),
            tokens_of_bytes(stats.clean_bytes)
        )
    });
    let rule = decision.rule.as_ref().map_or_else(String::new, |rule| format!(" · rule {rule}"));
    let alarm = decision.alarms.map_or_else(String::new, |alarms| {
        let tier = if alarms.tier() == Some(Tier::Alarm) { "ALARM" } else { "note" };
        format!(" · {tier}: {}", alarms.to_text())
    });
    let _: std::fmt::Result = writeln!(
        text,
        "  {:<9} {:<7} {} ({}){saving}{rule}{alarm}",
        plan(decision),
        short_key(&decision.item),
        clip(&decision.title, 60),
        decision.reason.to_text(),
    );
}

fn render_prompt(text: &mut String, prompt: &DryRunPrompt) {
    let subject = prompt.item.as_ref().map(short_key).unwrap_or_default();
    let _: std::fmt::Result = writeln!(
        text,
        "\n━━ {} {subject} · about {} tokens · at most {} ━━\n[system]\n{}\n[prompt]\n{}",
        prompt.stage,
        prompt.tokens,
        prompt.worst_case,
        prompt.system.trim_end(),
        prompt.user.trim_end()
    );
    if let Some(read) = prompt.surroundings.as_ref().map(|read| render_linked_content(read)) {
        let read = if read.is_empty() { "\nnone" } else { &read };
        let _: std::fmt::Result = writeln!(text, "[links and files]{read}");
    }
}
