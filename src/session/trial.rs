//! Commands of an agent's program outside of its sessions: the step that unpacks it, the check that
//! its sandbox works, and the questions of `doctor`. Each runs like a session and in a new folder.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::agent::capability::Question;
use super::agent::{Task, Unpacking};
use super::brief::{Brief, BriefError, Briefly};
use super::configured::Configured;
use super::sessions::{EMPTY_DIR, lay_out};
use super::supervisor::remove_folder;
use crate::model::{FailureKind, Outcome, SessionEnd, SessionId, Stage, Untrusted};
use crate::private::{self, beneath};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Unpacking writes some hundred megabytes.
const UNPACK_WITHIN: Duration = Duration::from_mins(2);

/// Variables that a command outside of a session needs. It gets no credential.
const PASSED: [&str; 4] = ["PATH", "HOME", "TMPDIR", "LANG"];

/// Where commands of an agent are run.
pub struct Bench<'a> {
    pub configured: &'a Configured,
    pub briefly: Briefly,
    /// For the folders of commands.
    pub folder: PathBuf,
}

impl Bench<'_> {
    /// Fills the folder that sessions of this agent execute and cannot write. A failure is reported
    /// by the session, which does not find its program.
    pub async fn unpack(&self) {
        let Some(Unpacking { folder, question }) = self.configured.agent.unpacking() else {
            return;
        };
        let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { return };
        let mut stamp_name = name.to_owned();
        stamp_name.push(".of");
        let wanted = stamp(&self.configured.program);
        let found = beneath::read_text(parent, Path::new(&stamp_name), 1 << 16).ok();
        if wanted.is_some() && found == wanted && folder.is_dir() {
            return;
        }
        remove_folder(&folder).await;
        if let Err(error) = private::create_folder(&folder) {
            tracing::warn!(%error, folder = %folder.display(), "cannot create the folder");
            return;
        }
        let filled = self.run(Stage::Triage, UNPACK_WITHIN, Some(&folder), |_| question).await;
        if let Err(error) = filled {
            tracing::warn!(%error, "the agent could not unpack itself");
        } else if let Some(stamp) = wanted {
            private::replace(&parent.join(stamp_name), stamp.as_bytes()).ok();
        }
    }

    /// How a session would end because the agent cannot work here; `None`: it can.
    pub async fn failed(&self, stage: Stage) -> Option<SessionEnd> {
        let agent = &self.configured.agent;
        let nobody = SessionId(uuid::Uuid::nil());
        let trial = agent.trial(&Task::silent(nobody, stage, PathBuf::new()))?;
        // The same question, for the folder of the command.
        let question = |task: &Task| agent.trial(task).map(|trial| trial.question);
        let asked = |task: &Task| question(task).unwrap_or_else(|| Question::new(&[]));
        let said = self.run(stage, TIMEOUT, None, asked).await;
        let why = match said {
            Ok(said) if said.lines().any(|line| line.trim() == trial.works) => return None,
            // The session reports a missing program.
            Err(BriefError::NotStarted(_)) => return None,
            Ok(_) => "unexpected output".to_owned(),
            Err(error) => error.to_string(),
        };
        let outcome = Outcome::SpawnFailed { why: FailureKind::SandboxFailed };
        let stderr_tail = Untrusted::new(format!("{} ({why})", trial.otherwise));
        Some(SessionEnd { stderr_tail, ..SessionEnd::empty(outcome) })
    }

    /// The program's answer to a question, which may depend on the folder of its task.
    pub async fn ask(
        &self,
        stage: Stage,
        question: impl FnOnce(&Task) -> Question,
    ) -> Result<String, BriefError> {
        self.run(stage, TIMEOUT, None, question).await
    }

    async fn run(
        &self,
        stage: Stage,
        timeout: Duration,
        filled: Option<&Path>,
        question: impl FnOnce(&Task) -> Question,
    ) -> Result<String, BriefError> {
        let session = SessionId(uuid::Uuid::now_v7());
        let folder = self.folder.join(session.to_string());
        let task = Task {
            program: self.configured.program.clone(),
            cwd: folder.join(EMPTY_DIR),
            ..Task::silent(session, stage, folder.join(session.to_string()))
        };
        let started = self.configured.agent.command(&task);
        let made = private::create_folder(&task.cwd).and_then(|()| lay_out(&task, &started));
        made.map_err(|error| BriefError::NotStarted(error.to_string()))?;
        let mut confinement = self.configured.confinement(&task, &started);
        if let Some(filled) = filled {
            confinement.write.push(filled.to_owned());
            confinement.changes_modes = true;
        }
        let Question { args, env } = question(&task);
        let words = self.configured.command.iter().skip(1).map(Into::into);
        let mut whole: Vec<_> = started
            .env
            .into_iter()
            .filter(|(name, _)| PASSED.iter().any(|passed| name == passed))
            .collect();
        whole.extend(env);
        let brief = Brief {
            program: task.program.clone(),
            args: words.chain(args).collect(),
            env: whole,
            cwd: task.cwd.clone(),
            folder: folder.clone(),
            confinement,
            timeout,
            room: None,
        };
        let answer = self.briefly.run(&brief).await;
        remove_folder(&folder).await;
        answer
    }
}

/// What changes when another version of a program is installed. Packages keep their authors' time
/// of change; the kernel's own time is that of the installation.
fn stamp(program: &Path) -> Option<String> {
    let real = std::fs::canonicalize(program).ok()?;
    let about = std::fs::metadata(&real).ok()?;
    let (changed, size, inode) = (about.ctime(), about.len(), about.ino());
    Some(format!("{}\n{size} {inode} {changed}.{}\n", real.display(), about.ctime_nsec()))
}
