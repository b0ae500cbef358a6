//! Process information from `/proc`: identity, position in the tree, resource use.
//!
//! A pid alone never identifies a process. [`identity`] combines it with the start time, the boot
//! and, where the kernel supports it, the inode of the pidfd; [`is_same`] compares all of them. On
//! systems without `/proc` every reading is `None`, which callers treat as "unknown".

#[cfg(target_os = "macos")]
pub mod apple;
pub mod machine;
pub mod program;
pub mod system;

use std::fs;
#[cfg(not(target_os = "macos"))]
use std::path::Path;

pub use system::Pidfd;

use crate::Environment;
use crate::ProcessIdentity;

/// The fields we use of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub pid: u32,
    /// State letter: R, S, D, T, t, Z, …
    pub state: char,
    /// Parent pid.
    pub parent: u32,
    /// CPU time of the process, in clock ticks.
    pub own_ticks: u64,
    /// CPU time of children it has waited for, in clock ticks.
    pub waited_ticks: u64,
    /// Start in clock ticks since boot.
    pub start_time: u64,
    pub resident_pages: u64,
    pub threads: u64,
}

impl Stat {
    /// Whether it has exited and waits to be reaped.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

/// `None` if there is no such process.
#[cfg(target_os = "macos")]
pub use apple::{all, boot_id, stat};

#[cfg(target_os = "macos")]
pub fn children(pid: u32) -> Option<Vec<u32>> {
    Some(apple::children(pid))
}

/// Reads `/proc/PID/stat`; `None` if there is no such process.
#[cfg(not(target_os = "macos"))]
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses one stat line. The name in brackets may contain anything, so fields count from the last
/// bracket.
pub fn parse_stat(line: &[u8]) -> Option<Stat> {
    let text = String::from_utf8_lossy(line);
    let pid = text.split_once(' ')?.0.parse().ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    Some(Stat {
        pid,
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        own_ticks: number(11)? + number(12)?,
        waited_ticks: number(13)? + number(14)?,
        start_time: number(19)?,
        resident_pages: number(21)?,
        threads: number(17)?,
    })
}

/// Empty if the system has none.
#[cfg(not(target_os = "macos"))]
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

pub fn identity(pid: u32) -> Option<ProcessIdentity> {
    let pidfd_inode = Pidfd::open(pid).ok().and_then(|pidfd| pidfd.inode());
    let stat = stat(pid)?;
    Some(ProcessIdentity { pid, start_time: stat.start_time, pidfd_inode, boot_id: boot_id() })
}

/// Opens a handle on exactly that process; `None` if it is gone, even if its pid is reused.
///
/// The handle is opened before the identity is compared: if it matches, the handle refers to the
/// right process permanently.
pub fn open_verified(identity: &ProcessIdentity) -> Option<Pidfd> {
    if identity.boot_id != boot_id() {
        return None;
    }
    let pidfd = Pidfd::open(identity.pid).ok()?;
    let same_inode = match (identity.pidfd_inode, pidfd.inode()) {
        (Some(before), Some(now)) => before == now,
        _ => true,
    };
    let found = stat(identity.pid)?;
    let same = same_inode && found.start_time == identity.start_time && !found.is_dead();
    same.then_some(pidfd)
}

pub fn own_identity() -> ProcessIdentity {
    let pid = std::process::id();
    identity(pid).unwrap_or_else(|| ProcessIdentity {
        pid,
        start_time: 0,
        pidfd_inode: None,
        boot_id: boot_id(),
    })
}

/// Whether exactly that process is alive.
pub fn is_same(identity: &ProcessIdentity) -> bool {
    open_verified(identity).is_some()
}

/// Every pid in our namespace.
#[cfg(not(target_os = "macos"))]
pub fn all() -> Vec<u32> {
    numbers_in(Path::new("/proc"))
}

/// The last pid that the kernel assigned.
pub fn newest() -> Option<u32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// Direct children over all threads. `None` if the kernel does not list them.
#[cfg(not(target_os = "macos"))]
pub fn children(pid: u32) -> Option<Vec<u32>> {
    let tasks = format!("/proc/{pid}/task");
    let mut found = Vec::new();
    for thread in numbers_in(Path::new(&tasks)) {
        match fs::read_to_string(format!("{tasks}/{thread}/children")) {
            Ok(list) => found.extend(parse_list(&list)),
            // The thread has ended; the process itself decides whether the list exists.
            Err(_) if stat(pid).is_none() => return Some(found),
            Err(_) if !Path::new("/proc/thread-self/children").exists() => {
                return Some(children_by_parent(pid));
            }
            Err(_) => {}
        }
    }
    Some(found)
}

#[cfg(not(target_os = "macos"))]
fn children_by_parent(pid: u32) -> Vec<u32> {
    all().into_iter().filter(|child| stat(*child).is_some_and(|s| s.parent == pid)).collect()
}

#[cfg(not(target_os = "macos"))]
fn numbers_in(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Direct children of this process, which must be single-threaded.
pub fn own_children() -> Vec<u32> {
    match fs::read_to_string("/proc/thread-self/children") {
        Ok(list) => parse_list(&list),
        Err(_) => children(std::process::id()).unwrap_or_default(),
    }
}

fn parse_list(list: &str) -> Vec<u32> {
    list.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Uses the known thread count to save reading the task folder.
fn children_of(stat: &Stat) -> Vec<u32> {
    if stat.threads == 1
        && let Ok(list) = fs::read_to_string(format!("/proc/{0}/task/{0}/children", stat.pid))
    {
        return parse_list(&list);
    }
    children(stat.pid).unwrap_or_default()
}

/// All descendants, without the process itself, including dead ones.
pub fn descendants(root: u32) -> Vec<Stat> {
    let mut found = Vec::new();
    let mut pending = stat(root).map_or_else(Vec::new, |stat| children_of(&stat));
    while let Some(pid) = pending.pop() {
        let Some(stat) = stat(pid) else { continue };
        pending.extend(children_of(&stat));
        found.push(stat);
    }
    found
}

/// The environment at its start; `None` if it may not be read.
pub fn environment(pid: u32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok()
}

/// Both values of the limit that holds the session's marker, see [`crate::mark`].
pub fn realtime_limit(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = text.lines().find(|line| line.starts_with("Max realtime timeout"))?;
    let mut values = line.split_ascii_whitespace().skip(3);
    Some((values.next()?.parse().ok()?, values.next()?.parse().ok()?))
}

/// Bytes in files that processes hold open and that no folder shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nameless {
    /// `memfd`: no part of resident memory unless they are mapped.
    pub in_memory: u64,
    /// Removed, and still written.
    pub on_disk: u64,
}

/// A file that several of these processes hold counts once.
pub fn nameless_files(processes: impl Iterator<Item = u32>) -> Nameless {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::MetadataExt as _;
    const BLOCK: u64 = 512;
    let (mut seen, mut sum) = (std::collections::HashSet::new(), Nameless::default());
    let open = processes.filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok());
    for entry in open.flatten().flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let target = target.as_os_str().as_bytes();
        let kind = match target.starts_with(b"/memfd:") {
            true => &mut sum.in_memory,
            false if target.ends_with(b" (deleted)") => &mut sum.on_disk,
            false => continue,
        };
        let Ok(about) = fs::metadata(entry.path()) else { continue };
        if seen.insert((about.dev(), about.ino())) {
            *kind = kind.saturating_add(about.blocks().saturating_mul(BLOCK));
        }
    }
    sum
}

/// Whether the process has `no_new_privs` and a seccomp filter, like every confined agent.
pub fn is_confined(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let has = |name: &str, value: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.is_some_and(|found| found.trim() == value)
    };
    has("NoNewPrivs:", "1") && has("Seccomp:", "2")
}

/// Its position in the kernel, for the report on a process that cannot be killed.
pub fn waits_in(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default()
}

pub fn command_line(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes
        .split(|byte| *byte == 0)
        .filter(|part| !part.is_empty())
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
}

/// Keeps other processes of the user from reading this process's memory and environment, and
/// prevents core files with secrets: at a limit of one byte the kernel neither writes one nor starts
/// a handler. Only the limit is inherited by an executed program.
pub fn protect_from_inspection() {
    // These only fail where they are not supported, which cannot be helped.
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false).ok();
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 1, 1).ok();
}

/// Whether the kernel starts no handler for a crash of this process or of what it starts: a limit of
/// none, as some machines set for everybody, cannot be raised to the one that means this.
pub fn has_no_crash_handler() -> bool {
    use nix::sys::resource::{Resource, getrlimit};
    getrlimit(Resource::RLIMIT_CORE).is_ok_and(|(limit, _)| limit == 1)
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub fn own_environment() -> Environment {
    Environment::new(std::env::vars_os())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let line =
            b"42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 11 22 33 44 20 0 1 0 555 1000 77 0";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.pid, stat.state, stat.parent), (42, 'S', 7));
        assert_eq!((stat.own_ticks, stat.waited_ticks), (33, 77));
        assert_eq!((stat.start_time, stat.resident_pages), (555, 77));
    }

    #[test]
    fn garbage_is_no_process() {
        for line in [&b""[..], b"x", b"1 (a", b"1 (a) S", b"1 (a) S 1 2 3"] {
            assert_eq!(parse_stat(line), None);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_itself_and_not_another() {
        let me = identity(std::process::id()).unwrap();
        assert!(is_same(&me));
        assert!(!is_same(&ProcessIdentity { start_time: me.start_time + 1, ..me.clone() }));
        assert!(!is_same(&ProcessIdentity { boot_id: "other".to_owned(), ..me.clone() }));
        if let Some(inode) = me.pidfd_inode {
            assert!(!is_same(&ProcessIdentity { pidfd_inode: Some(inode + 1), ..me }));
        }
    }
}
