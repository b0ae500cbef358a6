//! Supervised sessions of the configured agent.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::Instrument as _;

use super::Setting;
use super::error::CommandError;
use super::gate::machine_slots;
use crate::model::{BoxFuture, SessionEnd, SessionId, Stage};
use crate::ports::LedgerError;
use crate::private;
use crate::process::program;
use crate::run::{Job, Sessions};
use crate::session::agent::claude::Claude;
use crate::session::agent::{Agent, Task};
use crate::session::confinement::{Allowed, Confinement};
use crate::session::{
    SessionLimits, SessionSpec, StopHandle, StopReason, StopSignal, Supervisor, SupervisorSettings,
    orphans,
};
use crate::settings::{Config, Environment};
use crate::store::{Journal, StoreError};

/// Files beyond `analyze.max_files_read` that end a session only when they are exceeded.
const READS_TOLERANCE: u32 = 2;
/// Longest line of output; a structured answer is far below it.
const MAX_LINE: usize = 16 << 20;

/// The sessions of this process that can be ended one by one. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LiveSessions(Arc<Mutex<HashMap<SessionId, StopHandle>>>);

impl LiveSessions {
    /// Asks one session of this process to end. False: it is not one of ours.
    pub fn stop(&self, session: SessionId) -> bool {
        self.handles().get(&session).map(|handle| handle.stop(StopReason::Operator)).is_some()
    }

    fn register(&self, session: SessionId) -> Registered {
        let handle = StopHandle::new();
        self.handles().insert(session, handle.clone());
        Registered { sessions: self.clone(), session, handle }
    }

    fn handles(&self) -> MutexGuard<'_, HashMap<SessionId, StopHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's entry, for as long as it lives.
struct Registered {
    sessions: LiveSessions,
    session: SessionId,
    handle: StopHandle,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.sessions.handles().remove(&self.session);
    }
}

/// Runs the configured agent under the supervisor.
pub struct SupervisedSessions {
    supervisor: Supervisor,
    agent: Claude,
    config: Arc<Config>,
    program: PathBuf,
    scratch: PathBuf,
    journal: Journal,
    live: LiveSessions,
}

impl SupervisedSessions {
    /// Nothing is started yet.
    pub fn new(setting: &Setting, journal: &Journal) -> Result<Self, CommandError> {
        let config = Arc::clone(&setting.config);
        let limit = config.limits.max_live_sessions;
        let settings = SupervisorSettings {
            slots: Some(machine_slots(&config)),
            ..SupervisorSettings::new(keeper_program()?, config.state.containment, limit)
        };
        let shared = Arc::new(journal.clone());
        let clock = setting.clock.clone();
        let agent = Claude::new(&config, |name| setting.environment.raw(name).map(OsStr::to_owned));
        Ok(Self {
            supervisor: Supervisor::new(settings, Arc::clone(&shared) as _, shared, clock),
            agent,
            program: resolve(&config.agent.command[0], &setting.environment),
            scratch: setting.state.join("scratch"),
            journal: journal.clone(),
            live: setting.live.clone(),
            config,
        })
    }

    fn spec(&self, job: Job) -> io::Result<SessionSpec> {
        let stage = job.session.stage;
        let scratch = self.scratch.join(job.session.id.to_string());
        let task = Task {
            session: job.session.id,
            stage,
            system_prompt: job.words.system,
            schema: job.words.schema,
            scratch: scratch.clone(),
        };
        let empty = scratch.join("empty");
        for folder in [&scratch, &empty, &scratch.join("home"), &scratch.join("tmp")] {
            private::create_folder(folder)?;
        }
        for (path, content) in self.agent.files(&task) {
            private::write(&path, &content)?;
        }
        let mut args: Vec<_> = self.config.agent.command[1..].iter().map(Into::into).collect();
        args.extend(self.agent.args(&task));
        let (env, cwd) = (self.agent.env(&task), job.repository.unwrap_or(empty));
        Ok(SessionSpec {
            program: self.program.clone(),
            args,
            confinement: Some(self.confinement(&task, &env, &cwd)),
            env,
            cwd,
            stdin: job.words.user.into_bytes(),
            limits: limits(&self.config, stage),
            worst_case: match stage {
                Stage::Triage => self.config.triage.max_cost,
                Stage::Deep => self.config.analyze.max_cost,
            },
            scratch,
            session: job.session,
        })
    }
}

impl SupervisedSessions {
    /// What the agent may touch in this session.
    fn confinement(&self, task: &Task, env: &[(OsString, OsString)], cwd: &Path) -> Confinement {
        let agent = &self.config.agent;
        let mut write = agent.write_paths.clone();
        write.extend(self.agent.own_folders(task));
        let mut read = agent.read_paths.clone();
        read.extend(named_files(&agent.command));
        let allowed = Allowed { read, write, ports: agent.connect_ports.clone() };
        let state = self.scratch.parent().unwrap_or(&self.scratch);
        Confinement::for_program(&self.program, env).with(&task.scratch, cwd, state, &allowed)
    }
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
            let spec = self.spec(job).map_err(|source| {
                let hint = "Each session needs a private folder there: check permissions and space";
                LedgerError::store(StoreError::Folder { path: self.scratch.clone(), source, hint })
            })?;
            let scratch = spec.scratch.clone();
            // Every line of the log that is written meanwhile carries the three ids.
            let span = tracing::error_span!(
                "session",
                run_id = %spec.session.run,
                session_id = %spec.session.id,
                work_item_id = spec.session.item.as_ref().map(tracing::field::display),
            );
            let own = self.live.register(spec.session.id);
            let stop = stop.and(&own.handle);
            let ended = self.supervisor.run(spec, &self.agent, stop).instrument(span).await;
            if ended.is_err() {
                // Nothing was started; the supervisor removes it in every other case.
                drop(std::fs::remove_dir_all(scratch));
            }
            ended
        })
    }

    fn resolve_orphans(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            let supervised = self.supervisor.live_sessions();
            let within = self.config.timeouts.grace + Duration::from_secs(10);
            orphans::resolve(&self.journal, &self.journal, &supervised, within).await?;
            self.remove_left_folders().await;
            Ok(())
        })
    }
}

impl SupervisedSessions {
    /// Private folders of sessions that are over: a crash may have left them.
    async fn remove_left_folders(&self) {
        let live = self.journal.store().sessions().active().await.unwrap_or_default();
        let Ok(entries) = std::fs::read_dir(&self.scratch) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let alive = live.iter().any(|session| *name == *session.session.id.to_string());
            if !alive && let Err(error) = std::fs::remove_dir_all(entry.path()) {
                tracing::warn!(folder = %entry.path().display(), %error, "could not remove \
                                                                          session directory");
            }
        }
    }
}

/// This very binary, started again.
fn keeper_program() -> Result<PathBuf, CommandError> {
    std::env::current_exe().map_err(CommandError::io("cannot locate the heartbeat executable"))
}

fn limits(config: &Config, stage: Stage) -> SessionLimits {
    let (hard, max_reads) = match stage {
        Stage::Triage => (config.triage.timeout, None),
        Stage::Deep => (
            config.analyze.timeout,
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
        nice: config.limits.nice,
    }
}

/// The agent's executable: a path as it is, a name by `PATH`. A name that is nowhere is passed on
/// as it is, and the session says that it was not found.
pub fn resolve(program: &str, environment: &Environment) -> PathBuf {
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
