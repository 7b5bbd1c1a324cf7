//! Whose work is in the program: crates that are linked into it, and the packages of its page.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::sh;

/// Somebody else's package.
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression.
    pub(super) licence: String,
    pub(super) kind: Kind,
    /// The texts that come with it.
    texts: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Cargo,
    Npm,
}

impl Package {
    /// Its address as a package URL.
    pub(super) fn url(&self) -> String {
        match self.kind {
            Kind::Cargo => format!("pkg:cargo/{}@{}", self.name, self.version),
            Kind::Npm => format!("pkg:npm/{}@{}", self.name.replace('@', "%40"), self.version),
        }
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Crate {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dep>,
}

#[derive(Deserialize)]
struct Dep {
    pkg: String,
    dep_kinds: Vec<DepKind>,
}

#[derive(Deserialize)]
struct DepKind {
    kind: Option<String>,
}

/// Everything that goes into the program on a platform.
pub(super) fn packages(triple: &str) -> Result<Vec<Package>> {
    let args = [
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        triple,
    ];
    let tree: Metadata = serde_json::from_str(&sh::read(sh::cargo().args(args))?)?;
    let nodes: HashMap<&str, &Node> = tree.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let lodge = tree
        .packages
        .iter()
        .find(|found| found.source.is_none() && found.name == "lodge");
    let mut open = vec![lodge.context("the workspace has no package lodge")?.id.as_str()];
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !reached.insert(id) {
            continue;
        }
        let node = nodes
            .get(id)
            .context("cargo names a package that it does not describe")?;
        let linked = node
            .deps
            .iter()
            .filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        open.extend(linked.map(|dep| dep.pkg.as_str()));
    }
    let mut packages = npm(triple)?;
    for found in &tree.packages {
        if found.source.is_none() || !reached.contains(found.id.as_str()) {
            continue;
        }
        let dir = found.manifest_path.parent().unwrap_or(Path::new(""));
        packages.push(Package {
            texts: texts(dir)?,
            licence: found.license.clone().unwrap_or_else(|| "NOASSERTION".to_owned()),
            name: found.name.clone(),
            version: found.version.clone(),
            kind: Kind::Cargo,
        });
    }
    packages.sort_by(|a, b| (a.kind, &a.name, &a.version).cmp(&(b.kind, &b.name, &b.version)));
    Ok(packages)
}

/// What the page is built from.
fn npm(triple: &str) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Lock {
        packages: BTreeMap<String, Locked>,
    }
    #[derive(Deserialize)]
    struct Locked {
        #[serde(default)]
        version: String,
        license: Option<String>,
        #[serde(default)]
        dev: bool,
        #[serde(default)]
        optional: bool,
    }
    let lock = fs::read_to_string(sh::root().join("web/package-lock.json"))?;
    let lock: Lock = serde_json::from_str(&lock).context("web/package-lock.json cannot be understood")?;
    // The page is built beside the program. Without their texts, packages may not be given away.
    let places = [sh::target().join(triple), sh::target()].map(|target| target.join("web/work"));
    let installed = places.iter().find(|place| place.join("node_modules").is_dir());
    let installed = installed.context("the page was not built: `LODGE_WEB=require cargo build` says why")?;
    let mut packages = Vec::new();
    for (path, found) in lock.packages {
        let Some(name) = path.rsplit_once("node_modules/").map(|(_, name)| name.to_owned()) else {
            continue;
        };
        if found.dev || found.optional {
            continue;
        }
        packages.push(Package {
            texts: texts(&installed.join(&path))?,
            licence: found.license.unwrap_or_else(|| "NOASSERTION".to_owned()),
            name,
            version: found.version,
            kind: Kind::Npm,
        });
    }
    Ok(packages)
}

/// The texts of licences and notices in a directory.
fn texts(dir: &Path) -> Result<Vec<String>> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_licence = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|start| name.starts_with(start));
        if is_licence && entry.path().is_file() {
            let text = fs::read(entry.path())?;
            found.push((
                name,
                String::from_utf8_lossy(&text).replace("\r\n", "\n").trim().to_owned(),
            ));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, text)| text).collect())
}

/// All of it for people: each package with its licence, then each text once with those who use it.
pub(super) fn text(packages: &[Package]) -> String {
    let mut out = String::from("Lodge contains work of others, under these licences.\n\n");
    let mut users: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for package in packages {
        let name = format!("{} {}", package.name, package.version);
        let note = if package.texts.is_empty() {
            " (comes without a text)"
        } else {
            ""
        };
        out += &format!("{name}: {}{note}\n", package.licence);
        for text in &package.texts {
            users.entry(text).or_default().push(name.clone());
        }
    }
    for (text, users) in users {
        out += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), users.join(", "));
    }
    out
}
