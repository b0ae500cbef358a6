//! Attacks of an agent on other processes and files: each is tried, and the result line reports all
//! of them. Targets are not changed: a signal is SIGCONT, a file is opened but not written.

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};
use serde_json::{Value, json};
use strum::{EnumString, IntoStaticStr};

use super::calls;
use super::shapes::{PipeCanary, TreeShape};

/// Written as `kind:target`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attack {
    kind: AttackKind,
    target: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
enum AttackKind {
    Read,
    Write,
    List,
    Find,
    Environment,
    Memory,
    Signal,
    Connect,
    Socket,
    RemoveMark,
    Datagram,
    Listen,
    Reschedule,
    CreateSetuidProgram,
    ForkBomb,
    IdleConnections,
    Chmod,
    Utime,
    Capabilities,
    FillMemoryFile,
    FillUnlinked,
    CrashHandler,
    PassDescriptors,
    Call,
}

impl FromStr for Attack {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, target) = text.split_once(':').unwrap_or((text, ""));
        let kind = name.parse().map_err(|_| format!("no attack is called {name:?}"))?;
        Ok(Self { kind, target: target.to_owned() })
    }
}

impl Attack {
    /// Tries it; returns what was reached, or why not.
    fn attempt(&self, canary: &PipeCanary) -> io::Result<String> {
        let target = &self.target;
        match self.kind {
            AttackKind::Read => read(Path::new(target)),
            AttackKind::Write => {
                File::options().append(true).open(target).map(|_| "opened".to_owned())
            }
            AttackKind::List => Ok(format!("{} entries", fs::read_dir(target)?.count())),
            AttackKind::Find => fs::symlink_metadata(target).map(|_| "it is there".to_owned()),
            AttackKind::Environment => read(Path::new(&format!("/proc/{target}/environ"))),
            AttackKind::Memory => {
                File::open(format!("/proc/{target}/mem")).map(|_| "opened".to_owned())
            }
            AttackKind::Signal => {
                let parent = || getppid().as_raw();
                let pid = target.parse().unwrap_or_else(|_| parent());
                kill(Pid::from_raw(pid), Signal::SIGCONT)?;
                Ok("delivered".to_owned())
            }
            AttackKind::Connect => {
                let port = target.parse().map_err(io::Error::other)?;
                let address = SocketAddr::from(([127, 0, 0, 1], port));
                let connected = TcpStream::connect_timeout(&address, Duration::from_secs(2));
                connected.map(|_| "connected".to_owned())
            }
            AttackKind::Socket => UnixStream::connect(target).map(|_| "connected".to_owned()),
            AttackKind::RemoveMark => remove_mark(),
            AttackKind::Datagram => send_datagram(Path::new(target)),
            AttackKind::Listen => listen_anywhere(),
            AttackKind::Reschedule => reschedule(target),
            AttackKind::CreateSetuidProgram => create_setuid_program(),
            AttackKind::Chmod => chmod(Path::new(target)),
            AttackKind::Utime => utime(Path::new(target)),
            AttackKind::Capabilities => capabilities(),
            AttackKind::FillMemoryFile => fill_memory_file(target.parse().unwrap_or(0)),
            AttackKind::FillUnlinked => fill_unlinked(target.parse().unwrap_or(0)),
            AttackKind::CrashHandler => crash_handler(),
            AttackKind::PassDescriptors => pass_descriptors(target.parse().unwrap_or(0)),
            AttackKind::Call => calls::attempt(target),
            AttackKind::IdleConnections => hold_connections(target),
            AttackKind::ForkBomb => Ok(fork_bomb(target.parse().unwrap_or(4_000), canary)),
        }
    }
}

/// Tries all of them; returns the agent's structured output.
pub fn report(attacks: &[Attack], canary: &PipeCanary) -> Value {
    let mut results = serde_json::Map::new();
    let mut reached = 0;
    for attack in attacks {
        let name: &str = attack.kind.into();
        let result = match attack.attempt(canary) {
            Ok(what) => {
                reached += 1;
                what
            }
            Err(error) => format!("refused: {error}"),
        };
        results.insert(format!("{name}:{}", attack.target), Value::String(result));
    }
    json!({ "reached": reached, "results": results })
}

/// Redirects one of a pair of sockets to any path.
fn send_datagram(path: &Path) -> io::Result<String> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, connect, socketpair};
    let (family, kind) = (AddressFamily::Unix, SockType::Datagram);
    let (one, _other) = socketpair(family, kind, None, SockFlag::empty())?;
    connect(one.as_raw_fd(), &nix::sys::socket::UnixAddr::new(path)?)?;
    Ok("connected".to_owned())
}

/// Sends so many descriptors that nobody receives: the kernel counts them for all processes of a
/// user.
#[cfg(target_os = "linux")]
fn pass_descriptors(count: usize) -> io::Result<String> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    const AT_ONCE: usize = 250;
    /// SOL_SOCKET and SCM_RIGHTS, in one word.
    const RIGHTS: usize = 1 | 1 << 32;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let (family, kind) = (AddressFamily::Unix, SockType::Stream);
    let mut pairs = Vec::new();
    while pairs.len() * AT_ONCE < count {
        let (from, to) = socketpair(family, kind, None, SockFlag::empty())?;
        let number = usize::try_from(from.as_raw_fd()).map_err(io::Error::other)?;
        // Two descriptors in a word, after the length and the kind.
        let mut control = vec![16 + 4 * AT_ONCE, RIGHTS];
        control.resize(2 + AT_ONCE / 2, number | number << 32);
        let byte = [b'x'];
        let part = [byte.as_ptr().expose_provenance(), 1];
        let (part, words) = (part.as_ptr(), control.as_ptr());
        let (part, words) = (part.expose_provenance(), words.expose_provenance());
        let message = [0, 0, part, 1, words, control[0], 0];
        let at = message.as_ptr().expose_provenance();
        crate::process::system::call(libc::SYS_sendmsg, [number, at, 0, 0, 0, 0])?;
        pairs.push((from, to));
    }
    Ok(format!("{} descriptors on their way", pairs.len() * AT_ONCE))
}

#[cfg(not(target_os = "linux"))]
fn pass_descriptors(_count: usize) -> io::Result<String> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// A crash handler runs outside, reads what the crashed process was, and is not started for a limit
/// of one byte.
fn crash_handler() -> io::Result<String> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    match getrlimit(Resource::RLIMIT_CORE)? {
        (1, _) => Err(io::Error::from_raw_os_error(libc::EPERM)),
        (limit, _) => Ok(format!("would be started at a limit of {limit}")),
    }
}

/// Writes so many megabytes into a file of its own folder that has no name any more, and waits.
fn fill_unlinked(megabytes: u32) -> io::Result<String> {
    let mut file = File::create("nameless")?;
    fs::remove_file("nameless")?;
    let part = vec![1; 1 << 20];
    for _ in 0..megabytes {
        file.write_all(&part)?;
    }
    std::thread::sleep(Duration::from_mins(1));
    Ok(format!("{megabytes} MB"))
}

/// Without an address, the system chooses one on every interface.
fn listen_anywhere() -> io::Result<String> {
    use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, listen, socket};
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None)?;
    listen(&socket, Backlog::new(1)?)?;
    Ok("listening".to_owned())
}

#[cfg(target_os = "linux")]
fn reschedule(process: &str) -> io::Result<String> {
    use nix::sched::{sched_getaffinity, sched_setaffinity};
    let process = Pid::from_raw(process.parse().map_err(io::Error::other)?);
    sched_setaffinity(process, &sched_getaffinity(process)?)?;
    Ok("set".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn reschedule(_process: &str) -> io::Result<String> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Creates a set-user-id program.
fn create_setuid_program() -> io::Result<String> {
    // In its own folder, which it may write.
    let program = Path::new("lent");
    File::create(program)?;
    fs::set_permissions(program, fs::Permissions::from_mode(0o4755))?;
    let mode = fs::metadata(program)?.permissions().mode();
    fs::remove_file(program)?;
    if mode & 0o4000 == 0 {
        Err(io::Error::other("the bit is not set"))
    } else {
        Ok("set".to_owned())
    }
}

/// Gives a file or a folder the permissions that it has.
fn chmod(path: &Path) -> io::Result<String> {
    fs::set_permissions(path, fs::metadata(path)?.permissions())?;
    Ok("set".to_owned())
}

/// Gives a file the times that it has.
fn utime(path: &Path) -> io::Result<String> {
    use nix::sys::stat::{UtimensatFlags, utimensat};
    use nix::sys::time::TimeSpec;
    let unchanged = &TimeSpec::UTIME_OMIT;
    let now = &TimeSpec::UTIME_NOW;
    utimensat(nix::fcntl::AT_FDCWD, path, now, unchanged, UtimensatFlags::NoFollowSymlink)?;
    Ok("set".to_owned())
}

/// A capability lets a process past the permissions of others. The root folder becomes itself.
fn capabilities() -> io::Result<String> {
    nix::unistd::chroot("/")?;
    Ok("changed the root folder".to_owned())
}

/// Fills a file in memory with so many megabytes, maps none of it, and waits.
#[cfg(target_os = "linux")]
fn fill_memory_file(megabytes: u32) -> io::Result<String> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    let mut file = File::from(memfd_create(c"filled", MFdFlags::empty())?);
    let part = vec![1; 1 << 20];
    for _ in 0..megabytes {
        file.write_all(&part)?;
    }
    std::thread::sleep(Duration::from_mins(1));
    Ok(format!("{megabytes} MB"))
}

#[cfg(not(target_os = "linux"))]
fn fill_memory_file(_megabytes: u32) -> io::Result<String> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    match bytes.len() {
        0 => Err(io::Error::other("0 bytes")),
        read => Ok(format!("{read} bytes")),
    }
}

#[cfg(target_os = "linux")]
fn remove_mark() -> io::Result<String> {
    use nix::sys::resource::{Resource, setrlimit};
    setrlimit(Resource::RLIMIT_RTTIME, 1_000_000, 1_000_000)?;
    Ok("shed".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn remove_mark() -> io::Result<String> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Opens `PORT/COUNT` connections, prints how many, and holds them for a minute.
fn hold_connections(target: &str) -> io::Result<String> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let (port, count) = target.split_once('/').unwrap_or((target, "1"));
    let address = SocketAddr::from(([127, 0, 0, 1], port.parse().map_err(io::Error::other)?));
    let count: usize = count.parse().map_err(io::Error::other)?;
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok();
    let held: Vec<TcpStream> = (0..count).map_while(connect).collect();
    writeln!(io::stdout(), "holding {}", held.len())?;
    std::thread::sleep(Duration::from_mins(1));
    Ok(format!("{} connections", held.len()))
}

/// Starts as many children as the machine allows, up to a limit.
fn fork_bomb(at_most: u32, canary: &PipeCanary) -> String {
    let born = (0..at_most).take_while(|_| TreeShape::Plain.grow(canary)).count();
    format!("{born} children")
}
