//! Recordings of sessions, for bug reports and for trying a new version of an agent: what the agent
//! was given, what it asked its provider and what it was answered. They hold no credential, only
//! their owner can read them, and a changed one is refused.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agent::Task;
use super::redact::redact_value;
use crate::gateway::Exchange;
use crate::model::{Outcome, SessionEnd, SessionId, Stage};
use crate::private::{self, beneath};
use crate::settings::{AgentKind, HeldSecrets};

const FOLDER: &str = "recordings";
const KEY_FILE: &str = "key";
const KEY_LENGTH: usize = 32;
/// A file with escapes is longer than what it holds.
const MAX: u64 = 96 << 20;
/// All recordings together; the oldest are removed first.
const MAX_OF_ALL: u64 = 512 << 20;
const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    version: u32,
    pub session: SessionId,
    pub stage: Stage,
    pub agent: AgentKind,
    pub model: String,
    pub system_prompt: String,
    pub prompt: String,
    pub schema: Value,
    /// The code base that it read; `None`: an empty folder.
    pub repository: Option<PathBuf>,
    /// More code bases that it read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<PathBuf>,
    pub exchanges: Vec<Exchange>,
    pub outcome: Outcome,
    pub output: Option<Value>,
}

/// Why a recording cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error(
        "session {0} has no recording; [record] sessions = true keeps them, for sessions behind the \
         gateway"
    )]
    Missing(SessionId),
    #[error("the recording of session {0} was changed after it was written; it is not used")]
    Changed(SessionId),
    #[error("the recording of session {0} was written by another version of heartbeat")]
    Version(SessionId),
    #[error("cannot read the recording: {0}")]
    Io(#[from] io::Error),
}

impl Recording {
    pub(super) fn new(
        task: &Task,
        (agent, model): (AgentKind, &str),
        exchanges: Vec<Exchange>,
        end: &SessionEnd,
    ) -> Self {
        let is_own = task.cwd.ends_with(super::sessions::EMPTY_DIR);
        Self {
            version: VERSION,
            session: task.session,
            stage: task.stage,
            agent,
            model: model.to_owned(),
            system_prompt: task.system_prompt.clone(),
            prompt: task.prompt.clone(),
            schema: task.schema.clone(),
            repository: (!is_own).then(|| task.cwd.clone()),
            beside: task.beside.clone(),
            exchanges,
            outcome: end.outcome.clone(),
            output: end.output.clone(),
        }
    }

    /// Writes it, without these credentials, and removes what is too old or too much.
    pub(super) fn store(
        mut self,
        state: &Path,
        held: &HeldSecrets,
        keep: Duration,
    ) -> io::Result<()> {
        held.remove_from_all([&mut self.system_prompt, &mut self.prompt]);
        for exchange in &mut self.exchanges {
            redact_value(&mut exchange.request, held);
            held.remove_from(&mut exchange.body);
        }
        let folder = state.join(FOLDER);
        private::create_folder(&folder)?;
        let body = serde_json::to_vec(&self)?;
        let seal = hmac::sign(&key(&folder)?, &body);
        let mut text = hex(seal.as_ref()).into_bytes();
        text.push(b'\n');
        text.extend_from_slice(&body);
        private::replace(&folder.join(file_name(self.session)), &text)?;
        prune(&folder, keep)
    }

    /// Reads the recording of a session.
    pub fn read(state: &Path, session: SessionId) -> Result<Self, RecordingError> {
        let folder = state.join(FOLDER);
        let name = file_name(session);
        let bytes = match beneath::read(&folder, Path::new(&name), MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(RecordingError::Missing(session));
            }
            read => read?,
        };
        let changed = || RecordingError::Changed(session);
        let line = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(changed)?;
        let (seal, body) = (&bytes[..line], &bytes[line + 1..]);
        let seal = unhex(seal).ok_or_else(changed)?;
        hmac::verify(&key(&folder)?, body, &seal).map_err(|_| changed())?;
        let found: Self =
            serde_json::from_slice(body).map_err(|_| RecordingError::Version(session))?;
        // A recording of another session under this name is a changed one.
        if found.session != session {
            return Err(changed());
        }
        if found.version == VERSION { Ok(found) } else { Err(RecordingError::Version(session)) }
    }
}

/// Sessions with a recording.
pub fn recorded(state: &Path) -> BTreeSet<SessionId> {
    let entries = std::fs::read_dir(state.join(FOLDER)).into_iter().flatten().flatten();
    let session = |name: std::ffi::OsString| name.to_str()?.strip_suffix(".json")?.parse().ok();
    entries.filter_map(|entry| session(entry.file_name())).collect()
}

fn file_name(session: SessionId) -> String {
    format!("{session}.json")
}

/// The key of this state, made when it is first needed.
fn key(folder: &Path) -> io::Result<hmac::Key> {
    let bytes = match beneath::read(folder, Path::new(KEY_FILE), 1024) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut bytes = [0; KEY_LENGTH];
            let random = ring::rand::SystemRandom::new();
            ring::rand::SecureRandom::fill(&random, &mut bytes)
                .map_err(|_| io::Error::other("the system has no random numbers"))?;
            private::replace(&folder.join(KEY_FILE), &bytes)?;
            bytes.to_vec()
        }
        read => read?,
    };
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

/// Removes recordings that are older than `keep`, and the oldest beyond the bound of all.
fn prune(folder: &Path, keep: Duration) -> io::Result<()> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)?.flatten() {
        let about = entry.metadata()?;
        if entry.path().extension().is_some_and(|end| end == "json") {
            found.push((about.modified()?, about.len(), entry.path()));
        }
    }
    found.sort_by_key(|(written, ..)| std::cmp::Reverse(*written));
    let mut all = 0_u64;
    for (written, length, path) in found {
        all = all.saturating_add(length);
        let is_old = written.elapsed().is_ok_and(|age| age > keep);
        if is_old || all > MAX_OF_ALL {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let pairs = (0..text.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_recording_holds_no_credential_and_a_changed_one_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let session = SessionId(uuid::Uuid::now_v7());
        let mut task = Task::silent(session, Stage::Triage, "/nonexistent/empty".into());
        "the key correct-horse".clone_into(&mut task.prompt);
        let exchange = Exchange {
            request: json!({ "messages": ["correct-horse"] }),
            status: 200,
            content_type: "application/json".to_owned(),
            body: "{\"said\":\"correct-horse\"}".to_owned(),
            complete: true,
        };
        let end = SessionEnd::empty(Outcome::Completed);
        let made = Recording::new(&task, (AgentKind::Claude, "m"), vec![exchange], &end);
        let held = [SecretString::from("correct-horse")].into_iter().collect();
        let day = Duration::from_hours(24);
        assert!(matches!(Recording::read(state.path(), session), Err(RecordingError::Missing(_))));
        made.store(state.path(), &held, day).unwrap();
        assert_eq!(recorded(state.path()).into_iter().collect::<Vec<_>>(), [session]);
        let file = state.path().join(FOLDER).join(file_name(session));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("correct-horse"), "{text}");
        let read = Recording::read(state.path(), session).unwrap();
        assert_eq!((read.exchanges.len(), read.repository), (1, None));
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file).unwrap());
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&file, text.replace("200", "201")).unwrap();
        assert!(matches!(Recording::read(state.path(), session), Err(RecordingError::Changed(_))));
        let other = SessionId(uuid::Uuid::now_v7());
        std::fs::write(state.path().join(FOLDER).join(file_name(other)), &text).unwrap();
        assert!(matches!(Recording::read(state.path(), other), Err(RecordingError::Changed(_))));
        prune(&state.path().join(FOLDER), Duration::ZERO).unwrap();
        assert!(recorded(state.path()).is_empty());
    }
}
