//! `cargo xtask dist`: what people install. One binary goes into a tarball, a Debian package, a wheel and npm packages, with
//! checksums, a list of what it is built from, and a feed that `lodge self check` reads. The same input gives the same bytes.

mod archive;
mod build;
mod check;
mod deb;
mod elf;
mod licences;
mod npm;
mod pages;
mod platform;
mod sbom;
mod twice;
mod walk;
mod wheel;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use self::{archive::File, build::Glibc, licences::Package, platform::Platform};
pub(crate) use self::{check::check, walk::run as walk};
use crate::sh;

const USAGE: &str =
    "usage: cargo xtask dist [--binary PATH] [--pages-by PATH] [--glibc VERSION|native] [--out DIR] [--twice]";

/// The oldest GNU C library that releases are meant to run with.
const OLDEST_GLIBC: (u32, u32) = (2, 31);

/// What the packages are called where names are shared with the world.
const PACKAGE: &str = "lodge-host";

const SUMMARY: &str = "An agent host: runs AI agent sessions and lets many clients watch and steer them";

/// Everything that goes into the packages.
pub(crate) struct Release {
    version: String,
    commit: String,
    /// What files in archives are dated, in seconds since 1970.
    time: u64,
    platform: Platform,
    binary: Vec<u8>,
    /// Man pages and completions, below the prefix.
    pages: Vec<File>,
    packages: Vec<Package>,
    /// How hard to compress: 0 to 9.
    level: u32,
}

impl Release {
    /// Reads a binary and gathers what belongs to it. `pages_by` is a binary that runs here, to write the man pages.
    pub(crate) fn gather(binary: &Path, pages_by: &Path, level: u32) -> Result<Self> {
        let bytes = fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
        let platform = Platform::of(&bytes)?;
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit(),
            time: time(),
            packages: licences::packages(&platform.triple())?,
            pages: pages::write(pages_by)?,
            platform,
            binary: bytes,
            level,
        })
    }

    /// What releases promise, and this program does not keep.
    fn broken_promises(&self) -> Result<Vec<String>> {
        let mut broken = Vec::new();
        let (major, minor) = OLDEST_GLIBC;
        if self.platform.glibc().is_some_and(|needed| needed > OLDEST_GLIBC) {
            broken.push(format!("it does not start with the GNU C library {major}.{minor}"));
        }
        for path in build::own_paths()? {
            if memchr::memmem::find(&self.binary, path.as_os_str().as_encoded_bytes()).is_some() {
                broken.push(format!("it contains a path of this machine: {}", path.display()));
            }
        }
        if self.platform.is_linux() && elf::sections(&self.binary)?.contains_key(".symtab") {
            broken.push("it is not stripped".to_owned());
        }
        Ok(broken)
    }

    /// `lodge-0.1.0-x86_64-linux`.
    fn name(&self) -> String {
        format!("lodge-{}-{}", self.version, self.platform.name())
    }

    fn licences(&self) -> String {
        licences::text(&self.packages)
    }

    /// What is installed below a prefix such as `/usr` or `~/.local`.
    fn tree(&self) -> Result<Vec<File>> {
        let mut files = self.pages.clone();
        files.push(File::program("bin/lodge", self.binary.clone()));
        for name in ["LICENSE", "README.md", "CHANGELOG.md"] {
            files.push(File::plain(&format!("share/doc/lodge/{name}"), project_file(name)?));
        }
        files.push(File::plain("share/doc/lodge/THIRD-PARTY.txt", self.licences()));
        Ok(files)
    }

    /// Writes every package into a directory, with the sums of all of them.
    pub(crate) fn write(&self, out: &Path) -> Result<Vec<PathBuf>> {
        if out.exists() {
            fs::remove_dir_all(out)?;
        }
        fs::create_dir_all(out)?;
        let mut made = vec![
            (format!("{}.tar.gz", self.name()), self.tarball()?),
            (format!("{}.cdx.json", self.name()), sbom::render(self)?),
            ("install.sh".to_owned(), project_file("install.sh")?),
            ("release.json".to_owned(), self.feed().into_bytes()),
            wheel::write(self)?,
        ];
        made.extend(npm::write(self)?);
        if self.platform.is_linux() {
            made.push(deb::write(self)?);
        }
        made.sort();
        let sums: String = made
            .iter()
            .map(|(name, bytes)| format!("{}  {name}\n", archive::sha256(bytes)))
            .collect();
        made.push(("SHA256SUMS".to_owned(), sums.into_bytes()));
        let mut paths = Vec::new();
        for (name, bytes) in made {
            let path = out.join(name);
            fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
            paths.push(path);
        }
        Ok(paths)
    }

    fn tarball(&self) -> Result<Vec<u8>> {
        let root = self.name();
        let files = self.tree()?.into_iter().map(|file| file.below(&root)).collect();
        archive::tar_gz(files, self.time, self.level)
    }

    fn feed(&self) -> String {
        let feed = json!({ "name": "lodge", "version": self.version, "commit": self.commit });
        format!("{feed:#}\n")
    }
}

/// Runs the command.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    let (mut binary, mut pages_by, mut glibc, mut twice) = (None, None, Glibc::Oldest, false);
    let mut out = sh::target().join("packages");
    let mut args = args.iter().copied();
    while let Some(option) = args.next() {
        let mut value = || args.next().context(USAGE);
        match option {
            "--binary" => binary = Some(PathBuf::from(value()?)),
            "--pages-by" => pages_by = Some(PathBuf::from(value()?)),
            "--glibc" => glibc = Glibc::parse(value()?)?,
            "--out" => out = PathBuf::from(value()?),
            "--twice" => twice = true,
            _ => bail!("{USAGE}"),
        }
    }
    let is_changed = commit().ends_with('+');
    ensure!(
        !twice || (binary.is_none() && !is_changed),
        "--twice builds the last commit: commit your changes, and leave --binary out"
    );
    let is_for_release = binary.is_none() && matches!(glibc, Glibc::Oldest);
    let binary = match binary {
        Some(binary) => binary,
        None => build::build(glibc.clone(), &commit())?,
    };
    let release = Release::gather(&binary, pages_by.as_ref().unwrap_or(&binary), 9)?;
    let broken = release.broken_promises()?;
    for promise in &broken {
        println!("Do not release this program: {promise}.");
    }
    ensure!(broken.is_empty() || !is_for_release, "no packages were written");
    for path in release.write(&out)? {
        println!("{:>11}  {}", fs::metadata(&path)?.len(), path.display());
    }
    println!("{:>11}  the program itself", release.binary.len());
    println!("{}", release.platform.needs());
    if is_changed {
        println!(
            "Your files differ from the last commit, so the packages name {}.",
            release.commit
        );
    }
    match twice {
        true => twice::build_again(&glibc, &binary, &out),
        false => Ok(()),
    }
}

fn project_file(name: &str) -> Result<Vec<u8>> {
    let path = sh::root().join(name);
    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// What is being packaged: `a1b2c3d`, or with a `+` behind it when files differ from it.
fn commit() -> String {
    let git = |args: &[&str]| sh::read(sh::command("git").args(args));
    let Ok(commit) = git(&["rev-parse", "--short=10", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_ok_and(|changes| !changes.is_empty());
    format!("{}{}", commit.trim(), if changed { "+" } else { "" })
}

/// The time of the commit, so that a second run makes the same bytes; `SOURCE_DATE_EPOCH` goes before it.
fn time() -> u64 {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok();
    let of_commit = || sh::read(sh::command("git").args(["log", "-1", "--format=%ct"])).ok();
    let seconds = given.or_else(of_commit).and_then(|text| text.trim().parse().ok());
    // A zip file knows no time before 1980.
    seconds.unwrap_or(0).max(315_532_800)
}
