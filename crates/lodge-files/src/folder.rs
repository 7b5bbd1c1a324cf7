//! Reads the files of a folder that may be anybody's: a repository that somebody cloned, an archive that somebody unpacked.
//!
//! Whoever made the folder chose what its files are. A link could lead to a secret, or to a device without end; a pipe would keep
//! its reader waiting. So a file is read only if it is a regular one, lies in the folder itself, and is not too long.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use crate::{Links, open_beneath};

/// How files are opened that are perhaps none: a pipe or a terminal keeps nobody waiting.
const LOOKING: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Opens a regular file of a folder. `name` leads from the folder to the file. Links are followed where they lead to something
/// in the folder.
pub fn open_in_folder(folder: &Path, name: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(folder, flags, Mode::empty())?;
    match open_beneath(root, name.as_ref(), LOOKING, Mode::empty(), Links::Beneath) {
        Ok(fd) => regular(fd.into()),
        Err(Errno::XDEV | Errno::LOOP) => Err(io::Error::other(
            "it is a link that is absolute or leads out of the folder",
        )),
        Err(error) => Err(error.into()),
    }
}

/// What is in a regular file of a folder, if it is at most so many bytes long. See [`open_in_folder`].
pub fn read_in_folder(folder: &Path, name: impl AsRef<Path>, most_bytes: u64) -> io::Result<Vec<u8>> {
    read_opened(&open_in_folder(folder, name)?, most_bytes)
}

/// The same for text.
pub fn text_in_folder(folder: &Path, name: impl AsRef<Path>, most_bytes: u64) -> io::Result<String> {
    String::from_utf8(read_in_folder(folder, name, most_bytes)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text"))
}

/// What is in a regular file anywhere, if it is at most so many bytes long. For files whose place a person chose.
pub fn read_regular(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    read_opened(
        &regular(rustix::fs::open(path, LOOKING, Mode::empty())?.into())?,
        most_bytes,
    )
}

/// What is in an open file, if it is at most so many bytes long.
pub fn read_opened(file: &File, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most_bytes {
        true => Err(io::Error::other("it is too large")),
        false => Ok(bytes),
    }
}

fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a file")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folders_file_is_a_regular_file_in_the_folder_that_is_not_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        std::fs::write(folder.join("sub/file"), "inside").unwrap();
        std::fs::write(dir.path().join("secret"), "outside").unwrap();
        for (target, name) in [
            ("sub/file", "link"),
            ("../secret", "out"),
            ("/dev/zero", "endless"),
            ("/proc/self/environ", "environment"),
            ("..", "up"),
        ] {
            symlink(target, folder.join(name)).unwrap();
        }
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.join("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let read = |name: &str| text_in_folder(&folder, name, 6).map_err(|error| error.to_string());
        assert_eq!(read("sub/file").as_deref(), Ok("inside"));
        if cfg!(target_os = "linux") {
            assert_eq!(read("link").as_deref(), Ok("inside"));
        }
        for name in ["out", "endless", "environment", "up/secret", "../secret"] {
            let error = read(name).unwrap_err();
            assert!(error.contains("leads out of the folder"), "{name}: {error}");
        }
        for name in ["pipe", "sub"] {
            assert_eq!(read(name).unwrap_err(), "it is not a file", "{name}");
            assert!(read_regular(&folder.join(name), 6).is_err(), "{name}");
        }
        assert_eq!(
            text_in_folder(&folder, "sub/file", 5).unwrap_err().to_string(),
            "it is too large"
        );
        let absent = text_in_folder(&folder, "absent", 5).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
        assert_eq!(read_regular(&folder.join("out"), 7).unwrap(), b"outside");
    }
}
