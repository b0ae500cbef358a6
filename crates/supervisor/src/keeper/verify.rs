//! Checks that the walls around the agent hold, after they were built and before its program runs:
//! a kernel, or whatever stands in front of it, can answer "done" and do nothing.

use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

use nix::sys::signal::kill;
use nix::unistd::getppid;

use crate::confinement::{Confinement, Strength};
use crate::process::system;

/// Needed by a sandbox that the agent makes itself.
const SETFCAP: u64 = 1 << 31;

/// Opened before the walls are there.
pub struct Witness(Option<File>);

impl Witness {
    pub fn new() -> Self {
        Self(File::open("/proc/thread-self/status").ok())
    }

    /// An error names the wall that does not hold.
    pub fn check(mut self, allowed: &Confinement, strength: Strength) -> io::Result<()> {
        if strength.has_filter() {
            let tried = system::call(libc::SYS_keyctl, [usize::MAX; 6]);
            refused(&tried.map(drop), "the filter of system calls")?;
        }
        let version = match strength {
            Strength::Full => 6,
            Strength::Partial(version) => version,
            Strength::Missing => 0,
        };
        let opens_all = [&allowed.read, &allowed.execute, &allowed.write, &allowed.list];
        let opens_all = opens_all.into_iter().flatten().any(|path| path == Path::new("/"));
        if version >= 1 && !allowed.makes_own_sandbox && !opens_all {
            refused(&File::open("/").map(drop), "the rules for files")?;
        }
        if version >= 4 {
            refused(&connect_elsewhere(&allowed.ports), "the rules for ports")?;
        }
        if version >= 6 {
            refused(&kill(getppid(), None).map_err(Into::into), "the rules for signals")?;
        }
        self.has_no_capability(allowed.makes_own_sandbox)
    }

    fn has_no_capability(&mut self, makes_own_sandbox: bool) -> io::Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let held = ["CapPrm:", "CapEff:"].iter().filter_map(|name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            u64::from_str_radix(line.trim(), 16).ok()
        });
        let kept = if makes_own_sandbox { SETFCAP } else { 0 };
        match held.fold(0, |all, one| all | one) & !kept {
            0 => Ok(()),
            _ => Err(io::Error::other("the capabilities are not dropped")),
        }
    }
}

/// Whether the attempt failed for want of permission. Any other failure says nothing, but an
/// attempt that succeeds does.
fn refused(tried: &io::Result<()>, what: &str) -> io::Result<()> {
    match tried {
        Ok(()) => Err(io::Error::other(format!("{what} are not in force"))),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(io::Error::other(format!("{what} cannot be checked: {error}"))),
    }
}

/// The rules are asked before the address is: whether anybody listens there does not matter.
fn connect_elsewhere(allowed: &[u16]) -> io::Result<()> {
    let port = (1..u16::MAX).find(|port| !allowed.contains(port)).unwrap_or(1);
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map(drop)
}
