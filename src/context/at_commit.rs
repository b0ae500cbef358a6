//! The files of the analysed commit, for the check of findings: contents from git's objects, names
//! and words from the index that was built for the context.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::code_bases::Opened;
use code_context::git::Objects;
use code_context::tree::BorrowedTree;
use code_context::{Index, Kind, Language};

use crate::evidence::{Code, File, MAX_FILE, Role};
use crate::private::beneath;

/// A code base at one commit; without one, the folder as it is.
#[derive(Debug)]
pub struct CommitCode<'a> {
    root: PathBuf,
    at: Option<CommitObjects>,
    index: Words<'a>,
}

#[derive(Debug)]
struct CommitObjects {
    root: PathBuf,
    commit: String,
    /// Where the code base is in its repository: `web/` or empty.
    prefix: String,
    /// Opened when it is first asked.
    objects: Mutex<Option<Objects>>,
}

#[derive(Debug)]
pub(super) enum Words<'a> {
    None,
    Shared(Arc<Opened>),
    Of(&'a Index),
}

impl<'a> CommitCode<'a> {
    /// Without an index, nothing can be said about names.
    pub fn new(root: &Path, commit: Option<&str>, index: Option<&'a Index>) -> Self {
        Self::with(root, commit, index.map_or(Words::None, Words::Of))
    }

    pub(super) fn with(root: &Path, commit: Option<&str>, index: Words<'a>) -> Self {
        let at = commit.map(|commit| CommitObjects {
            root: root.to_owned(),
            commit: commit.to_owned(),
            prefix: BorrowedTree::prefix_of(root).unwrap_or_default(),
            objects: Mutex::default(),
        });
        Self { root: root.to_owned(), at, index }
    }

    fn index(&self) -> Option<&Index> {
        match &self.index {
            Words::None => None,
            Words::Shared(opened) => Some(&opened.index),
            Words::Of(index) => Some(index),
        }
    }

    fn in_folder(&self, path: &str) -> File {
        match beneath::read(&self.root, Path::new(path), MAX_FILE) {
            Ok(bytes) => File::of(&bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => File::Missing,
            Err(_) if self.root.join(path).is_file() => File::TooLarge,
            Err(_) => File::Missing,
        }
    }
}

impl CommitObjects {
    fn file(&self, path: &str) -> Option<File> {
        let name = format!("{}:{}{path}", self.commit, self.prefix);
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        // Also after a failure: git may have been killed.
        for _ in 0..2 {
            if objects.is_none() {
                *objects = Objects::open(&self.root).ok();
            }
            match objects.as_mut()?.blob(&name, MAX_FILE) {
                Ok(None) => return Some(File::Missing),
                Ok(Some((size, _))) if size > MAX_FILE => return Some(File::TooLarge),
                Ok(Some((_, bytes))) => return Some(File::of(&bytes)),
                Err(_) => *objects = None,
            }
        }
        None
    }
}

impl Code for CommitCode<'_> {
    fn commit(&self) -> Option<&str> {
        self.at.as_ref().map(|at| at.commit.as_str())
    }

    fn file(&self, path: &str) -> File {
        match &self.at {
            // If git does not answer, the folder is all there is to ask.
            Some(at) => at.file(path).unwrap_or_else(|| self.in_folder(path)),
            None => self.in_folder(path),
        }
    }

    fn in_work_tree(&self, path: &str) -> File {
        self.in_folder(path)
    }

    fn knows(&self, name: &str) -> Option<bool> {
        self.index()?.knows(name)
    }

    fn files_with(&self, words: &[&str], most: usize) -> Vec<String> {
        self.index().map_or_else(Vec::new, |index| index.files_with(words, most))
    }

    fn role(&self, path: &str) -> Role {
        match Kind::of_path(path, Language::of_path(path).is_code()) {
            Kind::Source => Role::Product,
            Kind::Test => Role::Test,
            _ => Role::Other,
        }
    }

    fn has_file_named(&self, end: &str) -> bool {
        let ends = |path: &str| {
            path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        (crate::evidence::stays_inside(end) && self.file(end) != File::Missing)
            || self.index().is_none_or(|index| index.files().iter().any(|file| ends(&file.path)))
    }
}
