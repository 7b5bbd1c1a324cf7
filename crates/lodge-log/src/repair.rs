//! Repairs a damaged log. The log is whole before and after, even if the power fails in between.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::damage::{Damage, Repair};
use crate::disk::{Disk, DiskFile, Mode, read_full, retry, write_all};
use crate::error::LogError;
use crate::file_log::Shared;
use crate::index::{Index, remove_side_file};
use crate::scan::Scanner;
use crate::survey::{Fix, Part, Survey, walk};

/// Does what the survey says must be done. Gives the index of the log as it is then, and what people should hear.
pub(crate) fn repair(
    shared: &Shared,
    dir: &Path,
    path: &Path,
    file: &Arc<dyn DiskFile>,
    len: u64,
    survey: Survey,
) -> Result<(Option<Repair>, Index), LogError> {
    let Survey {
        events,
        findings,
        mut index,
        fix,
        rewound: _,
    } = survey;
    let damaged = DamagedBytes {
        disk: &*shared.disk,
        dir,
        file: None,
    };
    let repaired = match fix {
        Fix::Nothing => Ok(None),
        Fix::Tail { keep, newline } => cut_tail(&**file, keep..len, newline, damaged),
        Fix::Rewrite => {
            let scanner = Scanner::new(file.clone(), 0, len, shared.longest_line());
            rewrite(scanner, path, damaged).map(|(set_aside, fresh)| {
                index = fresh;
                set_aside
            })
        }
    };
    let set_aside = repaired.map_err(LogError::io("repair", path))?;
    let repair = findings.is_loss().then_some(Repair {
        findings,
        kept: events,
        set_aside,
    });
    if let Some(repair) = &repair {
        tracing::warn!(path = %path.display(), "{repair}");
    }
    Ok((repair, index))
}

/// Damage at the end only: the common case after a crash, and cheap however long the log is.
fn cut_tail(
    file: &dyn DiskFile,
    cut: Range<u64>,
    newline: bool,
    mut damaged: DamagedBytes<'_>,
) -> io::Result<Option<PathBuf>> {
    let mut buf = vec![0; 64 * 1024];
    let mut at = cut.start;
    while at < cut.end {
        let want = buf.len().min((cut.end - at) as usize);
        let read = read_full(file, &mut buf[..want], at)?;
        if read == 0 {
            break;
        }
        at += read as u64;
        let bytes: Vec<u8> = buf[..read].iter().copied().filter(|b| *b != 0).collect();
        if !bytes.trim_ascii().is_empty() {
            damaged.add(&bytes)?;
        }
    }
    let set_aside = damaged.finish()?;
    retry(|| file.set_len(cut.start))?;
    if newline {
        write_all(file, &mut [IoSlice::new(b"\n")])?;
    }
    retry(|| file.sync())?;
    Ok(set_aside)
}

/// Whole events behind damage: they are copied to a new file, which then takes the old one's place.
fn rewrite(scanner: Scanner, path: &Path, mut damaged: DamagedBytes<'_>) -> io::Result<(Option<PathBuf>, Index)> {
    let (disk, dir) = (damaged.disk, damaged.dir);
    let fresh_path = dir.join("events.jsonl.new");
    let fresh = retry(|| disk.open(&fresh_path, Mode::Replace))?;
    let mut index = Index::default();
    let mut buffer = Vec::with_capacity(256 * 1024);
    walk(scanner, None, &mut |part| match part {
        Part::Event {
            raw, json, mark, note, ..
        } => {
            if note == Some(Damage::NotUtf8) {
                damaged.add_line(raw)?;
            }
            index.advance([json, b"\n"], 1, mark.new_last());
            buffer.extend_from_slice(json);
            buffer.push(b'\n');
            if buffer.len() >= 128 * 1024 {
                write_all(&*fresh, &mut [IoSlice::new(&buffer)])?;
                buffer.clear();
            }
            Ok(())
        }
        Part::Bad { raw, .. } => damaged.add_line(raw),
        Part::Blank { .. } | Part::Zeros { .. } => Ok(()),
    })?;
    write_all(&*fresh, &mut [IoSlice::new(&buffer)])?;
    retry(|| fresh.sync())?;
    let set_aside = damaged.finish()?;
    remove_side_file(disk, dir)?;
    retry(|| disk.rename(&fresh_path, path))?;
    retry(|| disk.sync_dir(dir))?;
    Ok((set_aside, index))
}

/// The file next to the log that takes the damaged bytes; made when there are some.
struct DamagedBytes<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    file: Option<(PathBuf, Arc<dyn DiskFile>)>,
}

impl DamagedBytes<'_> {
    fn add_line(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.add(bytes)?;
        self.add(b"\n")
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &self.file {
            Some((_, file)) => file.clone(),
            None => {
                let (path, file) = self.create()?;
                self.file = Some((path, file.clone()));
                file
            }
        };
        write_all(&*file, &mut [IoSlice::new(bytes)])
    }

    fn create(&self) -> io::Result<(PathBuf, Arc<dyn DiskFile>)> {
        let mut n = 1;
        loop {
            let path = self.dir.join(format!("events.damaged-{n}"));
            match retry(|| self.disk.open(&path, Mode::CreateNew)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => n += 1,
                file => return Ok((path, file?)),
            }
        }
    }

    /// Makes sure that the bytes are safe before they leave the log.
    fn finish(self) -> io::Result<Option<PathBuf>> {
        let Some((path, file)) = self.file else { return Ok(None) };
        retry(|| file.sync())?;
        retry(|| self.disk.sync_dir(self.dir))?;
        Ok(Some(path))
    }
}
