//! What was checked of a finding, and with which result. Set by heartbeat, never by the agent.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use strum::IntoStaticStr;

use super::finding::Confidence;

/// Words of the code that a finding rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Evidence {
    /// Relative to the root of the code base.
    pub path: String,
    /// First line, from 1.
    #[serde(default, deserialize_with = "line_number")]
    pub line: u32,
    #[serde(default, deserialize_with = "line_number")]
    pub last_line: u32,
    /// Verbatim.
    pub quote: String,
    /// What it shows.
    pub shows: String,
    /// Whether the code has it; `None` if nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
}

/// A model may write any integer; one that cannot be a line is none.
fn line_number<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let number = i64::deserialize(from)?;
    Ok(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}

/// Where a quote really is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Standing {
    /// At the named lines.
    Confirmed,
    /// In the named file, at other lines, which the entry now has.
    Moved {
        named: u32,
    },
    /// In another file, which the entry now has.
    InAnotherFile {
        named: String,
    },
    NotFound {
        why: Unfound,
    },
}

impl Standing {
    /// Whether the code has the quote, wherever.
    pub const fn is_found(&self) -> bool {
        !matches!(self, Self::NotFound { .. })
    }
}

/// Why a quote was not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str)]
pub enum Unfound {
    #[strum(serialize = "the analysed commit has no such file")]
    NoSuchFile,
    #[strum(serialize = "the path leads out of the code base")]
    Outside,
    #[strum(serialize = "the file is not text")]
    NotText,
    #[strum(serialize = "the file is too large to check")]
    TooLarge,
    #[strum(serialize = "the quote is not in the file")]
    NotInFile,
    #[strum(serialize = "the quote is at too many places to tell which is meant")]
    Everywhere,
    #[strum(serialize = "the quote is too short to show anything")]
    TooShort,
    #[strum(serialize = "it is only in changes that are not committed")]
    Uncommitted,
    #[strum(serialize = "it stands only in a comment")]
    Comment,
}

/// How far a finding is proven. Each rung includes the ones before it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    IntoStaticStr,
    strum::Display,
    strum::EnumIter,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Rung {
    /// None of its evidence was found in the code.
    Unproven,
    /// The code has words that it quotes.
    Cited,
    /// Its patch applies to the analysed commit.
    Applies,
    /// The code base builds with its patch.
    Builds,
    /// Its test fails without its patch and passes with it.
    Reproduced,
}

/// A claim that could not be confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// The field of the finding that made the claim.
    pub place: String,
    pub claim: String,
    pub why: String,
}

/// One attempt to reach a rung.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub rung: Rung,
    pub reached: bool,
    pub at: Timestamp,
    /// `None` without a git history.
    pub commit: Option<String>,
    /// Why not, or a remark.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The result of checking a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// The agent's own confidence; that of the finding is ours.
    pub said: Confidence,
    /// What could not be confirmed and was struck from its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// From the first rung on.
    pub steps: Vec<Step>,
    /// The code bases it was checked against if there are several; paths then begin with the name of
    /// one, as in `web:src/total.ts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub code_bases: Vec<AnalysedCode>,
}

/// One of several code bases that an analysis read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnalysedCode {
    pub name: String,
    /// `None` without a git history.
    pub commit: Option<String>,
    /// Where it was read; only in events.
    #[serde(default, skip_serializing_if = "path_is_empty")]
    pub root: PathBuf,
}

fn path_is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

impl AnalysedCode {
    /// The path in this code base; `None` for one of another.
    pub fn own<'p>(&self, full: &'p str) -> Option<&'p str> {
        full.strip_prefix(self.name.as_str())?.strip_prefix(':')
    }

    pub fn full(&self, path: &str) -> String {
        format!("{}:{path}", self.name)
    }
}

impl Proof {
    /// The highest rung that was reached without a gap.
    pub fn rung(&self) -> Rung {
        let reached = |rung: &Rung| self.step(*rung).is_some_and(|step| step.reached);
        let rungs = [Rung::Cited, Rung::Applies, Rung::Builds, Rung::Reproduced];
        rungs.into_iter().take_while(reached).last().unwrap_or(Rung::Unproven)
    }

    /// The newest attempt at a rung.
    pub fn step(&self, rung: Rung) -> Option<&Step> {
        self.steps.iter().rev().find(|step| step.rung == rung)
    }

    /// The code base of a path of a finding over several, and the path in it.
    pub fn code_base_of<'p>(&self, full: &'p str) -> Option<(&AnalysedCode, &'p str)> {
        self.code_bases.iter().find_map(|code| Some((code, code.own(full)?)))
    }

    /// The commit that was checked; `None` with several code bases.
    pub fn commit(&self) -> Option<&str> {
        self.steps.iter().find_map(|step| step.commit.as_deref())
    }
}
