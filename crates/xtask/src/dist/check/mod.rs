//! Every package installed and used from scratch: without a network where the system lets us cut it off, with an empty home,
//! and with nothing of this machine in the environment.

pub(super) mod bench;
mod packages;
mod script;

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use self::bench::Bench;
use super::{Release, archive};
use crate::{clients, sh};

type Check = fn(&Bench) -> Result<()>;

/// What must hold, as sentences.
const CHECKS: &[(&str, Check)] = &[
    ("the same binary makes the same packages twice", reproducible),
    ("the sums name every file and are right", sums),
    (
        "the bill of materials is as its schema wants it, and names every crate with its licence",
        parts,
    ),
    (
        "the program of the tarball runs in a root with nothing else in it",
        packages::tarball,
    ),
    (
        "the Debian package is installed, used and removed without a trace",
        packages::deb,
    ),
    (
        "the wheel is installed without an index, used and removed without a trace",
        packages::wheel,
    ),
    (
        "uvx runs the wheel from a file and from a directory, without an index",
        packages::uvx,
    ),
    (
        "the npm packages are installed from files and pass signals and exit codes on",
        packages::npm,
    ),
    (
        "the npm wrapper says which package is missing and how to get it",
        packages::npm_missing,
    ),
    (
        "cargo installs the program from source, and removes it without a trace",
        packages::cargo,
    ),
    (
        "the install script installs, upgrades and removes from a directory",
        script::directory,
    ),
    (
        "the install script installs from a server and refuses what was changed there",
        script::server,
    ),
    (
        "the install script says what is missing and leaves what is installed alone",
        script::refusals,
    ),
    (
        "the install script removes the service first, and nothing if it cannot",
        script::service,
    ),
    ("a release feed tells whether the program is the newest", script::feed),
];

/// Runs the checks on packages of a binary. Says how many passed and failed.
pub(crate) fn check(binary: &Path) -> Result<(usize, usize)> {
    let work = tempfile::Builder::new().prefix("lodge-packages-").tempdir()?;
    let stripped = work.path().join("lodge");
    // A debug binary is mostly about itself; without that the checks take half the time.
    let strip = sh::command("strip").arg("-o").arg(&stripped).arg(binary).status();
    let binary = if strip.is_ok_and(|status| status.success()) {
        &stripped
    } else {
        binary
    };
    let release = Release::gather(binary, binary, 0)?;
    let packages = work.path().join("packages");
    release.write(&packages)?;
    let apart = Command::new("unshare").args(["-rn", "true"]).output();
    let apart = apart.is_ok_and(|output| output.status.success());
    ensure!(
        apart || !release.platform.is_linux(),
        "`unshare -rn` does not work here, so programs cannot be run without the network and in roots of their own"
    );
    let bench = Bench {
        release,
        packages,
        work,
        apart,
    };
    let (mut passed, mut failed) = (0, 0);
    for (name, run) in CHECKS {
        match run(&bench) {
            Ok(()) => {
                passed += 1;
                println!("ok      {name}");
            }
            Err(error) => {
                failed += 1;
                println!("FAILED  {name}: {error:#}");
            }
        }
    }
    Ok((passed, failed))
}

fn reproducible(bench: &Bench) -> Result<()> {
    let again = bench.work.path().join("again");
    bench.release.write(&again)?;
    let read = |dir: &Path| fs::read_to_string(dir.join("SHA256SUMS"));
    ensure!(read(&bench.packages)? == read(&again)?, "the sums differ");
    Ok(fs::remove_dir_all(again)?)
}

fn sums(bench: &Bench) -> Result<()> {
    let text = fs::read_to_string(bench.packages.join("SHA256SUMS"))?;
    let mut named = BTreeSet::from(["SHA256SUMS".to_owned()]);
    for line in text.lines() {
        let (sum, name) = line.split_once("  ").context("a line without a name")?;
        ensure!(
            archive::sha256(&fs::read(bench.packages.join(name))?) == sum,
            "{name} has another sum"
        );
        named.insert(name.to_owned());
    }
    let there: BTreeSet<String> = fs::read_dir(&bench.packages)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    ensure!(named == there, "{named:?} is not {there:?}");
    Ok(())
}

/// Ends with what is wrong with a bill of materials.
const VALIDATE: &str = "import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(str(wrong) if wrong else 0)";

fn parts(bench: &Bench) -> Result<()> {
    let library = clients::install_cyclonedx()?;
    let mut validate = sh::command(clients::python());
    validate.env("PYTHONPATH", library);
    sh::run(validate.args(["-c", VALIDATE]).arg(bench.package(".cdx.json")?))
        .context("it is not as its schema wants it")?;
    let bom: serde_json::Value = serde_json::from_slice(&fs::read(bench.package(".cdx.json")?)?)?;
    let components = bom["components"].as_array().context("no components")?;
    let has = |name: &str| components.iter().any(|part| part["name"] == name);
    // Linked, from npm, and needed for tests only.
    ensure!(has("tokio") && has("solid-js") && !has("proptest"), "{components:?}");
    for part in components {
        let licence = part["licenses"][0]["expression"].as_str().unwrap_or("NOASSERTION");
        ensure!(licence != "NOASSERTION", "{} has no licence", part["name"]);
    }
    let text = bench.release.licences();
    ensure!(
        text.contains("tokio ") && text.contains("Permission is hereby granted"),
        "there are no texts"
    );
    Ok(())
}
