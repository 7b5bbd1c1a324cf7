//! Packages that a package manager installs, and the tarball.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::bench::{Bench, clean, finish, read, tree, try_out};
use crate::{clients, dist::PACKAGE, sh};

/// Where the tools of the system's administrator are, too.
const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Copies the libraries that a program needs from this machine into a root, and says how to run it there.
fn root_with_libraries(root: &Path, program: &str) -> Result<()> {
    let printed = read(Command::new("ldd").arg(root.join(program)))?;
    for word in printed.split_whitespace().filter(|word| word.starts_with('/')) {
        if word.starts_with(&*root.to_string_lossy()) {
            continue;
        }
        let to = root.join(word.trim_start_matches('/'));
        if let Some(dir) = to.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::copy(word, &to)?;
    }
    Ok(fs::create_dir_all(root.join("home"))?)
}

fn try_out_in_root(bench: &Bench, root: &Path, program: &str) -> Result<()> {
    if !bench.apart || !bench.release.platform.is_linux() {
        return bench.try_out(&root.join(program), &bench.dir("plain-home")?);
    }
    root_with_libraries(root, program)?;
    try_out(&|args| {
        let mut command = Command::new("unshare");
        command
            .args(["-rn", "chroot"])
            .arg(root)
            .arg(format!("/{program}"))
            .args(args);
        command
            .env_clear()
            .env("HOME", "/home")
            .env("PATH", SYSTEM_PATH)
            .stdin(Stdio::null());
        command
    })
}

pub(super) fn tarball(bench: &Bench) -> Result<()> {
    let root = bench.dir("tarball")?;
    let bytes = fs::read(bench.package(".tar.gz")?)?;
    tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice())).unpack(&root)?;
    let tree = root.join(bench.release.name());
    for file in [
        "share/man/man1/lodge.1",
        "share/man/man1/lodge-run.1",
        "share/doc/lodge/THIRD-PARTY.txt",
    ] {
        ensure!(tree.join(file).is_file(), "{file} is missing");
    }
    try_out_in_root(bench, &root, &format!("{}/bin/lodge", bench.release.name()))
}

pub(super) fn deb(bench: &Bench) -> Result<()> {
    ensure!(
        sh::version("dpkg-deb", "--version").is_some(),
        "dpkg is not installed, so the Debian package cannot be tried"
    );
    let package = bench.package(".deb")?;
    let field = |name: &str| read(Command::new("dpkg-deb").arg("-f").arg(&package).arg(name));
    ensure!(field("Package")?.trim() == "lodge");
    if let Some((major, minor)) = bench.release.platform.glibc() {
        ensure!(field("Depends")?.contains(&format!("libc6 (>= {major}.{minor})")));
    }
    let root = bench.dir("deb")?;
    let state = root.join("var/lib/dpkg");
    for dir in ["info", "updates", "triggers"] {
        fs::create_dir_all(state.join(dir))?;
    }
    fs::write(state.join("status"), "")?;
    let dpkg = |args: &[&str]| {
        let mut command = bench.command(Path::new("dpkg"), bench.work.path());
        command.env("PATH", SYSTEM_PATH);
        command.arg(format!("--root={}", root.display())).arg("--log=/dev/null");
        // The empty root has no C library that a package brought.
        command.args(["--force-not-root", "--force-depends"]).args(args);
        read(&mut command)
    };
    dpkg(&["--install", &package.to_string_lossy()])?;
    ensure!(
        root.join("usr/share/man/man1/lodge.1.gz").is_file(),
        "there is no man page"
    );
    try_out_in_root(bench, &root, "usr/bin/lodge")?;
    dpkg(&["--purge", "lodge"])?;
    ensure!(
        !root.join("usr/bin/lodge").exists() && !root.join("usr/share").exists(),
        "something is left"
    );
    ensure!(
        root.join("home/.local/state/lodge").is_dir() || !bench.apart,
        "the home is gone"
    );
    Ok(())
}

pub(super) fn wheel(bench: &Bench) -> Result<()> {
    let (at, home) = (bench.dir("venv")?, bench.dir("wheel-home")?);
    let python = if cfg!(windows) { "python" } else { "python3" };
    read(sh::command(python).args(["-m", "venv"]).arg(&at))?;
    let pip = |args: &[&str]| {
        let mut command = bench.command(&at.join("bin/python"), &home);
        command
            .args(["-m", "pip", "--disable-pip-version-check", "--no-input"])
            .args(args);
        read(&mut command)
    };
    let before = tree(&at)?;
    pip(&[
        "install",
        "--no-index",
        "--no-compile",
        &bench.package(".whl")?.to_string_lossy(),
    ])?;
    bench.try_out(&at.join("bin/lodge"), &home)?;
    let same = read(bench.command(&at.join("bin").join(PACKAGE), &home).arg("--version"))?;
    ensure!(same.starts_with("lodge "), "{PACKAGE} says {same:?}");
    pip(&["uninstall", "--yes", PACKAGE])?;
    let left: Vec<_> = tree(&at)?.difference(&before).cloned().collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

pub(super) fn uvx(bench: &Bench) -> Result<()> {
    let uvx = clients::install_uv()?.join("bin/uvx");
    let home = bench.dir("uv-home")?;
    let wheel = bench.package(".whl")?.to_string_lossy().into_owned();
    let packages = bench.packages.to_string_lossy().into_owned();
    for words in [
        ["--from", &wheel, "lodge"].as_slice(),
        &["--find-links", &packages, "--no-index", PACKAGE],
    ] {
        try_out(&|args| {
            let mut command = bench.command(&uvx, &home);
            command
                .args(["--offline", "--no-python-downloads"])
                .args(words)
                .args(args);
            command
        })?;
    }
    Ok(())
}

/// As cargo does it for people, but in the debug profile: its crates are built already.
pub(super) fn cargo(bench: &Bench) -> Result<()> {
    let (root, home) = (bench.dir("cargo-root")?, bench.dir("cargo-home")?);
    let cargo = |args: &[&str]| sh::run(sh::cargo().args(args).arg("--quiet").arg("--root").arg(&root));
    cargo(&["install", "--locked", "--offline", "--debug", "--path", "crates/lodge"])?;
    let program = root.join("bin/lodge");
    bench.try_out(&program, &home)?;
    let version = read(bench.command(&program, &home).arg("--version"))?;
    ensure!(version.contains("(built from source"), "it says it is {version:?}");
    cargo(&["uninstall", "lodge"])?;
    // Cargo keeps its two lists of what is installed.
    let left: Vec<PathBuf> = tree(&root)?.into_iter().collect();
    ensure!(
        left == [".crates.toml", ".crates2.json"].map(|list| root.join(list)),
        "left behind: {left:?}"
    );
    Ok(())
}

/// Installs packages from files into an empty project, without a registry to ask.
fn npm_install(bench: &Bench, name: &str, packages: &[PathBuf]) -> Result<PathBuf> {
    let project = bench.dir(name)?;
    fs::write(project.join("package.json"), "{\"private\":true}")?;
    let mut command = Command::new("npm");
    command
        .current_dir(&project)
        .args([
            "install",
            "--offline",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ])
        .args(packages)
        .env("npm_config_cache", bench.work.path().join("npm-cache"))
        .env("npm_config_update_notifier", "false")
        .env("HOME", bench.dir("npm-home")?)
        .stdin(Stdio::null());
    read(&mut command)?;
    Ok(project.join("node_modules/.bin/lodge"))
}

fn wrapper(bench: &Bench) -> PathBuf {
    bench.packages.join(format!("{PACKAGE}-{}.tgz", bench.release.version))
}

pub(super) fn npm(bench: &Bench) -> Result<()> {
    let (os, cpu) = bench.release.platform.node();
    let program = bench.package(&format!("{os}-{cpu}-{}.tgz", bench.release.version))?;
    let lodge = npm_install(bench, "npm", &[program, wrapper(bench)])?;
    let home = bench.dir("npm-run-home")?;
    bench.try_out(&lodge, &home)?;
    let wrong = finish(bench.command(&lodge, &home).arg("no-such-command"))?;
    ensure!(
        wrong.status.code() == Some(2),
        "a wrong argument ends with {}",
        wrong.status
    );
    let mut host = Command::new(&lodge);
    clean(&mut host, &home);
    let mut host = host
        .args(["--port", "0", "--sdk-port", "0"])
        .stdout(Stdio::piped())
        .spawn()?;
    let out = BufReader::new(host.stdout.take().context("standard output is piped")?);
    let mut lines = out.lines();
    let started = lines
        .by_ref()
        .map_while(Result::ok)
        .any(|line| line.contains("Ctrl-C stops"));
    if !started {
        let _ = host.kill();
    }
    ensure!(started, "the host did not start");
    read(Command::new("kill").arg(host.id().to_string()))?;
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    ensure!(host.wait()?.success(), "the signal did not end the host as it should");
    ensure!(
        rest.iter().any(|line| line == "Stopping."),
        "the host did not hear the signal: {rest:?}"
    );
    Ok(())
}

pub(super) fn npm_missing(bench: &Bench) -> Result<()> {
    let lodge = npm_install(bench, "npm-missing", &[wrapper(bench)])?;
    let output = finish(bench.command(&lodge, &bench.dir("npm-missing-home")?).arg("--version"))?;
    let (os, cpu) = bench.release.platform.node();
    let said = String::from_utf8_lossy(&output.stderr);
    let command = format!("npm install {PACKAGE}-{os}-{cpu}@{}", bench.release.version);
    ensure!(
        output.status.code() == Some(1) && said.contains(&command),
        "{}: {said}",
        output.status
    );
    Ok(())
}
