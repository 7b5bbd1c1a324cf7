//! `lodge backup` and `lodge restore`: a home as one file. A backup can be made while the host runs: each log is copied up to
//! its last whole line, SQLite copies its databases, and every other file is replaced atomically when it is written, so the
//! copy is either the old or the new one.

mod restore;

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use flate2::{Compression, write::GzEncoder};
use serde::{Deserialize, Serialize};

pub(crate) use self::restore::restore;
use crate::{listing::count, serve::print_line};

/// First and last entry of a backup.
const BEGINNING: &str = "lodge-backup.json";
const END: &str = "lodge-backup-end.json";
const FORMAT: u32 = 1;

/// Files about a running host, files that can be recreated, and files about things outside the home.
const LEFT_OUT: [&str; 7] = [
    "host.json",
    "lodge.lock",
    "catalogue.db",
    "catalogue.db-wal",
    "catalogue.db-shm",
    "run",
    "restoring",
];

/// `lodge backup`.
#[derive(Args)]
pub(crate) struct BackupArgs {
    /// The file to write; an existing file is not overwritten [default: lodge-backup-DATE.tar.gz]
    file: Option<PathBuf>,
}

/// `lodge restore`.
#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// The backup to restore
    file: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Beginning {
    format: u32,
    lodge: String,
    made: String,
}

#[derive(Serialize, Deserialize)]
struct End {
    files: u64,
}

/// Creates a backup.
pub(crate) fn backup(home: &Path, args: &BackupArgs) -> Result<ExitCode> {
    if !home.join("session-state").is_dir() {
        bail!(
            "There is no home at {}, so there is nothing to back up.",
            home.display()
        );
    }
    let now = jiff::Zoned::now();
    let file = match &args.file {
        Some(file) => file.clone(),
        None => PathBuf::from(format!("lodge-backup-{}.tar.gz", now.strftime("%Y-%m-%d-%H%M%S"))),
    };
    // It contains the token and all conversations.
    let out = File::options().write(true).create_new(true).mode(0o600).open(&file);
    let mut out = out.with_context(|| format!("Cannot write {}", file.display()))?;
    let written = write(home, &mut out, &now.timestamp().to_string()).and_then(|written| {
        out.sync_all()?;
        Ok(written)
    });
    match written {
        Ok((files, links)) => {
            let size = out.metadata()?.len();
            print_line(&format!(
                "{}: {}, {} KiB.",
                file.display(),
                count(files, "file"),
                size.div_ceil(1024)
            ));
            if !links.is_empty() {
                let links: Vec<_> = links.iter().map(|link| link.display().to_string()).collect();
                print_line(&format!(
                    "These links are left out; back up what they lead to yourself: {}.",
                    links.join(", ")
                ));
            }
            print_line("It contains the host's token and all conversations. Keep it safe.");
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            // An incomplete backup is useless.
            let _ = fs::remove_file(&file);
            Err(error.context(format!("Cannot create {}", file.display())))
        }
    }
}

/// The number of files, and the links that are left out.
fn write(home: &Path, out: impl Write, made: &str) -> Result<(u64, Vec<PathBuf>)> {
    let mut archive = Archive {
        tar: tar::Builder::new(GzEncoder::new(out, Compression::default())),
        files: 0,
        links: Vec::new(),
    };
    let beginning = Beginning {
        format: FORMAT,
        lodge: env!("CARGO_PKG_VERSION").to_owned(),
        made: made.to_owned(),
    };
    archive.bytes(BEGINNING, 0o600, &serde_json::to_vec(&beginning)?)?;
    archive.directory(home, Path::new(""))?;
    let end = End { files: archive.files };
    archive.bytes(END, 0o600, &serde_json::to_vec(&end)?)?;
    archive.tar.into_inner()?.finish()?.flush()?;
    Ok((end.files, archive.links))
}

struct Archive<W: Write> {
    tar: tar::Builder<GzEncoder<W>>,
    files: u64,
    /// Links that are left out.
    links: Vec<PathBuf>,
}

impl<W: Write> Archive<W> {
    /// Adds a directory: its files before its subdirectories, because a list of changes names contents in them, which
    /// exist before they are named.
    fn directory(&mut self, from: &Path, name: &Path) -> Result<()> {
        let entries = match fs::read_dir(from) {
            // The session was deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.with_context(|| format!("Cannot read {}", from.display()))?,
        };
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        for entry in entries {
            let entry = entry?;
            let (kind, found) = (entry.file_type()?, entry.file_name());
            let in_home = name.as_os_str().is_empty();
            if in_home && LEFT_OUT.iter().any(|left| found == *left) {
                continue;
            }
            if kind.is_dir() {
                directories.push(found);
            } else if kind.is_file() {
                files.push(found);
            } else if kind.is_symlink() {
                // Settings are often links to files that are kept elsewhere. A link to a directory could lead anywhere.
                match in_home && fs::metadata(entry.path()).is_ok_and(|target| target.is_file()) {
                    true => files.push(found),
                    false => self.links.push(name.join(found)),
                }
            }
        }
        files.sort();
        directories.sort();
        for file in files {
            let path = from.join(&file);
            self.file(&path, &name.join(&file))
                .with_context(|| format!("Cannot read {}", path.display()))?;
        }
        for directory in directories {
            let inner = name.join(&directory);
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Directory);
            header.set_mode(0o700);
            header.set_size(0);
            self.tar.append_data(&mut header, &inner, io::empty())?;
            self.directory(&from.join(&directory), &inner)?;
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: &Path) -> Result<()> {
        let text = name.to_string_lossy();
        // Recreated from the log, part of a database that is copied as a whole, or about to be renamed.
        if text.ends_with("events.idx")
            || text.ends_with("-wal")
            || text.ends_with("-shm")
            || text.ends_with("-journal")
        {
            return Ok(());
        }
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let found = file.metadata()?;
        let mode = found.mode() & 0o700;
        let mut head = [0; 16];
        let is_database = found.len() >= 16 && file.read_exact(&mut head).is_ok() && &head == b"SQLite format 3\0";
        file.seek(SeekFrom::Start(0))?;
        if is_database {
            file = copy_database(path)?;
        }
        let length = match text.ends_with(".jsonl") {
            true => whole_lines(&mut file)?,
            false => file.metadata()?.len(),
        };
        let mut header = header(mode, length, found.mtime());
        let mut content = Exact {
            file: file.take(length),
            left: length,
        };
        self.tar.append_data(&mut header, name, &mut content)?;
        self.files += 1;
        Ok(())
    }

    fn bytes(&mut self, name: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        let mut header = header(mode, bytes.len() as u64, 0);
        Ok(self.tar.append_data(&mut header, name, bytes)?)
    }
}

fn header(mode: u32, length: u64, time: i64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(length);
    header.set_mtime(u64::try_from(time).unwrap_or(0));
    header
}

/// The length of the part of a log that consists of whole lines. Afterwards, the file is at its beginning.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    const PIECE: u64 = 64 << 10;
    let mut end = file.metadata()?.len();
    let mut piece = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(PIECE);
        file.seek(SeekFrom::Start(start))?;
        piece.clear();
        (&mut *file).take(end - start).read_to_end(&mut piece)?;
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(end)
}

/// A consistent copy of a database.
fn copy_database(path: &Path) -> Result<File> {
    let dir = tempfile_dir()?;
    let copy = dir.join("copy.db");
    let made = (|| {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = rusqlite::Connection::open_with_flags(path, flags)?;
        database.busy_timeout(std::time::Duration::from_secs(10))?;
        database.execute("VACUUM INTO ?1", [copy.to_string_lossy()])?;
        Ok(File::open(&copy)?)
    })();
    // The open file stays readable without its name.
    let _ = fs::remove_dir_all(dir);
    made
}

/// A private directory for the copy of a database.
fn tempfile_dir() -> Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let dir = std::env::temp_dir().join(format!("lodge-backup-{}", uuid::Uuid::new_v4()));
    fs::DirBuilder::new().mode(0o700).create(&dir)?;
    Ok(dir)
}

/// A file of which exactly this many bytes are read. One that became shorter meanwhile is an error, not a hole in the
/// archive.
struct Exact {
    file: io::Take<File>,
    left: u64,
}

impl Read for Exact {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.left -= read as u64;
        if read == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::Error::other("it became shorter while it was read; try again"));
        }
        Ok(read)
    }
}
