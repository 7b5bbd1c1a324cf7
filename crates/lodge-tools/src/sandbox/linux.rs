//! Enters the sandbox on Linux: Landlock, seccomp, capabilities, limits.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::{
    process::{Resource, Rlimit, setrlimit},
    thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities},
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use super::{JailSpec, SandboxError, WritableSpec, all_except::all_except, bounds, filter};

pub(super) const WHY_NOT: &str = "this kernel has no Landlock (Linux 5.13 or newer with it enabled).";

/// Files every program writes to.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/pts",
    "/dev/ptmx",
];
/// Those of them that lead to nobody.
const HARMLESS_DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// The newest version whose rights are asked for; older kernels enforce what they know.
const NEWEST: ABI = ABI::V6;
/// The oldest version that knows every way to write a file.
const OLDEST_FOR_JAIL: ABI = ABI::V3;

/// What a jailed process may use. Private memory that can be written, the size of one file, files, seconds of the processor.
const LIMITS: &[(Resource, u64)] = &[
    (Resource::Data, 4 << 30),
    (Resource::Fsize, 64 << 20),
    (Resource::Nofile, 1024),
    (Resource::Cpu, 120),
    (Resource::Core, 0),
];
/// More threads than there are on the whole machine already. It binds everybody but root.
const MORE_THREADS: u64 = 512;

/// Capabilities by which a process of root's looks into processes outside its sandbox, or into the kernel.
const PRYING: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::SYS_MODULE)
    .union(CapabilitySet::SYS_RAWIO)
    .union(CapabilitySet::CHECKPOINT_RESTORE);

/// How much of Landlock there is: its version as far as it matters here, 0 for none.
pub(super) fn level() -> u32 {
    let supported = |ruleset: Result<Ruleset, RulesetError>| ruleset.and_then(Ruleset::create).is_ok();
    let strict = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if supported(strict().scope(Scope::Signal)) {
        6
    } else if supported(strict().handle_access(AccessFs::Truncate)) {
        3
    } else {
        u32::from(supported(strict().handle_access(AccessFs::WriteFile)))
    }
}

/// Whether everything but this home can be allowed.
pub(super) fn can_hide(home: &Path) -> bool {
    all_except(Path::new("/"), home).is_some()
}

pub(super) fn has_filters() -> bool {
    TargetArch::try_from(std::env::consts::ARCH).is_ok()
        && std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail")
            .is_ok_and(|actions| actions.split_whitespace().any(|action| action == "errno"))
}

fn setup(error: impl std::fmt::Display) -> SandboxError {
    SandboxError::Setup(error.to_string())
}

/// Enters the sandbox of commands that were approved.
pub(super) fn enter_writable(spec: &WritableSpec, write: &[PathBuf]) -> Result<(), SandboxError> {
    let rights = AccessFs::from_write(NEWEST);
    let mut ruleset = Ruleset::default().handle_access(rights).map_err(setup)?;
    ruleset = ruleset.scope(Scope::Signal).map_err(setup)?;
    let (mut readable, mut writable) = (Vec::new(), write.to_vec());
    if let Some(home) = &spec.home {
        ruleset = ruleset.handle_access(AccessFs::ReadFile).map_err(setup)?;
        let too_many = || SandboxError::TooLarge(home.clone());
        readable = all_except(Path::new("/"), home).ok_or_else(too_many)?;
        // What a session keeps in the home, and directories there that it was begun in.
        readable.extend(spec.own.iter().cloned());
        let parts: Option<Vec<_>> = write.iter().map(|root| all_except(root, home)).collect();
        writable = parts.ok_or_else(too_many)?.into_iter().flatten().collect();
    }
    if !spec.network {
        close_network()?;
        ruleset = ruleset
            .handle_access(AccessNet::from_all(NEWEST))
            .and_then(|ruleset| ruleset.scope(Scope::AbstractUnixSocket))
            .map_err(setup)?;
    }
    drop_capabilities(PRYING)?;
    let allow = if spec.home.is_some() {
        rights | AccessFs::ReadFile
    } else {
        rights
    };
    let restrict = || -> Result<RulesetStatus, RulesetError> {
        let mut created = ruleset.create()?.add_rules(path_beneath_rules(DEVICES, allow))?;
        created = created.add_rules(path_beneath_rules(readable, AccessFs::ReadFile))?;
        Ok(created
            .add_rules(path_beneath_rules(writable, allow))?
            .restrict_self()?
            .ruleset)
    };
    match restrict().map_err(setup)? {
        RulesetStatus::NotEnforced => Err(SandboxError::Unavailable),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

/// Blocks every socket except local ones, including sockets made with io_uring.
fn close_network() -> Result<(), SandboxError> {
    if !has_filters() {
        return Err(SandboxError::NetworkStaysOpen);
    }
    let other_than = |family: i32| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family as u64);
    let filter = || -> Result<BpfProgram, seccompiler::BackendError> {
        let foreign = SeccompRule::new(vec![other_than(libc::AF_UNIX)?, other_than(libc::AF_NETLINK)?])?;
        let rules = [(libc::SYS_socket, vec![foreign]), (libc::SYS_io_uring_setup, vec![])];
        let rules = rules
            .into_iter()
            .flat_map(|(call, rule)| with_x32(call).map(move |call| (call, rule.clone())));
        let refuse = SeccompAction::Errno(libc::EACCES as u32);
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        SeccompFilter::new(rules.collect(), SeccompAction::Allow, refuse, arch)?.try_into()
    };
    seccompiler::apply_filter(&filter().map_err(setup)?).map_err(setup)
}

/// The numbers of a system call. On x86-64 a kernel may also know it under its x32 number, with this bit, for the same architecture.
fn with_x32(call: libc::c_long) -> impl Iterator<Item = libc::c_long> {
    let x32 = cfg!(target_arch = "x86_64").then_some(call | 0x4000_0000);
    [call].into_iter().chain(x32)
}

/// Enters the jail of commands that nobody approved.
pub(super) fn enter_jail(spec: &JailSpec) -> Result<(), SandboxError> {
    // Should memory run out, it goes before anything else does.
    std::fs::write("/proc/self/oom_score_adj", "1000").map_err(setup)?;
    let threads = bounds::threads().map(|threads| (Resource::Nproc, threads as u64 + MORE_THREADS));
    for (resource, most) in LIMITS.iter().copied().chain(threads) {
        limit(resource, most)?;
    }
    rustix::thread::set_no_new_privs(true).map_err(setup)?;
    drop_capabilities(CapabilitySet::all())?;
    restrict_jail(spec)?;
    for filter in filter::jail(level() >= 6).map_err(setup)? {
        seccompiler::apply_filter(&filter).map_err(setup)?;
    }
    Ok(())
}

fn limit(resource: Resource, most: u64) -> Result<(), SandboxError> {
    let now = rustix::process::getrlimit(resource).maximum;
    let most = Some(now.map_or(most, |now| now.min(most)));
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(resource, limit).map_err(setup)
}

/// Drops all capabilities for good. Only root has any.
fn drop_capabilities(gone: CapabilitySet) -> Result<(), SandboxError> {
    let held = capabilities(None).map_err(setup)?;
    if (held.permitted | held.effective | held.inheritable).intersects(gone) {
        if held.effective.contains(CapabilitySet::SETPCAP) {
            for capability in gone.intersection(held.permitted).iter() {
                rustix::thread::remove_capability_from_bounding_set(capability).map_err(setup)?;
            }
        }
        let kept = CapabilitySets {
            effective: held.effective - gone,
            permitted: held.permitted - gone,
            inheritable: held.inheritable - gone,
        };
        set_capabilities(None, kept).map_err(setup)?;
    }
    Ok(())
}

fn restrict_jail(spec: &JailSpec) -> Result<(), SandboxError> {
    let mut read = Vec::new();
    for root in &spec.read {
        match &spec.home {
            Some(home) => read.extend(all_except(root, home).ok_or_else(|| SandboxError::TooLarge(home.clone()))?),
            None => read.push(root.clone()),
        }
    }
    let reading = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    let unwanted =
        AccessFs::Execute | AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::MakeFifo | AccessFs::MakeSock;
    let private: BitFlags<AccessFs> = AccessFs::from_all(OLDEST_FOR_JAIL) & !unwanted;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
    let restrict = || -> Result<RulesetStatus, RulesetError> {
        let status = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(OLDEST_FOR_JAIL))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules(read, reading))?
            .add_rules(path_beneath_rules(HARMLESS_DEVICES, device))?
            .add_rules(path_beneath_rules([&spec.private], private))?
            .restrict_self()?;
        Ok(status.ruleset)
    };
    match restrict().map_err(setup)? {
        RulesetStatus::NotEnforced => Err(SandboxError::Unavailable),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}
