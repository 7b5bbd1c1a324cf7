//! Builds the program as it is shipped: for systems older than this one, and without a path of this machine in it, so that
//! another machine builds the same bytes.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{OLDEST_GLIBC, platform};
use crate::{clients, sh};

/// Which version of the GNU C library to build for.
#[derive(Clone)]
pub(super) enum Glibc {
    /// The oldest that is promised, or this machine's where that is not newer.
    Oldest,
    /// This machine's.
    Native,
    Version(String),
}

impl Glibc {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let is_version = text
            .split_once('.')
            .is_some_and(|(major, minor)| [major, minor].iter().all(|part| part.parse::<u32>().is_ok()));
        match text {
            "native" => Ok(Self::Native),
            _ if is_version => Ok(Self::Version(text.to_owned())),
            _ => bail!("--glibc takes a version such as 2.31, or native; not {text:?}"),
        }
    }

    /// The option of `cargo xtask dist` that says the same.
    pub(super) fn option(&self) -> Option<[String; 2]> {
        let value = match self {
            Self::Oldest => return None,
            Self::Native => "native",
            Self::Version(version) => version,
        };
        Some(["--glibc".to_owned(), value.to_owned()])
    }

    /// The version to ask the linker for; nothing where this machine's own will do.
    fn wanted(self, triple: &str) -> Option<String> {
        match self {
            Self::Native => None,
            Self::Version(version) => Some(version),
            Self::Oldest => {
                let (major, minor) = OLDEST_GLIBC;
                let newer = triple.ends_with("linux-gnu") && own_glibc().is_some_and(|own| own > OLDEST_GLIBC);
                newer.then(|| format!("{major}.{minor}"))
            }
        }
    }
}

/// The version of this machine's GNU C library.
fn own_glibc() -> Option<(u32, u32)> {
    let printed = sh::version("getconf", "GNU_LIBC_VERSION")?;
    let (major, minor) = printed.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

/// Builds it, and says where it is.
pub(super) fn build(glibc: Glibc, commit: &str) -> Result<PathBuf> {
    let triple = platform::host_triple()?;
    let (mut cargo, target) = match glibc.wanted(&triple) {
        None => {
            let mut cargo = sh::cargo();
            cargo.arg("build");
            (cargo, triple)
        }
        Some(version) => (zigbuild()?, format!("{triple}.{version}")),
    };
    cargo.args([
        "--locked",
        "--profile",
        "dist",
        "--package",
        "lodge",
        "--target",
        &target,
    ]);
    cargo
        .env("CARGO_ENCODED_RUSTFLAGS", flags()?)
        .env("LODGE_COMMIT", commit)
        .env("LODGE_PORTABLE", "1")
        .env("LODGE_WEB", "require");
    sh::run(&mut cargo)?;
    built()
}

/// Where the program is when it is built.
pub(super) fn built() -> Result<PathBuf> {
    let name = format!("lodge{}", std::env::consts::EXE_SUFFIX);
    Ok(sh::target().join(platform::host_triple()?).join("dist").join(name))
}

/// cargo-zigbuild, which links against an older C library than this machine's: one that is installed, or fetched from PyPI.
fn zigbuild() -> Result<Command> {
    let mut command = match sh::version("cargo-zigbuild", "--version") {
        Some(_) => sh::command("cargo-zigbuild"),
        None => {
            let tools = clients::install_zigbuild().context(
                "cargo-zigbuild is not installed and cannot be fetched. It builds for older systems; \
                 `--glibc native` builds for systems like this one",
            )?;
            let mut command = sh::command(tools.join("bin/cargo-zigbuild"));
            command.env("CARGO_ZIGBUILD_ZIG_PATH", tools.join("ziglang/zig"));
            command
        }
    };
    command.arg("zigbuild");
    Ok(command)
}

/// Where sources are on this machine.
pub(super) fn own_paths() -> Result<[PathBuf; 3]> {
    let home = std::env::home_dir().context("there is no home directory")?;
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    Ok([sh::root(), std::path::absolute(sh::target())?, cargo])
}

/// Flags of the compiler that give those places names which are the same everywhere. The last one that fits counts.
fn flags() -> Result<OsString> {
    let [root, target, cargo] = own_paths()?;
    let mut places = vec![(root, "/lodge"), (target, "/lodge/target"), (cargo.clone(), "/cargo")];
    // A registry's directory is named after where the registry is.
    if let Ok(registries) = fs::read_dir(cargo.join("registry/src")) {
        for registry in registries {
            places.push((registry?.path(), "/cargo/registry"));
        }
    }
    let flags: Vec<OsString> = places.iter().map(|(from, to)| remap(from, to)).collect();
    Ok(flags.join(OsString::from("\u{1f}").as_os_str()))
}

fn remap(from: &Path, to: &str) -> OsString {
    let mut flag = OsString::from("--remap-path-prefix=");
    flag.push(from);
    flag.push("=");
    flag.push(to);
    flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_the_library_is_a_version_or_native() {
        assert!(matches!(Glibc::parse("2.31").unwrap(), Glibc::Version(text) if text == "2.31"));
        assert!(matches!(Glibc::parse("native").unwrap(), Glibc::Native));
        for wrong in ["", "2", "2.x", "old", "2.31 --evil"] {
            assert!(Glibc::parse(wrong).is_err(), "{wrong}");
        }
    }
}
