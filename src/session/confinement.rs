//! What an agent may touch beside its own processes: files, ports, and which system calls are closed.
//!
//! [`Confinement`] is plain data: built here from a session's program, folders and environment, sent
//! to the keeper, and applied there last before the agent's program is executed
//! (`keeper::confine`). Landlock holds the files, the TCP ports and the signals; a seccomp filter
//! closes what Landlock leaves open. Neither needs a privilege, and both hold in every tier.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::process::{program, system};

/// System software: readable and executable.
const SYSTEM: [&str; 8] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/// What programs need of `/etc`: names, certificates, time zone, the linker's cache. Nothing here is
/// secret; the rest of `/etc` stays closed.
const SYSTEM_FILES: [&str; 16] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
];

const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Variables that name a file or folder with certificates.
const CERTIFICATES: [&str; 4] =
    ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"];

/// HTTPS, and names asked for over TCP.
const PORTS: [u16; 2] = [443, 53];

/// What an agent may touch. Everything that is not listed is closed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Confinement {
    /// Files and folders it may read.
    pub read: Vec<PathBuf>,
    /// Files and folders it may read and execute.
    pub execute: Vec<PathBuf>,
    /// Folders in which it may do everything but execute.
    pub write: Vec<PathBuf>,
    /// Device files it may read and write.
    pub devices: Vec<PathBuf>,
    /// Folders whose names it may list, without reading what is in them.
    pub list: Vec<PathBuf>,
    /// TCP ports it may connect to. It may listen on none.
    pub ports: Vec<u16>,
    /// It confines what it starts to files by itself, with namespaces and mounts that rules about
    /// files would forbid: those are left out for it, and the rest holds.
    #[serde(default)]
    pub makes_own_sandbox: bool,
}

/// What a user allows beyond what every agent needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowed {
    /// More to read and execute.
    pub read: Vec<PathBuf>,
    /// More to write.
    pub write: Vec<PathBuf>,
    /// More TCP ports.
    pub ports: Vec<u16>,
}

impl Confinement {
    /// What `program` needs to run with `env`: the system's software, its own file and interpreter,
    /// certificates, and the ports of the addresses in its environment.
    pub fn for_program(program: &Path, env: &[(OsString, OsString)]) -> Self {
        let mut needs = Self {
            read: SYSTEM_FILES.map(PathBuf::from).to_vec(),
            execute: SYSTEM.map(PathBuf::from).to_vec(),
            devices: DEVICES.map(PathBuf::from).to_vec(),
            ports: PORTS.to_vec(),
            ..Self::default()
        };
        // The name service file is often a link into a folder where it is replaced as a whole.
        if let Ok(names) = std::fs::canonicalize("/etc/resolv.conf")
            && let Some(folder) = names.parent().filter(|folder| *folder != Path::new("/etc"))
        {
            needs.read.push(folder.to_owned());
        }
        needs.execute.extend(program_files(program, env));
        for (name, value) in env {
            if CERTIFICATES.iter().any(|known| name == OsStr::new(known)) {
                needs.read.push(PathBuf::from(value));
            }
            needs.ports.extend(port_of(name, value));
        }
        needs
    }

    /// Adds the session's own folder, the code base without the state, and what a user allows.
    #[must_use]
    pub fn with(mut self, scratch: &Path, code_base: &Path, state: &Path, more: &Allowed) -> Self {
        self.write.push(scratch.to_owned());
        if !code_base.starts_with(scratch) {
            self.add_without(code_base, state);
        }
        self.execute.extend(more.read.iter().cloned());
        self.write.extend(more.write.iter().cloned());
        self.ports.extend(&more.ports);
        self.ports.sort_unstable();
        self.ports.dedup();
        self
    }

    /// Makes a folder readable but for one below it: rules only add, so its siblings are listed.
    fn add_without(&mut self, folder: &Path, hidden: &Path) {
        let (folder, hidden) = (real(folder), real(hidden));
        if folder.starts_with(&hidden) || !hidden.starts_with(&folder) {
            self.read.push(folder);
            return;
        }
        self.list.push(folder.clone());
        let Ok(entries) = std::fs::read_dir(&folder) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            if path == hidden {
                continue;
            }
            if hidden.starts_with(&path) {
                self.add_without(&path, &hidden);
            } else {
                self.read.push(path);
            }
        }
    }
}

fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The program's own file; for a script also its folder and its interpreter.
fn program_files(program: &Path, env: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let file = real(program);
    let mut found = vec![file.clone()];
    let Some(line) = first_line(&file) else { return found };
    found.extend(file.parent().map(Path::to_owned));
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let names = line.split_ascii_whitespace().filter(|word| !word.starts_with('-'));
    for name in names.take(2) {
        let resolved = program::find(name, path.as_deref().unwrap_or_default());
        found.extend(resolved.map(|interpreter| real(&interpreter)));
    }
    found
}

/// What stands behind `#!` in a script.
fn first_line(file: &Path) -> Option<String> {
    let mut start = [0; 256];
    let read = std::fs::File::open(file).ok()?.read(&mut start).ok()?;
    let line = start[..read].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}

/// The port of an address in a variable such as `ANTHROPIC_BASE_URL` or `HTTPS_PROXY`.
fn port_of(name: &OsStr, value: &OsStr) -> Option<u16> {
    let name = name.to_str()?.to_ascii_uppercase();
    let is_address = ["_URL", "_PROXY", "_ENDPOINT", "_HOST"].iter().any(|end| name.ends_with(end));
    port_of_address(std::str::from_utf8(value.as_bytes()).ok().filter(|_| is_address)?)
}

/// The port of an address such as `http://127.0.0.1:4010/v1`.
pub fn port_of_address(value: &str) -> Option<u16> {
    let (scheme, rest) = value.split_once("://").unwrap_or(("http", value));
    let host = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
    match host.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() && !port.ends_with(']') => port.parse().ok(),
        _ if scheme == "https" => Some(443),
        _ if scheme.starts_with("socks") => Some(1080),
        _ => Some(80),
    }
}

/// How much of a confinement this kernel can enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    /// Files, TCP ports, signals and the seccomp filter.
    Full,
    /// An older Landlock: files, and with version 4 or later TCP ports. Signals are not held.
    Partial(u32),
    /// No Landlock.
    Missing,
}

impl Strength {
    /// What this kernel offers.
    pub fn of_this_machine() -> Self {
        match system::landlock_version() {
            0 => Self::Missing,
            old @ 1..6 => Self::Partial(old),
            _ if !cfg!(any(
                target_arch = "x86_64",
                target_arch = "aarch64",
                target_arch = "riscv64"
            )) =>
            {
                Self::Partial(6)
            }
            _ => Self::Full,
        }
    }

    /// What a person should know about it.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Full => {
                "agents read only their code base and the system, write only their own folder, reach \
                 only the ports they need, and cannot signal or inspect other processes"
            }
            Self::Partial(_) => {
                "agents read and write only what they need, but this kernel's Landlock cannot keep \
                 them from signalling other processes of the same user"
            }
            Self::Missing => {
                "agents can read and write whatever this user can: the kernel has no Landlock"
            }
        }
    }
}

/// As it stands behind the tier in rows, events and messages.
impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("+landlock"),
            Self::Partial(version) => write!(f, "+landlock-v{version}"),
            Self::Missing => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_come_from_the_addresses_in_the_environment() {
        let cases = [
            ("ANTHROPIC_BASE_URL", "http://127.0.0.1:4010", Some(4010)),
            ("ANTHROPIC_BASE_URL", "https://gateway.example/v1", Some(443)),
            ("https_proxy", "http://user:pass@proxy:3128/", Some(3128)),
            ("HTTP_PROXY", "proxy", Some(80)),
            ("ALL_PROXY", "socks5://[::1]", Some(1080)),
            ("ALL_PROXY", "socks5://[::1]:9050", Some(9050)),
            ("PATH", "http://127.0.0.1:1", None),
        ];
        for (name, value, expected) in cases {
            assert_eq!(port_of(OsStr::new(name), OsStr::new(value)), expected, "{name}={value}");
        }
    }

    #[test]
    fn a_state_folder_inside_the_code_base_stays_closed() {
        let folder = tempfile::tempdir().unwrap();
        let root = real(folder.path());
        for name in ["src", "deep/state", "deep/other"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let state = root.join("deep/state");
        let scratch = state.join("scratch/1");
        let made = Confinement::default().with(&scratch, &root, &state, &Allowed::default());
        let mut read = made.read.clone();
        read.sort();
        assert_eq!(read, [root.join("deep/other"), root.join("src")]);
        assert_eq!(made.list, [root.clone(), root.join("deep")]);
        assert_eq!(made.write, [scratch]);
    }

    #[test]
    fn a_script_brings_its_interpreter_and_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let script = real(folder.path()).join("agent");
        std::fs::write(&script, "#!/usr/bin/env -S sh\nexit 0\n").unwrap();
        let env = [("PATH".into(), "/usr/bin:/bin".into())];
        let found = program_files(&script, &env);
        let shell = real(&program::find("sh", OsStr::new("/usr/bin:/bin")).unwrap());
        assert!(found.contains(&script) && found.contains(&shell), "{found:?}");
        assert!(found.contains(&script.parent().unwrap().to_owned()));
    }
}
