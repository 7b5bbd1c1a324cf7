//! Two things that the program's text does not say: from which commit it is built, and how its relocations are packed.

use std::{env, path::Path, process::Command};

/// The first version of the GNU C library that reads packed relocations.
const READS_PACKED: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    name_commit();
    pack_relocations();
}

/// Makes `--version` name the commit. Debug builds leave it out, so that a commit does not rebuild the program.
fn name_commit() {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // The sources may be a copy inside somebody else's repository.
    let ours = || git(&["rev-parse", "--show-prefix"]).is_some_and(|prefix| prefix == "crates/lodge/");
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") || !ours() {
        return;
    }
    let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) else {
        return;
    };
    println!("cargo::rustc-env=LODGE_SOURCE={commit}");
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// Packs the program's relative relocations if the C library can read them packed. There are tens of thousands, most of
/// them in tables of functions. Packed, they take some kilobytes of memory at every start instead of a megabyte and a
/// half.
fn pack_relocations() {
    println!("cargo::rerun-if-env-changed=LODGE_PORTABLE");
    let is = |name: &str, wanted: &str| env::var(name).is_ok_and(|value| value == wanted);
    let native = env::var("HOST").ok() == env::var("TARGET").ok();
    let gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    // A program built here runs on machines like this one: an older library refuses to start it. Shipped programs are
    // built elsewhere.
    let portable = env::var_os("LODGE_PORTABLE").is_some();
    if !portable && native && gnu && library_version().is_some_and(|version| version >= READS_PACKED) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

fn library_version() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
