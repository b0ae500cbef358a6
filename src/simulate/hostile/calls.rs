//! System calls that are closed to an agent. Each is made with arguments that the kernel refuses or
//! that change nothing: whether the kernel looks at them shows whether the call is open.

use std::io;

#[cfg(target_os = "linux")]
pub use linux::{CALLS, UDP_SOCKET};

/// Makes the call of this name; an error means that it is closed.
#[cfg(target_os = "linux")]
pub fn attempt(name: &str) -> io::Result<String> {
    let call = CALLS.iter().find(|call| call.name == name);
    let call = call.ok_or_else(|| io::Error::other(format!("no call is named {name:?}")))?;
    match crate::process::system::call(call.number, call.arguments) {
        Ok(_) => Ok("made".to_owned()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
            Err(error)
        }
        Err(error) => Ok(format!("the kernel answered: {error}")),
    }
}

#[cfg(not(target_os = "linux"))]
pub const CALLS: [RefusedCall; 0] = [];
#[cfg(not(target_os = "linux"))]
pub const UDP_SOCKET: &str = "";

#[cfg(not(target_os = "linux"))]
pub fn attempt(_name: &str) -> io::Result<String> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// One call, with harmless arguments.
#[derive(Debug, Clone, Copy)]
pub struct RefusedCall {
    pub name: &'static str,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "no call is made there"))]
    number: i64,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "no call is made there"))]
    arguments: [usize; 6],
}

#[cfg(target_os = "linux")]
mod linux {
    use super::RefusedCall;

    /// No file, no process, no memory has this number.
    const NONE: usize = usize::MAX;
    const NOWHERE: [usize; 6] = [NONE; 6];

    const fn call(name: &'static str, number: i64, arguments: [usize; 6]) -> RefusedCall {
        RefusedCall { name, number, arguments }
    }

    /// Flags of all bits would create a queue or a socket: these get none.
    const NO_FLAGS: [usize; 6] = [0x7fff_0000, 0, 0, 0, 0, 0];
    const UNIX: [usize; 6] = [libc::AF_UNIX.unsigned_abs() as usize, NONE, 0, 0, 0, 0];
    const VSOCK: [usize; 6] = [libc::AF_VSOCK.unsigned_abs() as usize, NONE, 0, 0, 0, 0];
    const MPTCP: [usize; 6] = [
        libc::AF_INET.unsigned_abs() as usize,
        // A type that does not exist.
        0xf,
        262,
        0,
        0,
        0,
    ];
    /// SCTP and DCCP, which no rule for ports restricts.
    const ASSOCIATION: [usize; 6] = [
        libc::AF_INET.unsigned_abs() as usize,
        libc::SOCK_STREAM.unsigned_abs() as usize,
        132,
        0,
        0,
        0,
    ];
    const PACKETS_IN_ORDER: [usize; 6] = [
        libc::AF_INET6.unsigned_abs() as usize,
        libc::SOCK_SEQPACKET.unsigned_abs() as usize,
        132,
        0,
        0,
        0,
    ];
    const CONGESTION: [usize; 6] = [libc::AF_INET.unsigned_abs() as usize, 6, 33, 0, 0, 0];
    const TYPE: [usize; 6] = [NONE, 0x5412, 0, 0, 0, 0];
    const SELECT: [usize; 6] = [NONE, 0x541c, 0, 0, 0, 0];
    const NETLINK: usize = libc::AF_NETLINK.unsigned_abs() as usize;
    /// Of a type that does not exist.
    const USERS: [usize; 6] =
        [NETLINK, 0xf, libc::NETLINK_USERSOCK.unsigned_abs() as usize, 0, 0, 0];
    const SOCKETS: [usize; 6] =
        [NETLINK, 0xf, libc::NETLINK_SOCK_DIAG.unsigned_abs() as usize, 0, 0, 0];
    const BLUETOOTH: [usize; 6] = [libc::AF_BLUETOOTH.unsigned_abs() as usize, 0xf, 0, 0, 0, 0];
    /// FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR.
    const SET_FLAGS: [usize; 6] = [NONE, 0x4008_6602, 0, 0, 0, 0];
    const SET_ATTRIBUTES: [usize; 6] = [NONE, 0x401c_5820, 0, 0, 0, 0];
    const LEASE: [usize; 6] = [NONE, libc::F_SETLEASE.unsigned_abs() as usize, 0, 0, 0, 0];
    const NOTIFY: [usize; 6] = [NONE, libc::F_NOTIFY.unsigned_abs() as usize, 0, 0, 0, 0];
    const UDP: [usize; 6] = [
        libc::AF_INET.unsigned_abs() as usize,
        libc::SOCK_DGRAM.unsigned_abs() as usize,
        // A protocol that does not exist.
        255,
        0,
        0,
        0,
    ];
    const FAST_OPEN: [usize; 6] = [NONE, NONE, 1, libc::MSG_FASTOPEN.unsigned_abs() as usize, 0, 0];
    const NEW_USERS: [usize; 6] = [
        // Together with a flag that does not exist.
        libc::CLONE_NEWUSER.unsigned_abs() as usize | 1,
        0,
        0,
        0,
        0,
        0,
    ];

    /// All of them are refused by the filter of a session, the last one behind a gateway.
    pub const CALLS: &[RefusedCall] = &[
        call("fchmod", libc::SYS_fchmod, NOWHERE),
        call("fchmodat", libc::SYS_fchmodat, NOWHERE),
        call("fchmodat2", libc::SYS_fchmodat2, NOWHERE),
        call("fchown", libc::SYS_fchown, NOWHERE),
        call("fchownat", libc::SYS_fchownat, NOWHERE),
        call("setxattr", libc::SYS_setxattr, NOWHERE),
        call("lsetxattr", libc::SYS_lsetxattr, NOWHERE),
        call("fsetxattr", libc::SYS_fsetxattr, NOWHERE),
        call("removexattr", libc::SYS_removexattr, NOWHERE),
        call("lremovexattr", libc::SYS_lremovexattr, NOWHERE),
        call("fremovexattr", libc::SYS_fremovexattr, NOWHERE),
        call("setxattrat", 463, NOWHERE),
        call("removexattrat", 466, NOWHERE),
        call("file_setattr", 469, NOWHERE),
        call("keyctl", libc::SYS_keyctl, NOWHERE),
        call("add_key", libc::SYS_add_key, NOWHERE),
        call("request_key", libc::SYS_request_key, NOWHERE),
        call("io_uring_setup", libc::SYS_io_uring_setup, NOWHERE),
        call("io_uring_enter", libc::SYS_io_uring_enter, NOWHERE),
        call("io_uring_register", libc::SYS_io_uring_register, NOWHERE),
        call("one that is in no list", libc::SYS_set_mempolicy, NOWHERE),
        call("process_vm_readv", libc::SYS_process_vm_readv, NOWHERE),
        call("process_vm_writev", libc::SYS_process_vm_writev, NOWHERE),
        call("process_madvise", libc::SYS_process_madvise, NOWHERE),
        call("migrate_pages", libc::SYS_migrate_pages, NOWHERE),
        call("perf_event_open", libc::SYS_perf_event_open, NOWHERE),
        call("bpf", libc::SYS_bpf, NOWHERE),
        call("userfaultfd", libc::SYS_userfaultfd, NOWHERE),
        call("shmget", libc::SYS_shmget, NO_FLAGS),
        call("msgget", libc::SYS_msgget, NO_FLAGS),
        call("semget", libc::SYS_semget, NO_FLAGS),
        call("mq_open", libc::SYS_mq_open, [NONE, 0, 0, 0, 0, 0]),
        call("mq_unlink", libc::SYS_mq_unlink, NOWHERE),
        call("fanotify_init", libc::SYS_fanotify_init, NOWHERE),
        call("listen", libc::SYS_listen, NOWHERE),
        call("setns", libc::SYS_setns, NOWHERE),
        call("clone3", libc::SYS_clone3, [0, 0, 0, 0, 0, 0]),
        call("openat2", libc::SYS_openat2, NOWHERE),
        call("unshare of users", libc::SYS_unshare, NEW_USERS),
        call("socket of a local kind", libc::SYS_socket, UNIX),
        call("socket of a virtual machine", libc::SYS_socket, VSOCK),
        call("socket of a family that nobody needs", libc::SYS_socket, BLUETOOTH),
        call("socket between users", libc::SYS_socket, USERS),
        call("socket that lists sockets", libc::SYS_socket, SOCKETS),
        call("socket of another transport", libc::SYS_socket, ASSOCIATION),
        call("socket of packets in order", libc::SYS_socket, PACKETS_IN_ORDER),
        call("socket with congestion control", libc::SYS_socket, CONGESTION),
        call("ioctl that types into a terminal", libc::SYS_ioctl, TYPE),
        call("ioctl that selects on a terminal", libc::SYS_ioctl, SELECT),
        call("bind", libc::SYS_bind, NOWHERE),
        call("ioctl that sets flags of a file", libc::SYS_ioctl, SET_FLAGS),
        call("ioctl that sets attributes of a file", libc::SYS_ioctl, SET_ATTRIBUTES),
        call("lease of a file", libc::SYS_fcntl, LEASE),
        call("notice of a folder", libc::SYS_fcntl, NOTIFY),
        call("prlimit of others", libc::SYS_prlimit64, [0x7fff_fffe, 99, 0, 0, 0, 0]),
        call("setpriority of others", libc::SYS_setpriority, [9, 1, 0, 0, 0, 0]),
        call(
            "sched_setaffinity of others",
            libc::SYS_sched_setaffinity,
            [0x7fff_fffe, 8, 0, 0, 0, 0],
        ),
        call("a call by the other numbering", 0x4000_0000 | libc::SYS_getpid, [0; 6]),
        call("socket of several paths", libc::SYS_socket, MPTCP),
        call("send that opens a connection", libc::SYS_sendto, FAST_OPEN),
        call(UDP_SOCKET, libc::SYS_socket, UDP),
    ];
    pub const UDP_SOCKET: &str = "socket of datagrams";
}
