//! Converts a run's events to spans: the run, its stages, its sessions. Pure.

use std::collections::BTreeMap;
use std::time::SystemTime;

use jiff::Timestamp;
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::event::fold::Step;
use crate::event::{Event, Recorded, RunOutcome, RunSummary};
use crate::model::text::in_words;
use crate::model::{Outcome, RunId, SessionId, Stage, Usage};

/// Spans that have begun and not ended.
#[derive(Debug, Default)]
pub struct Spans {
    run: Option<OpenSpan>,
    stage: Option<(Step, OpenSpan)>,
    sessions: BTreeMap<SessionId, OpenSpan>,
}

#[derive(Debug)]
struct OpenSpan {
    since: Timestamp,
    attributes: Vec<KeyValue>,
}

impl OpenSpan {
    fn at(since: Timestamp) -> Self {
        Self { since, attributes: Vec::new() }
    }
}

pub fn trace_id(run: RunId) -> TraceId {
    TraceId::from_bytes(*run.0.as_bytes())
}

pub fn session_span(session: SessionId) -> SpanId {
    second_half(session.0)
}

fn second_half(id: uuid::Uuid) -> SpanId {
    SpanId::from(id.as_u64_pair().1)
}

fn stage_span(run: RunId, step: Step) -> SpanId {
    SpanId::from(run.0.as_u64_pair().1 ^ (step as u64 + 1))
}

const fn stage_name(step: Step) -> &'static str {
    match step {
        Step::Starting => "start",
        Step::Fetching => "fetch",
        Step::Triaging => "triage",
        Step::Analysing => "analyse",
        Step::Ended => "end",
    }
}

impl Spans {
    /// The spans that end with this event.
    pub fn apply(&mut self, recorded: &Recorded) -> Vec<SpanData> {
        let Some(run) = recorded.run else { return Vec::new() };
        let at = recorded.at;
        match &recorded.event {
            Event::RunStarted { trigger, .. } => {
                let mut open = OpenSpan::at(at);
                open.attributes.push(KeyValue::new("heartbeat.run.trigger", trigger.into_str()));
                self.run = Some(open);
                Vec::new()
            }
            Event::FetchStarted => self.enter(run, at, Step::Fetching),
            Event::PlanMade { .. } => self.end_stage(run, at, &Status::Unset).into_iter().collect(),
            Event::FetchFailed { class, .. } => {
                let status = Status::error(class.clone());
                self.end_stage(run, at, &status).into_iter().collect()
            }
            Event::TriageStarted { .. } => self.enter(run, at, Step::Triaging),
            Event::TriageEnded { .. } => self.enter(run, at, Step::Analysing),
            Event::RunEnded { outcome, summary, .. } => self.end(run, at, *outcome, summary),
            event if event.session().is_some() => {
                self.apply_session(run, at, event).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn apply_session(&mut self, run: RunId, at: Timestamp, event: &Event) -> Option<SpanData> {
        match event {
            Event::SessionRegistered { session, stage, item, attempt, tier, .. } => {
                let mut open = OpenSpan::at(at);
                open.attributes = vec![
                    KeyValue::new("gen_ai.operation.name", "invoke_agent"),
                    KeyValue::new("gen_ai.agent.name", stage.into_str()),
                    KeyValue::new("gen_ai.conversation.id", session.to_string()),
                    KeyValue::new("heartbeat.session.id", session.to_string()),
                    KeyValue::new("heartbeat.session.attempt", i64::from(*attempt)),
                    KeyValue::new("heartbeat.session.containment", tier.clone()),
                ];
                let item = item.as_ref().map(ToString::to_string);
                open.attributes
                    .extend(item.map(|item| KeyValue::new("heartbeat.work_item.id", item)));
                self.sessions.insert(*session, open);
                None
            }
            Event::SessionInitialised { session, model, version } => {
                let open = self.sessions.get_mut(session)?;
                let provider = provider_of(model);
                let attributes = [
                    ("gen_ai.provider.name", provider),
                    ("gen_ai.response.model", model.as_str()),
                    ("gen_ai.agent.version", version.as_str()),
                ];
                let attributes = attributes.iter().filter(|(_, value)| !value.is_empty());
                open.attributes
                    .extend(attributes.map(|(key, value)| KeyValue::new(*key, value.to_string())));
                None
            }
            Event::SessionEnded { session, stage, outcome, usage, swept, survivors, .. } => {
                let mut open = self.sessions.remove(session)?;
                open.attributes.extend(used(usage));
                open.attributes.extend(ended(outcome, *swept, *survivors));
                let parent = match stage {
                    Stage::Triage => Step::Triaging,
                    Stage::Locate | Stage::Deep => Step::Analysing,
                };
                let failed = (!outcome.is_success()).then(|| Status::error(outcome.to_string()));
                Some(SpanData {
                    parent_span_id: stage_span(run, parent),
                    status: failed.unwrap_or(Status::Ok),
                    ..span(
                        run,
                        session_span(*session),
                        format!("invoke_agent {}", stage.into_str()),
                        open,
                        at,
                    )
                })
            }
            _ => None,
        }
    }

    /// A stage begins where the previous one ends.
    fn enter(&mut self, run: RunId, at: Timestamp, step: Step) -> Vec<SpanData> {
        let before = self.end_stage(run, at, &Status::Unset);
        self.stage = Some((step, OpenSpan::at(at)));
        before.into_iter().collect()
    }

    fn end_stage(&mut self, run: RunId, at: Timestamp, status: &Status) -> Option<SpanData> {
        let (step, open) = self.stage.take()?;
        let name = stage_name(step).to_owned();
        let parent_span_id = second_half(run.0);
        let status = status.clone();
        Some(SpanData {
            parent_span_id,
            status,
            ..span(run, stage_span(run, step), name, open, at)
        })
    }

    fn end(
        &mut self,
        run: RunId,
        at: Timestamp,
        outcome: RunOutcome,
        summary: &RunSummary,
    ) -> Vec<SpanData> {
        let mut ended: Vec<SpanData> =
            self.end_stage(run, at, &Status::Unset).into_iter().collect();
        let Some(mut open) = self.run.take() else { return ended };
        let count =
            |name, value: u64| KeyValue::new(name, i64::try_from(value).unwrap_or(i64::MAX));
        open.attributes.extend([
            KeyValue::new("heartbeat.run.outcome", outcome.into_str()),
            count("heartbeat.run.fetched", summary.fetched),
            count("heartbeat.run.triaged", summary.triaged),
            count("heartbeat.run.analysed", summary.analysed),
            count("heartbeat.run.sessions", summary.sessions),
            count("heartbeat.run.failed_sessions", summary.failed_sessions),
            KeyValue::new("heartbeat.run.cost_usd", summary.cost.dollars()),
        ]);
        let well = matches!(outcome, RunOutcome::Completed | RunOutcome::NothingNew);
        let status = if well { Status::Ok } else { Status::error(in_words(outcome)) };
        let whole = span(run, second_half(run.0), "run".to_owned(), open, at);
        ended.push(SpanData { status, ..whole });
        ended
    }
}

/// The vendor of a model, by the model's name; empty if unknown.
fn provider_of(model: &str) -> &'static str {
    match model {
        model if model.starts_with("claude") => "anthropic",
        model if model.starts_with("gpt") => "openai",
        _ => "",
    }
}

fn used(usage: &Usage) -> [KeyValue; 5] {
    let count = |name, value: u64| KeyValue::new(name, i64::try_from(value).unwrap_or(i64::MAX));
    [
        count("gen_ai.usage.input_tokens", usage.input_tokens),
        count("gen_ai.usage.output_tokens", usage.output_tokens),
        count("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
        count("gen_ai.usage.cache_creation.input_tokens", usage.cache_creation_tokens),
        KeyValue::new("heartbeat.session.cost_usd", usage.cost.unwrap_or_default().dollars()),
    ]
}

fn ended(outcome: &Outcome, swept: u32, survivors: u32) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new("heartbeat.session.outcome", outcome.into_str()),
        KeyValue::new("heartbeat.session.swept", i64::from(swept)),
        KeyValue::new("heartbeat.session.survivors", i64::from(survivors)),
    ];
    if !outcome.is_success() {
        attributes.push(KeyValue::new("error.type", outcome.into_str()));
    }
    attributes
}

fn span(run: RunId, id: SpanId, name: String, open: OpenSpan, end: Timestamp) -> SpanData {
    let mut attributes = vec![KeyValue::new("heartbeat.run.id", run.to_string())];
    attributes.extend(open.attributes);
    let sampled = TraceFlags::SAMPLED;
    SpanData {
        span_context: SpanContext::new(trace_id(run), id, sampled, false, TraceState::NONE),
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: name.into(),
        start_time: SystemTime::from(open.since),
        end_time: SystemTime::from(end),
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder(env!("CARGO_CRATE_NAME")).build(),
    }
}
