//! Running other programs, and where things are.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .map_or_else(|| here.to_path_buf(), Path::to_path_buf)
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The built binary of a profile.
pub(crate) fn lodge(profile: &str) -> PathBuf {
    target()
        .join(profile)
        .join(format!("lodge{}", std::env::consts::EXE_SUFFIX))
}

/// A command in the workspace's root that never waits for somebody to type.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// The cargo that runs us, without what it told us about our own package: build scripts of dependencies look at
/// some of that, so what was built by hand would be built again by us, and the other way round.
pub(crate) fn cargo() -> Command {
    let mut cargo = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&*name);
        }
    }
    cargo
}

/// Runs to the end, output passed through; an error unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", name(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", name(command));
    }
    Ok(())
}

/// Runs to the end, showing each line of its standard output as it comes and giving it to `line` as well.
/// Says whether it succeeded.
pub(crate) fn watch(command: &mut Command, mut line: impl FnMut(&str)) -> Result<bool> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", name(command)))?;
    let out = child.stdout.take().context("standard output is piped")?;
    for bytes in BufReader::new(out).split(b'\n') {
        let bytes = bytes?;
        let text = String::from_utf8_lossy(&bytes);
        println!("{text}");
        line(text.trim_end());
    }
    Ok(child.wait()?.success())
}

/// What a program prints, when it succeeds.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", name(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", name(command), output.status);
    }
    let mut text = String::new();
    output.stdout.as_slice().read_to_string(&mut text)?;
    Ok(text)
}

/// The version a tool reports, or `None` when it is not installed.
pub(crate) fn version(program: &str, argument: &str) -> Option<String> {
    let output = command(program).arg(argument).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| {
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    })
}

fn name(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}
