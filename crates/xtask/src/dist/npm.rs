//! Packages for npm: one with the program for each platform, and one that people install, which finds the right one.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::{PACKAGE, Release, SUMMARY, archive, archive::File};

/// The platforms that there are packages for, as Node.js calls them.
const PLATFORMS: [&str; 4] = ["darwin-arm64", "darwin-x64", "linux-arm64", "linux-x64"];

pub(super) fn write(release: &Release) -> Result<Vec<(String, Vec<u8>)>> {
    Ok(vec![wrapper(release)?, program(release)?])
}

fn wrapper(release: &Release) -> Result<(String, Vec<u8>)> {
    let version = &release.version;
    let platforms: Map<String, Value> = PLATFORMS
        .iter()
        .map(|platform| (format!("{PACKAGE}-{platform}"), json!(version)))
        .collect();
    let about = json!({
        "name": PACKAGE,
        "version": version,
        "description": SUMMARY,
        "license": "MIT",
        "bin": { "lodge": "bin/lodge.js", PACKAGE: "bin/lodge.js" },
        "engines": { "node": ">=18" },
        "files": ["bin"],
        "optionalDependencies": platforms,
    });
    let files = vec![
        File::plain("package/package.json", format!("{about:#}\n")),
        File::program("package/bin/lodge.js", include_str!("lodge.js")),
        File::plain("package/README.md", super::project_file("README.md")?),
        File::plain("package/LICENSE", super::project_file("LICENSE")?),
    ];
    let bytes = archive::tar_gz(files, release.time, release.level)?;
    Ok((format!("{PACKAGE}-{version}.tgz"), bytes))
}

fn program(release: &Release) -> Result<(String, Vec<u8>)> {
    let version = &release.version;
    let (os, cpu) = release.platform.node();
    let name = format!("{PACKAGE}-{os}-{cpu}");
    let mut about = json!({
        "name": name,
        "version": version,
        "description": format!("The program of {PACKAGE} for {os}-{cpu}"),
        "license": "MIT",
        "os": [os],
        "cpu": [cpu],
        "preferUnplugged": true,
    });
    if release.platform.glibc().is_some() {
        about["libc"] = json!(["glibc"]);
    }
    let files = vec![
        File::plain("package/package.json", format!("{about:#}\n")),
        File::program("package/bin/lodge", release.binary.clone()),
        File::plain("package/LICENSE", super::project_file("LICENSE")?),
        File::plain("package/THIRD-PARTY.txt", release.licences()),
    ];
    let bytes = archive::tar_gz(files, release.time, release.level)?;
    Ok((format!("{name}-{version}.tgz"), bytes))
}
