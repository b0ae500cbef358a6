//! Finds an executable as a shell would, so that a missing one is reported early.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A path is used as it is, a name is looked up in `search_path`. `None` if nothing executable is
/// found.
pub fn find(program: &str, search_path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|file| is_executable(file));
    }
    std::env::split_paths(search_path)
        .map(|folder| folder.join(program))
        .find(|file| is_executable(file))
}

/// Whether the file of this process's program was replaced or removed since it started.
pub fn own_is_gone() -> bool {
    std::env::current_exe().is_ok_and(|program| !program.exists())
}

fn is_executable(file: &Path) -> bool {
    std::fs::metadata(file)
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_searched_for_and_paths_are_taken_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (file, plain) = (folder.path().join("agent"), folder.path().join("plain"));
        for path in [&file, &plain] {
            std::fs::write(path, "#!/bin/sh\n").unwrap();
        }
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let search = std::env::join_paths(["/nowhere".as_ref(), folder.path()]).unwrap();
        assert_eq!(find("agent", &search), Some(file.clone()));
        assert_eq!(find(file.to_str().unwrap(), OsStr::new("")), Some(file));
        assert_eq!(find("plain", &search), None, "it may not be executed");
        assert_eq!(find(plain.to_str().unwrap(), &search), None);
        assert_eq!(find("absent", &search), None);
        assert_eq!(find(folder.path().to_str().unwrap(), &search), None, "a folder");
    }
}
