//! A wheel that holds the program as a script, so that pip and uv install it like any other tool.

use anyhow::Result;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{PACKAGE, Release, SUMMARY, archive, archive::File};

pub(super) fn write(release: &Release) -> Result<(String, Vec<u8>)> {
    let name = PACKAGE.replace('-', "_");
    let version = &release.version;
    let tag = format!("py3-none-{}", release.platform.wheel());
    let info = format!("{name}-{version}.dist-info");
    let readme = String::from_utf8(super::project_file("README.md")?)?;
    let metadata = format!(
        "Metadata-Version: 2.4\nName: {PACKAGE}\nVersion: {version}\nSummary: {SUMMARY}\nLicense-Expression: MIT\n\
         License-File: LICENSE\nLicense-File: THIRD-PARTY.txt\nRequires-Python: >=3.8\n\
         Description-Content-Type: text/markdown\n\n{readme}"
    );
    let about = format!("Wheel-Version: 1.0\nGenerator: lodge xtask\nRoot-Is-Purelib: false\nTag: {tag}\n");
    let scripts = format!("{name}-{version}.data/scripts");
    let mut files = vec![
        File::program(&format!("{scripts}/lodge"), release.binary.clone()),
        // `uvx lodge-host` runs the script that is called like the package.
        File::program(
            &format!("{scripts}/{PACKAGE}"),
            "#!/bin/sh\nexec \"${0%/*}/lodge\" \"$@\"\n",
        ),
        File::plain(&format!("{info}/licenses/LICENSE"), super::project_file("LICENSE")?),
        File::plain(&format!("{info}/licenses/THIRD-PARTY.txt"), release.licences()),
        File::plain(&format!("{info}/METADATA"), metadata),
        File::plain(&format!("{info}/WHEEL"), about),
    ];
    let mut record = String::new();
    for file in &files {
        let sum = ring::digest::digest(&ring::digest::SHA256, &file.bytes);
        let sum = URL_SAFE_NO_PAD.encode(sum);
        record += &format!("{},sha256={sum},{}\n", file.path, file.bytes.len());
    }
    record += &format!("{info}/RECORD,,\n");
    files.push(File::plain(&format!("{info}/RECORD"), record));
    let wheel = archive::zip(&files, release.time, release.level)?;
    Ok((format!("{name}-{version}-{tag}.whl"), wheel))
}
