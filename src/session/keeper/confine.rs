//! Confines the process that is about to become the agent. What is applied here holds for everything
//! it starts and cannot be taken back.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::process::system;
use crate::session::confinement::{Confinement, Strength};

/// Landlock with files, TCP ports and the scopes of signals and abstract sockets.
const VERSION: ABI = ABI::V6;

/// Applies it to the calling thread, which must be the only one.
pub fn confine(allowed: &Confinement) -> io::Result<()> {
    restrict(allowed)?;
    // With no-new-privileges set above, root does not get them back from the program it executes.
    system::drop_capabilities();
    match filter() {
        Ok(program) => seccompiler::apply_filter(&program).map_err(io::Error::other),
        // An architecture without a compiler for filters: told as partial.
        Err(_) if Strength::of_this_machine() != Strength::Full => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn restrict(allowed: &Confinement) -> io::Result<()> {
    let level = match Strength::of_this_machine() {
        Strength::Full => CompatLevel::HardRequirement,
        Strength::Partial(_) | Strength::Missing => CompatLevel::BestEffort,
    };
    let mut rules = Ruleset::default()
        .set_compatibility(level)
        .handle_access(AccessFs::from_all(VERSION))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(VERSION)))
        .and_then(|rules| rules.scope(Scope::from_all(VERSION)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let execute = read | AccessFs::Execute;
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    let unneeded =
        AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let write = AccessFs::from_all(VERSION) & !unneeded;
    for (paths, access) in [
        (&allowed.read, read),
        (&allowed.execute, execute),
        (&allowed.write, write),
        (&allowed.devices, device),
        (&allowed.list, AccessFs::ReadDir.into()),
    ] {
        for path in paths {
            rules = add(rules, path, access)?;
        }
    }
    for port in &allowed.ports {
        rules =
            rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp)).map_err(io::Error::other)?;
    }
    rules.restrict_self().map(drop).map_err(io::Error::other)
}

/// What is not there, or may not be reached by this user, is closed anyway.
fn add(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    let Ok(found) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) };
    if access.is_empty() {
        return Ok(rules);
    }
    rules.add_rule(PathBeneath::new(found, access)).map_err(io::Error::other)
}

/// Closes what Landlock leaves open: sockets that are not plain TCP or UDP, limits of other
/// processes and the session's mark, key rings, shared memory, tracing, and rings of system calls
/// that no filter sees.
fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    const MPTCP: u64 = 262;
    let mark = u64::from(libc::RLIMIT_RTTIME);
    let domains = [libc::AF_UNIX, libc::AF_VSOCK, libc::AF_PACKET, libc::AF_ALG];
    let mut sockets = domains
        .iter()
        .map(|domain| rule(&[equals(0, u64::from(domain.unsigned_abs()))?]))
        .collect::<Result<Vec<_>, _>>()?;
    sockets.push(rule(&[equals(2, MPTCP)?])?);
    let fast_open = u64::from(libc::MSG_FASTOPEN.unsigned_abs());
    let opens_fast = |index| -> Result<_, seccompiler::BackendError> {
        let flags = SeccompCmpOp::MaskedEq(fast_open);
        let dword = SeccompCmpArgLen::Dword;
        Ok(vec![rule(&[SeccompCondition::new(index, dword, flags, fast_open)?])?])
    };
    let limits = vec![rule(&[differs(0, 0)?])?, rule(&[equals(1, mark)?, differs_wide(2, 0)?])?];
    let mut rules: std::collections::BTreeMap<i64, Vec<SeccompRule>> = [
        (libc::SYS_socket, sockets),
        (libc::SYS_sendto, opens_fast(3)?),
        (libc::SYS_sendmsg, opens_fast(2)?),
        (libc::SYS_sendmmsg, opens_fast(3)?),
        (libc::SYS_prlimit64, limits),
        (libc::SYS_setrlimit, vec![rule(&[equals(0, mark)?])?]),
    ]
    .into_iter()
    .collect();
    for call in [
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_io_uring_setup,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_perf_event_open,
        libc::SYS_bpf,
        libc::SYS_userfaultfd,
        libc::SYS_shmget,
        libc::SYS_msgget,
        libc::SYS_semget,
    ] {
        rules.insert(call, Vec::new());
    }
    SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}

fn rule(conditions: &[SeccompCondition]) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(conditions.to_vec())
}

fn equals(index: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn differs(index: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

fn differs_wide(index: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, value)
}
