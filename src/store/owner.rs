//! Which configuration a state belongs to. Two that take turns on one state would park each other's
//! queue, because each removes the sources of the other.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::place::USED;
use super::{DATABASE, StoreError, prepare_folder, unwritable};
use crate::private;

/// A configuration: its file, and what its sources are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// `None` if everything came from flags and variables.
    pub config: Option<PathBuf>,
    pub sources: Vec<String>,
}

impl Owner {
    /// The recorded owner of the state in `folder`.
    pub fn of_folder(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(USED)).ok()?).ok()
    }

    /// Whether `folder` has a state, whoever owns it.
    pub fn is_used(folder: &Path) -> bool {
        [USED, DATABASE].iter().any(|name| folder.join(name).exists())
    }

    /// Whether `other` is this configuration, edited or moved: the same file, the same sources, or
    /// a file that is no longer there.
    pub fn accepts(&self, other: &Self) -> bool {
        let is_gone = self.config.as_ref().is_some_and(|file| !file.exists());
        let shares_one = self.sources.iter().any(|source| other.sources.contains(source));
        self.config == other.config || self.sources == other.sources || (is_gone && shares_one)
    }

    /// Records this configuration as the owner, unless another one is.
    pub fn claim(&self, folder: &Path) -> Result<(), StoreError> {
        match Self::of_folder(folder) {
            Some(owner) if owner == *self => Ok(()),
            Some(owner) if !owner.accepts(self) => Err(StoreError::OtherOwner {
                path: folder.into(),
                owner: owner.to_string(),
                this: self.to_string(),
            }),
            _ => self.adopt(folder),
        }
    }

    /// Records this configuration as the owner.
    pub fn adopt(&self, folder: &Path) -> Result<(), StoreError> {
        // A folder without a state must not look like one that lost its database.
        let has_state = Self::is_used(folder);
        prepare_folder(folder)?;
        if !has_state {
            drop(super::Store::open(folder)?);
        }
        let file = folder.join(USED);
        let text = serde_json::to_string_pretty(self)? + "\n";
        private::replace(&file, text.as_bytes()).map_err(|source| unwritable(&file, source))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.config {
            Some(file) => write!(to, "{}", file.display())?,
            None => write!(to, "one without a file")?,
        }
        write!(to, " with {}", self.sources.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(file: &Path, sources: &[&str]) -> Owner {
        let sources = sources.iter().map(|source| (*source).to_owned()).collect();
        Owner { config: Some(file.into()), sources }
    }

    #[test]
    fn a_state_stays_with_its_configuration_until_it_is_handed_over() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let [one, two, moved] = ["one.toml", "two.toml", "moved.toml"].map(|name| {
            let file = folder.path().join(name);
            fs::write(&file, "").unwrap();
            file
        });
        // As a state of before: a database, and nothing recorded.
        drop(crate::store::Store::open(&state).unwrap());
        owner(&one, &["a", "b"]).claim(&state).unwrap();
        owner(&one, &["a", "c"]).claim(&state).unwrap();
        let error = owner(&two, &["d"]).claim(&state).unwrap_err().to_string();
        for part in ["one.toml", "two.toml", "--state-dir", "state adopt"] {
            assert!(error.contains(part), "{part} in {error}");
        }
        assert_eq!(Owner::of_folder(&state), Some(owner(&one, &["a", "c"])));
        fs::remove_file(&one).unwrap();
        owner(&moved, &["a", "c", "e"]).claim(&state).unwrap();
        owner(&two, &["d"]).adopt(&state).unwrap();
        owner(&moved, &["a"]).claim(&state).unwrap_err();
    }
}
