//! Rejects files with credentials inside a code base, which agents read.

use std::path::{Component, Path, PathBuf};

use super::validate::ConfigChecker;
use crate::settings::Config;

const MOVE_IT: &str = "an agent can read every file of a code base; move the file out of it";

pub(super) fn check(checker: &mut ConfigChecker<'_>, config: &Config) {
    let fleet = &config.fleet;
    let mut files = vec![
        (fleet.key_file.as_path(), "fleet.key_file".to_owned()),
        (fleet.tls_key_file.as_path(), "fleet.tls_key_file".to_owned()),
    ];
    for (n, source) in config.sources().iter().enumerate() {
        files.push((
            source.token_file.as_path(),
            format!("{}.token_file", config.source_section(n)),
        ));
    }
    files.retain(|(file, _)| !file.as_os_str().is_empty());
    if files.is_empty() {
        return;
    }
    let code_bases: Vec<_> = config.code_bases().iter().map(|path| real(path)).collect();
    for (file, key) in files {
        // As written, and where links lead: both must be outside.
        let places = [plain(file), real(file)];
        let inside = code_bases.iter().find(|base| places.iter().any(|p| p.starts_with(base)));
        let base = inside.map(|base| base.display().to_string()).unwrap_or_default();
        checker.require(
            inside.is_none(),
            &key,
            &format!("it is inside the code base {base}, and {MOVE_IT}"),
        );
    }
}

/// Without links, as far as the path exists.
fn real(path: &Path) -> PathBuf {
    let path = plain(path);
    let existing = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    match existing {
        Some((part, found)) => match path.strip_prefix(part) {
            Ok(rest) if !rest.as_os_str().is_empty() => found.join(rest),
            _ => found,
        },
        None => path,
    }
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
