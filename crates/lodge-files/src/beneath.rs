//! Opens paths beneath a directory in one kernel call (`openat2`): a path is never checked first and opened later, so a
//! link that changes in between leads nowhere else.

use std::{
    ffi::OsStr,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

/// What is done about symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Followed where they lead to something beneath the directory.
    Beneath,
    /// Not followed at all. With [`OFlags::NOFOLLOW`] the last name may be one, which is then opened itself.
    Refused,
}

/// How often the kernel is asked again that is not sure, because of a rename beside it, whether something is beneath.
#[cfg(target_os = "linux")]
const ATTEMPTS: usize = 16;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens something beneath a directory; `mode` is for what is made. Where the system has no `openat2`, no link is followed.
pub fn open_beneath(root: impl AsFd, below: &Path, flags: OFlags, mode: Mode, links: Links) -> Result<OwnedFd, Errno> {
    let below = match below.as_os_str().is_empty() {
        true => Path::new("."),
        false => below,
    };
    let flags = flags | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if links == Links::Refused && !flags.contains(OFlags::NOFOLLOW) {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        for _ in 0..ATTEMPTS {
            match rustix::fs::openat2(&root, below, flags, mode, resolve) {
                Err(Errno::AGAIN) => {}
                // Not there (before Linux 5.6) or forbidden by a container.
                Err(Errno::NOSYS | Errno::PERM) => break,
                opened => return opened,
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = links;
    open_stepwise(root, below, flags, mode)
}

/// The same, one name at a time.
fn open_stepwise(root: impl AsFd, below: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let mut directory = rustix::fs::openat(&root, ".", DIRECTORY, Mode::empty())?;
    let mut names = names(below)?.into_iter().peekable();
    while let Some(name) = names.next() {
        if names.peek().is_none() {
            return rustix::fs::openat(&directory, name, flags | OFlags::NOFOLLOW, mode);
        }
        directory = rustix::fs::openat(&directory, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    }
    rustix::fs::openat(&directory, ".", flags, mode)
}

/// The names on a way down; refused where it leads up, or begins elsewhere.
fn names(below: &Path) -> Result<Vec<&OsStr>, Errno> {
    let parts = below.components().filter(|part| *part != Component::CurDir);
    parts
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(Errno::XDEV),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Write},
        os::unix::fs::symlink,
    };

    use super::*;

    type Open = fn(&File, &Path, OFlags, Mode, Links) -> Result<OwnedFd, Errno>;

    const WAYS: [Open; 2] = [
        |root, below, flags, mode, links| open_beneath(root, below, flags, mode, links),
        |root, below, flags, mode, _| open_stepwise(root, below, flags | OFlags::CLOEXEC, mode),
    ];

    #[test]
    fn nothing_leads_out_of_the_root_and_links_are_followed_only_where_they_may_be() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), "inside").unwrap();
        std::fs::write(dir.path().join("secret"), "outside").unwrap();
        for (target, name) in [("a/b", "way"), ("a/b/file", "link"), ("../secret", "out"), ("..", "up")] {
            symlink(target, root.join(name)).unwrap();
        }
        symlink(dir.path().join("secret"), root.join("far")).unwrap();
        let opened = File::open(&root).unwrap();
        for (way, open) in WAYS.iter().enumerate() {
            for links in [Links::Beneath, Links::Refused] {
                let read = |below: &str| {
                    let fd = open(&opened, Path::new(below), OFlags::RDONLY, Mode::empty(), links).ok()?;
                    let mut text = String::new();
                    File::from(fd).read_to_string(&mut text).ok()?;
                    Some(text)
                };
                for below in ["a/b/file", "./a/./b/file"] {
                    assert_eq!(read(below).as_deref(), Some("inside"), "{below}, way {way}");
                }
                let follows = way == 0 && links == Links::Beneath && cfg!(target_os = "linux");
                for below in ["way/file", "link"] {
                    assert_eq!(read(below).is_some(), follows, "{below}, way {way}, {links:?}");
                }
                for below in [
                    "out",
                    "far",
                    "up/secret",
                    "../secret",
                    "a/../../secret",
                    "/etc/hostname",
                ] {
                    assert_eq!(read(below), None, "{below}, way {way}, {links:?}");
                }
            }
            assert!(open(&opened, Path::new(""), OFlags::RDONLY, Mode::empty(), Links::Refused).is_ok());
        }
    }

    #[test]
    fn what_is_new_is_made_beneath_the_root_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        symlink("../new", root.join("out")).unwrap();
        symlink("..", root.join("up")).unwrap();
        let opened = File::open(&root).unwrap();
        let flags = OFlags::WRONLY | OFlags::CREATE;
        for (way, open) in WAYS.iter().enumerate() {
            let make = |below: &str| {
                open(
                    &opened,
                    Path::new(below),
                    flags,
                    Mode::from_raw_mode(0o600),
                    Links::Beneath,
                )
            };
            let name = format!("new-{way}");
            File::from(make(&name).unwrap()).write_all(b"x").unwrap();
            assert_eq!(std::fs::read_to_string(root.join(name)).unwrap(), "x");
            for below in ["out", "up/new", "../new"] {
                assert!(make(below).is_err(), "{below}, way {way}");
            }
        }
        assert!(!dir.path().join("new").exists());
    }
}
