//! `lodge restore`: creates a home from a backup, in one step.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Component, Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

use super::{BEGINNING, Beginning, END, End, FORMAT, RestoreArgs};
use crate::{listing::count, serve::print_line};

/// Creates the home. A home that contains anything is not touched.
pub(crate) fn restore(home: &Path, args: &RestoreArgs) -> Result<ExitCode> {
    if fs::read_dir(home).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!(
            "{} is not empty. Move it away first, or restore to another directory with --home.",
            home.display()
        );
    }
    let file = File::open(&args.file).with_context(|| format!("Cannot read {}", args.file.display()))?;
    let parent = home.parent().context("The home has no parent directory")?;
    fs::create_dir_all(parent).with_context(|| format!("Cannot create {}", parent.display()))?;
    let beside = parent.join(format!(".lodge-restore-{}", uuid::Uuid::new_v4()));
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&beside)
        .with_context(|| format!("Cannot create {}", beside.display()))?;
    let restored = unpack(file, &beside).and_then(|files| {
        // It is empty or missing.
        let _ = fs::remove_dir(home);
        fs::rename(&beside, home).with_context(|| format!("Cannot move the home to {}", home.display()))?;
        Ok(files)
    });
    match restored {
        Ok(files) => {
            print_line(&format!("Restored {} to {}.", count(files, "file"), home.display()));
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            let _ = fs::remove_dir_all(&beside);
            Err(error.context(format!("{} was not restored; nothing was changed", args.file.display())))
        }
    }
}

fn unpack(file: File, to: &Path) -> Result<u64> {
    let mut archive = tar::Archive::new(GzDecoder::new(io::BufReader::new(file)));
    let mut files = 0;
    let mut end: Option<End> = None;
    let mut begun = false;
    for entry in archive.entries()? {
        let mut entry = entry.context("It is damaged, or not a backup of Lodge")?;
        let name = entry.path()?.into_owned();
        if !begun {
            ensure!(name == Path::new(BEGINNING), "It is not a backup of Lodge.");
            let beginning: Beginning = read(&mut entry)?;
            ensure!(
                beginning.format == FORMAT,
                "It was created by Lodge {} in format {}, which this version does not know.",
                beginning.lodge,
                beginning.format
            );
            begun = true;
            continue;
        }
        ensure!(end.is_none(), "It has data after its end.");
        if name == Path::new(END) {
            end = Some(read(&mut entry)?);
            continue;
        }
        let path = beneath(to, &name)?;
        match entry.header().entry_type() {
            tar::EntryType::Directory => fs::DirBuilder::new().mode(0o700).recursive(true).create(&path)?,
            tar::EntryType::Regular => {
                let mode = entry.header().mode()? & 0o700;
                let mut out = File::options().write(true).create_new(true).open(&path)?;
                io::copy(&mut entry, &mut out).with_context(|| format!("{} is damaged", name.display()))?;
                out.set_permissions(fs::Permissions::from_mode(mode | 0o600))?;
                files += 1;
            }
            kind => bail!("{} is a {kind:?}, which a backup never contains.", name.display()),
        }
    }
    // The checksum of the whole backup is at its very end.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).context("It is damaged")?;
    match end {
        Some(end) if end.files == files => Ok(files),
        _ => bail!("It is not complete."),
    }
}

fn read<T: DeserializeOwned>(entry: &mut impl Read) -> Result<T> {
    let mut text = Vec::new();
    entry.take(64 << 10).read_to_end(&mut text)?;
    serde_json::from_slice(&text).context("It is damaged, or not a backup of Lodge")
}

/// A path inside a directory, whatever the archive names.
fn beneath(dir: &Path, name: &Path) -> Result<PathBuf> {
    let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(
        plain && name.components().next().is_some(),
        "{} points outside the home.",
        name.display()
    );
    Ok(dir.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let dir = Path::new("/home");
        assert_eq!(beneath(dir, Path::new("a/b")).unwrap(), Path::new("/home/a/b"));
        for name in ["../a", "/a", "a/../../b", ""] {
            assert!(beneath(dir, Path::new(name)).is_err(), "{name}");
        }
    }
}
