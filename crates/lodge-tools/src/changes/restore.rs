//! Plans which files a restoration changes, and reports the result.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    blobs::Blobs,
    entry::{Entry, read_entry},
    journal::Step,
    records::Target,
};

/// What became of a restoration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Its own id: restoring that undoes it. None when nothing had to be done.
    pub id: Option<String>,
    /// Files that are again as they were.
    pub restored: Vec<PathBuf>,
    /// Files that were so already.
    pub already: Vec<PathBuf>,
    /// Files that were left alone, and why.
    pub skipped: Vec<(PathBuf, Skip)>,
}

impl Restored {
    /// Files that somebody else changed, and that were therefore left alone.
    pub fn conflicts(&self) -> impl Iterator<Item = &Path> {
        let changed = self.skipped.iter().filter(|(_, skip)| *skip == Skip::Changed);
        changed.map(|(path, _)| path.as_path())
    }
}

/// Why a file was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skip {
    /// It is not as it was left: somebody else changed it.
    Changed,
    /// What it was is not known: it was too large to be kept.
    NotKept,
    /// It did not work, and the text says why.
    Failed(String),
}

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Changed => f.write_str("it was changed since"),
            Self::NotKept => f.write_str("its earlier contents were not saved"),
            Self::Failed(error) => f.write_str(error),
        }
    }
}

/// Compares the disk with what is to be there, touching nothing. What the records say of a path decides only whether
/// what stands there may be overwritten, never whether something has to be done.
pub(super) fn plan(targets: &[Target], force: bool, blobs: &Blobs, report: &mut Restored) -> Vec<Step> {
    let mut steps = BTreeMap::new();
    for target in targets {
        let skip = match read_entry(&target.path, blobs) {
            Err(error) => Some(Skip::Failed(error.to_string())),
            Ok(now) if now == target.then && now.is_known() => {
                if target.is_shown() {
                    report.already.push(target.path.clone());
                }
                continue;
            }
            Ok(_) if !target.then.is_known() => Some(Skip::NotKept),
            Ok(now) if !force && (target.disputed || !target.left.contains(&now) || !now.is_known()) => {
                Some(Skip::Changed)
            }
            Ok(Entry::Other) => Some(Skip::Changed),
            Ok(now) => {
                let then = target.then.clone();
                steps.insert(target.path.clone(), (now, then));
                None
            }
        };
        report.skipped.extend(skip.map(|skip| (target.path.clone(), skip)));
    }
    add_missing_directories(&mut steps);
    let steps = steps.into_iter();
    steps.map(|(path, (now, then))| Step { path, now, then }).collect()
}

/// Directories that somebody removed are made again for the files in them, as steps of their own: what is rolled back goes
/// with them.
fn add_missing_directories(steps: &mut BTreeMap<PathBuf, (Entry, Entry)>) {
    let mut missing = Vec::new();
    for path in steps
        .iter()
        .filter(|(_, (_, then))| *then != Entry::Absent)
        .map(|(path, _)| path)
    {
        for dir in path.ancestors().skip(1) {
            if steps.contains_key(dir) || dir.symlink_metadata().is_ok() {
                break;
            }
            missing.push(dir.to_owned());
        }
    }
    for dir in missing {
        let mode = mode_around(&dir);
        steps.entry(dir).or_insert((Entry::Absent, Entry::Directory { mode }));
    }
}

/// The mode of the nearest directory that is there.
fn mode_around(dir: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt;
    let around = dir.ancestors().find_map(|dir| dir.symlink_metadata().ok());
    around
        .filter(std::fs::Metadata::is_dir)
        .map_or(0o755, |found| found.mode() & 0o777)
}
