//! Stored scores and findings, one line each, so that an interrupted backtest can continue and no
//! analysis is paid for twice.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{BacktestError, Request, Task};
use crate::context::Subject;
use crate::fixes::Change;
use crate::private;
use crate::settings::Analyze;

#[derive(Serialize, Deserialize)]
struct MemoryLine<T> {
    key: String,
    #[serde(alias = "scored")]
    value: T,
}

/// Values by what they depend on, in one file.
pub struct Memory<T> {
    path: PathBuf,
    known: HashMap<String, T>,
}

/// Everything that the score depends on, including the version of the ranking.
pub fn key(request: &Request, subject: &Subject, base: &str, gold: &[Change]) -> String {
    let all = format!(
        "3 {} {} {:?} {base} {gold:?} {subject:?}",
        env!("CARGO_PKG_VERSION"),
        request.tokens,
        request.ranking
    );
    digest(&all)
}

/// Everything that an analysis depends on.
pub fn analysis_key(task: &Task, analyze: &Analyze, prompt: &str) -> String {
    let subject = task.item.subject.clone().unwrap_or_default();
    let all = format!("1 {prompt} {analyze:?} {} {:?} {subject:?}", task.base, task.gold);
    digest(&all)
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl<T: Serialize + DeserializeOwned> Memory<T> {
    pub fn open(path: PathBuf) -> Self {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        // An interruption may have truncated the last line.
        let lines =
            text.lines().filter_map(|line| serde_json::from_str::<MemoryLine<T>>(line).ok());
        Self { known: lines.map(|line| (line.key, line.value)).collect(), path }
    }

    /// Removed when returned, so that it is not kept twice.
    pub fn take(&mut self, key: &str) -> Option<T> {
        self.known.remove(key)
    }

    pub fn put(&self, key: &str, value: &T) -> Result<(), BacktestError> {
        let line = MemoryLine { key: key.to_owned(), value };
        let text = serde_json::to_string(&line).unwrap_or_default();
        let written = private::options().append(true).create(true).open(&self.path);
        // Begins with a newline, in case the last line was truncated.
        let written = written.and_then(|mut file| file.write_all(format!("\n{text}\n").as_bytes()));
        written.map_err(|source| BacktestError::Write { path: self.path.clone(), source })
    }
}
