//! What the dependency tree may be: licences, duplicates and size, as `deny.toml` says.
//!
//! `cargo deny` checks more, from the same file, where it is installed; this needs nothing but cargo.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Result, bail};
use serde::Deserialize;

use crate::sh;

/// The most packages of others that the program may be built from.
const MOST_PACKAGES: usize = 299;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Skip>,
    deny: Vec<Skip>,
}

#[derive(Deserialize)]
struct Skip {
    #[serde(rename = "crate")]
    name: String,
}

/// Checks the tree; the error lists everything that is wrong with it.
pub(crate) fn check() -> Result<()> {
    let text = sh::read(sh::cargo().args(["metadata", "--format-version", "1", "--locked"]))?;
    let tree: Metadata = serde_json::from_str(&text)?;
    let deny: Deny = toml::from_str(&fs::read_to_string(sh::root().join("deny.toml"))?)?;
    let mut wrong = Vec::new();
    let foreign: Vec<&Package> = tree
        .packages
        .iter()
        .filter(|package| package.source.is_some())
        .collect();
    let built = built_from()?;
    println!("lodge is built from {built} packages of others (at most {MOST_PACKAGES})");
    if built > MOST_PACKAGES {
        wrong.push(format!(
            "lodge is built from {built} packages, more than {MOST_PACKAGES}"
        ));
    }
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &foreign {
        versions.entry(&package.name).or_default().insert(&package.version);
        let licence = package.license.as_deref().unwrap_or("none stated");
        if !allows(licence, &deny.licenses.allow) {
            wrong.push(format!(
                "{} {}: licence {licence} is not on the list",
                package.name, package.version
            ));
        }
        if deny.bans.deny.iter().any(|banned| banned.name == package.name) {
            wrong.push(format!("{} is banned", package.name));
        }
    }
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let skipped = |skip: &Skip| {
            let (crate_name, version) = skip.name.split_once('@').unwrap_or((&skip.name, ""));
            crate_name == *name && (version.is_empty() || versions.contains(version))
        };
        if !deny.bans.skip.iter().any(skipped) {
            wrong.push(format!("{name} is there in {} versions: {versions:?}", versions.len()));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!("{}", wrong.join("\n       "))
    }
}

/// How many packages of others go into the program's default build on this machine; tests may use more.
fn built_from() -> Result<usize> {
    let tree = [
        "tree",
        "--locked",
        "--package",
        "lodge",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
    ];
    let printed = sh::read(sh::cargo().args(tree))?;
    let packages: BTreeSet<&str> = printed
        .lines()
        .map(|line| line.trim_end_matches(" (*)").trim_end_matches(" (proc-macro)"))
        .filter(|line| !line.is_empty() && !line.contains("(/"))
        .collect();
    Ok(packages.len())
}

/// Runs `cargo deny` as well, where it is installed.
pub(crate) fn deny() -> Result<()> {
    if sh::version("cargo-deny", "--version").is_none() {
        println!("cargo-deny is not installed: only the built-in checks ran");
        return Ok(());
    }
    sh::run(sh::cargo().args(["deny", "--offline", "check", "licenses", "bans", "sources"]))
}

/// Whether an SPDX expression can be satisfied with the allowed licences alone.
fn allows(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace(" WITH ", "~");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any(&words, &mut at, allowed) && at == words.len()
}

fn any(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut holds = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        holds |= all(words, at, allowed);
    }
    holds
}

fn all(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut holds = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        holds &= one(words, at, allowed);
    }
    holds
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let word = words.get(*at).copied().unwrap_or_default();
    *at += 1;
    if word != "(" {
        return allowed.contains(word.split('~').next().unwrap_or_default());
    }
    let holds = any(words, at, allowed);
    let closed = words.get(*at) == Some(&")");
    *at += 1;
    holds && closed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_expressions_are_understood() {
        let allowed = ["MIT", "Apache-2.0", "ISC"].map(String::from).into();
        let check =
            |expression: &str, expected: bool| assert_eq!(allows(expression, &allowed), expected, "{expression}");
        check("MIT", true);
        check("GPL-3.0", false);
        check("GPL-3.0 OR MIT", true);
        check("GPL-3.0/MIT", true);
        check("GPL-3.0 AND MIT", false);
        check("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true);
        check("(MIT OR GPL-3.0) AND ISC", true);
        check("(MIT OR GPL-3.0) AND Zlib", false);
        check("MIT OR (GPL-3.0", false);
        check("", false);
    }
}
