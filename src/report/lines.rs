//! One log line per event, for people. Pure.

use crate::event::fold::{RunView, of_source, provider_text, waiting_text};
use crate::event::{Decision, Event, Recorded};
use crate::model::text::{clip, in_words, seconds};
use crate::model::{ItemKey, Stage, Tier};
use crate::report::moment::{minute, time_of_day, version};

/// The line for an event, if it has one. `view` already contains the event.
pub fn line(recorded: &Recorded, view: &RunView) -> Option<String> {
    let text = step_line(&recorded.event)
        .or_else(|| host_line(&recorded.event))
        .or_else(|| suggestion_line(&recorded.event, view))
        .or_else(|| item_line(&recorded.event, view))?;
    Some(format!("{}  {text}", time_of_day(recorded.at)))
}

/// Events of sessions on other hosts.
fn host_line(event: &Event) -> Option<String> {
    Some(match event {
        Event::SessionSpawned { session, host: Some(host), .. } => {
            format!("host     session {} runs on {host}", session.short())
        }
        Event::SessionWithdrawn { session, detail, .. } => {
            format!("returned session {} was not started: {detail}", session.short())
        }
        _ => return None,
    })
}

fn step_line(event: &Event) -> Option<String> {
    Some(match event {
        Event::RunStarted { max_live_sessions, .. } => {
            format!("run      started, at most {max_live_sessions} sessions at once")
        }
        Event::FetchCompleted { items, requests, .. } => {
            format!("fetch    {items} items in {requests} requests")
        }
        Event::SourceRead { source, items, requests, .. } => {
            format!("source   {source}: {items} items in {requests} requests")
        }
        Event::FetchFailed { source, class, message } => {
            format!("fetch    {}", of_source(source, &format!("failed ({class}): {message}")))
        }
        Event::BreakerChanged { source, from, to, reason, .. } => {
            format!("breaker  {}", of_source(source, &format!("{from} → {to}: {reason}")))
        }
        Event::PlanMade { work, deferred, unchanged } => {
            format!("plan     {work} to do, {deferred} deferred, {unchanged} unchanged")
        }
        Event::TriageStarted { items, sessions } => {
            format!("triage   {items} items in {sessions} session{}", plural(*sessions))
        }
        Event::TriageEnded { triaged, deep, .. } => {
            format!("triage   {triaged} verdicts, {deep} for deep analysis")
        }
        Event::ProviderBreakerChanged { agent, from, to, reason, .. } => {
            format!("{}: circuit breaker {from} → {to}: {reason}", provider_text(agent))
        }
        Event::RunFailed { message } => format!("run      {message}"),
        Event::ProviderSuspended { agent, until, reason } => {
            format!("{} suspended until {}: {reason}", provider_text(agent), minute(*until))
        }
        Event::ConfigBroken { message } => {
            format!("config   invalid, keeping the last valid one: {message}")
        }
        Event::TickSkipped { nominal, blocked_by, missed } => match blocked_by {
            Some(run) => {
                format!("tick     {} skipped: run {run} is still in progress", minute(*nominal))
            }
            None => format!("tick     {} skipped ({missed} missed)", minute(*nominal)),
        },
        Event::SchedulePaused { note } if note.is_empty() => "schedule paused".into(),
        Event::SchedulePaused { note } => format!("schedule paused: {note}"),
        Event::ScheduleResumed => "schedule resumed".into(),
        Event::OrphanResolved { session, killed } => {
            format!(
                "orphan   session {} of an earlier process cleaned up, {killed} processes \
                 ended",
                session.short()
            )
        }
        Event::Unkillable { session, detail } => {
            format!("ALARM    session {} cannot be killed: {detail}", session.short())
        }
        Event::RunEnded { outcome, duration_ms, .. } => {
            format!("run      {} after {}", in_words(outcome), seconds(*duration_ms))
        }
        _ => return None,
    })
}

/// Suggested values, and what was written of them.
fn suggestion_line(event: &Event, view: &RunView) -> Option<String> {
    let name = |item: &ItemKey| {
        let title = view.titles.get(item).map(|title| format!(" {}", clip(title, 40)));
        format!("{}{}", short_key(item), title.unwrap_or_default())
    };
    Some(match event {
        Event::FieldsSuggested { item, fields } => {
            format!("suggest  {}: {}", name(item), clip(&fields.join(", "), 90))
        }
        Event::FieldsWritten { item, rev } => {
            format!("written  {}: suggested values, {}", name(item), version(*rev))
        }
        _ => return None,
    })
}

fn item_line(event: &Event, view: &RunView) -> Option<String> {
    // The first event of an item may come before its title is known.
    let name = |item: &ItemKey| match view.title(item) {
        "" => short_key(item).to_string(),
        title => format!("{} {}", short_key(item), clip(title, 60)),
    };
    // A triage session has no single item.
    let subject = |item: &ItemKey| format!(" {}", name(item));
    Some(match event {
        Event::ItemDecided { item, decision, reason, .. } if *decision != Decision::Unchanged => {
            format!("{:<8} {} ({})", decision.into_str(), name(item), reason.to_text())
        }
        Event::TextAlarm { item, alarms } => {
            let tier = if alarms.tier() == Some(Tier::Alarm) { "ALARM   " } else { "note    " };
            format!("{tier} {}: {}", name(item), alarms.to_text())
        }
        Event::ItemTriaged { item, deep, reason, .. } => {
            let verdict = if *deep { "deep" } else { "settled" };
            format!("{verdict:<8} {}: {}", name(item), clip(reason, 90))
        }
        Event::AdmissionRefused { reason, detail, until, .. } => {
            let word = if until.is_some() { "wait" } else { "refused" };
            format!("{word:<8} {}: {}", in_words(reason), waiting_text(*reason, detail, *until))
        }
        Event::SessionRegistered { stage, item, attempt, .. } => {
            let subject = item.as_ref().map(subject).unwrap_or_default();
            let attempt = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            format!("spawn    {stage}{subject}{attempt}")
        }
        Event::SessionStopping { session, reason, why } => {
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            format!("kill     session {}: {reason}{why}", session.short())
        }
        Event::SessionEnded { item, .. } => {
            let subject = item.as_ref().map(subject).unwrap_or_default();
            ended_line(event, &subject)?
        }
        Event::FindingStored { item, .. } => format!("finding  {}", name(item)),
        Event::FindingRejected { item, why, .. } => {
            format!("rejected the finding on {}: {}", name(item), in_words(why))
        }
        Event::FindingPublished { item, rev } => {
            format!("written  {} as {}", name(item), version(*rev))
        }
        Event::PublishFailed { item, message, .. } => {
            format!("not written to {}: {message}", name(item))
        }
        Event::FindingVerified { item, rung, .. } => format!("verified {}: {rung}", name(item)),
        Event::FeedbackGiven { item, opinion } => format!("feedback {}: {opinion}", name(item)),
        Event::FixFound { item, named, changed, .. } => {
            format!("fixed    {}: the finding names {named} of {changed} changed files", name(item))
        }
        _ => return left_line(event, &name),
    })
}

/// Items that are left for later.
fn left_line(event: &Event, name: &dyn Fn(&ItemKey) -> String) -> Option<String> {
    Some(match event {
        Event::ItemDeferred { item, reason } => {
            format!("deferred {} ({})", name(item), reason.to_text())
        }
        Event::ItemWaiting { item, next_attempt, outcome, .. } => {
            format!("waiting  {} ({outcome}), next attempt {}", name(item), minute(*next_attempt))
        }
        Event::ItemParked { item, reason } => {
            format!("parked   {} ({})", name(item), reason.to_text())
        }
        _ => return None,
    })
}

fn ended_line(event: &Event, subject: &str) -> Option<String> {
    let Event::SessionEnded {
        stage,
        outcome,
        usage,
        duration_ms,
        files_read,
        swept,
        survivors,
        host,
        words,
        answered_by,
        ..
    } = event
    else {
        return None;
    };
    let mut line = format!(
        "ended    {stage}{subject}: {}, {}, {}{}",
        outcome.text_on(host.as_deref()),
        seconds(*duration_ms),
        usage.cost_text(),
        usage.cached_text()
    );
    if *stage == Stage::Deep {
        line.push_str(&format!(", {files_read} file{} read", plural(*files_read)));
    }
    if *swept > 0 {
        line.push_str(&format!(", {swept} swept"));
    }
    if *survivors > 0 {
        line.push_str(&format!(", {survivors} SURVIVORS"));
    }
    if let Some(model) = answered_by {
        line.push_str(&format!(", answered by {} instead", clip(model, 80)));
    }
    if !words.is_empty() {
        line.push_str(&format!("; it said: {}", clip(words, 200)));
    }
    Some(line)
}

/// `ado/123` as `#123`.
///
/// The default name of a source is omitted.
pub fn short_key(item: &ItemKey) -> String {
    match (item.source(), item.item_id()) {
        (_, None) => item.to_string(),
        ("ado", Some(id)) => format!("#{id}"),
        (source, Some(id)) => format!("{source}#{id}"),
    }
}

fn plural(n: u32) -> &'static str {
    if n == 1 { "" } else { "s" }
}
