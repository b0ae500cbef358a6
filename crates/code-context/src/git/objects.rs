//! Reads git objects by id, without a work tree.

use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::git::{Conversation, GitError};

/// Git's id of a content, in hexadecimal digits.
pub(crate) type BlobId = String;

const SILENCE: Duration = Duration::from_secs(120);
/// Blobs requested before the first is read: the names fit into a pipe.
const AHEAD: usize = 64;

/// The objects of a repository.
#[derive(Debug)]
pub struct Objects {
    contents: Conversation,
    facts: Conversation,
}

impl Objects {
    pub fn open(repository: &Path) -> Result<Self, GitError> {
        let contents = Conversation::start(repository, &["cat-file", "--batch"], SILENCE)?;
        let facts = Conversation::start(repository, &["cat-file", "--batch-check"], SILENCE)?;
        Ok(Self { contents, facts })
    }

    /// The id of a tree, if the name refers to an existing one.
    pub fn tree(&mut self, name: &str) -> Result<Option<String>, GitError> {
        self.facts.ask(&format!("{name}\n"))?;
        let header = header(self.facts.answers())?;
        Ok(header.filter(|header| header.kind == "tree").map(|header| header.id))
    }

    /// Size and first bytes of a file, by any name of it such as `HEAD:src/a.rs`; `None` if there is
    /// none.
    pub fn blob(&mut self, name: &str, most: u64) -> Result<Option<(u64, Vec<u8>)>, GitError> {
        if name.contains('\n') {
            return Ok(None);
        }
        self.contents.ask(&format!("{name}\n"))?;
        let answers = self.contents.answers();
        let mut line = String::new();
        if answers.read_line(&mut line)? == 0 {
            return Err(GitError::Failed);
        }
        // The name may have blanks, so the line of a missing one is known by its end.
        if line.ends_with(" missing\n") || line.ends_with(" ambiguous\n") {
            return Ok(None);
        }
        let mut words = line.split_whitespace().skip(1);
        let (Some(kind), Some(size)) = (words.next(), words.next()) else {
            return Err(GitError::Failed);
        };
        let size: u64 = size.parse().map_err(|_| GitError::Failed)?;
        let is_file = kind == "blob";
        let wanted = if is_file { size.min(most) } else { 0 };
        let mut bytes = Vec::new();
        answers.by_ref().take(wanted).read_to_end(&mut bytes)?;
        let rest = size - bytes.len() as u64 + 1;
        if std::io::copy(&mut answers.take(rest), &mut std::io::sink())? != rest {
            return Err(GitError::Failed);
        }
        Ok(is_file.then_some((size, bytes)))
    }

    /// Calls back with number, size and at most `most` bytes of each blob, in order; the size of a
    /// missing one is `None`.
    pub fn each(
        &mut self,
        ids: &[&str],
        most: impl Fn(usize) -> u64,
        mut each: impl FnMut(usize, Option<u64>, &[u8]),
    ) -> Result<(), GitError> {
        let mut asked = 0;
        let mut buffer = Vec::new();
        for at in 0..ids.len() {
            if asked < ids.len() && asked < at + AHEAD {
                let next = (asked + AHEAD).min(ids.len());
                let names: String = ids[asked..next].iter().flat_map(|id| [*id, "\n"]).collect();
                self.contents.ask(&names)?;
                asked = next;
            }
            buffer.clear();
            let answers = self.contents.answers();
            let size = header(answers)?.map(|header| header.size);
            if let Some(size) = size {
                let kept = answers.by_ref().take(size.min(most(at))).read_to_end(&mut buffer)?;
                let rest = size - kept as u64 + 1;
                let passed = std::io::copy(&mut answers.take(rest), &mut std::io::sink())?;
                if passed != rest {
                    return Err(GitError::Failed);
                }
            }
            each(at, size, &buffer);
        }
        Ok(())
    }
}

struct Header {
    id: String,
    kind: String,
    size: u64,
}

/// `ID KIND SIZE`, or `None` for `NAME missing`.
fn header(answers: &mut impl BufRead) -> Result<Option<Header>, GitError> {
    let mut line = String::new();
    if answers.read_line(&mut line)? == 0 {
        return Err(GitError::Failed);
    }
    let mut words = line.split_whitespace();
    let (Some(id), Some(kind), Some(size)) = (words.next(), words.next(), words.next()) else {
        return Ok(None);
    };
    let size = size.parse().map_err(|_| GitError::Failed)?;
    Ok(Some(Header { id: id.to_owned(), kind: kind.to_owned(), size }))
}

/// The objects, and which of them are the files of an index.
#[derive(Debug)]
pub(crate) struct Blobs {
    objects: Mutex<Objects>,
    /// By file number.
    pub ids: Vec<BlobId>,
}

impl Blobs {
    pub fn of(objects: Objects) -> Self {
        Self { objects: Mutex::new(objects), ids: Vec::new() }
    }

    pub fn objects(&mut self) -> &mut Objects {
        self.objects.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first bytes of a file, if it exists.
    pub fn text(&self, file: u32, most: u64) -> Option<String> {
        let id = self.ids.get(file as usize)?;
        let mut text = None;
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let read = objects.each(
            &[id],
            |_| most,
            |_, size, bytes| text = size.map(|_| String::from_utf8_lossy(bytes).into_owned()),
        );
        read.ok()?;
        text
    }
}
