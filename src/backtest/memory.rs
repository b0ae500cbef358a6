//! Stored scores, one line each, so that an interrupted backtest can continue.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{BacktestError, Request, Scored};
use crate::context::Subject;
use crate::fixes::Change;
use crate::private;

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    scored: Scored,
}

pub struct Memory {
    path: PathBuf,
    known: HashMap<String, Scored>,
}

/// Everything that the score depends on, including the version of the ranking.
pub fn key(request: &Request, subject: &Subject, base: &str, gold: &[Change]) -> String {
    let all = format!(
        "3 {} {} {:?} {base} {gold:?} {subject:?}",
        env!("CARGO_PKG_VERSION"),
        request.tokens,
        request.ranking
    );
    Sha256::digest(all.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Memory {
    pub fn open(folder: &Path) -> Result<Self, BacktestError> {
        let path = folder.join("scores.jsonl");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        // An interruption may have truncated the last line.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        Ok(Self { known: lines.map(|line| (line.key, line.scored)).collect(), path })
    }

    /// Removed when returned, so that it is not kept twice.
    pub fn take(&mut self, key: &str) -> Option<Scored> {
        self.known.remove(key)
    }

    pub fn put(&self, key: &str, scored: &Scored) -> Result<(), BacktestError> {
        let line = Line { key: key.to_owned(), scored: scored.clone() };
        let text = serde_json::to_string(&line).unwrap_or_default();
        let written = private::options().append(true).create(true).open(&self.path);
        // Begins with a newline, in case the last line was truncated.
        let written = written.and_then(|mut file| file.write_all(format!("\n{text}\n").as_bytes()));
        written.map_err(|source| BacktestError::Write { path: self.path.clone(), source })
    }
}
