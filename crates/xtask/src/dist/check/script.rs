//! The install script, and the feed of releases.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context, Result, ensure};

use super::bench::{Bench, clean, finish, read, tree};
use crate::{
    dist::{archive, archive::File},
    sh,
};

/// The install script as the strictest shell at hand runs it.
fn script(bench: &Bench, home: &Path, args: &[&str]) -> Command {
    let shell = if Path::new("/usr/bin/dash").exists() {
        "dash"
    } else {
        "sh"
    };
    let mut command = Command::new(shell);
    clean(&mut command, home);
    command
        .arg(sh::root().join("install.sh"))
        .args(args)
        .env("TMPDIR", bench.work.path());
    command
}

/// A directory with a release of another version.
fn newer(bench: &Bench) -> Result<PathBuf> {
    let dir = bench.dir("newer")?;
    let name = format!("lodge-99.0.0-{}", bench.release.platform.name());
    let program = "#!/bin/sh\necho 'lodge 99.0.0 (test)'\n";
    let files = vec![
        File::program("bin/lodge", program).below(&name),
        File::plain("share/new", "new").below(&name),
    ];
    let bytes = archive::tar_gz(files, bench.release.time, 0)?;
    fs::write(
        dir.join("SHA256SUMS"),
        format!("{}  {name}.tar.gz\n", archive::sha256(&bytes)),
    )?;
    fs::write(dir.join(format!("{name}.tar.gz")), bytes)?;
    Ok(dir)
}

pub(super) fn directory(bench: &Bench) -> Result<()> {
    let home = bench.dir("script-home")?;
    let from = bench.packages.to_string_lossy().into_owned();
    let said = read(&mut script(bench, &home, &["--from", &from]))?;
    ensure!(
        said.contains("Installed lodge ") && said.contains("is not in PATH"),
        "{said}"
    );
    let program = home.join(".local/bin/lodge");
    bench.try_out(&program, &home)?;
    let said = read(&mut script(bench, &home, &["--from", &from]))?;
    ensure!(said.contains("again"), "{said}");
    let newer = newer(bench)?;
    let said = read(&mut script(bench, &home, &["--from", &newer.to_string_lossy()]))?;
    ensure!(
        said.contains("Upgraded lodge ") && said.contains("to lodge 99.0.0"),
        "{said}"
    );
    ensure!(
        !home.join(".local/share/man").exists(),
        "pages of the old version are left"
    );
    // Back to the real one: it still has the sessions.
    read(&mut script(
        bench,
        &home,
        &["--from", &from, "--version", &bench.release.version],
    ))?;
    let sessions = read(bench.command(&program, &home).args(["sessions", "list"]))?;
    ensure!(sessions.contains("hello there"), "{sessions}");
    let said = read(&mut script(bench, &home, &["--uninstall"]))?;
    ensure!(said.contains("removed"), "{said}");
    let left: Vec<PathBuf> = tree(&home)?.into_iter().collect();
    let state = home.join(".local/state/lodge");
    ensure!(
        state.is_dir() && left.iter().all(|path| path.starts_with(&state)),
        "left behind: {left:?}"
    );
    Ok(())
}

/// A directory with a `systemctl` that says this and ends like this.
fn systemctl(bench: &Bench, name: &str, says: &str) -> Result<PathBuf> {
    let dir = bench.dir(name)?;
    let program = dir.join("systemctl");
    fs::write(&program, format!("#!/bin/sh\n{says}\n"))?;
    let mut mode = fs::metadata(&program)?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs::set_permissions(&program, mode)?;
    Ok(dir)
}

pub(super) fn service(bench: &Bench) -> Result<()> {
    if !bench.release.platform.is_linux() {
        return Ok(());
    }
    let home = bench.dir("service-home")?;
    read(&mut script(
        bench,
        &home,
        &["--from", &bench.packages.to_string_lossy()],
    ))?;
    let with = |command: &mut Command, systemctl: &Path| {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", systemctl.display());
        finish(command.env("PATH", path))
    };
    let works = systemctl(
        bench,
        "systemctl-works",
        "[ \"$2\" != is-active ] || { echo inactive; exit 3; }",
    )?;
    let fails = systemctl(bench, "systemctl-fails", "echo 'no bus' >&2; exit 1")?;
    let program = home.join(".local/bin/lodge");
    let mut install = Command::new(&program);
    clean(&mut install, &home);
    let installed = with(install.args(["service", "install"]), &works)?;
    let unit = home.join(".config/systemd/user/lodge.service");
    ensure!(installed.status.success() && unit.is_file(), "{installed:?}");
    let refused = with(&mut script(bench, &home, &["--uninstall"]), &fails)?;
    let said = String::from_utf8_lossy(&refused.stderr);
    ensure!(
        !refused.status.success() && said.contains("the service cannot be removed, so nothing was"),
        "{said}"
    );
    ensure!(unit.is_file() && program.is_file(), "something was removed");
    let removed = with(&mut script(bench, &home, &["--uninstall"]), &works)?;
    ensure!(removed.status.success(), "{removed:?}");
    ensure!(!unit.exists() && !program.exists(), "something is left");
    Ok(())
}

pub(super) fn server(bench: &Bench) -> Result<()> {
    let site = bench.dir("site")?;
    for name in ["SHA256SUMS".to_owned(), format!("{}.tar.gz", bench.release.name())] {
        fs::copy(bench.packages.join(&name), site.join(&name))?;
    }
    let url = format!("http://{}/", serve(site.clone())?);
    let home = bench.dir("server-home")?;
    read(&mut script(bench, &home, &["--from", &url]))?;
    bench.try_out(&home.join(".local/bin/lodge"), &home)?;
    let archive = site.join(format!("{}.tar.gz", bench.release.name()));
    let mut bytes = fs::read(&archive)?;
    bytes.push(0);
    fs::write(&archive, bytes)?;
    let fresh = bench.dir("changed-home")?;
    let output = finish(&mut script(bench, &fresh, &["--from", &url]))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && said.contains("Nothing was installed"),
        "{said}"
    );
    ensure!(tree(&fresh)?.is_empty(), "something was installed");
    Ok(())
}

pub(super) fn refusals(bench: &Bench) -> Result<()> {
    let home = bench.dir("refused-home")?;
    let empty = bench.dir("empty")?.to_string_lossy().into_owned();
    let packages = bench.packages.to_string_lossy().into_owned();
    for (args, expected) in [
        (vec!["--from", empty.as_str()], "SHA256SUMS cannot be read"),
        (
            vec!["--from", &packages, "--version", "98.0.0"],
            "has no release 98.0.0",
        ),
        (vec!["--from"], "--from needs a value"),
        (vec!["--fro", "x"], "unknown argument: --fro"),
        (vec!["--uninstall"], "nothing is installed"),
        (vec![], "say where the release is"),
        (vec!["--from", "http://127.0.0.1:9"], "cannot be fetched"),
    ] {
        let output = finish(&mut script(bench, &home, &args))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && said.contains(expected), "{args:?}: {said}");
    }
    ensure!(tree(&home)?.is_empty(), "something was installed");
    Ok(())
}

pub(super) fn feed(bench: &Bench) -> Result<()> {
    let site = bench.dir("feeds")?;
    let home = bench.dir("feed-home")?;
    fs::copy(bench.packages.join("release.json"), site.join("same.json"))?;
    fs::write(site.join("newer.json"), "{\"version\":\"99.0.0\",\"commit\":\"abc\"}")?;
    fs::write(site.join("wrong.json"), "<html>")?;
    let address = serve(site.clone())?;
    let program = bench.dir("tarball")?.join(bench.release.name()).join("bin/lodge");
    for (name, code, expected) in [
        ("same.json", 0, "This is the newest release"),
        ("newer.json", 3, "A newer release is available: 99.0.0 (abc)"),
        ("wrong.json", 1, "is not a release feed"),
        ("none.json", 1, "cannot be"),
    ] {
        for feed in [
            format!("http://{address}/{name}"),
            site.join(name).to_string_lossy().into_owned(),
        ] {
            let mut command = Command::new(&program);
            clean(&mut command, &home);
            let output = finish(command.args(["self", "check", "--feed", &feed]))?;
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            ensure!(
                output.status.code() == Some(code) && said.contains(expected),
                "{feed}: {said}"
            );
        }
    }
    Ok(())
}

/// Serves the files of a directory on loopback, for as long as the program runs.
fn serve(dir: PathBuf) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            // Who asks and leaves is no concern of the checks.
            let _ = answer(&dir, socket);
        }
    });
    Ok(address)
}

fn answer(dir: &Path, mut socket: TcpStream) -> Result<()> {
    let mut lines = BufReader::new(socket.try_clone()?).lines();
    let first = lines.next().context("nothing was asked")??;
    while !lines.next().context("the request has no end")??.is_empty() {}
    let name = first.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let (status, bytes) = match fs::read(dir.join(name)) {
        Ok(bytes) => ("200 OK", bytes),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    write!(
        socket,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    )?;
    Ok(socket.write_all(&bytes)?)
}
