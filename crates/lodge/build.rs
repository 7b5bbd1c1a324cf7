//! Packs the program's relative relocations where the C library can read them so. There are tens of thousands, most of them
//! in tables of functions; packed they take some kilobytes of memory at every start instead of a megabyte and a half.

use std::{env, process::Command};

/// The first version of the GNU C library that reads packed relocations.
const READS_PACKED: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LODGE_PORTABLE");
    let is = |name: &str, wanted: &str| env::var(name).is_ok_and(|value| value == wanted);
    let native = env::var("HOST").ok() == env::var("TARGET").ok();
    let gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    // A program is built here for machines like this one: an older library refuses to start it. What is shipped goes elsewhere.
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
