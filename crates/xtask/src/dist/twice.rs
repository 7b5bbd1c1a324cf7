//! `cargo xtask dist --twice`: builds the packages a second time, from a clone in another directory, and compares.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use super::{build::Glibc, elf, platform};
use crate::{clients, sh};

/// Builds the last commit again. An error names the packages that differ, and the sections of the program that do.
pub(super) fn build_again(glibc: &Glibc, binary: &Path, packages: &Path) -> Result<()> {
    let work = std::path::absolute(sh::target().join("twice"))?;
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    fs::create_dir_all(&work)?;
    let (clone, target, again) = (work.join("lodge"), work.join("target"), work.join("packages"));
    sh::run(
        sh::command("git")
            .args(["clone", "--quiet"])
            .arg(sh::root())
            .arg(&clone),
    )?;
    // The linker's wrapper is a tool, not a part of the program: it is not fetched again.
    let tools = clients::dir("zigbuild");
    if tools.is_dir() {
        let place = target.join("clients");
        fs::create_dir_all(&place)?;
        clients::link(&std::path::absolute(tools)?, &place.join("zigbuild"))?;
    }
    println!("building again in {}", clone.display());
    sh::run(
        sh::cargo()
            .current_dir(&clone)
            .env("CARGO_TARGET_DIR", &target)
            .args(["xtask", "dist", "--out"])
            .arg(&again)
            .args(glibc.option().into_iter().flatten()),
    )?;
    let differing = differing_packages(packages, &again)?;
    if differing.is_empty() {
        println!("The second build made the same packages.");
        return Ok(fs::remove_dir_all(&work)?);
    }
    let built = PathBuf::from(platform::host_triple()?)
        .join("dist")
        .join(binary.file_name().context("a program has a name")?);
    let other = fs::read(target.join(built))?;
    let sections = differing_sections(&fs::read(binary)?, &other)?;
    bail!(
        "the second build, in {}, differs in {}; sections of the program that differ: {}",
        work.display(),
        list(&differing),
        list(&sections)
    );
}

fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

/// Names whose sums differ, or that only one of two lists has.
fn differing_packages(one: &Path, other: &Path) -> Result<Vec<String>> {
    let read = |dir: &Path| -> Result<BTreeSet<String>> {
        let sums = dir.join("SHA256SUMS");
        let text = fs::read_to_string(&sums).with_context(|| format!("cannot read {}", sums.display()))?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    let (one, other) = (read(one)?, read(other)?);
    let names: BTreeSet<String> = one
        .symmetric_difference(&other)
        .map(|line| line.split_whitespace().last().unwrap_or_default().to_owned())
        .collect();
    Ok(names.into_iter().collect())
}

/// Sections with other bytes, or that only one of two programs has.
fn differing_sections(one: &[u8], other: &[u8]) -> Result<Vec<String>> {
    if platform::Platform::of(one)?.is_linux() {
        let (one, other) = (elf::sections(one)?, elf::sections(other)?);
        let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        let differs = |name: &&String| one.get(*name) != other.get(*name);
        return Ok(names.into_iter().filter(differs).cloned().collect());
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_differ_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let at = dir.path().join(name);
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join("SHA256SUMS"), text).unwrap();
            at
        };
        let one = write("one", "aa  same\nbb  changed\ncc  gone\n");
        let other = write("other", "aa  same\nbc  changed\ndd  new\n");
        assert_eq!(differing_packages(&one, &one).unwrap(), [""; 0]);
        assert_eq!(differing_packages(&one, &other).unwrap(), ["changed", "gone", "new"]);
        assert!(differing_packages(&one, &dir.path().join("none")).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn sections_that_differ_are_named() {
        let one = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(differing_sections(&one, &one).unwrap(), [""; 0]);
        let mut other = one.clone();
        let at = memchr::memmem::find(&one, elf::sections(&one).unwrap()[".comment"]).unwrap();
        other[at] ^= 1;
        assert_eq!(differing_sections(&one, &other).unwrap(), [".comment"]);
    }
}
