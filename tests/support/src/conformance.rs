//! What every implementation of `Sessions` has to do, whether sessions run here or on other hosts:
//! the same cases for each, on a real database and real processes.
//!
//! The agent is a script that records each start in a file and behaves as its prompt says, so that
//! the agents themselves count their starts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use heartbeat::event::Event;
use heartbeat::model::{
    FailureKind, Outcome, RunId, SessionEnd, SessionId, SessionRef, Stage, Usd,
};
use heartbeat::ports::{Ledger as _, LedgerError};
use heartbeat::prompt::Rendered;
use heartbeat::session::{Attached, AttachedFile, Job, Sessions, StopHandle, StopReason};
use heartbeat::settings::Config;
use heartbeat::store::{BudgetCaps, Claim, Journal};
use uuid::Uuid;

use crate::until;

/// Concurrent sessions in these cases.
pub const CAP: u32 = 3;
/// Interval of liveness events.
pub const LIVENESS: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, Copy)]
pub enum Play {
    /// Answers after this many milliseconds.
    Answer(u64),
    /// Writes its first line and then nothing.
    Hang,
    /// Kills itself with a signal.
    Crash,
}

impl Play {
    fn words(self) -> String {
        match self {
            Self::Answer(pace) => format!("play answer {pace}"),
            Self::Hang => "play hang 0".to_owned(),
            Self::Crash => "play crash 0".to_owned(),
        }
    }
}

/// The scripted agent in its own folder.
#[derive(Debug, Clone)]
pub struct ScriptedAgent {
    pub folder: PathBuf,
    pub program: PathBuf,
}

impl ScriptedAgent {
    /// Writes the script; `program` is the heartbeat whose simulated agent gives the answers.
    pub fn write(folder: &Path, program: &Path) -> Self {
        let script = format!(
            r#"prompt=$(cat)
id=
for word in "$@"; do [ "$before" = --session-id ] && id=$word; before=$word; done
echo "start $id $$ $(date +%s.%N)" >> "{folder}/starts"
how=$(printf '%s\n' "$prompt" | sed -n 's/^play \([a-z]*\) [0-9]*$/\1/p' | head -1)
pace=$(printf '%s\n' "$prompt" | sed -n 's/^play [a-z]* \([0-9]*\)$/\1/p' | head -1)
printf '%s\n' "$prompt" | sed -n 's/^copy //p' | while read -r file; do cp "$file" "{folder}/copy-of-${{file##*/}}"; done
case $how in
crash) kill -9 $$ ;;
hang) printf %s "$prompt" | "{program}" simulate agent --pace 0 "$@" | head -1; exec sleep 1000 ;;
*) printf %s "$prompt" | "{program}" simulate agent --pace "${{pace:-$(cat "{folder}/pace")}}" "$@" ;;
esac
code=$?
echo "end $id $$ $(date +%s.%N)" >> "{folder}/starts"
exit $code
"#,
            folder = folder.display(),
            program = program.display(),
        );
        std::fs::create_dir_all(folder).expect("a folder for the agent");
        std::fs::write(folder.join("agent.sh"), script).expect("the agent's script");
        std::fs::write(folder.join("starts"), "").expect("the agent's log");
        std::fs::write(folder.join("pace"), "0").expect("the agent's pace");
        Self { folder: folder.to_owned(), program: program.to_owned() }
    }

    /// Time of an answer if the prompt does not set it, in milliseconds.
    pub fn set_pace(&self, pace: u64) {
        std::fs::write(self.folder.join("pace"), pace.to_string()).expect("the agent's pace");
    }

    pub fn command(&self) -> Vec<String> {
        vec!["/bin/sh".to_owned(), self.folder.join("agent.sh").display().to_string()]
    }

    /// Every line it wrote, split into words.
    pub fn log(&self) -> Vec<Vec<String>> {
        let log = std::fs::read_to_string(self.folder.join("starts")).unwrap_or_default();
        log.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    /// How often it was started for a session.
    pub fn starts_of(&self, session: SessionId) -> usize {
        let id = session.to_string();
        self.log().iter().filter(|line| line[0] == "start" && line[1] == id).count()
    }

    pub fn starts(&self) -> usize {
        self.log().iter().filter(|line| line[0] == "start").count()
    }
}

/// The settings that the cases need; everything else is the default.
pub fn config(agent: &ScriptedAgent) -> Config {
    let mut config: Config = toml::from_str(heartbeat::config::DEFAULT_TOML).expect("defaults");
    config.agent.command = agent.command();
    config.agent.write_paths = vec![agent.folder.clone()];
    config.agent.read_paths = vec![agent.program.clone()];
    config.limits.max_live_sessions = CAP;
    config.limits.max_live_sessions_per_machine = 100;
    config.limits.slots_dir = agent.folder.join("slots");
    config.limits.max_load_per_core = 1_000.0;
    config.limits.min_free_memory = 0;
    config.limits.max_memory_pressure = 100.0;
    config.limits.admission_wait = Duration::from_secs(20);
    config.timeouts.liveness = LIVENESS;
    config.timeouts.grace = Duration::from_secs(1);
    config.triage.timeout = Duration::from_secs(60);
    config
}

/// One implementation under test.
#[derive(Clone)]
pub struct Subject {
    pub sessions: Arc<dyn Sessions>,
    pub journal: Journal,
    pub run: RunId,
    pub agent: ScriptedAgent,
}

impl Subject {
    /// Claims work as a run does, without an item.
    pub async fn claim(&self) -> SessionId {
        let session = SessionId(Uuid::now_v7());
        let claim = Claim {
            session,
            run: self.run,
            stage: Stage::Triage,
            subject: Vec::new(),
            worst_case: Usd::from_dollars(0.5),
            caps: BudgetCaps::NONE,
            day: "2026-11-16".into(),
            max_attempts: 3,
        };
        self.journal.claims().take(claim).await.expect("the state").expect("nothing refuses it");
        session
    }

    /// The job for the agent.
    pub fn job(&self, id: SessionId, play: Play) -> Job {
        let schema = serde_json::json!({
            "type": "object",
            "properties": { "verdicts": { "type": "array", "items": { "type": "object" } } },
        });
        let session =
            SessionRef { id, run: self.run, stage: Stage::Triage, item: None, attempt: 1 };
        let prompt = Rendered { system: "You are a script.".into(), user: play.words(), schema };
        Job {
            session,
            prompt,
            repository: None,
            beside: Vec::new(),
            triage: None,
            analyze: None,
            attached: None,
            examiner: None,
        }
    }

    /// Runs one session from its claim to its end.
    pub async fn perform(
        &self,
        play: Play,
        stop: &StopHandle,
    ) -> (SessionId, Result<SessionEnd, LedgerError>) {
        let id = self.claim().await;
        (id, self.sessions.perform(self.job(id, play), stop.signal()).await)
    }

    /// The same in the background.
    pub fn start(
        &self,
        play: Play,
        stop: &StopHandle,
    ) -> tokio::task::JoinHandle<(SessionId, Result<SessionEnd, LedgerError>)> {
        let (subject, stop) = (self.clone(), stop.clone());
        tokio::spawn(async move { subject.perform(play, &stop).await })
    }

    /// Waits until this many agents were started in total.
    pub async fn started(&self, count: usize) {
        until("the agent's start", || async { (self.agent.starts() >= count).then_some(()) }).await;
    }

    pub async fn open_rows(&self) -> usize {
        self.journal.open_rows().await.expect("the state").len()
    }

    async fn stored(&self, session: SessionId) -> (Option<Outcome>, bool) {
        self.journal.flush().await.expect("the state");
        let row = self.journal.store().sessions().get(session).await.expect("the state");
        row.map_or((None, false), |row| (row.outcome, row.ended_at.is_some()))
    }
}

/// Runs every case that needs no crash, one after the other.
pub async fn all(subject: &Subject) {
    a_session_completes_once_and_its_output_is_stored(subject).await;
    files_of_an_item_are_where_the_prompt_says(subject).await;
    a_crash_of_the_agent_is_its_outcome(subject).await;
    one_more_than_the_cap_is_refused(subject).await;
    a_cancelled_session_ends_with_the_reason(subject).await;
    a_session_ends_at_once_without_grace(subject).await;
    a_request_before_the_start_starts_nothing(subject).await;
    every_live_session_has_a_sign_of_life_at_every_interval(subject).await;
    what_nobody_waited_for_is_resolved_and_applied_once(subject).await;
}

async fn a_session_completes_once_and_its_output_is_stored(subject: &Subject) {
    let (id, end) = subject.perform(Play::Answer(0), &StopHandle::new()).await;
    let end = end.expect("it starts");
    assert_eq!(end.outcome, Outcome::Completed, "{end:?}");
    assert_eq!(end.output, Some(serde_json::json!({ "verdicts": [] })));
    assert!(end.usage.is_reported(), "{end:?}");
    assert_eq!(subject.agent.starts_of(id), 1);
    assert_eq!(subject.open_rows().await, 0);
    assert_eq!(subject.stored(id).await, (Some(Outcome::Completed), true));
    let waiting = subject.journal.store().results().unapplied().await.expect("the state");
    assert_eq!(waiting.iter().filter(|one| one.session == id).count(), 1);
    subject.journal.results().apply_triage(Some(id), Vec::new()).await.expect("the state");
    let waiting = subject.journal.store().results().unapplied().await.expect("the state");
    assert!(waiting.iter().all(|one| one.session != id), "applied once");
}

async fn files_of_an_item_are_where_the_prompt_says(subject: &Subject) {
    let id = subject.claim().await;
    let mut job = subject.job(id, Play::Answer(0));
    let marker = "/attached-files".to_owned();
    job.prompt.user.push_str(&format!("\ncopy {marker}/1-shot.png\ncopy {marker}/2-log.txt"));
    let picture: Vec<u8> = (0..=u8::MAX).cycle().take(70_000).collect();
    let file = |name: &str, bytes: &[u8]| AttachedFile { name: name.into(), bytes: bytes.into() };
    let files = vec![file("1-shot.png", &picture), file("2-log.txt", b"12:00 total is -1\n")];
    job.attached = Some(Attached { marker, files });
    let end = subject.sessions.perform(job, StopHandle::new().signal()).await.expect("it starts");
    assert_eq!(end.outcome, Outcome::Completed, "{end:?}");
    let copy = |name: &str| std::fs::read(subject.agent.folder.join(name)).unwrap_or_default();
    assert!(copy("copy-of-1-shot.png") == picture, "every byte of the picture");
    assert_eq!(copy("copy-of-2-log.txt"), b"12:00 total is -1\n");
}

async fn a_crash_of_the_agent_is_its_outcome(subject: &Subject) {
    let (id, end) = subject.perform(Play::Crash, &StopHandle::new()).await;
    let end = end.expect("it starts");
    assert_eq!(end.outcome, Outcome::Signal { signal: 9 }, "{end:?}");
    assert_eq!(subject.agent.starts_of(id), 1, "it is not tried again here");
    assert_eq!(subject.open_rows().await, 0);
}

async fn one_more_than_the_cap_is_refused(subject: &Subject) {
    let (stop, before) = (StopHandle::new(), subject.agent.starts());
    let live: Vec<_> = (0..CAP).map(|_| subject.start(Play::Hang, &stop)).collect();
    subject.started(before + CAP as usize).await;
    assert_eq!(subject.open_rows().await, CAP as usize);
    let (id, refused) = subject.perform(Play::Answer(0), &StopHandle::new()).await;
    assert!(
        matches!(refused, Err(LedgerError::Full { live: CAP, max: CAP })),
        "one more than the cap: {refused:?}"
    );
    assert_eq!(subject.agent.starts_of(id), 0);
    stop.stop(StopReason::Shutdown);
    for session in live {
        let (id, end) = session.await.expect("no panic");
        let end = end.expect("it started");
        assert_eq!(end.outcome, Outcome::Cancelled { why: FailureKind::Shutdown }, "{end:?}");
        assert_eq!(subject.agent.starts_of(id), 1);
    }
    assert_eq!(subject.open_rows().await, 0);
}

async fn a_cancelled_session_ends_with_the_reason(subject: &Subject) {
    for reason in [StopReason::Operator, StopReason::ItemGone] {
        let (stop, before) = (StopHandle::new(), subject.agent.starts());
        let session = subject.start(Play::Hang, &stop);
        subject.started(before + 1).await;
        stop.stop(reason);
        let (_, end) = session.await.expect("no panic");
        let end = end.expect("it started");
        assert_eq!(end.outcome, Outcome::Cancelled { why: reason.kind() }, "{end:?}");
        assert_eq!((end.survivors, subject.open_rows().await), (0, 0));
    }
}

async fn a_session_ends_at_once_without_grace(subject: &Subject) {
    let (stop, before) = (StopHandle::new(), subject.agent.starts());
    let session = subject.start(Play::Hang, &stop);
    subject.started(before + 1).await;
    stop.stop_now(StopReason::Shutdown);
    let (id, end) = session.await.expect("no panic");
    let end = end.expect("it started");
    assert_eq!(end.outcome, Outcome::Cancelled { why: FailureKind::Shutdown }, "{end:?}");
    assert!(subject.stored(id).await.1);
    assert_eq!(subject.open_rows().await, 0);
}

async fn a_request_before_the_start_starts_nothing(subject: &Subject) {
    let (stop, before) = (StopHandle::new(), subject.agent.starts());
    stop.stop(StopReason::Shutdown);
    let (_, end) = subject.perform(Play::Answer(0), &stop).await;
    let end = end.expect("a request to stop is no failure of the ledger");
    assert_eq!(end.outcome, Outcome::Cancelled { why: FailureKind::Shutdown });
    assert_eq!(subject.agent.starts(), before);
    assert_eq!(subject.open_rows().await, 0);
}

async fn every_live_session_has_a_sign_of_life_at_every_interval(subject: &Subject) {
    let mut events = subject.journal.follow();
    let (id, end) = subject.perform(Play::Answer(3_000), &StopHandle::new()).await;
    assert_eq!(end.expect("it starts").outcome, Outcome::Completed);
    subject.journal.flush().await.expect("the state");
    let (mut began, mut ended, mut beats) = (None, None, Vec::new());
    while let Ok(recorded) = events.try_recv() {
        if recorded.event.session() != Some(id) {
            continue;
        }
        match recorded.event {
            Event::SessionRegistered { .. } => began = Some(recorded.at),
            Event::SessionEnded { .. } => ended = Some(recorded.at),
            Event::SessionLiveness { .. } => beats.push(recorded.at),
            _ => {}
        }
    }
    let (began, ended) = (began.expect("its start is told"), ended.expect("its end is told"));
    let lived = ended.duration_since(began).as_millis();
    let interval = i128::try_from(LIVENESS.as_millis()).expect("short");
    // By a timer, never by output: at least one per two intervals over the whole session, which
    // allows for a busy machine.
    let expected = usize::try_from(lived / interval / 2).expect("short");
    assert!(beats.len() >= expected, "{} signs of life in {lived} ms", beats.len());
}

/// The caller disappears in the middle, as in a crash: the row is found, resolved, and its end is
/// applied once.
async fn what_nobody_waited_for_is_resolved_and_applied_once(subject: &Subject) {
    apply_all(subject).await;
    let before = subject.agent.starts();
    let session = subject.start(Play::Answer(2_000), &StopHandle::new());
    subject.started(before + 1).await;
    session.abort();
    assert!(session.await.is_err());
    until("the row's end", || async {
        subject.sessions.resolve_orphans().await.expect("the state");
        (subject.open_rows().await == 0).then_some(())
    })
    .await;
    let ended = apply_all(subject).await;
    assert_eq!(ended.len(), 1, "one end");
    assert_eq!(subject.agent.starts_of(ended[0]), 1);
    assert_eq!(subject.agent.starts(), before + 1, "nothing was started again");
    assert!(apply_all(subject).await.is_empty(), "applied once");
}

/// Applies ended sessions; returns which ones.
async fn apply_all(subject: &Subject) -> Vec<SessionId> {
    let mut applied = Vec::new();
    for left in subject.journal.store().results().unapplied().await.expect("the state") {
        let stored = subject.journal.results().apply_triage(Some(left.session), Vec::new());
        stored.await.expect("the state");
        applied.push(left.session);
    }
    applied
}

/// For a subject whose triage may take a second.
pub async fn a_session_ends_at_its_limit(subject: &Subject) {
    let (id, end) = subject.perform(Play::Hang, &StopHandle::new()).await;
    assert_eq!(end.expect("it starts").outcome, Outcome::TimedOut);
    assert_eq!(subject.agent.starts_of(id), 1);
    assert_eq!(subject.open_rows().await, 0);
}

/// For a subject whose agent does not exist: nothing starts, and the work is not to blame.
pub async fn an_agent_that_is_not_there_starts_nothing(subject: &Subject) {
    let (id, end) = subject.perform(Play::Answer(0), &StopHandle::new()).await;
    match end {
        Ok(end) => assert!(matches!(end.outcome, Outcome::SpawnFailed { .. }), "{end:?}"),
        Err(error) => assert!(matches!(error, LedgerError::NotStarted(..)), "{error}"),
    }
    assert_eq!(subject.agent.starts_of(id), 0);
    assert_eq!(subject.open_rows().await, 0);
}
