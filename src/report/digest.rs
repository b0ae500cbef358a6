//! The content of a report, before formatting: one run or a period.

use jiff::Timestamp;
use serde::Serialize;

use crate::analyze::parts::Part;
use crate::event::fold::AlarmedItem;
use crate::event::{RunOutcome, RunSummary};
use crate::fixes::Accuracy;
use crate::model::{Phase, RunId, SessionId, Verdict};
use crate::report::code_links::CodeLinks;
use crate::report::fixes::{LATELY, accuracy, fix_line, sentence};
use crate::report::moment::minute;
use crate::report::names::Names;
use crate::report::suggestions::{SuggestedItem, by_item};
use crate::report::worth;
use crate::settings::HeldSecrets;
use crate::store::{
    DuplicateGroup, FindingRow, JudgedItem, OpenItems, RunRow, SessionRow, StageSpending, Store,
    StoreError, SuggestionRow,
};
use crate::triage;

/// Unfinished items that are listed; the rest are counted.
const MAX_OPEN: u32 = 50;
/// Earlier findings of which a report says what became of them.
const MAX_BECAME: usize = 10;
/// Items whose groups of duplicates are looked up.
const MAX_GROUPED: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum Scope {
    Run {
        run: RunId,
    },
    /// The finding of one session, to be shared.
    Finding {
        session: SessionId,
    },
    /// Everything that began in `[from, to)`.
    Period {
        from: Timestamp,
        to: Timestamp,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub scope: Scope,
    pub project: String,
    pub made_at: Timestamp,
    /// Oldest first.
    pub runs: Vec<RunRow>,
    /// Sum over all runs.
    pub totals: RunSummary,
    /// Cost by day and purpose.
    pub spending: Vec<StageSpending>,
    /// Items that triage finished without deep analysis, with the reason.
    pub settled: Vec<JudgedItem>,
    /// Items with text that a person may not see.
    pub alarmed: Vec<AlarmedItem>,
    /// For links to the code in a browser.
    #[serde(skip)]
    pub links: Option<CodeLinks>,
    #[serde(skip)]
    pub names: Names,
    /// Groups of items that one change resolves, according to triage.
    pub related: Vec<Vec<JudgedItem>>,
    /// Groups of items that report the same problem, among all known items.
    pub duplicates: Vec<DuplicateGroup>,
    pub findings: Vec<FindingRow>,
    /// Values that triage suggests for the fields of its items, and what they lack.
    pub suggested: Vec<SuggestedItem>,
    /// Findings compared with their fixes: those fixed in this period; in a report of one run,
    /// those of the last week.
    pub accuracy: Accuracy,
    pub failed_sessions: Vec<SessionRow>,
    /// What became of findings in this period: fixed, or rated by people.
    pub became: Vec<String>,
    /// What does not go on by itself, such as an open circuit breaker.
    pub stuck: Vec<String>,
    /// Address of the dashboard as people reach it; empty if it is not known.
    #[serde(skip)]
    pub dashboard: String,
    /// Unfinished items, with the reasons.
    pub open: OpenItems,
    /// Number of items that need a person.
    pub parked: u32,
}

/// What the store has for a report's scope.
#[derive(Default)]
struct Gathered {
    runs: Vec<RunRow>,
    spending: Vec<StageSpending>,
    judged: Vec<JudgedItem>,
    findings: Vec<FindingRow>,
    fixed: Vec<FindingRow>,
    sessions: Vec<SessionRow>,
}

impl Gathered {
    async fn read(store: &Store, scope: Scope, now: Timestamp) -> Result<Self, StoreError> {
        Ok(match scope {
            Scope::Run { run } => Self {
                runs: store.runs().with_prefix(run.to_string()).await?.into_iter().collect(),
                spending: store.budget().by_stage_in_run(run).await?,
                judged: store.items().judged_in(run).await?,
                findings: store.findings().in_run(run).await?,
                // One run is too short for fixes, which take days.
                fixed: store.findings().fixed_between(week_before(now), now).await?,
                sessions: store.sessions().in_run(run).await?,
            },
            Scope::Finding { session } => Self {
                findings: store.findings().of_session(session).await?.into_iter().collect(),
                ..Self::default()
            },
            Scope::Period { from, to } => Self {
                runs: store.runs().between(from, to).await?,
                spending: store.budget().by_stage_between(from, to).await?,
                judged: store.items().judged_between(from, to).await?,
                findings: store.findings().between(from, to).await?,
                fixed: store.findings().fixed_between(from, to).await?,
                sessions: store.sessions().between(from, to).await?,
            },
        })
    }
}

impl Report {
    /// Collects the data of a report. Read-only.
    pub async fn gather(
        store: &Store,
        scope: Scope,
        project: &str,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let Gathered { runs, spending, judged, findings, fixed, sessions } =
            Gathered::read(store, scope, now).await?;
        let names = Names::read(store).await?;
        let became = became(store, scope, &fixed, &names).await?;
        let (open, parked) = unfinished(store, scope).await?;
        let mut findings = findings;
        worth::sort(&mut findings);
        let duplicates = duplicates(store, &judged).await?;
        let settled = |item: &&JudgedItem| !item.verdict.needs_deep_analysis;
        let failed = |session: &SessionRow| {
            session.outcome.as_ref().is_some_and(|outcome| !outcome.is_success())
        };
        Ok(Self {
            scope,
            project: project.to_owned(),
            made_at: now,
            totals: totals(&runs),
            spending,
            related: related(&judged),
            suggested: by_item(&suggested(store, scope).await?, &judged, &duplicates),
            duplicates,
            settled: judged.iter().filter(settled).cloned().collect(),
            alarmed: store.events().alarms_of(runs.iter().map(|run| run.run).collect()).await?,
            links: None,
            names,
            findings,
            became,
            stuck: Vec::new(),
            dashboard: String::new(),
            accuracy: accuracy(&fixed),
            failed_sessions: sessions.into_iter().filter(failed).collect(),
            open,
            parked,
            runs,
        })
    }

    /// Removes secrets from every untrusted text. Must run before formatting, which may escape the
    /// same characters differently.
    #[must_use]
    pub fn without(mut self, secrets: &HeldSecrets) -> Self {
        for row in &mut self.findings {
            let note = row.feedback.iter_mut().map(|feedback| &mut feedback.note);
            let texts = row.finding.texts_mut().chain([&mut row.title, &mut row.url]);
            secrets.remove_from_all(texts.chain(note));
        }
        for item in &mut self.settled {
            secrets.remove_from_all(item.verdict.texts_mut().chain([&mut item.title]));
        }
        for item in &mut self.suggested {
            let lines = item.suggestions.iter_mut();
            let texts = lines.flat_map(|line| [&mut line.value, &mut line.note]);
            secrets.remove_from_all(texts.chain([&mut item.title]));
        }
        for item in self.duplicates.iter_mut().flat_map(|group| &mut group.items) {
            secrets.remove_from_all([&mut item.title, &mut item.url, &mut item.why]);
        }
        secrets.remove_from_all(self.became.iter_mut().chain(&mut self.stuck));
        for item in &mut self.open.first {
            let verdict = item.verdict.iter_mut().flat_map(Verdict::texts_mut);
            secrets.remove_from_all(verdict.chain([&mut item.title, &mut item.url]));
        }
        self
    }

    /// Adds links to the code.
    #[must_use]
    pub fn linked(mut self, links: Option<CodeLinks>) -> Self {
        self.links = links;
        self
    }

    pub fn code_address(&self, path: &str) -> Option<String> {
        self.links.as_ref().map(|links| links.address(path, None, None))
    }

    /// A finding's parts, with links to the code.
    pub fn parts(&self, row: &FindingRow) -> Vec<Part> {
        super::code_links::parts(&row.finding, self.links.as_ref())
    }

    /// How many findings of fixed items were right, as a sentence.
    pub fn fixed_sentence(&self) -> Option<String> {
        let when = match self.scope {
            Scope::Run { .. } | Scope::Finding { .. } => LATELY,
            Scope::Period { .. } => "In this period",
        };
        sentence(when, &self.accuracy)
    }

    /// A one-line summary.
    pub fn headline(&self) -> String {
        if matches!(self.scope, Scope::Finding { .. }) {
            return "Written by a program, heartbeat, which read the work item and the code. \
                    Check it before you rely on it."
                .to_owned();
        }
        let t = &self.totals;
        let mut parts = vec![
            format!("{} changed", t.shares.new + t.shares.changed),
            format!("{} triaged", t.triaged),
            count(self.findings.len() as u64, "finding", "findings"),
        ];
        let failed = self.failed_sessions.len() as u64;
        if failed > 0 {
            parts.push(count(failed, "failed session", "failed sessions"));
        }
        if self.parked > 0 {
            parts.push(format!("{} parked", self.parked));
        }
        parts.push(t.cost_text());
        parts.join(" · ")
    }

    pub fn title(&self) -> String {
        let project =
            if self.project.is_empty() { String::new() } else { format!(" for {}", self.project) };
        match self.scope {
            Scope::Run { .. } => {
                let began = self.runs.first().map_or(self.made_at, |run| run.started_at);
                format!("Heartbeat{project}, run of {}", minute(began))
            }
            Scope::Finding { .. } => {
                let item = self.findings.first().map(|row| self.names.name(&row.key));
                format!("Heartbeat{project}: finding on {}", item.unwrap_or_default())
            }
            Scope::Period { from, to } => {
                format!("Heartbeat{project}, {} to {}", minute(from), minute(to))
            }
        }
    }

    /// Whether something failed that a person should know about.
    pub fn is_trouble(&self) -> bool {
        let bad = |run: &RunRow| {
            !matches!(
                run.outcome,
                None | Some(
                    RunOutcome::Completed | RunOutcome::NothingNew | RunOutcome::Interrupted
                )
            )
        };
        self.runs.iter().any(bad) || self.totals.parked > 0
    }

    /// Adds what does not go on by itself, and the address of the dashboard.
    #[must_use]
    pub fn as_digest(mut self, stuck: Vec<String>, dashboard: &str) -> Self {
        self.stuck = stuck;
        self.dashboard = dashboard.trim_end_matches('/').to_owned();
        self
    }

    /// What a digest says beside the new findings; empty sections are left out.
    pub fn sections(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let all: [(_, &[String]); 2] =
            [("What became of earlier findings", &self.became), ("Stuck", &self.stuck)];
        all.into_iter().filter(|(_, entries)| !entries.is_empty())
    }

    /// The page of a finding on the dashboard, if people can reach it.
    pub fn page_of(&self, row: &FindingRow) -> Option<String> {
        (!self.dashboard.is_empty()).then(|| format!("{}/findings/{}", self.dashboard, row.session))
    }

    /// Whether there is anything to report.
    pub fn is_news(&self) -> bool {
        self.is_trouble()
            || !self.findings.is_empty()
            || !self.became.is_empty()
            || !self.stuck.is_empty()
    }
}

async fn suggested(store: &Store, scope: Scope) -> Result<Vec<SuggestionRow>, StoreError> {
    match scope {
        Scope::Run { run } => store.suggestions().in_run(run).await,
        Scope::Finding { .. } => Ok(Vec::new()),
        Scope::Period { from, to } => store.suggestions().between(from, to).await,
    }
}

/// The groups of duplicates that contain these items.
async fn duplicates(
    store: &Store,
    judged: &[JudgedItem],
) -> Result<Vec<DuplicateGroup>, StoreError> {
    let named = judged.iter().filter(|item| !item.verdict.duplicates.is_empty());
    let keys = named.map(|item| item.key.clone()).take(MAX_GROUPED).collect();
    store.items().duplicate_groups(keys).await
}

/// Groups of related items, according to triage.
pub fn related(judged: &[JudgedItem]) -> Vec<Vec<JudgedItem>> {
    let verdicts = judged.iter().map(|item| (&item.key, &item.verdict));
    let item = |key| judged.iter().find(|item| item.key == key).cloned();
    let named = |group: Vec<_>| group.into_iter().filter_map(item).collect::<Vec<JudgedItem>>();
    let groups = triage::related_groups(verdicts).into_iter().map(named);
    groups.filter(|group| group.len() > 1).collect()
}

/// Unfinished items, and how many of all are parked. Whoever gets one finding gets nothing else.
async fn unfinished(store: &Store, scope: Scope) -> Result<(OpenItems, u32), StoreError> {
    if matches!(scope, Scope::Finding { .. }) {
        return Ok((OpenItems::default(), 0));
    }
    let parked = parked(&store.items().phase_counts().await?);
    Ok((store.items().open(MAX_OPEN).await?, parked))
}

/// What became of findings in a period.
async fn became(
    store: &Store,
    scope: Scope,
    fixed: &[FindingRow],
    names: &Names,
) -> Result<Vec<String>, StoreError> {
    let Scope::Period { from, to } = scope else { return Ok(Vec::new()) };
    let rated = store.findings().rated_between(from, to).await?;
    let fixed = fixed.iter().filter_map(|row| {
        let line = fix_line(row)?;
        Some(format!("{} {}: {line}", names.name(&row.key), row.title))
    });
    let rated = rated.iter().filter_map(|row| {
        let said = row.feedback.as_ref()?;
        Some(format!("{} {}: {said}", names.name(&row.key), row.title))
    });
    let mut all: Vec<String> = fixed.chain(rated).collect();
    if all.len() > MAX_BECAME {
        let more = all.len() - MAX_BECAME;
        all.truncate(MAX_BECAME);
        all.push(format!("and {more} more"));
    }
    Ok(all)
}

fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn parked(phases: &[(Phase, u32)]) -> u32 {
    phases.iter().filter(|(phase, _)| *phase == Phase::Parked).map(|(_, count)| count).sum()
}

fn totals(runs: &[RunRow]) -> RunSummary {
    let mut sum = RunSummary::default();
    for one in runs.iter().filter_map(|run| run.summary) {
        sum.fetched += one.fetched;
        sum.shares += one.shares;
        sum.triaged += one.triaged;
        sum.analysed += one.analysed;
        sum.settled_by_triage += one.settled_by_triage;
        // What is left is a state and no sum: the last run says it.
        (sum.deferred, sum.waiting, sum.parked) = (one.deferred, one.waiting, one.parked);
        sum.vanished += one.vanished;
        sum.failed_sessions += one.failed_sessions;
        sum.sessions += one.sessions;
        sum.cost += one.cost;
        sum.cost_estimated += one.cost_estimated;
        sum.cost_at_worst += one.cost_at_worst;
    }
    sum
}

fn week_before(now: Timestamp) -> Timestamp {
    now.saturating_sub(jiff::SignedDuration::from_hours(7 * 24)).unwrap_or(now)
}

#[cfg(test)]
pub mod samples {
    //! Sample reports for the tests of the formats.
    use super::*;
    use crate::event::{DecisionCounts, Reason, Trigger};
    use crate::model::{
        Alarms, Complexity, Confidence, Effort, FailureKind, Feedback, FileReference, Finding,
        ItemId, ItemKey, Opinion, Outcome, Risk, SessionId, SessionRef, Stage, Usd, Verdict,
    };
    use crate::report::suggestions::SuggestedLine;
    use crate::store::{DuplicateItem, ItemRow, Spending};

    pub const HOSTILE: &str =
        "<script>alert(1)</script> [x](javascript:alert(1)) ![i](http://e/i.png) <!channel> `a|b`";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn summary() -> RunSummary {
        RunSummary {
            fetched: 9,
            shares: DecisionCounts {
                new: 2,
                changed: 1,
                unchanged: 6,
                ..DecisionCounts::default()
            },
            triaged: 3,
            analysed: 1,
            sessions: 2,
            failed_sessions: 1,
            cost: Usd::from_dollars(0.25),
            ..RunSummary::default()
        }
    }

    fn duplicates(words: &str) -> DuplicateGroup {
        let item = |id| DuplicateItem {
            key: ItemKey::new("ado", ItemId(id)),
            title: words.to_owned(),
            url: String::new(),
            phase: Phase::Done,
            why: words.to_owned(),
            live: id == 42,
        };
        DuplicateGroup { items: vec![item(42), item(45)], total: 500 }
    }

    #[expect(clippy::too_many_lines, reason = "every field of a report has a value")]
    pub fn report(words: &str) -> Report {
        let run = RunId(uuid::Uuid::from_u128(7));
        let key = ItemKey::new("ado", ItemId(42));
        let summary = summary();
        let began = at("2026-11-16T08:00:00Z");
        Report {
            scope: Scope::Run { run },
            project: "Parcel".into(),
            made_at: at("2026-11-16T08:10:00Z"),
            runs: vec![RunRow {
                run,
                trigger: Trigger::Schedule,
                started_at: began,
                ended_at: Some(at("2026-11-16T08:09:00Z")),
                outcome: Some(RunOutcome::SomeFailed),
                summary: Some(summary),
            }],
            totals: summary,
            spending: vec![spent()],
            settled: vec![JudgedItem {
                verdict: Verdict::new(ItemId(44), Complexity::Trivial, words),
                ..judged(44, words)
            }],
            alarmed: vec![AlarmedItem {
                item: ItemKey::new("ado", ItemId(42)),
                alarms: Alarms { hidden_chars: 236, ..Alarms::default() },
            }],
            links: None,
            names: Names::default(),
            related: vec![vec![judged(42, words), judged(43, words)]],
            duplicates: vec![duplicates(words)],
            suggested: vec![SuggestedItem {
                key: key.clone(),
                title: words.to_owned(),
                suggestions: vec![SuggestedLine {
                    name: "area".into(),
                    value: words.to_owned(),
                    note: "right in 87 % of your last 400 items".into(),
                }],
            }],
            accuracy: Accuracy::default(),
            findings: vec![finding(key.clone(), run, words)],
            failed_sessions: vec![failed_session(key.clone(), run, began)],
            became: vec![format!("#41 {words}: marked as useful")],
            stuck: vec![format!("1 item is parked: {words}")],
            dashboard: String::new(),
            parked: 1,
            open: OpenItems {
                total: 1,
                first: vec![ItemRow {
                    key,
                    title: words.into(),
                    item_type: "Bug".into(),
                    url: "javascript:alert(1)".into(),
                    area_path: None,
                    revision: 3,
                    last_changed: began,
                    last_processed: None,
                    phase: Phase::Parked,
                    reason: Reason::AttemptsExhausted,
                    attempts: 3,
                    next_attempt: None,
                    deferrals: 0,
                    verdict: None,
                }],
            },
        }
    }

    fn failed_session(key: ItemKey, run: RunId, began: Timestamp) -> SessionRow {
        SessionRow {
            host: None,
            session: SessionRef {
                id: SessionId(uuid::Uuid::from_u128(9)),
                run,
                stage: Stage::Deep,
                item: Some(key),
                attempt: 2,
            },
            tier: "pidns".into(),
            in_force: None,
            started_at: began,
            ended_at: Some(began),
            alive: false,
            outcome: Some(Outcome::BadOutput { why: FailureKind::NoJson }),
            usage: None,
            money: Spending::default(),
            survivors: Some(0),
        }
    }

    fn spent() -> StageSpending {
        StageSpending {
            day: "2026-11-16".into(),
            stage: Stage::Deep,
            money: Spending {
                sessions: 2,
                spent: Usd::from_dollars(0.25),
                billed: Usd::from_dollars(0.25),
                estimated: Usd::from_dollars(0.2),
                ..Spending::default()
            },
        }
    }

    fn judged(id: i64, words: &str) -> JudgedItem {
        JudgedItem {
            key: ItemKey::new("ado", ItemId(id)),
            title: words.into(),
            verdict: Verdict {
                needs_deep_analysis: true,
                related: vec![ItemId(85 - id)],
                ..Verdict::new(ItemId(id), Complexity::Simple, words)
            },
        }
    }

    fn finding(key: ItemKey, run: RunId, words: &str) -> FindingRow {
        FindingRow {
            key,
            title: words.into(),
            url: "https://dev.azure.com/contoso/_workitems/edit/42".into(),
            revision: 3,
            session: SessionId(uuid::Uuid::from_u128(8)),
            run,
            created_at: at("2026-11-16T08:05:00Z"),
            cost: Some(Usd::from_dollars(0.2)),
            area: String::new(),
            assigned_to: String::new(),
            priority: None,
            made_with: None,
            stale: None,
            fix: None,
            feedback: Some(Feedback {
                opinion: Opinion::Wrong,
                note: words.into(),
                given_at: at("2026-11-16T09:05:00Z"),
            }),
            finding: Finding {
                summary: words.into(),
                likely_causes: vec![words.into()],
                files: vec![FileReference {
                    role: None,
                    read: None,
                    path: words.into(),
                    reason: words.into(),
                    exists: Some(false),
                }],
                suggested_change: words.into(),
                risk: Risk::High,
                effort: Effort::Small,
                confidence: Confidence::Medium,
                open_questions: vec![words.into()],
                tests: Vec::new(),
                pitfalls: Vec::new(),
                not_checked: Vec::new(),
                evidence: Vec::new(),
                patch: String::new(),
                patch_test: String::new(),
                proof: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_counts_what_matters() {
        let report = samples::report("words");
        assert_eq!(
            report.headline(),
            "3 changed · 3 triaged · 1 finding · 1 failed session · 1 parked · $0.25"
        );
        let began = minute("2026-11-16T08:00:00Z".parse().unwrap());
        assert_eq!(report.title(), format!("Heartbeat for Parcel, run of {began}"));
    }

    #[test]
    fn news_and_trouble_are_distinguished() {
        let mut report = samples::report("words");
        assert!(report.is_trouble() && report.is_news());
        report.runs[0].outcome = Some(RunOutcome::Completed);
        assert!(!report.is_trouble() && report.is_news());
        report.findings.clear();
        report.became.clear();
        report.stuck.clear();
        assert!(!report.is_news());
        report.totals.parked = 1;
        assert!(report.is_trouble());
    }
}
