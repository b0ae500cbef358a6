//! Reads git objects by id, without a work tree.

use std::io::{BufRead, Read};
use std::path::Path;
use std::time::Duration;

use crate::git::{GitConversation, GitError};

const SILENCE: Duration = Duration::from_secs(120);

/// The objects of a repository.
#[derive(Debug)]
pub struct Objects {
    contents: GitConversation,
}

impl Objects {
    pub fn open(repository: &Path) -> Result<Self, GitError> {
        let contents = GitConversation::start(repository, &["cat-file", "--batch"], SILENCE)?;
        Ok(Self { contents })
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
}
