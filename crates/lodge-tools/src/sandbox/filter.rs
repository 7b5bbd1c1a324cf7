//! The system call filter of a jailed command. Landlock guards files; this list of allowed calls guards the rest. Calls
//! that are not on it, because they are harmful or newer than the list, are refused.

use std::collections::BTreeMap;

use libc::*;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Reading, and writing where Landlock lets a file be opened for it; memory, time, waiting; children of one's own.
/// Not here, among many: `socket`, `connect`, `bind`, the families of `chmod`, `chown`, `utimens` and `setxattr`, `link`, `flock`,
/// `ptrace`, `mount`, `unshare`, `keyctl`, `io_uring_setup`, `bpf`; `setsid` and `setpgid`, so that all of a command can be ended.
const ALLOWED: &[c_long] = &[
    SYS_brk,
    SYS_capget,
    SYS_chdir,
    SYS_clock_getres,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_close,
    SYS_close_range,
    SYS_copy_file_range,
    SYS_dup,
    SYS_dup3,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_eventfd2,
    SYS_execve,
    SYS_execveat,
    SYS_exit,
    SYS_exit_group,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_fadvise64,
    SYS_fallocate,
    SYS_fchdir,
    SYS_fdatasync,
    SYS_fgetxattr,
    SYS_flistxattr,
    SYS_fstat,
    SYS_fstatfs,
    SYS_fsync,
    SYS_ftruncate,
    SYS_futex,
    SYS_futex_waitv,
    SYS_get_mempolicy,
    SYS_get_robust_list,
    SYS_getcpu,
    SYS_getcwd,
    SYS_getdents64,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getgroups,
    SYS_getitimer,
    SYS_getpeername,
    SYS_getpgid,
    SYS_getpid,
    SYS_getppid,
    SYS_getpriority,
    SYS_getrandom,
    SYS_getresgid,
    SYS_getresuid,
    SYS_getrlimit,
    SYS_getrusage,
    SYS_getsid,
    SYS_getsockname,
    SYS_getsockopt,
    SYS_gettid,
    SYS_gettimeofday,
    SYS_getuid,
    SYS_getxattr,
    SYS_inotify_add_watch,
    SYS_inotify_init1,
    SYS_inotify_rm_watch,
    SYS_lgetxattr,
    SYS_listxattr,
    SYS_llistxattr,
    SYS_lseek,
    SYS_madvise,
    SYS_membarrier,
    SYS_mincore,
    SYS_mkdirat,
    SYS_mmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_msync,
    SYS_munmap,
    SYS_nanosleep,
    SYS_newfstatat,
    SYS_openat,
    SYS_openat2,
    SYS_pidfd_open,
    SYS_pipe2,
    SYS_pkey_alloc,
    SYS_pkey_free,
    SYS_pkey_mprotect,
    SYS_ppoll,
    SYS_prctl,
    SYS_pread64,
    SYS_preadv,
    SYS_preadv2,
    SYS_pselect6,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_read,
    SYS_readahead,
    SYS_readlinkat,
    SYS_readv,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_renameat2,
    SYS_restart_syscall,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigpending,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_sched_getaffinity,
    SYS_sched_getattr,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_yield,
    SYS_sendfile,
    SYS_sendmsg,
    SYS_sendto,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_setitimer,
    SYS_setrlimit,
    SYS_setsockopt,
    SYS_shutdown,
    SYS_sigaltstack,
    SYS_signalfd4,
    SYS_splice,
    SYS_statfs,
    SYS_statx,
    SYS_symlinkat,
    SYS_sysinfo,
    SYS_tee,
    SYS_timer_create,
    SYS_timer_delete,
    SYS_timer_getoverrun,
    SYS_timer_gettime,
    SYS_timer_settime,
    SYS_timerfd_create,
    SYS_timerfd_gettime,
    SYS_timerfd_settime,
    SYS_times,
    SYS_truncate,
    SYS_umask,
    SYS_uname,
    SYS_unlinkat,
    SYS_vmsplice,
    SYS_wait4,
    SYS_waitid,
    SYS_write,
    SYS_writev,
    // Refused by the other filter in a way that makes libraries take the old call, whose flags can be seen.
    SYS_clone3,
];

/// The older names of the same.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[c_long] = &[
    SYS_access,
    SYS_alarm,
    SYS_arch_prctl,
    SYS_creat,
    SYS_dup2,
    SYS_epoll_create,
    SYS_epoll_wait,
    SYS_eventfd,
    SYS_fork,
    SYS_getdents,
    SYS_getpgrp,
    SYS_inotify_init,
    SYS_lstat,
    SYS_mkdir,
    SYS_open,
    SYS_pause,
    SYS_pipe,
    SYS_poll,
    SYS_readlink,
    SYS_rename,
    SYS_renameat,
    SYS_rmdir,
    SYS_select,
    SYS_signalfd,
    SYS_stat,
    SYS_symlink,
    SYS_time,
    SYS_unlink,
    SYS_vfork,
];
#[cfg(target_arch = "aarch64")]
const ALLOWED_HERE: &[c_long] = &[SYS_renameat];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ALLOWED_HERE: &[c_long] = &[];

/// What may be asked about an open file: nothing that sets locks, leases or whom to send signals to.
const FCNTL: &[c_int] = &[
    F_DUPFD,
    F_DUPFD_CLOEXEC,
    F_GETFD,
    F_SETFD,
    F_GETFL,
    F_SETFL,
    F_GETLK,
    F_GETPIPE_SZ,
    F_SETPIPE_SZ,
    F_GET_SEALS,
];

/// What may be asked of a device: whether it is a terminal, how large, how much there is to read. Not its flags, which on a
/// file would be a change (`chattr`).
const IOCTL: &[u64] = &[
    0x5401,      // TCGETS
    0x540f,      // TIOCGPGRP
    0x5413,      // TIOCGWINSZ
    0x541b,      // FIONREAD
    0x5421,      // FIONBIO
    0x5450,      // FIONCLEX
    0x5451,      // FIOCLEX
    0x802c_542a, // TCGETS2
];

/// Flags of `clone` that would make namespaces.
const NAMESPACES: u64 =
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET) as u32
        as u64;

/// The filters, in the order in which they are put on. `signals_are_scoped` where Landlock keeps signals inside.
pub(super) fn jail(signals_are_scoped: bool) -> Result<[BpfProgram; 2], BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = |errno: c_int| SeccompAction::Errno(errno as u32);
    let allowed = SeccompFilter::new(allowed(signals_are_scoped)?, refuse(EPERM), SeccompAction::Allow, arch)?;
    let unknown = SeccompFilter::new(
        [(SYS_clone3, vec![])].into(),
        SeccompAction::Allow,
        refuse(ENOSYS),
        arch,
    )?;
    // The long list comes last: it does not allow that others are put on.
    Ok([unknown.try_into()?, allowed.try_into()?])
}

fn allowed(signals_are_scoped: bool) -> Result<Rules, BackendError> {
    let mut rules: Rules = ALLOWED.iter().chain(ALLOWED_HERE).map(|call| (*call, vec![])).collect();
    let is = |argument: u8, value: u64| SeccompCondition::new(argument, Len::Dword, Op::Eq, value);
    let one_of = |argument: u8, values: &mut dyn Iterator<Item = u64>| -> Result<Vec<SeccompRule>, BackendError> {
        values
            .map(|value| SeccompRule::new(vec![is(argument, value)?]))
            .collect()
    };
    rules.insert(SYS_fcntl, one_of(1, &mut FCNTL.iter().map(|command| *command as u64))?);
    rules.insert(SYS_ioctl, one_of(1, &mut IOCTL.iter().copied())?);
    let no_namespaces = SeccompCondition::new(0, Len::Dword, Op::MaskedEq(NAMESPACES), 0)?;
    rules.insert(SYS_clone, vec![SeccompRule::new(vec![no_namespaces])?]);
    // A pair that is connected for good. Others could still be told an address with every message.
    let stream = SeccompCondition::new(1, Len::Dword, Op::MaskedEq(0xf), SOCK_STREAM as u64)?;
    rules.insert(
        SYS_socketpair,
        vec![SeccompRule::new(vec![is(0, AF_UNIX as u64)?, stream])?],
    );
    // Of processes only the caller itself, never another one of the same user.
    rules.insert(SYS_prlimit64, vec![SeccompRule::new(vec![is(0, 0)?])?]);
    rules.insert(SYS_sched_setaffinity, vec![SeccompRule::new(vec![is(0, 0)?])?]);
    let own_priority = vec![is(0, PRIO_PROCESS as u64)?, is(1, 0)?];
    rules.insert(SYS_setpriority, vec![SeccompRule::new(own_priority)?]);
    if signals_are_scoped {
        rules.extend([SYS_kill, SYS_tkill, SYS_tgkill].map(|call| (call, vec![])));
    } else {
        // Only to the whole of the caller's own group, which is that of the command.
        rules.insert(SYS_kill, vec![SeccompRule::new(vec![is(0, 0)?])?]);
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel takes no longer programs.
    const LONGEST: usize = 4096;

    #[test]
    fn the_filters_are_short_enough_for_the_kernel() {
        for scoped in [true, false] {
            for filter in jail(scoped).unwrap() {
                assert!(filter.len() < LONGEST, "{}", filter.len());
            }
        }
    }

    #[test]
    fn without_scoped_signals_none_can_be_sent_to_others() {
        if !super::super::can_jail() {
            return testkit::skip("there is no jail here");
        }
        let parent = rustix::process::getppid().unwrap();
        let tried = std::thread::spawn(move || {
            for filter in jail(false).unwrap() {
                seccompiler::apply_filter(&filter).unwrap();
            }
            let own = rustix::process::test_kill_current_process_group();
            (rustix::process::test_kill_process(parent), own)
        });
        assert_eq!(tried.join().unwrap(), (Err(rustix::io::Errno::PERM), Ok(())));
    }
}
