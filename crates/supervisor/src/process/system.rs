//! The system calls that need `unsafe`, each behind a safe function. No other file has `unsafe`
//! code.
#![expect(unsafe_code, reason = "raw system calls; every block says why it is sound")]

use std::convert::Infallible;
use std::ffi::{CString, OsStr};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, RawFd};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::unistd::{ForkResult, Pid};

/// A handle on one process: unlike a pid, it can never refer to another process.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

#[cfg(target_os = "linux")]
impl Pidfd {
    /// A handle on the process that has this pid now.
    pub fn open(pid: u32) -> io::Result<Self> {
        // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = RawFd::try_from(fd).unwrap_or(-1);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just returned this descriptor to us, nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) -> io::Result<()> {
        let none = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open while `self` lives; a null siginfo means "as kill does".
        let result = unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), signal as i32, none, 0)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The inode, unique per boot on kernels with pidfs (6.9 and later).
    pub fn inode(&self) -> Option<u64> {
        const PIDFS: nix::sys::statfs::FsType = nix::sys::statfs::FsType(0x5049_4446);
        // Without pidfs all pidfds share one anonymous inode, which identifies nothing.
        let kind = nix::sys::statfs::fstatfs(&self.0).ok()?.filesystem_type();
        let stat = nix::sys::stat::fstat(&self.0).ok()?;
        (kind == PIDFS).then_some(stat.st_ino)
    }
}

/// For kernels without pidfds: pid and start time, compared before every signal.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct Pidfd {
    pid: u32,
    start_time: u64,
}

#[cfg(not(target_os = "linux"))]
impl Pidfd {
    pub fn open(pid: u32) -> io::Result<Self> {
        let gone = || io::Error::from_raw_os_error(libc::ESRCH);
        let stat = crate::process::stat(pid).ok_or_else(gone)?;
        Ok(Self { pid, start_time: stat.start_time })
    }

    /// Sends the signal only if the pid still belongs to the same process.
    pub fn signal(&self, signal: nix::sys::signal::Signal) -> io::Result<()> {
        let now = crate::process::stat(self.pid).map(|stat| stat.start_time);
        if now != Some(self.start_time) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let pid = i32::try_from(self.pid).map_err(io::Error::other)?;
        Ok(nix::sys::signal::kill(Pid::from_raw(pid), signal)?)
    }

    /// Not supported here.
    pub fn inode(&self) -> Option<u64> {
        None
    }
}

/// Forks and runs `child` in the new process, which exits with the returned code.
///
/// Only for single-threaded processes: keepers and misbehaving test agents.
pub fn fork_into(child: impl FnOnce() -> i32) -> io::Result<Pid> {
    // SAFETY: callers have one thread, so no lock can be held by a thread that does not exist in
    // the child.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            let code = child();
            exit_immediately(code)
        }
    }
}

/// Result of a forking call: returns the child's pid in the parent; runs `child` and exits in the
/// child.
#[cfg(target_os = "linux")]
fn after_fork(pid: libc::c_long, child: impl FnOnce() -> i32) -> io::Result<Pid> {
    match i32::try_from(pid) {
        Ok(0) => {
            let code = child();
            exit_immediately(code)
        }
        Ok(pid) if pid > 0 => Ok(Pid::from_raw(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Like [`fork_into`], but the child's exit sends no signal, waiting for any child ignores it, and
/// only [`kill_detached`] reaps it.
#[cfg(target_os = "linux")]
pub fn fork_detached(child: impl FnOnce() -> i32) -> io::Result<Pid> {
    // SAFETY: clone(2) with all arguments zero is fork(2) without a signal at the child's end; it
    // shares no memory, and callers have one thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    after_fork(pid, child)
}

/// Kills and reaps a child of [`fork_detached`]. It was not reaped before, so its pid is still its
/// own.
#[cfg(target_os = "linux")]
pub fn kill_detached(child: Pid) {
    use nix::sys::wait::{WaitPidFlag, waitpid};
    nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).ok();
    waitpid(child, Some(WaitPidFlag::__WCLONE)).ok();
}

/// Not supported here.
#[cfg(not(target_os = "linux"))]
pub fn kill_detached(_child: Pid) {}

/// Exits immediately, without the exit handlers of the parent it was forked from.
pub fn exit_immediately(code: i32) -> ! {
    // SAFETY: _exit never returns and touches no memory.
    unsafe { libc::_exit(code) }
}

/// Replaces this process by a program; returns only on error.
pub fn execute(program: &OsStr, args: &[CString], env: &[CString]) -> io::Error {
    let Ok(program) = CString::new(program.as_bytes()) else {
        return io::Error::from_raw_os_error(libc::EINVAL);
    };
    let result: nix::Result<Infallible> = nix::unistd::execve(&program, args, env);
    match result {
        Ok(never) => match never {},
        Err(errno) => io::Error::from_raw_os_error(errno as i32),
    }
}

/// Resets every signal to its default and unblocks all, as a program expects at its start.
pub fn reset_signals() {
    for signal in nix::sys::signal::Signal::iterator() {
        // SAFETY: setting a default disposition installs no code; KILL and STOP are refused.
        unsafe { libc::signal(signal as i32, libc::SIG_DFL) };
    }
    let none = nix::sys::signal::SigSet::empty();
    // Cannot fail with a valid set.
    none.thread_set_mask().ok();
}

/// Lowers the CPU priority and, where supported, the disk priority of this process.
pub fn lower_priority(nice: i32) {
    // SAFETY: plain integers; failure leaves the priority as it is.
    unsafe { libc::nice(nice) };
    #[cfg(target_os = "linux")]
    {
        const WHO_PROCESS: libc::c_int = 1;
        const BEST_EFFORT_LOWEST: libc::c_int = (2 << 13) | 7;
        // SAFETY: plain integers; failure leaves the priority as it is.
        unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, BEST_EFFORT_LOWEST) };
    }
}

/// Sets close-on-exec on every descriptor above standard error.
#[cfg(target_os = "linux")]
pub fn close_others_on_exec() {
    // SAFETY: plain integers; descriptors stay open until the exec.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

/// Sets close-on-exec on every descriptor above standard error.
#[cfg(not(target_os = "linux"))]
pub fn close_others_on_exec() {
    for fd in 3..256 {
        // SAFETY: setting a flag on a descriptor that may not exist is harmless.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// Takes ownership of standard input, which was passed to this process for that purpose.
pub fn take_standard_input() -> io::Result<OwnedFd> {
    // SAFETY: descriptor 0 is open in a keeper (its parent passed the control socket there);
    // duplicating it creates a descriptor that we own.
    let fd = unsafe { libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 10) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Namespaces and control group of a forked child.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpawnTarget<'a> {
    /// First process of a new PID namespace.
    pub new_processes: bool,
    /// In a new user namespace, which needs no privilege.
    pub new_users: bool,
    /// In this control group from its first instruction.
    pub group: Option<&'a std::fs::File>,
}

/// Like [`fork_into`], with the child in other namespaces or another control group.
#[cfg(target_os = "linux")]
pub fn fork_into_target(target: SpawnTarget<'_>, child: impl FnOnce() -> i32) -> io::Result<Pid> {
    /// `CLONE_INTO_CGROUP`; the C library's constant overflows its type.
    const INTO_GROUP: u64 = 0x2_0000_0000;
    if !target.new_processes && !target.new_users && target.group.is_none() {
        // Plain fork also works where clone3 is filtered (some containers).
        return fork_into(child);
    }
    let flag = |wanted: bool, flag: i32| if wanted { u64::from(flag.unsigned_abs()) } else { 0 };
    // SAFETY: all-zero is a valid value of this plain structure of integers.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = flag(target.new_processes, libc::CLONE_NEWPID)
        | flag(target.new_users, libc::CLONE_NEWUSER);
    if let Some(group) = target.group {
        args.flags |= INTO_GROUP;
        args.cgroup = u64::from(group.as_raw_fd().unsigned_abs());
    }
    args.exit_signal = u64::from(libc::SIGCHLD.unsigned_abs());
    let size = size_of::<libc::clone_args>();
    // SAFETY: without a stack and without shared memory this is fork(2); the structure lives until
    // the call returns; callers have one thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size) };
    after_fork(pid, child)
}

/// Like [`fork_into`]: namespaces and control groups are not supported here.
#[cfg(not(target_os = "linux"))]
pub fn fork_into_target(_target: SpawnTarget<'_>, child: impl FnOnce() -> i32) -> io::Result<Pid> {
    fork_into(child)
}

/// In bytes.
pub fn page_size() -> u64 {
    // SAFETY: takes an integer, returns an integer.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

/// Releases the pages of this program's code and constants. They are unchanged from the file and
/// are read again when needed: for a process that has done most of its work and now waits.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub fn release_program_pages() {
    /// The first object is the program itself; libraries are shared with other processes.
    extern "C" fn release(
        object: *mut libc::dl_phdr_info,
        _size: usize,
        _data: *mut libc::c_void,
    ) -> libc::c_int {
        const STOP: libc::c_int = 1;
        let page = page_size();
        // SAFETY: the loader passes a description that is valid during this call, with as many
        // headers as it says.
        let (base, headers) = unsafe {
            let object = &*object;
            let count = usize::from(object.dlpi_phnum);
            (object.dlpi_addr, std::slice::from_raw_parts(object.dlpi_phdr, count))
        };
        let is_as_in_the_file = |header: &&libc::Elf64_Phdr| {
            header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0
        };
        for header in headers.iter().filter(is_as_in_the_file) {
            let begin = (base + header.p_vaddr).next_multiple_of(page);
            let end = (base + header.p_vaddr + header.p_memsz) / page * page;
            let (Ok(begin), Ok(length)) =
                (usize::try_from(begin), usize::try_from(end.saturating_sub(begin)))
            else {
                continue;
            };
            let begin = std::ptr::with_exposed_provenance_mut(begin);
            // SAFETY: whole pages of a segment that nobody can write, mapped from the file: the
            // kernel reads the same bytes again when they are used.
            unsafe { libc::madvise(begin, length, libc::MADV_DONTNEED) };
        }
        STOP
    }
    // SAFETY: the function keeps to the contract above and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(release), std::ptr::null_mut()) };
}

/// Not supported here.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub fn release_program_pages() {}

/// Sets a signal to "ignored" or "default".
pub fn set_handler(signal: nix::sys::signal::Signal, handler: nix::sys::signal::SigHandler) {
    // SAFETY: callers pass only dispositions without a handler function.
    unsafe { nix::sys::signal::signal(signal, handler) }.ok();
}

/// The kernel's Landlock version; 0 if absent or disabled.
#[cfg(target_os = "linux")]
pub fn landlock_version() -> u32 {
    const ASK_FOR_VERSION: u32 = 1;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the call takes no structure and returns a number or -1.
    let found =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, ASK_FOR_VERSION) };
    u32::try_from(found).unwrap_or_default()
}

/// Not supported here.
#[cfg(not(target_os = "linux"))]
pub fn landlock_version() -> u32 {
    0
}

/// Makes a mount read-only or writable again, if asked with everything mounted below it.
#[cfg(target_os = "linux")]
pub fn set_read_only(path: &std::path::Path, read_only: bool, recursive: bool) -> io::Result<()> {
    #[repr(C)]
    struct MountAttributes {
        set: u64,
        clear: u64,
        propagation: u64,
        users: u64,
    }
    const READ_ONLY: u64 = 1;
    const RECURSIVE: libc::c_int = 0x8000;
    let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    let (set, clear) = if read_only { (READ_ONLY, 0) } else { (0, READ_ONLY) };
    let attributes = MountAttributes { set, clear, propagation: 0, users: 0 };
    let flags = if recursive { RECURSIVE } else { 0 };
    // SAFETY: path and structure live until the call returns; the size is that of the structure.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes a system call by its number, to see whether it is open. Only for calls that change nothing
/// of this process with these arguments.
#[cfg(target_os = "linux")]
pub fn call(number: i64, arguments: [usize; 6]) -> io::Result<i64> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: callers pass no valid address, so the kernel reads and writes no memory.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Drops every capability of this process and of what it executes; no effect if it has none.
#[cfg(target_os = "linux")]
pub fn drop_capabilities(keep_for_namespaces: bool) {
    /// Without it root cannot map itself into a user namespace.
    const SETFCAP: u32 = 31;
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    for capability in (0..64).filter(|number| !keep_for_namespaces || *number != SETFCAP) {
        // SAFETY: plain integers; invalid capability numbers are rejected.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    let header = Header { version: VERSION_3, pid: 0 };
    let kept = if keep_for_namespaces { 1 << SETFCAP } else { 0 };
    // A capability that the process does not have cannot be kept; then all are dropped.
    for sets in [[kept, kept, 0, 0, 0, 0], [0_u32; 6]] {
        // SAFETY: version 3 reads one header and two sets of three words, which both live on our
        // stack.
        if unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) } == 0 {
            break;
        }
    }
}
