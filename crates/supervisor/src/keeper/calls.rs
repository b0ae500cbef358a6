//! The list of system calls that an agent and its commands may make: what the traces of the agents'
//! programs, shells, git, interpreters, compilers and package managers show, and their relatives. A
//! call that is not here does not exist for them. Arguments: see [`super::filter`].
//!
//! Not here on purpose: `clone3` and `openat2`, whose arguments are in memory, where no filter can see
//! them (programs fall back to the older calls), and whatever concerns the machine as a whole.

#[rustfmt::skip]
pub const ALLOWED: &[i64] = &[
    libc::SYS_accept, libc::SYS_accept4, libc::SYS_bind, libc::SYS_brk, libc::SYS_capget,
    libc::SYS_capset, libc::SYS_chdir, libc::SYS_clock_getres, libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep, libc::SYS_clone, libc::SYS_close, libc::SYS_close_range,
    libc::SYS_connect, libc::SYS_copy_file_range, libc::SYS_dup, libc::SYS_dup3,
    libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2, libc::SYS_execve, libc::SYS_execveat, libc::SYS_exit, libc::SYS_exit_group,
    libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fadvise64, libc::SYS_fallocate,
    libc::SYS_fchdir, libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchown, libc::SYS_fchownat,
    libc::SYS_fcntl, libc::SYS_fdatasync, libc::SYS_fgetxattr, libc::SYS_flistxattr,
    libc::SYS_flock, libc::SYS_fstat, libc::SYS_fstatfs, libc::SYS_fsync, libc::SYS_ftruncate,
    libc::SYS_futex, libc::SYS_futex_waitv, libc::SYS_get_mempolicy, libc::SYS_get_robust_list,
    libc::SYS_getcpu, libc::SYS_getcwd, libc::SYS_getdents64, libc::SYS_getegid, libc::SYS_geteuid,
    libc::SYS_getgid, libc::SYS_getgroups, libc::SYS_getitimer, libc::SYS_getpeername,
    libc::SYS_getpgid, libc::SYS_getpid, libc::SYS_getppid, libc::SYS_getpriority,
    libc::SYS_getrandom, libc::SYS_getresgid, libc::SYS_getresuid, libc::SYS_getrusage,
    libc::SYS_getsid, libc::SYS_getsockname, libc::SYS_getsockopt, libc::SYS_gettid,
    libc::SYS_gettimeofday, libc::SYS_getuid, libc::SYS_getxattr, libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1, libc::SYS_inotify_rm_watch, libc::SYS_io_cancel, libc::SYS_io_destroy,
    libc::SYS_io_getevents, libc::SYS_io_setup, libc::SYS_io_submit, libc::SYS_ioctl,
    libc::SYS_ioprio_get, libc::SYS_ioprio_set, libc::SYS_kill, libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset, libc::SYS_landlock_restrict_self, libc::SYS_lgetxattr,
    libc::SYS_linkat, libc::SYS_listxattr, libc::SYS_llistxattr, libc::SYS_lseek, libc::SYS_madvise,
    libc::SYS_membarrier, libc::SYS_memfd_create, libc::SYS_mincore, libc::SYS_mkdirat,
    libc::SYS_mknodat, libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_mlockall, libc::SYS_mmap,
    libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_mseal, libc::SYS_msync, libc::SYS_munlock,
    libc::SYS_munlockall, libc::SYS_munmap, libc::SYS_name_to_handle_at, libc::SYS_nanosleep,
    libc::SYS_newfstatat, libc::SYS_openat, libc::SYS_personality, libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal, libc::SYS_pipe2, libc::SYS_pkey_alloc,
    libc::SYS_pkey_free, libc::SYS_pkey_mprotect, libc::SYS_ppoll, libc::SYS_prctl,
    libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_prlimit64, libc::SYS_pselect6,
    libc::SYS_ptrace, libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2, libc::SYS_read,
    libc::SYS_readahead, libc::SYS_readlinkat, libc::SYS_readv, libc::SYS_recvfrom,
    libc::SYS_recvmmsg, libc::SYS_recvmsg, libc::SYS_remap_file_pages, libc::SYS_renameat2,
    libc::SYS_restart_syscall, libc::SYS_rseq, libc::SYS_rt_sigaction, libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait, libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min, libc::SYS_sched_getaffinity,
    libc::SYS_sched_getattr, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler,
    libc::SYS_sched_rr_get_interval, libc::SYS_sched_setaffinity, libc::SYS_sched_setattr,
    libc::SYS_sched_setparam, libc::SYS_sched_setscheduler, libc::SYS_sched_yield,
    libc::SYS_seccomp, libc::SYS_sendfile, libc::SYS_sendmmsg, libc::SYS_sendmsg, libc::SYS_sendto,
    libc::SYS_set_robust_list, libc::SYS_set_tid_address, libc::SYS_setfsgid, libc::SYS_setfsuid,
    libc::SYS_setgid, libc::SYS_setgroups, libc::SYS_setitimer, libc::SYS_setpgid,
    libc::SYS_setpriority, libc::SYS_setregid, libc::SYS_setresgid, libc::SYS_setresuid,
    libc::SYS_setreuid, libc::SYS_setsid, libc::SYS_setsockopt, libc::SYS_setuid,
    libc::SYS_shutdown, libc::SYS_sigaltstack, libc::SYS_signalfd4, libc::SYS_socket,
    libc::SYS_socketpair, libc::SYS_splice, libc::SYS_statfs, libc::SYS_statx, libc::SYS_symlinkat,
    libc::SYS_sync, libc::SYS_syncfs, libc::SYS_sysinfo, libc::SYS_tee, libc::SYS_tgkill,
    libc::SYS_timer_create, libc::SYS_timer_delete, libc::SYS_timer_getoverrun,
    libc::SYS_timer_gettime, libc::SYS_timer_settime, libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime, libc::SYS_timerfd_settime, libc::SYS_times, libc::SYS_tkill,
    libc::SYS_truncate, libc::SYS_umask, libc::SYS_uname, libc::SYS_unlinkat, libc::SYS_unshare,
    libc::SYS_utimensat, libc::SYS_vmsplice, libc::SYS_wait4, libc::SYS_waitid, libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_renameat, libc::SYS_sync_file_range, libc::SYS_getrlimit, libc::SYS_setrlimit, libc::SYS_fchmodat2,
    GETXATTRAT, LISTXATTRAT, FILE_GETATTR, CACHESTAT, FUTEX_WAKE, FUTEX_WAIT, FUTEX_REQUEUE,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_alarm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_arch_prctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_create,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_eventfd,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getdents,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getpgrp,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pause,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pipe,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_signalfd,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// What a program needs that makes a sandbox of its own inside ours, in a user namespace.
pub const OF_A_SANDBOX: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_sethostname,
];

/// Newer calls, with the same numbers on all architectures; the C library does not name them all.
const CACHESTAT: i64 = 451;
const FUTEX_WAKE: i64 = 454;
const FUTEX_WAIT: i64 = 455;
const FUTEX_REQUEUE: i64 = 456;
const GETXATTRAT: i64 = 464;
const LISTXATTRAT: i64 = 465;
const FILE_GETATTR: i64 = 468;
