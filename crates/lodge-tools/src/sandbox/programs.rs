//! Where a machine keeps its programs and what they need to run: everything that a jailed command may read besides the
//! session's directories. These are lists of what is allowed; everything else, above all secrets, cannot be read.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// So long what was found on this machine is taken to be still there.
const FRESH: Duration = Duration::from_secs(10);

/// Directories of programs and their libraries.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/snap",
    "/nix/store",
    "/run/current-system",
    "/home/linuxbrew/.linuxbrew",
];

/// Of the system's configuration what programs read in order to run at all. None of it is secret.
const CONFIGURATION: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "crypto-policies",
    "debian_version",
    "environment",
    "fonts",
    "group",
    "host.conf",
    "hostname",
    "hosts",
    "inputrc",
    "java",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ld.so.preload",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "lsb-release",
    "machine-id",
    "magic",
    "magic.mime",
    "mailcap",
    "manpath.config",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "perl",
    "pki/tls/certs",
    "profile",
    "protocols",
    "python3",
    "redhat-release",
    "resolv.conf",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
    "xattr.conf",
];

/// What the kernel reports about the machine, except about other processes.
const KERNEL: &[&str] = &[
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/cap_last_cap",
    "/proc/sys/kernel/ngroups_max",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/ostype",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/random",
    "/proc/sys/kernel/threads-max",
    "/proc/sys/kernel/version",
    "/proc/sys/vm/max_map_count",
    "/proc/sys/vm/overcommit_memory",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/kernel/mm/transparent_hugepage",
];

/// Where version managers keep programs, beneath the person's home.
const TOOLCHAINS: &[&str] = &[
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".deno/bin",
    ".fnm",
    ".jenv",
    ".local/bin",
    ".local/lib",
    ".local/pipx/venvs",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx/venvs",
    ".local/share/pnpm",
    ".local/share/rtx",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".local/share/virtualenvs",
    ".nix-profile",
    ".nodenv",
    ".npm-global",
    ".nvm",
    ".phpenv",
    ".pyenv",
    ".rbenv",
    ".rustup/settings.toml",
    ".rustup/toolchains",
    ".rvm",
    ".sdkman/candidates",
    ".volta",
    "go/bin",
];

/// Variables that say where a version manager is, where that is not its usual place.
const MANAGERS: &[&str] = &[
    "ASDF_DATA_DIR",
    "NODENV_ROOT",
    "NVM_DIR",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "VOLTA_HOME",
];

/// All of them that there are on this machine, with their real names; `path` is where programs are looked for.
pub(super) fn readable(path: Option<OsString>) -> Arc<[PathBuf]> {
    type Found = (Instant, Option<OsString>, Arc<[PathBuf]>);
    static FOUND: Mutex<Option<Found>> = Mutex::new(None);
    let mut found = FOUND.lock();
    if let Some((when, searched, places)) = &*found
        && when.elapsed() < FRESH
        && *searched == path
    {
        return places.clone();
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.map(|home| std::fs::canonicalize(&home).unwrap_or(home));
    let mut named = names(home.as_deref(), path.as_deref());
    let managers = MANAGERS.iter().filter_map(std::env::var_os).map(PathBuf::from);
    named.extend(managers.filter(|place| place.is_absolute()));
    let real = named.iter().filter_map(|place| std::fs::canonicalize(place).ok());
    // A link may lead to a home as well.
    let real =
        real.filter(|place| place.parent().is_some() && home.as_ref().is_none_or(|home| !home.starts_with(place)));
    let mut places: Vec<PathBuf> = real.collect();
    places.sort();
    // What lies beneath another one goes without saying.
    places.dedup_by(|next, place| next.starts_with(&*place));
    let places: Arc<[PathBuf]> = places.into();
    *found = Some((Instant::now(), path, places.clone()));
    places
}

/// Their names, as far as `home`, the directory of the person, and `path`, where programs are looked for, go.
fn names(home: Option<&Path>, path: Option<&OsStr>) -> Vec<PathBuf> {
    let etc = Path::new("/etc");
    let system = SYSTEM.iter().chain(KERNEL).map(PathBuf::from);
    let configuration = CONFIGURATION.iter().map(|name| etc.join(name));
    let toolchains = home
        .into_iter()
        .flat_map(|home| TOOLCHAINS.iter().map(|name| home.join(name)));
    // Shims start programs of the version manager that they lie in.
    let with_manager = |entry: PathBuf| {
        let manager = entry.ends_with("shims").then(|| entry.parent().map(Path::to_owned));
        [Some(entry), manager.flatten()].into_iter().flatten()
    };
    let listed = path.into_iter().flat_map(std::env::split_paths).flat_map(with_manager);
    let searched = listed.filter(|entry| {
        // A directory that contains the whole home is not a place for programs, whatever the variable says.
        entry.is_absolute() && entry.parent().is_some() && home.is_none_or(|home| !home.starts_with(entry))
    });
    system.chain(configuration).chain(toolchains).chain(searched).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_programs_never_hold_a_home() {
        let home = Path::new("/home/me");
        let path = OsStr::new(
            "/usr/bin:/home/me/tools/bin:/home/me:/home:/:.:relative:/home/me/.cargo/bin:/srv/env/shims:/home/me/shims",
        );
        let all = names(Some(home), Some(path));
        for place in ["/home/me/tools/bin", "/srv/env/shims", "/srv/env", "/home/me/shims"] {
            assert!(all.contains(&place.into()), "{place}");
        }
        for place in &all {
            assert!(place.is_absolute() && !home.starts_with(place), "{}", place.display());
            assert!(!Path::new("/etc/shadow").starts_with(place), "{}", place.display());
        }
    }

    #[test]
    fn what_is_found_is_there_and_named_once() {
        let found = readable(std::env::var_os("PATH"));
        for (at, place) in found.iter().enumerate() {
            assert!(place.exists(), "{}", place.display());
            let covered = found[..at].iter().any(|other| place.starts_with(other));
            assert!(!covered, "{}", place.display());
        }
        assert!(found.contains(&"/usr".into()));
    }
}
