//! The system calls of an agent: those of [`super::calls`] with these conditions on their arguments,
//! because Landlock does not cover them; no other.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, sock_filter,
};

use super::calls::{ALLOWED, OF_A_SANDBOX};
use crate::confinement::Confinement;

type CallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// No conditions on the arguments.
const ALWAYS: Vec<SeccompRule> = Vec::new();

/// The filters, in the order of application. An agent with its own sandbox needs user namespaces
/// and local sockets for it.
pub fn programs(allowed: &Confinement) -> Result<Vec<BpfProgram>, BackendError> {
    let mut refused: CallRules = BTreeMap::new();
    refused.extend(sockets(allowed.makes_own_sandbox, allowed.only_gateway)?);
    refused.extend(limits_of_others()?);
    refused.extend(files_that_lend_their_owner()?);
    refused.extend(attributes_and_leases()?);
    if !allowed.makes_own_sandbox {
        refused.extend(namespaces()?);
    }
    refused.extend(CLOSED.iter().map(|call| (*call, ALWAYS)));
    let mut listed: CallRules = ALLOWED.iter().map(|call| (*call, ALWAYS)).collect();
    match allowed.makes_own_sandbox {
        true => listed.extend(OF_A_SANDBOX.iter().map(|call| (*call, ALWAYS))),
        false => refused.extend(OF_A_SANDBOX.iter().map(|call| (*call, ALWAYS))),
    }
    if !allowed.changes_modes {
        refused.extend(CHANGES_OF_MODES.iter().map(|call| (*call, ALWAYS)));
    }
    // Of several errors the kernel returns that of the last filter: what is closed for a reason is
    // not permitted, whatever else is not listed does not exist, so that programs fall back.
    let error = |errno: i32| SeccompAction::Errno(errno.unsigned_abs());
    // It takes the disk at once, however much; programs that get this error write instead.
    let at_once = CallRules::from([(libc::SYS_fallocate, ALWAYS)]);
    Ok(vec![
        other_numbers(),
        program(listed, error(libc::ENOSYS), SeccompAction::Allow)?,
        program(refused, SeccompAction::Allow, error(libc::EPERM))?,
        program(at_once, SeccompAction::Allow, error(libc::EOPNOTSUPP))?,
        program(crashes()?, SeccompAction::Allow, error(0))?,
    ])
}

/// Refuses calls by the second numbering of this processor (x32), which no rule names. Calls of
/// another architecture end the process: the compiler of the other filters adds that.
fn other_numbers() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const FIRST_OTHER: u32 = 0x4000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const REFUSE: u32 = 0x0005_0000;
    let step = |code, jt, k| sock_filter { code, jt, jf: 0, k };
    vec![
        step(LOAD_NUMBER, 0, 0),
        step(JUMP_IF_AT_LEAST, 1, FIRST_OTHER),
        step(RETURN, 0, ALLOW),
        step(RETURN, 0, REFUSE | libc::EPERM.unsigned_abs()),
    ]
}

/// Not in the list either; here for their error, and so that a longer list opens none of them: key
/// rings, shared memory, tracing, file attributes, memory of other processes, io_uring, which
/// bypasses filters, and the newer interface to mounts.
const CLOSED: &[i64] = &[
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_kcmp,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_migrate_pages,
    libc::SYS_perf_event_open,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_fanotify_init,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    // Message queues have names that all users share, and outlive their maker.
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Landlock refuses to bind a port, but listening without binding takes any port.
    libc::SYS_listen,
    libc::SYS_setns,
];

/// Permissions and owners of files, also of those that Landlock closes: an agent could open the
/// state or a key to another user of the machine.
const CHANGES_OF_MODES: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
];

/// Newer calls, with the same numbers on all architectures; the C library does not name them yet.
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;

fn program(
    rules: CallRules,
    others: SeccompAction,
    matching: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, others, matching, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// Only TCP and UDP, or only TCP, each by its usual transport: UDP carries names and whatever is
/// written into them, and rules for ports know no other. A pair of datagram sockets could later be
/// connected to any path, and one of any kind can be bound to a name that all sessions and users
/// share. Of the kernel's own channel (netlink) only the one that lists network interfaces is open:
/// others reach processes and list every socket.
fn sockets(with_local_ones: bool, only_tcp: bool) -> Result<CallRules, BackendError> {
    const TYPE: u64 = 0xf;
    let mut domains = vec![libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    if with_local_ones {
        domains.push(libc::AF_UNIX);
    }
    let is_not = |domain: &i32| differs(0, u64::from(domain.unsigned_abs()));
    let other = domains.iter().map(is_not).collect::<Result<Vec<_>, _>>()?;
    let interfaces = u64::from(libc::NETLINK_ROUTE.unsigned_abs());
    let mut sockets = vec![
        rule(&other)?,
        rule(&[equals(0, u64::from(libc::AF_NETLINK.unsigned_abs()))?, differs(2, interfaces)?])?,
    ];
    let usual = [(libc::SOCK_STREAM, libc::IPPROTO_TCP), (libc::SOCK_DGRAM, libc::IPPROTO_UDP)];
    let usual = &usual[..if only_tcp { 1 } else { 2 }];
    for domain in [libc::AF_INET, libc::AF_INET6] {
        let domain = equals(0, u64::from(domain.unsigned_abs()))?;
        for kind in 0..=TYPE {
            let this = [domain.clone(), masked(1, TYPE, kind)?];
            match usual.iter().find(|(known, _)| u64::from(known.unsigned_abs()) == kind) {
                None => sockets.push(rule(&this)?),
                Some((_, transport)) => {
                    let transport = u64::from(transport.unsigned_abs());
                    let [domain, kind] = this;
                    sockets.push(rule(&[domain, kind, differs(2, 0)?, differs(2, transport)?])?);
                }
            }
        }
    }
    let of_type = |kind: i32| rule(&[masked(1, TYPE, u64::from(kind.unsigned_abs()))?]);
    let fast_open = u64::from(libc::MSG_FASTOPEN.unsigned_abs());
    let opens_fast = |index| Ok::<_, BackendError>(vec![rule(&[has(index, fast_open)?])?]);
    // An address of netlink; the length of one is all that a filter sees.
    let bind = vec![rule(&[differs(2, size_of::<libc::sockaddr_nl>() as u64)?])?];
    Ok(CallRules::from([
        (libc::SYS_bind, bind),
        (libc::SYS_socket, sockets),
        (libc::SYS_socketpair, vec![of_type(libc::SOCK_DGRAM)?, of_type(libc::SOCK_RAW)?]),
        (libc::SYS_sendto, opens_fast(3)?),
        (libc::SYS_sendmsg, opens_fast(2)?),
        (libc::SYS_sendmmsg, opens_fast(3)?),
    ]))
}

/// At a limit of one byte the kernel starts no handler for a crash, which would read an agent's
/// process outside of its walls. At any other it does, also at none; so the limit stays. A program
/// that wants no core file is told that it has what it wants.
fn crashes() -> Result<CallRules, BackendError> {
    // Its type differs between C libraries.
    let core = i64::from(libc::RLIMIT_CORE).unsigned_abs();
    let new = rule(&[equals(0, 0)?, equals(1, core)?, differs_wide(2, 0)?])?;
    let old = rule(&[equals(0, core)?])?;
    Ok(CallRules::from([(libc::SYS_prlimit64, vec![new]), (libc::SYS_setrlimit, vec![old])]))
}

/// A process, as opposed to a group or a user, for `setpriority` and for `ioprio_set`.
const PRIO_PROCESS: u64 = 0;
const IOPRIO_WHO_PROCESS: u64 = 1;

/// Limits and scheduling of other processes, and the session's mark.
fn limits_of_others() -> Result<CallRules, BackendError> {
    // Its type differs between C libraries.
    let mark = i64::from(libc::RLIMIT_RTTIME).unsigned_abs();
    let other = |index| Ok::<_, BackendError>(vec![rule(&[differs(index, 0)?])?]);
    let limits = vec![rule(&[differs(0, 0)?])?, rule(&[equals(1, mark)?, differs_wide(2, 0)?])?];
    let own_only = |process: u64| {
        Ok::<_, BackendError>(vec![rule(&[differs(0, process)?])?, rule(&[differs(1, 0)?])?])
    };
    Ok(CallRules::from([
        (libc::SYS_prlimit64, limits),
        (libc::SYS_setrlimit, vec![rule(&[equals(0, mark)?])?]),
        (libc::SYS_sched_setscheduler, other(0)?),
        (libc::SYS_sched_setparam, other(0)?),
        (libc::SYS_sched_setattr, other(0)?),
        (libc::SYS_sched_setaffinity, other(0)?),
        // A zero also names the group and the user of the caller.
        (libc::SYS_setpriority, own_only(PRIO_PROCESS)?),
        (libc::SYS_ioprio_set, own_only(IOPRIO_WHO_PROCESS)?),
    ]))
}

/// A setuid or setgid program would run as this user for everyone who can reach it.
fn files_that_lend_their_owner() -> Result<CallRules, BackendError> {
    let bits = [u64::from(libc::S_ISUID), u64::from(libc::S_ISGID)];
    type Found = Result<Vec<SeccompRule>, BackendError>;
    let mode = |index| bits.iter().map(|bit| rule(&[has(index, *bit)?])).collect::<Found>();
    let creating = |flags: u8, mode: u8| {
        let makes = [libc::O_CREAT, libc::O_TMPFILE].map(|flag| u64::from(flag.unsigned_abs()));
        let pairs = makes.iter().flat_map(|make| bits.iter().map(move |bit| (*make, *bit)));
        pairs.map(|(make, bit)| rule(&[has(flags, make)?, has(mode, bit)?])).collect::<Found>()
    };
    let mut rules = CallRules::from([
        (libc::SYS_fchmod, mode(1)?),
        (libc::SYS_fchmodat, mode(2)?),
        (libc::SYS_fchmodat2, mode(2)?),
        (libc::SYS_mknodat, mode(2)?),
        (libc::SYS_openat, creating(2, 3)?),
    ]);
    #[cfg(target_arch = "x86_64")]
    rules.extend([
        (libc::SYS_chmod, mode(1)?),
        (libc::SYS_mknod, mode(1)?),
        (libc::SYS_creat, mode(1)?),
        (libc::SYS_open, creating(1, 2)?),
    ]);
    Ok(rules)
}

/// What changes or holds up a file that is open for reading only, such as one of the code base.
fn attributes_and_leases() -> Result<CallRules, BackendError> {
    // A request that writes, by its direction, and the letter of its family: those of all file
    // systems, of XFS, of versions and of FAT. One of them reads too: where a file lies.
    const WRITES: u64 = 0x4000_0000;
    const FAMILY: u64 = 0xff00;
    const FIEMAP: u64 = 0xc020_660b;
    // What types into a terminal, or selects and pastes on one.
    const TYPE: u64 = 0x5412;
    const SELECT: u64 = 0x541c;
    let mut requests = vec![rule(&[equals(1, TYPE)?])?, rule(&[equals(1, SELECT)?])?];
    for family in *b"fXvr" {
        let writes = masked(1, WRITES | FAMILY, WRITES | u64::from(family) << 8)?;
        requests.push(rule(&[writes, differs(1, FIEMAP)?])?);
    }
    let holds_up = |command: i32| rule(&[equals(1, u64::from(command.unsigned_abs()))?]);
    let commands = vec![holds_up(libc::F_SETLEASE)?, holds_up(libc::F_NOTIFY)?];
    Ok(CallRules::from([(libc::SYS_ioctl, requests), (libc::SYS_fcntl, commands)]))
}

/// In its own user namespace an agent would have every capability over what it creates there.
fn namespaces() -> Result<CallRules, BackendError> {
    let user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let makes_one = || Ok::<_, BackendError>(vec![rule(&[has(0, user)?])?]);
    Ok(CallRules::from([(libc::SYS_unshare, makes_one()?), (libc::SYS_clone, makes_one()?)]))
}

fn rule(conditions: &[SeccompCondition]) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.to_vec())
}

/// Matches if all of these bits are set.
fn has(index: u8, bits: u64) -> Result<SeccompCondition, BackendError> {
    masked(index, bits, bits)
}

fn masked(index: u8, mask: u64, value: u64) -> Result<SeccompCondition, BackendError> {
    let operation = SeccompCmpOp::MaskedEq(mask);
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, operation, value)
}

fn equals(index: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn differs(index: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

fn differs_wide(index: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, value)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Output};

    use super::*;

    /// Runs a program under the filters, in its own process group. They stay with this thread.
    #[expect(clippy::disallowed_methods, reason = "the filter of the starting thread is tested")]
    fn filtered(words: &'static [&str]) -> Option<Output> {
        let run = move || {
            let allowed = Confinement { only_gateway: true, ..Confinement::default() };
            for program in programs(&allowed).unwrap() {
                seccompiler::apply_filter(&program).unwrap();
            }
            Command::new(words[0]).args(&words[1..]).process_group(0).output().ok()
        };
        std::thread::spawn(run).join().unwrap()
    }

    /// Zero is the own process, but also the own group and the own user.
    #[test]
    fn a_priority_is_set_for_the_own_process_only() {
        for (own, group) in [
            (&["renice", "-n", "19", "-p", "0"][..], &["renice", "-n", "19", "-g", "0"][..]),
            (&["ionice", "-c", "3", "-p", "0"], &["ionice", "-c", "3", "-P", "0"]),
        ] {
            let Some(allowed) = filtered(own) else {
                println!("skipped: no {} program", own[0]);
                continue;
            };
            assert!(allowed.status.success(), "{own:?}: {allowed:?}");
            let refused = filtered(group).unwrap();
            let why = String::from_utf8_lossy(&refused.stderr);
            assert!(!refused.status.success(), "{group:?}: {refused:?}");
            assert!(why.contains("not permitted"), "{group:?}: {why}");
        }
    }
}
