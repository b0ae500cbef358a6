//! Supervised sessions of the configured agent.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument as _;

use super::agent::{ATTACHED_DIR, Agent, HOME_DIR, TMP_DIR, Task, kept_folder, of_kind};
use super::confinement::{Allowed, Confinement};
use super::supervisor::remove_folder;
use super::{SessionLimits, SessionSpec, StopSignal, Supervisor, orphans, trial};
use crate::model::{BoxFuture, SessionEnd, SessionRef, Stage};
use crate::ports::LedgerError;
use crate::private;
use crate::process::program;
use crate::prompt::Rendered;
use crate::settings::{AgentKind, Analyze, Config, Environment, Triage};

/// One session's work, ready to start.
#[derive(Debug, Clone)]
pub struct Job {
    /// Which session.
    pub session: SessionRef,
    /// All that the agent is told.
    pub prompt: Rendered,
    /// The code base it may read; none: an empty folder.
    pub repository: Option<PathBuf>,
    /// Agent, model and limits of triage, as a probe changes them; none: those of the configuration.
    pub triage: Option<Triage>,
    /// The same of an analysis, as a rule may change them.
    pub analyze: Option<Analyze>,
    /// Files of the item for it to look at.
    pub attached: Option<Attached>,
}

/// Files of an item that a session may read beside the code base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// Stands in the prompt for the folder that they are put into.
    pub marker: String,
    pub files: Vec<AttachedFile>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedFile {
    /// Of our own making: no path.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Runs sessions under supervision.
pub trait Sessions: Send + Sync {
    /// Runs one from its row to the proof that none of its processes is left.
    fn perform(&self, job: Job, stop: StopSignal)
    -> BoxFuture<'_, Result<SessionEnd, LedgerError>>;

    /// Ends what an earlier process left open. Returns when it is done or its grace is over.
    fn resolve_orphans(&self) -> BoxFuture<'_, Result<(), LedgerError>>;
}

/// Files beyond `analyze.max_files_read` that end a session only when they are exceeded.
const READS_TOLERANCE: u32 = 2;
/// Tool calls that a turn may have on average before the session is ended.
const CALLS_PER_TURN: u32 = 4;
/// Longest line of output; a structured answer is far below it.
const MAX_LINE: usize = 16 << 20;

/// The agent of a stage.
struct Configured {
    agent: Box<dyn Agent>,
    program: PathBuf,
    /// Its command: the program and arguments that go before ours.
    command: Vec<String>,
    config: Arc<Config>,
}

impl Configured {
    fn new(kind: AgentKind, config: Arc<Config>, environment: &Environment, state: &Path) -> Self {
        let command = config.command_of(kind).to_vec();
        let lookup = |name: &str| environment.raw(name).map(OsStr::to_owned);
        Self {
            agent: of_kind(kind, &config, &kept_folder(state), lookup),
            program: resolve_program(&command[0], environment),
            command,
            config,
        }
    }
}

/// Runs the configured agents under the supervisor.
pub struct SupervisedSessions {
    supervisor: Supervisor,
    /// Triage's and deep analysis'.
    agents: [Arc<Configured>; 2],
    environment: Environment,
    config: Arc<Config>,
    scratch: PathBuf,
    /// Programs that have shown that they can work on this machine.
    proven: tokio::sync::Mutex<Vec<PathBuf>>,
}

impl SupervisedSessions {
    /// Nothing is started yet.
    pub fn new(
        supervisor: Supervisor,
        config: &Arc<Config>,
        environment: &Environment,
        state: &Path,
    ) -> Self {
        Self {
            supervisor,
            agents: [Stage::Triage, Stage::Deep].map(|stage| {
                let kind = config.agent_of(stage);
                Arc::new(Configured::new(kind, Arc::clone(config), environment, state))
            }),
            environment: environment.clone(),
            scratch: state.join("scratch"),
            config: Arc::clone(config),
            proven: tokio::sync::Mutex::default(),
        }
    }

    /// The agent of a session, with what a rule or a probe changed for it.
    fn agent_for(&self, job: &Job) -> Arc<Configured> {
        let stage = job.session.stage;
        let known = &self.config;
        let triage = job.triage.as_ref().unwrap_or(&known.triage);
        let analyze = job.analyze.as_ref().unwrap_or(&known.analyze);
        if (triage, analyze) == (&known.triage, &known.analyze) {
            return match stage {
                Stage::Triage => Arc::clone(&self.agents[0]),
                Stage::Deep => Arc::clone(&self.agents[1]),
            };
        }
        let (triage, analyze) = (triage.clone(), analyze.clone());
        let config = Config { triage, analyze, ..Config::clone(known) };
        let (kind, state) = (config.agent_of(stage), self.state_folder());
        Arc::new(Configured::new(kind, Arc::new(config), &self.environment, state))
    }

    fn state_folder(&self) -> &Path {
        self.scratch.parent().unwrap_or(&self.scratch)
    }

    fn spec(&self, configured: &Configured, job: Job) -> io::Result<SessionSpec> {
        let stage = job.session.stage;
        let Configured { agent, program, command, config } = configured;
        let scratch = self.scratch.join(job.session.id.to_string());
        let empty = scratch.join("empty");
        for folder in [&scratch, &empty, &scratch.join(HOME_DIR), &scratch.join(TMP_DIR)] {
            private::create_folder(folder)?;
        }
        for folder in agent.kept_folders() {
            private::create_folder(&folder)?;
        }
        let (mut prompt, mut more_reads) = (job.prompt.user, 0);
        if let Some(attached) = &job.attached {
            let folder = put_down(attached, &scratch)?;
            prompt = prompt.replace(&attached.marker, &folder.display().to_string());
            more_reads = u32::try_from(attached.files.len()).unwrap_or(u32::MAX);
        }
        let cwd = job.repository.unwrap_or(empty);
        let task = Task {
            session: job.session.id,
            stage,
            system_prompt: job.prompt.system,
            prompt,
            schema: job.prompt.schema,
            scratch: scratch.clone(),
            program: program.clone(),
            cwd: cwd.clone(),
        };
        for (path, content) in agent.files(&task) {
            private::create_folder(path.parent().unwrap_or(&path))?;
            private::write(&path, &content)?;
        }
        let mut args: Vec<_> = command[1..].iter().map(Into::into).collect();
        args.extend(agent.args(&task));
        let env = agent.env(&task);
        let mut limits = limits(config, stage);
        limits.max_reads = limits.max_reads.map(|reads| reads.saturating_add(more_reads));
        agent.limits(stage, &mut limits);
        Ok(SessionSpec {
            program: program.clone(),
            price: config.agent.price.get(config.model_of(stage)).copied(),
            args,
            confinement: Some(self.confinement(configured, &task, &env, &cwd)),
            env,
            cwd,
            stdin: agent.stdin(&task),
            limits,
            worst_case: match stage {
                Stage::Triage => config.triage.max_cost,
                Stage::Deep => config.analyze.max_cost,
            },
            scratch,
            session: job.session,
            task: Box::new(task),
        })
    }
}

impl SupervisedSessions {
    /// What the agent may touch in this session.
    fn confinement(
        &self,
        configured: &Configured,
        task: &Task,
        env: &[(OsString, OsString)],
        cwd: &Path,
    ) -> Confinement {
        let Configured { agent, program, command, config } = configured;
        let more = &config.agent;
        let mut write = more.write_paths.clone();
        write.extend(agent.own_folders(task));
        let mut read = more.read_paths.clone();
        read.extend(named_files(command));
        let allowed = Allowed { read, write, ports: more.connect_ports.clone() };
        let mut made = Confinement::for_program(program, env).with(
            &task.scratch,
            cwd,
            self.state_folder(),
            &allowed,
        );
        agent.confine(task, &mut made);
        made
    }
}

/// Writes them into a folder of the session, which nobody is to change.
fn put_down(attached: &Attached, scratch: &Path) -> io::Result<PathBuf> {
    let folder = scratch.join(ATTACHED_DIR);
    private::create_folder(&folder)?;
    let close = |path: &Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
    };
    for file in &attached.files {
        let path = folder.join(&file.name);
        private::write(&path, &file.bytes)?;
        close(&path, 0o400)?;
    }
    close(&folder, 0o500)?;
    Ok(folder)
}

/// Files that the agent's command names after its program, such as the script of an interpreter
/// (then with its folder, where its modules are).
fn named_files(command: &[String]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for file in command.iter().skip(1).map(PathBuf::from) {
        if !file.is_absolute() || !file.is_file() {
            continue;
        }
        let is_script =
            file.extension().is_some_and(|end| end == "js" || end == "mjs" || end == "py");
        files.extend(file.parent().filter(|_| is_script).map(Path::to_owned));
        files.push(file);
    }
    files
}

impl Sessions for SupervisedSessions {
    fn perform(
        &self,
        job: Job,
        stop: StopSignal,
    ) -> BoxFuture<'_, Result<SessionEnd, LedgerError>> {
        Box::pin(async move {
            let agent = self.agent_for(&job);
            if let Some(end) = self.cannot_work(&agent, job.session.stage).await {
                return Ok(end);
            }
            let spec = self.spec(&agent, job).map_err(|source| LedgerError::Folder {
                path: self.scratch.clone(),
                source: Arc::new(source),
            })?;
            let scratch = spec.scratch.clone();
            // Every line of the log that is written meanwhile carries the three ids.
            let span = tracing::error_span!(
                "session",
                run_id = %spec.session.run,
                session_id = %spec.session.id,
                work_item_id = spec.session.item.as_ref().map(tracing::field::display),
            );
            let ended = self.supervisor.run(spec, &*agent.agent, stop).instrument(span).await;
            if ended.is_err() {
                // Nothing was started; the supervisor removes it in every other case.
                drop(private::remove_folder(&scratch));
            }
            ended
        })
    }

    fn resolve_orphans(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            let within = self.config.timeouts.grace + Duration::from_secs(10);
            let (ledger, events) = (self.supervisor.ledger(), self.supervisor.events());
            orphans::resolve(ledger, events, &self.supervisor.live_sessions(), within).await?;
            self.remove_left_folders().await;
            Ok(())
        })
    }
}

impl SupervisedSessions {
    /// How every session of this agent would end on this machine, if that is known before it starts.
    /// What worked once is not tried again.
    async fn cannot_work(&self, configured: &Configured, stage: Stage) -> Option<SessionEnd> {
        let home = self.scratch.join("trial");
        let trial = configured.agent.trial(&configured.program, &home, stage)?;
        let mut proven = self.proven.lock().await;
        if proven.contains(&configured.program) {
            return None;
        }
        private::create_folder(&home).ok()?;
        let (words, path) = (&configured.command[1..], self.environment.raw("PATH"));
        let path = path.map(OsStr::to_owned);
        let end = trial::failed(trial, &configured.program, words, path, &home).await;
        remove_folder(&home).await;
        if end.is_none() {
            proven.push(configured.program.clone());
        }
        end
    }

    /// Private folders of sessions that are over: a crash may have left them.
    async fn remove_left_folders(&self) {
        let live = self.supervisor.ledger().open_rows().await.unwrap_or_default();
        let Ok(entries) = std::fs::read_dir(&self.scratch) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if !live.iter().any(|row| *name == *row.session.id.to_string()) {
                remove_folder(&entry.path()).await;
            }
        }
    }
}

fn limits(config: &Config, stage: Stage) -> SessionLimits {
    let (hard, turns, max_reads) = match stage {
        Stage::Triage => (config.triage.timeout, config.triage.max_turns, None),
        Stage::Deep => (
            config.analyze.timeout,
            config.analyze.max_turns,
            Some(config.analyze.max_files_read.saturating_add(READS_TOLERANCE)),
        ),
    };
    SessionLimits {
        init: config.timeouts.init,
        hard,
        stall: config.timeouts.stall,
        grace: config.timeouts.grace,
        drain: config.timeouts.drain,
        liveness: config.timeouts.liveness,
        max_processes: config.limits.max_processes,
        max_memory: config.limits.max_memory,
        max_line: MAX_LINE,
        max_reads,
        max_turns: Some(turns),
        max_tool_calls: Some(turns.saturating_mul(CALLS_PER_TURN)),
        nice: config.limits.nice,
    }
}

/// The agent's executable: a path as it is, a name by `PATH`. A name that is nowhere is passed on
/// as it is, and the session says that it was not found.
pub fn resolve_program(program: &str, environment: &Environment) -> PathBuf {
    let path = environment.raw("PATH").unwrap_or_default();
    program::find(program, path).unwrap_or_else(|| program.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_analysis_is_ended_two_files_beyond_what_the_prompt_allows() {
        let mut config: Config = toml::from_str(crate::config::DEFAULT_TOML).unwrap();
        config.analyze.max_files_read = 5;
        assert_eq!(limits(&config, Stage::Deep).max_reads, Some(7));
        assert_eq!(limits(&config, Stage::Triage).max_reads, None);
    }
}
