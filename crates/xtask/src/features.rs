//! Whether third-party crates get the same features whichever of our crates is built. Where they do not, `cargo test -p X`
//! after `cargo test --workspace` builds half the tree again.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::sh;

/// Fails with the crates whose features differ, for `crates/features` to name.
pub(crate) fn check() -> Result<()> {
    let all = resolved(&["--workspace", "--edges", "normal,build,dev"])?;
    let mut differing = BTreeSet::new();
    let mut compare = |some: BTreeSet<String>| differing.extend(some.difference(&all).cloned());
    for member in members()? {
        compare(resolved(&["--package", &member, "--edges", "normal,build,dev"])?);
    }
    compare(resolved(&["--package", "lodge", "--edges", "normal,build"])?);
    if differing.is_empty() {
        return Ok(());
    }
    let list = differing.into_iter().collect::<Vec<_>>().join("\n       ");
    bail!(
        "some crates are built with other features when one package is built alone; \
         name what they lack in crates/features/Cargo.toml:\n       {list}"
    )
}

/// Every third-party package of a selection with its features.
fn resolved(selection: &[&str]) -> Result<BTreeSet<String>> {
    let format = ["tree", "--locked", "--prefix", "none", "--format", "{p} [{f}]"];
    let printed = sh::read(sh::cargo().args(format).args(selection))?;
    let lines = printed
        .lines()
        .filter(|line| line.contains('[') && !line.contains("(/"));
    Ok(lines.map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
}

fn members() -> Result<Vec<String>> {
    let printed = sh::read(sh::cargo().args(["tree", "--workspace", "--depth", "0", "--prefix", "none"]))?;
    let names = printed.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| !name.starts_with('[')).map(str::to_owned).collect())
}
