//! How this program was started, so that suggested commands work as typed.

use std::path::{Path, PathBuf};

use crate::process::program;
use crate::settings::Environment;

pub struct Invocation<'a> {
    /// The first word of the command line.
    pub typed: &'a str,
    /// The executable.
    pub program: &'a Path,
    pub environment: &'a Environment,
}

impl Invocation<'_> {
    /// The command that starts it again: `heartbeat`, `cargo run --release --`, or its path.
    pub fn command(&self) -> String {
        // `cargo run` sets this variable.
        if self.environment.text("CARGO_PKG_NAME") == Some(env!("CARGO_PKG_NAME")) {
            let release = self.program.components().any(|part| part.as_os_str() == "release");
            return format!("cargo run {}--", if release { "--release " } else { "" });
        }
        if !self.typed.contains('/') {
            return self.typed.to_owned();
        }
        let path = self.environment.raw("PATH").unwrap_or_default();
        let name = super::PROGRAM;
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        match program::find(name, path).map(real) {
            Some(found) if found == real(self.program.to_owned()) => name.to_owned(),
            _ => quoted(self.typed),
        }
    }
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(typed: &str, program: &str, variables: &[(&str, &str)]) -> String {
        let environment = Environment::new(variables.iter().copied());
        Invocation { typed, program: Path::new(program), environment: &environment }.command()
    }

    #[test]
    fn a_suggested_command_starts_the_same_program() {
        let cargo = [("CARGO_PKG_NAME", env!("CARGO_PKG_NAME")), ("PATH", "/bin")];
        let release = "/src/heartbeat/target/release/heartbeat";
        assert_eq!(command("target/release/heartbeat", release, &cargo), "cargo run --release --");
        assert_eq!(command("target/debug/heartbeat", "/t/debug/heartbeat", &cargo), "cargo run --");
        assert_eq!(
            command("heartbeat", "/usr/bin/heartbeat", &[("PATH", "/usr/bin")]),
            "heartbeat"
        );
        assert_eq!(command("./heartbeat", "/x/heartbeat", &[("PATH", "/bin")]), "./heartbeat");
        assert_eq!(command("/my dir/heartbeat", "/my dir/heartbeat", &[]), "'/my dir/heartbeat'");
    }

    #[test]
    fn its_path_is_not_needed_where_it_is_on_the_search_path() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("heartbeat");
        std::fs::write(&program, "").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let (typed, path) = (program.to_str().unwrap(), folder.path().to_str().unwrap());
        assert_eq!(command(typed, typed, &[("PATH", path)]), "heartbeat");
    }
}
