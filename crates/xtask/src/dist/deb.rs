//! A package for Debian and its relatives: an `ar` archive of two tarballs, written without their tools.

use anyhow::Result;

use super::{Release, SUMMARY, archive, archive::File};

pub(super) fn write(release: &Release) -> Result<(String, Vec<u8>)> {
    let architecture = release.platform.debian();
    let files = tree(release)?;
    let sums: String = {
        let mut lines: Vec<String> = files
            .iter()
            .map(|file| {
                format!(
                    "{}  {}\n",
                    archive::sha256(&file.bytes),
                    file.path.trim_start_matches("./")
                )
            })
            .collect();
        lines.sort();
        lines.concat()
    };
    let size: usize = files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum();
    let depends = match release.platform.glibc() {
        Some((major, minor)) => {
            let unwinder = if release.platform.links("libgcc_s.so.1") {
                ", libgcc-s1"
            } else {
                ""
            };
            format!("Depends: libc6 (>= {major}.{minor}){unwinder}\n")
        }
        None => String::new(),
    };
    let control = format!(
        "Package: lodge\nVersion: {}\nArchitecture: {architecture}\nMaintainer: The Lodge authors <lodge@localhost>\n\
         Installed-Size: {size}\n{depends}Section: devel\nPriority: optional\nDescription: {SUMMARY}\n \
         One program that apps on the Copilot SDKs and clients of the Agent Host\n Protocol use as their server, with any \
         model and without a login.\n",
        release.version
    );
    let control = vec![File::plain("./control", control), File::plain("./sha256sums", sums)];
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", archive::tar_gz(control, release.time, release.level)?),
        ("data.tar.gz", archive::tar_gz(files, release.time, release.level)?),
    ];
    let mut package = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let header = format!(
            "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            release.time,
            0,
            0,
            100_644,
            bytes.len()
        );
        package.extend(header.as_bytes());
        package.extend(&bytes);
        if bytes.len() % 2 == 1 {
            package.push(b'\n');
        }
    }
    Ok((format!("lodge_{}_{architecture}.deb", release.version), package))
}

/// The files where Debian wants them: man pages compressed, one file about rights.
fn tree(release: &Release) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for file in release.tree()? {
        let file = match file.path.as_str() {
            path if path.starts_with("share/man/") => File::plain(&format!("{path}.gz"), archive::gz(&file.bytes, 9)?),
            "share/zsh/site-functions/_lodge" => File::plain("share/zsh/vendor-completions/_lodge", file.bytes),
            "share/doc/lodge/LICENSE" => File::plain("share/doc/lodge/copyright", file.bytes),
            _ => file,
        };
        files.push(file.below("./usr"));
    }
    Ok(files)
}
