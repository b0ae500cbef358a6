//! Scripted sessions with real rows: they follow the script and end in every way.

use heartbeat::event::{Event, Sink};
use heartbeat::model::{
    BoxFuture, Confidence, Effort, Evidence, FailureKind, Finding, ItemId, ItemKey, Outcome,
    ProcessIdentity, Risk, SessionEnd, Stage, Usage, Usd, Verdict,
};
use heartbeat::ports::{Ledger, LedgerError, LedgerRow};
use heartbeat::session::stop::StopState;
use heartbeat::session::{Job, Sessions, StopSignal};
use heartbeat::settings::AgentKind;
use heartbeat::store::Journal;
use jiff::SignedDuration;
use serde_json::json;

use super::{Play, World, is_deep, marks};

/// Served to a session that spoke and reported no figure, in micro-dollars.
const UNREPORTED: i64 = 13_000;

pub struct ScriptedSessions {
    pub world: World,
    pub journal: Journal,
}

impl ScriptedSessions {
    fn die(&self) {
        if let Some(crash) = &self.world.outside.lock().unwrap().crash {
            crash.send_replace(true);
        }
    }

    fn row(&self, job: &Job) -> LedgerRow {
        let now = self.world.clock.now();
        LedgerRow {
            session: job.session.clone(),
            keeper: ProcessIdentity {
                pid: 1,
                start_time: 1,
                pidfd_inode: None,
                boot_id: "another".into(),
            },
            tier: "scripted".into(),
            cgroup: None,
            scratch: "/nowhere".into(),
            started_at: now,
            deadline_at: now + SignedDuration::from_mins(10),
            host: None,
            in_force: None,
        }
    }

    /// As the supervisor selects it.
    fn agent_of(&self, job: &Job) -> AgentKind {
        let own = match job.session.stage {
            Stage::Triage | Stage::Locate => job.triage.as_ref().and_then(|triage| triage.agent),
            Stage::Deep => job.analyze.as_ref().and_then(|analyze| analyze.agent),
        };
        own.unwrap_or_else(|| self.world.config.agent_of(job.session.stage))
    }

    fn named_files(&self, job: &Job) -> Vec<String> {
        let outside = self.world.outside.lock().unwrap();
        let item = job.session.item.as_ref().and_then(ItemKey::item_id);
        let own = item.and_then(|id| outside.names_files.get(&id.0)).into_iter().flatten();
        own.chain(&outside.names_file).cloned().collect()
    }

    fn name_duplicates(&self, verdicts: &mut serde_json::Value) {
        let outside = self.world.outside.lock().unwrap();
        for verdict in verdicts.as_array_mut().unwrap() {
            if let Some(other) = verdict["id"].as_i64().and_then(|id| outside.duplicates.get(&id)) {
                verdict["duplicates"] = json!([{ "id": other, "why": "Both say the same." }]);
            }
        }
    }

    fn tell_start(&self, job: &Job) {
        let config = &self.world.config;
        self.journal.emit(Event::SessionRegistered {
            session: job.session.id,
            stage: job.session.stage,
            item: job.session.item.clone(),
            attempt: job.session.attempt,
            keeper_pid: 1,
            tier: "scripted".into(),
            limit_ms: 0,
            worst_case: match job.session.stage {
                Stage::Triage | Stage::Locate => config.triage.max_cost,
                Stage::Deep => config.analyze.max_cost,
            },
        });
    }

    /// Records the start of a session with a row; it is orphaned until it ends.
    fn note(&self, job: &Job, live: u32) -> usize {
        let mut outside = self.world.outside.lock().unwrap();
        outside.most_live = outside.most_live.max(live);
        let (id, version) = match job.session.stage {
            Stage::Triage | Stage::Locate => (0, 0),
            Stage::Deep => marks(&job.prompt.user)[0],
        };
        outside.started.push((job.session.stage, id, version, Outcome::Orphaned));
        outside.started.len() - 1
    }

    /// The script of this session, and which item is closed while it runs.
    fn play_for(&self, job: &Job) -> (Play, Option<i64>) {
        let mut outside = self.world.outside.lock().unwrap();
        let play = outside.plays.pop_front().unwrap_or(Play::Good);
        let item = job.session.item.as_ref().and_then(ItemKey::item_id);
        let cursed = item.is_some_and(|id| outside.cursed == Some(id.0));
        let deep = job.session.stage == Stage::Deep;
        let closes = if deep { outside.closes_meanwhile.take() } else { None };
        let agent = self.agent_of(job);
        outside.agents.push(agent);
        let down =
            outside.outage.contains(&job.session.stage) || outside.agents_down.contains(&agent);
        let play = if down { Play::Outage } else { play };
        (if cursed { Play::Fails } else { play }, closes)
    }

    fn tell_end(&self, job: &Job, end: &SessionEnd) {
        self.journal.emit(Event::SessionEnded {
            session: job.session.id,
            stage: job.session.stage,
            item: job.session.item.clone(),
            outcome: end.outcome.clone(),
            usage: end.usage,
            duration_ms: 0,
            files_read: 0,
            swept: 0,
            survivors: 0,
            host: None,
            words: end.last_words(),
            answered_by: end.fell_back_to.clone(),
        });
    }

    /// Ends that the whole environment gives, whatever the script says.
    fn ended_otherwise(&self, job: &Job) -> Option<SessionEnd> {
        let mut outside = self.world.outside.lock().unwrap();
        let items: Vec<i64> = marks(&job.prompt.user).into_iter().map(|(id, _)| id).collect();
        match job.session.stage {
            Stage::Triage if items.is_empty() => {
                let model = job.triage.as_ref().map(|triage| triage.model.clone());
                outside.probed.extend(model);
            }
            Stage::Triage => outside.triaged.push(items.clone()),
            Stage::Locate | Stage::Deep => {}
        }
        let nothing = Usage { cost: Some(Usd::ZERO), ..Usage::default() };
        let some = Usage { cost: Some(Usd::from_dollars(0.01)), input_tokens: 9, ..nothing };
        if let Some((outcome, words)) = &outside.broken_agent {
            let stderr_tail = (*words).into();
            return Some(SessionEnd {
                stderr_tail,
                usage: nothing,
                ..SessionEnd::empty(outcome.clone())
            });
        }
        if let Some((percent, seed)) = &mut outside.brown_out {
            *seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if (*seed >> 33) % 100 < *percent {
                let outcome = Outcome::AgentError { why: FailureKind::ApiError };
                return Some(SessionEnd { usage: nothing, ..SessionEnd::empty(outcome) });
            }
        }
        let poisoned = items.iter().find_map(|id| outside.poison.get(id)).cloned();
        let deep = outside.deep_ends.clone().filter(|_| job.session.stage == Stage::Deep);
        let outcome = poisoned.or(deep)?;
        let outage = outcome == Outcome::AgentError { why: FailureKind::ApiError };
        let usage = if outage { nothing } else { some };
        let stderr_tail = "the agent's last words".into();
        Some(SessionEnd { stderr_tail, usage, ..SessionEnd::empty(outcome) })
    }

    /// What a session that is cut off had used by then.
    async fn use_something(&self, job: &Job) -> Result<(), LedgerError> {
        let cost = Some(Usd::from_dollars(0.02));
        let used = Usage { cost, input_tokens: 9, estimated: true, ..Usage::default() };
        self.serve(job, &used);
        self.journal.spawned(job.session.id, 77).await?;
        self.journal.used(job.session.id, used).await
    }

    /// The provider's own account: also of what no one reported.
    fn serve(&self, job: &Job, usage: &Usage) {
        let unreported = if usage.tokens() > 0 { UNREPORTED } else { 0 };
        let served = usage.cost.map_or(unreported, Usd::micros);
        self.world.outside.lock().unwrap().served.insert(job.session.id.to_string(), served);
    }

    /// Verdicts and files as the environment wants them.
    fn shape(&self, job: &Job, end: &mut SessionEnd) {
        if let (Some(output), Stage::Deep) = (&mut end.output, job.session.stage) {
            let file = |path| json!({"path": path, "reason": "It is there."});
            output["files"] = self.named_files(job).into_iter().map(file).collect();
        }
        let located = self.world.outside.lock().unwrap().located.clone();
        if let (Some(output), Stage::Locate, Some(answer)) =
            (&mut end.output, job.session.stage, located)
        {
            *output = answer;
        }
        if let Some(verdicts) = end.output.as_mut().and_then(|output| output.get_mut("verdicts")) {
            self.name_duplicates(verdicts);
            let left_out = self.world.outside.lock().unwrap().left_out;
            verdicts.as_array_mut().unwrap().retain(|one| one["id"].as_i64() != left_out);
        }
        if job.session.stage == Stage::Deep {
            end.fell_back_to = self.world.outside.lock().unwrap().fell_back_to.clone();
        }
    }

    async fn perform_job(&self, job: Job, mut stop: StopSignal) -> Result<SessionEnd, LedgerError> {
        let (play, closes) = self.play_for(&job);
        if play == Play::DiesBeforeRow {
            self.die();
            return std::future::pending().await;
        }
        if play == Play::NoKeeper {
            let outcome = Outcome::SpawnFailed { why: FailureKind::KeeperFailed };
            let stderr_tail = "Resource temporarily unavailable (os error 11)".into();
            return Ok(SessionEnd { stderr_tail, ..SessionEnd::empty(outcome) });
        }
        if play == Play::MachineFull {
            return Err(LedgerError::MachineFull { live: 4, max: 4 });
        }
        let max = self.world.config.limits.max_live_sessions;
        self.journal.register(self.row(&job), max).await?;
        self.tell_start(&job);
        let live = u32::try_from(self.journal.open_rows().await?.len()).unwrap();
        let noted = self.note(&job, live);
        if let Some(id) = closes {
            self.world.edit(id, |item| item.open = false);
        }
        tokio::task::yield_now().await;
        assert!(play != Play::Panics, "a bug in the code beside a session");
        if play == Play::DiesWithRow {
            self.use_something(&job).await?;
            self.die();
            return std::future::pending().await;
        }
        if play == Play::LosesKeeper {
            self.use_something(&job).await?;
            let outcome = Outcome::AgentError { why: FailureKind::KeeperFailed };
            return Ok(SessionEnd::empty(outcome));
        }
        let mut end = self.ended_otherwise(&job).unwrap_or_else(|| end_of(&job, play));
        if let Play::Takes(seconds) = play {
            tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
        }
        self.shape(&job, &mut end);
        if play == Play::Hangs {
            self.world.outside.lock().unwrap().hanging += 1;
            // A stop requested since it began counts, also before this line.
            let asked = stop.changed(StopState::default()).await.reason.unwrap();
            end = SessionEnd::empty(Outcome::Cancelled { why: asked.kind() });
        }
        self.world.outside.lock().unwrap().started[noted].3 = end.outcome.clone();
        self.serve(&job, &end.usage);
        self.journal.close(job.session.id, end.clone()).await?;
        self.tell_end(&job, &end);
        if play == Play::DiesAfterRow {
            self.die();
            return std::future::pending().await;
        }
        Ok(end)
    }
}

fn end_of(job: &Job, play: Play) -> SessionEnd {
    let spent = if matches!(play, Play::Silent | Play::Outage) { 0.0 } else { 0.01 };
    let cost = (play != Play::Silent).then(|| Usd::from_dollars(spent));
    // It spoke: only then something may have been spent.
    let input_tokens = if play == Play::Silent { 9 } else { 0 };
    let cost = Usage { cost, input_tokens, ..Usage::default() };
    let outcome = match play {
        Play::Fails => Outcome::AgentError { why: FailureKind::MaxTurns },
        Play::Outage => Outcome::AgentError { why: FailureKind::ApiError },
        Play::Limited => Outcome::ProviderLimit { why: FailureKind::UsageLimit },
        Play::Silent => Outcome::TimedOut,
        _ => Outcome::Completed,
    };
    let output = match (play, job.session.stage) {
        (Play::BadOutput, _) => Some(json!({"nonsense": true})),
        (Play::Invented, Stage::Deep) => Some(invented()),
        (_, Stage::Triage) => Some(json!({"verdicts": verdicts(&job.prompt.user)})),
        (_, Stage::Locate) => Some(last_first(&job.prompt.user)),
        (_, Stage::Deep) => Some(serde_json::to_value(finding()).unwrap()),
    };
    let output = output.filter(|_| outcome.is_success());
    if let Play::Ends(which) = play {
        let all = endings();
        let (outcome, usage) = all[which % all.len()].clone();
        return SessionEnd { usage, ..SessionEnd::empty(outcome) };
    }
    SessionEnd { output, usage: cost, ..SessionEnd::empty(outcome) }
}

/// The last candidate of each item, alone.
fn last_first(prompt: &str) -> serde_json::Value {
    let items = prompt.split(" item=\"").skip(1).map(|part| {
        let number: i64 = part.split('"').next().unwrap().parse().unwrap();
        let own = part.split("</").next().unwrap().lines();
        let last = own.rev().find_map(|line| line.split(' ').next()?.parse::<i64>().ok());
        json!({ "item": number, "files": [{ "file": last, "functions": [] }] })
    });
    json!({ "items": items.collect::<Vec<_>>() })
}

/// Ways to end without a result: with a reported cost, with a computed one, with tokens alone, and
/// without anything, and with figures that no session can have.
pub fn endings() -> Vec<(Outcome, Usage)> {
    use FailureKind::{
        ApiError, InvalidRequest, MaxOutputTokens, NoJson, NoResult, NotFound, NotSent, Operator,
        RateLimit, Refused, RunDeadline,
    };
    let cost = |dollars: f64| Usage { cost: Some(Usd::from_dollars(dollars)), ..Usage::default() };
    let tokens = Usage { input_tokens: 5000, output_tokens: 70, ..Usage::default() };
    let computed = Usage { estimated: true, cost: Some(Usd::from_dollars(0.02)), ..tokens };
    let absurd = Usage { input_tokens: u64::MAX, ..cost(1e300) };
    let outcomes = [
        Outcome::BadOutput { why: NoJson },
        Outcome::BadOutput { why: NoResult },
        Outcome::BadOutput { why: NotSent },
        Outcome::AgentError { why: ApiError },
        Outcome::AgentError { why: Refused },
        Outcome::AgentError { why: InvalidRequest },
        Outcome::AgentError { why: MaxOutputTokens },
        Outcome::ExitCode { code: 1 },
        Outcome::Signal { signal: 11 },
        Outcome::SpawnFailed { why: NotFound },
        Outcome::InitTimeout,
        Outcome::TimedOut,
        Outcome::Stalled,
        Outcome::Cancelled { why: Operator },
        Outcome::Cancelled { why: RunDeadline },
        Outcome::BudgetReached,
        Outcome::TooManyProcesses,
        Outcome::TooMuchMemory,
        Outcome::TooMuchDisk,
        Outcome::TooManyReads,
        Outcome::OutputFlood,
        Outcome::ProviderLimit { why: RateLimit },
    ];
    let usages = [Usage::default(), tokens, computed, cost(0.03), absurd];
    outcomes.into_iter().enumerate().map(|(n, outcome)| (outcome, usages[n % 5])).collect()
}

fn verdicts(prompt: &str) -> Vec<Verdict> {
    let verdict = |(id, version)| Verdict {
        needs_deep_analysis: is_deep(version),
        ..Verdict::new(ItemId(id), heartbeat::model::Complexity::Simple, "It says so in its text.")
    };
    marks(prompt).into_iter().map(verdict).collect()
}

/// The answer of a played transcript.
fn invented() -> serde_json::Value {
    let transcript = include_str!("../../data/findings/invented_finding.jsonl");
    let last: serde_json::Value = serde_json::from_str(transcript.lines().last().unwrap()).unwrap();
    last["structured_output"].clone()
}

fn finding() -> Finding {
    Finding {
        summary: "The cause is known.".into(),
        likely_causes: vec!["A cause.".into()],
        files: Vec::new(),
        suggested_change: "Change it.".into(),
        risk: Risk::Low,
        effort: Effort::Small,
        confidence: Confidence::High,
        open_questions: Vec::new(),
        tests: Vec::new(),
        pitfalls: Vec::new(),
        not_checked: Vec::new(),
        evidence: vec![Evidence {
            path: "src/cause.rs".into(),
            line: 1,
            last_line: 1,
            quote: super::CITED.into(),
            ..Evidence::default()
        }],
        patch: String::new(),
        patch_test: String::new(),
        proof: None,
    }
}

impl Sessions for ScriptedSessions {
    fn unreachable(&self, _: AgentKind) -> BoxFuture<'_, Option<String>> {
        let mut outside = self.world.outside.lock().unwrap();
        outside.greeted += 1;
        let why = outside.unreachable.map(str::to_owned);
        Box::pin(async move { why })
    }

    fn perform(
        &self,
        job: Job,
        stop: StopSignal,
    ) -> BoxFuture<'_, Result<SessionEnd, LedgerError>> {
        Box::pin(async move {
            if let Some(reason) = stop.state().reason {
                let outcome = Outcome::Cancelled { why: reason.kind() };
                return Ok(SessionEnd::empty(outcome));
            }
            self.perform_job(job, stop).await
        })
    }

    fn resolve_orphans(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            for row in self.journal.open_rows().await? {
                let end = SessionEnd::empty(Outcome::Orphaned);
                self.journal.close(row.session.id, end).await?;
            }
            Ok(())
        })
    }
}
