//! `host.log`: the log of a host in the background, and of a service without a journal. When it has grown too large, it becomes `host.log.1`.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// Size limit of the file.
const LARGEST: u64 = 4 << 20;

pub(crate) fn path(home: &Path) -> PathBuf {
    home.join("host.log")
}

/// Opens the file for appending. Returns its length.
pub(crate) fn open(home: &Path) -> io::Result<(File, u64)> {
    let path = path(home);
    if fs::metadata(&path).is_ok_and(|log| log.len() >= LARGEST) {
        fs::rename(&path, home.join("host.log.1"))?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let log = options.open(&path)?;
    let length = log.metadata()?.len();
    Ok((log, length))
}

/// The log file of a running host.
pub(crate) struct LogFile {
    home: PathBuf,
    state: Mutex<(File, u64)>,
}

impl LogFile {
    pub(crate) fn open(home: &Path) -> io::Result<Self> {
        Ok(Self {
            home: home.to_owned(),
            state: Mutex::new(open(home)?),
        })
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

/// One line being written.
pub(crate) struct Line<'a>(&'a LogFile);

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state.lock();
        if state.1 >= LARGEST {
            *state = open(&self.0.home)?;
        }
        let written = state.0.write(bytes)?;
        state.1 += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_its_last_lines_and_stays_bounded() {
        let home = tempfile::tempdir().unwrap();
        let log = LogFile::open(home.path()).unwrap();
        let line = [b'x'; 64 << 10];
        for _ in 0..200 {
            log.make_writer().write_all(&line).unwrap();
        }
        log.make_writer().write_all(b"the last\n").unwrap();
        let now = fs::read(path(home.path())).unwrap();
        assert!(now.ends_with(b"the last\n") && now.len() as u64 <= LARGEST + (64 << 10));
        let before = fs::metadata(home.path().join("host.log.1")).unwrap().len();
        assert_eq!(before, LARGEST);
    }
}
