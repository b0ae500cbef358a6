//! What every decoder keeps of a stream, and how it reads the lines.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::fields::Object;
use super::paths::{absolute, shown};
use super::sparse::{self, KeptKeys};
use super::{AgentEvent, Decoder, StreamNotes};
use crate::model::TranscriptKind;
use crate::session::conversation::MAX_OPEN_TOOLS;

/// Bounded, whatever the agent writes.
#[derive(Debug, Default)]
pub struct Seen {
    pub cwd: PathBuf,
    /// Name of the last error.
    pub error: Option<String>,
    pub notes: StreamNotes,
    /// Open tool calls; calls that read a file have its path.
    open_tools: BTreeMap<String, Option<PathBuf>>,
    /// Files read successfully, each once.
    files: BTreeSet<String>,
    /// Since the last call of `take_transcript`.
    transcript: Vec<(TranscriptKind, String)>,
}

impl Seen {
    pub fn of(cwd: &Path) -> Self {
        Self { cwd: cwd.to_owned(), ..Self::default() }
    }

    pub fn said(&mut self, text: &str) {
        self.transcript.push((TranscriptKind::Said, text.to_owned()));
    }

    /// `file`: what the call reads. `None`: the call is known.
    pub fn tool_started(
        &mut self,
        id: String,
        name: String,
        file: Option<&str>,
    ) -> Option<AgentEvent> {
        if self.open_tools.contains_key(&id) {
            return None;
        }
        let file = file.map(|file| absolute(&self.cwd, file));
        self.transcript.push(match &file {
            Some(file) => (TranscriptKind::Read, shown(&self.cwd, file)),
            None => (TranscriptKind::Tool, name.clone()),
        });
        if self.open_tools.len() < MAX_OPEN_TOOLS {
            self.open_tools.insert(id.clone(), file);
        } else {
            self.was_read(file.map(|file| shown(&self.cwd, &file)));
        }
        Some(AgentEvent::ToolStarted { id, name })
    }

    /// `what` names a failed call that read no file. A path that does not exist or cannot be read
    /// does not count as read.
    pub fn tool_finished(&mut self, id: String, succeeded: bool, what: &str) -> AgentEvent {
        let file = self.open_tools.remove(&id).flatten().map(|file| shown(&self.cwd, &file));
        if succeeded {
            self.was_read(file);
        } else {
            let what = file.unwrap_or_else(|| what.to_owned());
            self.transcript.push((TranscriptKind::Failed, what));
        }
        AgentEvent::ToolFinished { id }
    }

    pub fn has_open_tools(&self) -> bool {
        !self.open_tools.is_empty()
    }

    pub fn was_read(&mut self, files: impl IntoIterator<Item = String>) {
        let room = MAX_OPEN_TOOLS.saturating_sub(self.files.len());
        self.files.extend(files.into_iter().take(room));
    }
}

/// The lines of one kind of stream.
pub trait Lines: Send {
    const KEPT: KeptKeys;

    fn seen(&self) -> &Seen;

    fn seen_mut(&mut self) -> &mut Seen;

    fn object(&mut self, object: Object) -> Vec<AgentEvent>;

    /// Name of the last error.
    fn error_named(&self) -> Option<String> {
        self.seen().error.clone()
    }

    /// Distinct files read so far.
    fn reads_so_far(&self) -> u32 {
        u32::try_from(self.seen().files.len()).unwrap_or(u32::MAX)
    }
}

impl<L: Lines> Decoder for L {
    fn line(&mut self, line: &[u8]) -> Vec<AgentEvent> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Vec::new();
        }
        match sparse::object(&L::KEPT, line) {
            Some(object) => self.object(object),
            None => vec![AgentEvent::NotJson],
        }
    }

    fn last_error(&self) -> Option<String> {
        self.error_named()
    }

    fn reads(&self) -> u32 {
        self.reads_so_far()
    }

    fn files_read(&self) -> Vec<String> {
        self.seen().files.iter().cloned().collect()
    }

    fn take_transcript(&mut self) -> Vec<(TranscriptKind, String)> {
        std::mem::take(&mut self.seen_mut().transcript)
    }

    fn notes(&self) -> StreamNotes {
        self.seen().notes.clone()
    }
}
