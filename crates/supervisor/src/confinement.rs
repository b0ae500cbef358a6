//! What an agent may access: files, ports and system calls.
//!
//! [`Confinement`] is plain data: built here from a session's program, folders and environment,
//! sent to the keeper, and applied there as the last step before the agent's program is executed
//! (`keeper::confine`). Landlock restricts files, TCP ports and signals; a seccomp filter closes
//! what Landlock leaves open. Neither needs a privilege, and both work in every tier.

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

/// Files of `/etc` that programs need: names, certificates, time zone, the linker's cache. None is
/// secret; the rest of `/etc` is closed.
const SYSTEM_FILES: [&str; 21] = [
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
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    // Not the folder above: it holds the machine's private keys.
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];

const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Variables that name certificate files or folders.
const CERTIFICATES: [&str; 4] =
    ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"];

/// HTTPS, and DNS over TCP.
const PORTS: [u16; 2] = [443, 53];

/// What an agent may access; everything else is closed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Confinement {
    /// Files and folders it may read.
    pub read: Vec<PathBuf>,
    /// Files and folders it may read and execute.
    pub execute: Vec<PathBuf>,
    /// Folders with full access except executing.
    pub write: Vec<PathBuf>,
    /// Device files it may read and write.
    pub devices: Vec<PathBuf>,
    /// Folders whose entries it may list but not read.
    pub list: Vec<PathBuf>,
    /// TCP ports it may connect to. It may not listen.
    pub ports: Vec<u16>,
    /// The agent sandboxes its commands itself, with namespaces and mounts that file rules would
    /// forbid: file rules are left out, the rest applies.
    #[serde(default)]
    pub makes_own_sandbox: bool,
    /// It speaks only to the gateway: its socket calls are limited to TCP.
    #[serde(default)]
    pub only_gateway: bool,
    /// It may change the permissions of files: only a program that unpacks itself, without any text
    /// of others.
    #[serde(default)]
    pub changes_modes: bool,
}

/// What the user allows in addition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowed {
    /// Paths to read and execute.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub ports: Vec<u16>,
}

impl Confinement {
    /// What `program` needs to run with `env`: the system's software, its own file and interpreter,
    /// certificates, and the ports of addresses in its environment. A folder that is or contains
    /// one of `private` is not opened for a script that is in it.
    pub fn for_program(program: &Path, env: &[(OsString, OsString)], private: &[PathBuf]) -> Self {
        let mut needs = Self {
            read: SYSTEM_FILES.map(PathBuf::from).to_vec(),
            execute: SYSTEM.map(PathBuf::from).to_vec(),
            devices: DEVICES.map(PathBuf::from).to_vec(),
            ports: PORTS.to_vec(),
            ..Self::default()
        };
        needs.execute.extend(program_files(program, env, private));
        for (name, value) in env {
            if CERTIFICATES.iter().any(|known| name == OsStr::new(known)) {
                needs.read.push(PathBuf::from(value));
            }
            needs.ports.extend(port_of(name, value));
        }
        needs
    }

    /// Adds the session's folder, the code base without the state directory, and what the user
    /// allows.
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

    /// Closes everything but the gateway's port and those that the user opens.
    #[must_use]
    pub fn behind_gateway(mut self, port: u16, more: &Allowed) -> Self {
        self.ports = std::iter::once(port).chain(more.ports.iter().copied()).collect();
        self.ports.sort_unstable();
        self.ports.dedup();
        self.only_gateway = true;
        self
    }

    /// Makes a folder readable except one below it. Rules can only add, so its siblings are listed.
    pub fn add_without(&mut self, folder: &Path, hidden: &Path) {
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

/// Parents of folders that belong to different programs or users.
const SHARED: [&str; 4] = ["/home", "/Users", "/var", "/dev"];

/// The folder of a script, which holds its modules; `None` if the folder holds other things too.
/// `private` are folders of which nothing may be read: their parents are not program folders.
pub fn program_folder(script: &Path, private: &[PathBuf]) -> Option<PathBuf> {
    let folder = real(script.parent()?);
    let above = folder.parent()?;
    let is_shared = above.parent().is_none() || SHARED.iter().any(|shared| above == *shared);
    let contains = |path: &PathBuf| real(path).starts_with(&folder);
    let is_hidden = folder.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."));
    // `~/.claude` or `~/.config`: folders of settings and logins.
    let is_settings = is_hidden && private.iter().any(|path| real(path) == above);
    let is_dedicated = !is_shared && !is_settings && !private.iter().any(contains);
    is_dedicated.then_some(folder)
}

/// Scripts that start each other: more are a mistake.
const MAX_SHIMS: u32 = 3;

/// The program's file; for a script also its interpreter, its folder if that is a program folder,
/// and the program that it hands over to.
fn program_files(
    program: &Path,
    env: &[(OsString, OsString)],
    private: &[PathBuf],
) -> Vec<PathBuf> {
    let (mut found, mut next) = (Vec::new(), Some(program.to_owned()));
    for _ in 0..=MAX_SHIMS {
        let Some(file) = next.take() else { break };
        found.extend(files_of(&file, env, private));
        next = handed_over_to(&real(&file));
    }
    found
}

fn files_of(program: &Path, env: &[(OsString, OsString)], private: &[PathBuf]) -> Vec<PathBuf> {
    let file = real(program);
    let mut found = vec![file.clone()];
    let Some(line) = first_line(&file) else { return found };
    found.extend(program_folder(&file, private));
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let names = line.split_ascii_whitespace().filter(|word| !word.starts_with('-'));
    for name in names.take(2) {
        let resolved = program::find(name, path.as_deref().unwrap_or_default());
        // Also by the name under which it is found, which may be a link.
        found.extend(resolved.into_iter().flat_map(|path| [real(&path), path]));
    }
    found
}

/// The program of a shim: a shell script that ends with `exec /path/of/agent "$@"`. Only a path that
/// is written out counts; for another one the user names the folder in `agent.read_paths`.
fn handed_over_to(script: &Path) -> Option<PathBuf> {
    const MAX_LEN: u64 = 16 << 10;
    let shell = first_line(script)?;
    if !shell.split(['/', ' ']).any(|word| matches!(word, "sh" | "bash" | "dash" | "zsh" | "ksh")) {
        return None;
    }
    let mut text = String::new();
    std::fs::File::open(script).ok()?.take(MAX_LEN).read_to_string(&mut text).ok()?;
    let words = text.lines().filter_map(|line| line.trim_start().strip_prefix("exec "));
    let paths = words.filter_map(|rest| {
        let mut words = rest.split_ascii_whitespace().map(|word| word.trim_matches(['"', '\'']));
        words.find(|word| word.starts_with('/')).map(PathBuf::from)
    });
    paths.rev().find(|path| path.is_absolute() && path.is_file())
}

/// The `#!` line of a script, without the marker.
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

/// Processors for which a filter of system calls can be made.
const HAS_FILTER: bool =
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"));

/// How much of a confinement this kernel enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    /// Files, TCP ports, signals and the seccomp filter.
    Full,
    /// An older Landlock: files, and since version 4 TCP ports. Signals are not restricted.
    Partial(u32),
    Missing,
}

impl Strength {
    /// Strength on this kernel.
    pub fn of_this_machine() -> Self {
        match system::landlock_version() {
            0 => Self::Missing,
            old @ 1..6 => Self::Partial(old),
            _ if !HAS_FILTER => Self::Partial(6),
            _ => Self::Full,
        }
    }

    /// Whether calls are filtered: everywhere but on processors without a filter compiler.
    pub const fn has_filter(self) -> bool {
        cfg!(target_os = "linux") && HAS_FILTER
    }

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
                "the kernel has no Landlock: without a namespace, agents can read and write whatever \
                 this user can, and they can connect anywhere"
            }
        }
    }
}

/// The suffix of the tier in rows, events and messages.
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
        let found = program_files(&script, &env, &[]);
        let shell = real(&program::find("sh", OsStr::new("/usr/bin:/bin")).unwrap());
        assert!(found.contains(&script) && found.contains(&shell), "{found:?}");
        assert!(found.contains(&script.parent().unwrap().to_owned()));
    }

    #[test]
    fn a_shim_brings_the_program_that_it_hands_over_to() {
        let folder = tempfile::tempdir().unwrap();
        let root = real(folder.path());
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let binary = write("opt/agent/1.2/claude", "\u{7f}ELF");
        let inner = write(
            "opt/shims/inner",
            &format!("#!/bin/bash\nexec -a claude '{}'\n", binary.display()),
        );
        let text = format!("#!/bin/sh\n# exec /bin/no\n  exec \"{}\" \"$@\"\n", inner.display());
        let shim = write("bin/claude", &text);
        let found = program_files(&shim, &[], std::slice::from_ref(&root));
        for file in [&shim, &inner, &binary] {
            assert!(found.contains(file), "{found:?}");
        }
        let by_variable = write("bin/other", "#!/bin/sh\nexec \"$HOME/claude\" \"$@\"\n");
        assert_eq!(handed_over_to(&by_variable), None);
        assert_eq!(handed_over_to(&write("bin/a.py", "#!/usr/bin/python3\nexec /bin/sh\n")), None);
    }

    /// Rules cover whole subtrees: the folder of `~/claude.sh` would open `~/.ssh`.
    #[test]
    fn a_script_in_a_folder_with_other_things_opens_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let home = real(folder.path()).join("user");
        let (state, repository) = (home.join("data/state"), home.join("work/repository"));
        for path in [".ssh", ".claude/local", "bin", "data/state", "work/repository", "data/tools"]
        {
            std::fs::create_dir_all(home.join(path)).unwrap();
        }
        let private = [home.clone(), state, repository.parent().unwrap().to_owned()];
        let env = [("PATH".into(), "/usr/bin:/bin".into())];
        for (place, opens_folder) in [
            ("bin", true),
            ("data/tools", true),
            (".claude/local", true),
            ("work/repository", true),
            ("", false),
            ("..", false),
            ("data", false),
            ("data/state", false),
            ("work", false),
            (".ssh", false),
        ] {
            let script = real(&home.join(place)).join("agent.sh");
            std::fs::write(&script, "#!/bin/sh\nexit 0\n").unwrap();
            let found = program_files(&script, &env, &private);
            assert!(found.contains(&script), "{place}: {found:?}");
            let opened = found.iter().any(|path| *path == *script.parent().unwrap());
            assert_eq!(opened, opens_folder, "{place}: {found:?}");
            std::fs::remove_file(&script).unwrap();
        }
    }

    #[test]
    fn no_folder_that_users_and_programs_share_is_a_program_folder() {
        let shared = ["/", "/home", "/home/user", "/root", "/tmp", "/var", "/var/tmp", "/etc"];
        for folder in shared.into_iter().chain(["/usr", "/opt", "/srv", "/dev/shm"]) {
            let script = Path::new(folder).join("agent.sh");
            assert_eq!(program_folder(&script, &[]), None, "{folder}");
        }
        for folder in ["/opt/agent", "/home/user/bin", "/usr/local/bin", "/nonexistent/agent"] {
            let script = Path::new(folder).join("agent.sh");
            assert_eq!(program_folder(&script, &[]), Some(real(Path::new(folder))), "{folder}");
        }
    }
}
