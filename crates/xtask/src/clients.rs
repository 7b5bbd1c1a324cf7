//! The real clients that the tests run: installed below `target/clients`, from the lock files in `tests/clients`.
//!
//! An install is remembered by the text of its lock files, so that a second run costs nothing.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::sh;

/// Where clients are installed.
pub(crate) fn dir(language: &str) -> PathBuf {
    sh::target().join("clients").join(language)
}

/// Where a language's tests and lock files are.
pub(crate) fn source(language: &str) -> PathBuf {
    sh::root().join("tests/clients").join(language)
}

/// The Python of the tests' virtual environment.
pub(crate) fn python() -> PathBuf {
    dir("python").join(if cfg!(windows) {
        "venv/Scripts/python.exe"
    } else {
        "venv/bin/python"
    })
}

/// Installs what is not there yet. Node and Python are required; Go and Java fetch for themselves when they build.
pub(crate) fn install_all() -> Result<()> {
    install_node()?;
    install_python()?;
    if let Err(error) = install_sshd() {
        println!("the way by ssh is not tested here, because there is no sshd and none can be fetched: {error:#}");
    }
    Ok(())
}

/// Unpacks an ssh server where the system has none but can get one. Nothing is installed.
fn install_sshd() -> Result<()> {
    if !cfg!(target_os = "linux") || Path::new("/usr/sbin/sshd").exists() {
        return Ok(());
    }
    let to = dir("sshd");
    once(&to, "openssh-server", &[], || {
        sh::run(
            sh::command("apt-get")
                .current_dir(&to)
                .args(["--quiet=2", "download", "openssh-server", "libwrap0"]),
        )?;
        for entry in fs::read_dir(&to)? {
            let path = entry?.path();
            if path.extension().is_some_and(|kind| kind == "deb") {
                sh::run(sh::command("dpkg-deb").arg("-x").arg(path).arg(to.join("root")))?;
            }
        }
        Ok(())
    })
}

/// Where the tests of the page are.
pub(crate) fn page_source() -> PathBuf {
    sh::root().join("tests/page")
}

/// Installs what drives a browser, and a browser where the system has none: it comes from npm like the rest.
pub(crate) fn install_page() -> Result<()> {
    let (from, to) = (page_source(), dir("page"));
    install_npm(&from, &to)?;
    link_modules(&to.join("node_modules"), &from)
}

/// Lets scripts in a directory find modules that are installed elsewhere. Who installed some there keeps them.
pub(crate) fn link_modules(modules: &Path, scripts: &Path) -> Result<()> {
    let at = scripts.join("node_modules");
    if at.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    link(modules, &at)
}

fn install_node() -> Result<()> {
    let (from, to) = (source("node"), dir("node"));
    install_npm(&from, &to)?;
    // Modules are looked up from where a file lies, so both places that hold scripts get a link.
    for scripts in [from, sh::root().join("examples/node")] {
        if scripts.is_dir() {
            link_modules(&to.join("node_modules"), &scripts)?;
        }
    }
    Ok(())
}

/// Installs what the lock file in `from` names.
fn install_npm(from: &Path, to: &Path) -> Result<()> {
    let Some(node) = sh::version("node", "--version") else {
        bail!("node is not installed: the tests run the real Node SDK. Install Node.js 20.19 or newer, with npm.");
    };
    once(
        to,
        &node,
        &[from.join("package.json"), from.join("package-lock.json")],
        || {
            for file in ["package.json", "package-lock.json"] {
                fs::copy(from.join(file), to.join(file))?;
            }
            let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
            sh::run(
                sh::command(npm)
                    .current_dir(to)
                    .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
                    .env("npm_config_update_notifier", "false"),
            )
        },
    )
}

fn install_python() -> Result<()> {
    let program = if cfg!(windows) { "python" } else { "python3" };
    let Some(version) = sh::version(program, "--version") else {
        bail!(
            "{program} is not installed: the tests run the real Python SDK. Install Python 3.11 or newer, with venv."
        );
    };
    let to = dir("python");
    let requirements = source("python").join("requirements.txt");
    once(&to, &version, std::slice::from_ref(&requirements), || {
        let venv = to.join("venv");
        if venv.exists() {
            fs::remove_dir_all(&venv)?;
        }
        sh::run(sh::command(program).args(["-m", "venv"]).arg(&venv))
            .context("cannot make a virtual environment (on Debian: install python3-venv)")?;
        sh::run(
            sh::command(python())
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                    "-r",
                ])
                .arg(&requirements),
        )
    })
}

/// Fetches the official AHP client for Go beside a copy of its tests, and says where. Not every module proxy has it, so it has
/// no lock file here, and who cannot fetch it goes without.
pub(crate) fn install_go_ahp() -> Result<PathBuf> {
    let (from, to) = (source("go-ahp"), dir("go-ahp"));
    fs::create_dir_all(&to)?;
    for file in ["go.mod", "client_test.go"] {
        fs::copy(from.join(file), to.join(file))?;
    }
    sh::read(sh::command("go").current_dir(&to).args(["mod", "tidy"]))?;
    Ok(to)
}

/// Runs `install` unless it already succeeded with the same tool and the same files.
fn once(dir: &Path, tool: &str, files: &[PathBuf], install: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut wanted = format!("{tool}\n");
    for file in files {
        wanted += &fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    let stamp = dir.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    println!("installing clients into {}", dir.display());
    fs::create_dir_all(dir)?;
    if stamp.exists() {
        fs::remove_file(&stamp)?;
    }
    install()?;
    Ok(fs::write(stamp, wanted)?)
}

fn link(to: &Path, at: &Path) -> Result<()> {
    if fs::read_link(at).is_ok_and(|found| found == to) {
        return Ok(());
    }
    if at.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
        fs::remove_file(at)?;
    }
    #[cfg(unix)]
    let made = std::os::unix::fs::symlink(to, at);
    #[cfg(windows)]
    let made = std::os::windows::fs::symlink_dir(to, at);
    made.with_context(|| format!("cannot link {} to {}", at.display(), to.display()))
}
