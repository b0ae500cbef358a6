//! The promises of `SECURITY.md`, each as attacks that are made twice: without confinement, where
//! they show that they mean something, and with the confinement of each kind of session, where they
//! must fail with the error that the wall gives. A test compares the table there with this one.

use std::io;
use std::net::TcpListener;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::app::selftest::{Rig, SessionShape};
use crate::session::StopHandle;
use crate::session::confinement::Strength;
use crate::session::in_force::{InForce, NOTHING};
use crate::simulate::hostile::calls::{CALLS, UDP_SOCKET};

/// What an agent cannot do, in the order and the words of `SECURITY.md`.
pub const PROMISES: [&str; 14] = [
    FILES, PORTS, SOCKETS, DATAGRAMS, PROCESSES, LIMITS, LENT, MODES, TIMES, KERNEL, NAMES,
    OUTLIVE, TASKS, MEMORY,
];

const FILES: &str = "read or write files outside the code base and its own folder";
const PORTS: &str = "connect to other TCP ports, listen on any";
const SOCKETS: &str = "sockets of any family but TCP, UDP and the list of network interfaces (so no Unix socket, also through a pair of datagram sockets, packet, vsock or other netlink), MPTCP, SCTP and other transports, fast-open TCP, binding a name";
const DATAGRAMS: &str = "UDP, raw IP, ports 443 and 53";
const PROCESSES: &str =
    "signal or stop keeper or heartbeat, ptrace, read their memory or environment";
const LIMITS: &str = "change limits, priority, scheduling or CPU affinity of other processes, remove the session's marker";
const LENT: &str = "leave a set-user-id program behind, create user namespaces, set attributes or flags of files, also through a file open for reading, lease files of others, type into a terminal, be read by the crash handler of the machine, use a capability";
const MODES: &str = "chmod or chown of any file, also of the state and of keys";
const TIMES: &str = "utime of files of the same user";
const KERNEL: &str = "key rings, System V IPC, message queues, io_uring, bpf, perf, userfaultfd";
const NAMES: &str = "learn names in folders it cannot read (stat, inotify)";
pub(super) const OUTLIVE: &str = "outlive its session";
pub(super) const TASKS: &str = "more processes than allowed";
pub(super) const MEMORY: &str = "more memory than allowed";

/// What holds an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wall {
    /// Rules for files, or mounts.
    Files,
    /// Rules for files alone: with mounts a folder is there, but empty.
    Listing,
    /// Mounts alone.
    Mounts,
    /// Landlock of this version.
    Landlock(u32),
    /// The filter of system calls.
    Filter,
    /// The filter, where the target of the attack is not already out of sight.
    FilterOrAbsent,
    /// The filter of a session behind the gateway.
    GatewayFilter,
    /// The filter of a session without a sandbox of its own.
    FilterWithoutSandbox,
    /// The filter, where this process could set the limit that it keeps.
    FilterOfCrashes,
}

impl Wall {
    /// Errors by which it refuses. Any other error means that the attack itself went wrong.
    const fn errors(self) -> &'static [i32] {
        match self {
            Self::Files => &[libc::EACCES, libc::ENOENT, libc::EROFS],
            Self::Listing => &[libc::EACCES],
            Self::Mounts => &[libc::ENOENT, libc::EROFS],
            Self::FilterOrAbsent => &[libc::EPERM, libc::ENOENT, libc::ESRCH],
            Self::Landlock(6..) => &[libc::EACCES, libc::EPERM, libc::ESRCH, libc::ENOENT],
            Self::Landlock(_) => &[libc::EACCES],
            Self::Filter
            | Self::GatewayFilter
            | Self::FilterWithoutSandbox
            | Self::FilterOfCrashes => &[libc::EPERM, libc::ENOSYS],
        }
    }

    /// Whether a session of this shape is promised it.
    fn is_claimed(self, shape: SessionShape, held: &InForce) -> bool {
        let has_mounts = held.files.contains("mounts");
        match self {
            Self::Files => shape != SessionShape::OwnSandbox || has_mounts,
            Self::Mounts => has_mounts,
            Self::Listing => shape != SessionShape::OwnSandbox,
            Self::Landlock(_) | Self::Filter | Self::FilterOrAbsent => true,
            Self::GatewayFilter => shape != SessionShape::OwnLogin,
            Self::FilterWithoutSandbox => shape != SessionShape::OwnSandbox,
            Self::FilterOfCrashes => crate::process::has_no_crash_handler(),
        }
    }

    /// Whether it stands without Landlock.
    fn stands_without_landlock(self, held: &InForce) -> bool {
        match self {
            Self::Files => held.files != NOTHING,
            Self::Landlock(_) | Self::Listing => false,
            _ => true,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct PromiseRow {
    /// As in `SECURITY.md`.
    pub promise: &'static str,
    /// The kind of session.
    pub session: &'static str,
    pub attack: String,
    /// What happened without confinement.
    pub unconfined: String,
    pub confined: String,
    /// The promise applies to this kind of session on this machine.
    pub claimed: bool,
    /// It was refused as its wall refuses.
    pub held: bool,
    /// It works without confinement, so that a refusal means something.
    pub shown: bool,
}

struct Tried {
    promise: &'static str,
    name: String,
    attack: String,
    wall: Wall,
}

/// Every attack on every kind of session; `without_landlock`: what only Landlock holds is not
/// claimed.
pub async fn run(
    rig: &Rig,
    shapes: &[(SessionShape, InForce)],
    without_landlock: bool,
) -> io::Result<Vec<PromiseRow>> {
    let secret = rig.folder.join("token");
    crate::private::write(&secret, b"not a real one")?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let tried = attacks(&rig.folder, &secret, listener.local_addr()?.port());
    let words: Vec<String> = tried.iter().map(|tried| tried.attack.clone()).collect();
    let report = async |shape: Option<SessionShape>| {
        let mut spec = rig.attack(&words);
        spec.limits.hard = std::time::Duration::from_secs(60);
        if let Some(shape) = shape {
            rig.confine_as(shape, &mut spec);
        }
        let observed = rig.observe(spec, &StopHandle::new()).await.map_err(io::Error::other)?;
        let why = observed.end.stderr_tail.raw().clone();
        Ok::<_, io::Error>((observed.end.output.unwrap_or_default(), why))
    };
    let (free, _) = report(None).await?;
    let mut rows = Vec::new();
    for (shape, held) in shapes {
        let (confined, why) = report(Some(*shape)).await?;
        rows.extend(tried.iter().map(|tried| {
            let Tried { promise, name, attack, wall } = tried;
            let before = result(&free, attack, "");
            let after = result(&confined, attack, &why);
            let is_refusal = |text: &str| errno(text).is_some_and(|n| wall.errors().contains(&n));
            let claimed = wall.is_claimed(*shape, held)
                && (!without_landlock || wall.stands_without_landlock(held));
            PromiseRow {
                promise,
                session: shape.name(),
                attack: name.clone(),
                claimed,
                held: is_refusal(&after),
                shown: !is_refusal(&before),
                unconfined: before,
                confined: after,
            }
        }));
    }
    Ok(rows)
}

fn result(report: &Value, attack: &str, why: &str) -> String {
    match report["results"][attack].as_str() {
        Some(text) => text.to_owned(),
        None => format!("no report: {}", why.lines().last().unwrap_or("the agent did not start")),
    }
}

/// The number in `refused: Operation not permitted (os error 1)`.
fn errno(text: &str) -> Option<i32> {
    let (_, rest) = text.strip_prefix("refused: ")?.rsplit_once("(os error ")?;
    rest.strip_suffix(')')?.parse().ok()
}

fn attacks(folder: &Path, secret: &Path, port: u16) -> Vec<Tried> {
    let own = std::process::id();
    let (shown, state) = (secret.display(), folder.display());
    let home = if nix::unistd::getuid().is_root() { "/root" } else { "/home" };
    let mut all = Vec::new();
    let mut add = |promise, wall, name: &str, attack: String| {
        all.push(Tried { promise, name: name.to_owned(), attack, wall });
    };
    add(FILES, Wall::Files, "read a token file", format!("read:{shown}"));
    add(FILES, Wall::Files, "write a token file", format!("write:{shown}"));
    add(FILES, Wall::Listing, "list the state folder", format!("list:{state}"));
    add(FILES, Wall::Listing, "list a home folder", format!("list:{home}"));
    add(FILES, Wall::Files, "open the maker of terminals", "write:/dev/ptmx".to_owned());
    for setting in ["sys/kernel/core_pattern", "sysrq-trigger"] {
        add(FILES, Wall::Files, "write a setting of the kernel", format!("write:/proc/{setting}"));
    }
    add(FILES, Wall::Mounts, "find what the kernel shows", "find:/sys/kernel".to_owned());
    add(LENT, Wall::FilterOfCrashes, "be read by the crash handler", "crash-handler:".to_owned());
    add(PORTS, Wall::Landlock(4), "connect to another port", format!("connect:{port}"));
    add(PORTS, Wall::Filter, "listen on a port", "listen:".to_owned());
    add(PROCESSES, Wall::Landlock(6), "signal the keeper", "signal:parent".to_owned());
    let on_us = [
        ("signal heartbeat", "signal"),
        ("read heartbeat's environment", "environment"),
        ("open heartbeat's memory", "memory"),
    ];
    for (name, kind) in on_us {
        add(PROCESSES, Wall::Landlock(6), name, format!("{kind}:{own}"));
    }
    add(LIMITS, Wall::Filter, "remove the session's mark", "remove-mark:".to_owned());
    let absent = Wall::FilterOrAbsent;
    add(LIMITS, absent, "change the scheduling of heartbeat", format!("reschedule:{own}"));
    let setuid = "create-setuid-program:".to_owned();
    add(LENT, Wall::Filter, "create a set-user-id program", setuid);
    add(LENT, Wall::Filter, "use a capability", "capabilities:".to_owned());
    add(MODES, absent, "change the permissions of a token file", format!("chmod:{shown}"));
    add(MODES, absent, "change the permissions of the state", format!("chmod:{state}"));
    add(TIMES, Wall::Mounts, "change the times of a token file", format!("utime:{shown}"));
    add(NAMES, Wall::Mounts, "find a token file by its name", format!("find:{shown}"));
    for call in CALLS {
        let (promise, wall) = promise_of(call.name);
        add(promise, wall, &format!("system call: {}", call.name), format!("call:{}", call.name));
    }
    all
}

/// The promise that a closed call belongs to.
fn promise_of(call: &str) -> (&'static str, Wall) {
    let of = |names: &[&str]| names.iter().any(|name| call.contains(name));
    match call {
        UDP_SOCKET => (DATAGRAMS, Wall::GatewayFilter),
        "socket of a local kind" => (SOCKETS, Wall::FilterWithoutSandbox),
        "unshare of users" => (LENT, Wall::FilterWithoutSandbox),
        _ if of(&["socket", "send", "bind"]) => (SOCKETS, Wall::Filter),
        "listen" => (PORTS, Wall::Filter),
        _ if of(&["chmod", "chown"]) => (MODES, Wall::Filter),
        _ if of(&[
            "attr", "flags", "lease", "notice", "terminal", "setns", "clone3", "openat2",
        ]) =>
        {
            (LENT, Wall::Filter)
        }
        _ if of(&["of others"]) => (LIMITS, Wall::Filter),
        _ if of(&["process_vm", "process_madvise", "migrate"]) => (PROCESSES, Wall::Filter),
        _ => (KERNEL, Wall::Filter),
    }
}

/// Whether Landlock is missing and the user knows it.
pub fn is_accepted(without_landlock: bool) -> bool {
    without_landlock && Strength::of_this_machine() != Strength::Full
}
