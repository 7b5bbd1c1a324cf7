//! Local sockets. A process of the same user that no agent started needs no token; the kernel says who connects.

use std::{
    fs::{DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    time::timeout,
};

use crate::{Admission, Door, Refused, ancestry, secret};

/// The longest path of a socket, without the terminating zero.
const LONGEST_PATH: usize = 107;
/// How often the socket file is checked. Somebody may delete it, or the whole home.
const LOOK: Duration = Duration::from_secs(5);
/// How long, and how many bytes, to read from a refused connection.
const LAST_WORDS: Duration = Duration::from_secs(1);
const MOST_LAST_WORDS: u64 = 64 << 10;

/// A listening local socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    file: SocketFile,
    door: Arc<Door>,
}

/// The file of a socket that is listened on. It goes when this is dropped.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl LocalListener {
    /// Listens for processes of this user on a socket of the home. One host at a time has a home, so what is in the way is
    /// a leftover.
    pub fn bind(door: Arc<Door>, home: &Path, name: &str) -> io::Result<Self> {
        if !ancestry::can_tell() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this system does not identify the connecting process",
            ));
        }
        let path = place(home, name)?;
        let (listener, file) = listen(path)?;
        Ok(Self { listener, file, door })
    }

    /// Where its file is.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// The next connection, and whether it is admitted. The face should tell a refused one why, in its own protocol.
    pub async fn accept(&mut self) -> (UnixStream, Result<Admission, Refused>) {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = tokio::time::sleep(LOOK) => {
                    self.come_back();
                    continue;
                }
            };
            match accepted {
                Ok((stream, _)) => {
                    let admitted = self.admit(&stream);
                    if let Err(why) = &admitted {
                        tracing::warn!("a connection to {} was refused: {why}", self.file.path.display());
                    }
                    return (stream, admitted);
                }
                // One connection that could not be accepted (out of descriptors) is not the end.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn admit(&self, stream: &UnixStream) -> Result<Admission, Refused> {
        let peer = stream.peer_cred().map_err(|_| Refused::Unknown)?;
        if peer.uid() != rustix::process::geteuid().as_raw() {
            return Err(Refused::OtherUser);
        }
        self.door.terminals.check(peer.pid().ok_or(Refused::Unknown)?)?;
        Ok(Admission::owner())
    }

    /// Listens again if the socket file was deleted.
    fn come_back(&mut self) {
        if self.file.is_there() {
            return;
        }
        let path = self.file.path.clone();
        let again = path
            .parent()
            .map_or(Ok(()), private_directory)
            .and_then(|()| listen(path));
        match again {
            Ok((listener, file)) => {
                tracing::warn!("{} was deleted; it has been restored", file.path.display());
                self.listener = listener;
                self.file = file;
            }
            Err(error) => tracing::debug!(%error, "the local socket was deleted and cannot be reopened"),
        }
    }
}

/// Tells a connection that it may not come in, in the face's own words, and closes it. What it still says is read first: it
/// would not see the answer otherwise.
pub async fn turn_away(mut stream: UnixStream, answer: &[u8]) {
    let told = async {
        stream.write_all(answer).await?;
        stream.shutdown().await?;
        let mut rest = (&mut stream).take(MOST_LAST_WORDS);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // Whoever does not listen need not be told.
    let _ = timeout(LAST_WORDS, told).await;
}

/// Listens on a socket for its owner alone, wherever it is to be. One that nobody listens on any more is replaced.
pub fn listen_at(path: PathBuf) -> io::Result<(UnixListener, SocketFile)> {
    if std::os::unix::net::UnixStream::connect(&path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    listen(path)
}

impl SocketFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn is_there(&self) -> bool {
        std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Not that of a host that came after.
        if self.is_there() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn listen(path: PathBuf) -> io::Result<(UnixListener, SocketFile)> {
    if std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
        std::fs::remove_file(&path)?;
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let inode = std::fs::symlink_metadata(&path)?.ino();
    Ok((listener, SocketFile { path, inode }))
}

/// Where the socket goes: into the home, or, where that makes a path that is too long, into a directory with a short one.
fn place(home: &Path, name: &str) -> io::Result<PathBuf> {
    let directory = home.join("run");
    let path = directory.join(format!("{name}.sock"));
    if path.as_os_str().len() <= LONGEST_PATH {
        private_directory(&directory)?;
        return Ok(path);
    }
    let uid = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(|runtime| PathBuf::from(runtime).join("lodge"));
    let short = [runtime, Some(format!("/tmp/lodge-{uid}").into())];
    let mut hash = secret::hash(&home.to_string_lossy());
    hash.truncate(16);
    let mut last = io::Error::other("no directory has a short enough path for the local socket");
    for directory in short.into_iter().flatten() {
        let path = directory.join(format!("{hash}-{name}.sock"));
        if !directory.is_absolute() || path.as_os_str().len() > LONGEST_PATH {
            continue;
        }
        match private_directory(&directory) {
            Ok(()) => return Ok(path),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Creates a directory that only this user can access, or checks an existing one.
fn private_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(false).mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        }
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // A link is not followed: in /tmp anybody can have put one there.
    let found = std::fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        let text = format!("{} is not a directory that belongs to this user", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    if found.mode() & 0o077 != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn door() -> Arc<Door> {
        Arc::new(Door::with_token("a-token-for-tests"))
    }

    #[tokio::test]
    async fn the_socket_is_its_owner_s_alone_and_goes_with_the_host() {
        let home = tempfile::tempdir().unwrap();
        let listener = LocalListener::bind(door(), home.path(), "lodge").unwrap();
        let path = listener.path().to_owned();
        assert_eq!(path, home.path().join("run/lodge.sock"));
        let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        // A leftover is replaced, and its listener does not take the new file away.
        let second = LocalListener::bind(door(), home.path(), "lodge").unwrap();
        drop(listener);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_home_with_a_long_path_has_a_socket_with_a_short_one() {
        let parent = tempfile::tempdir().unwrap();
        let home = parent.path().join("x".repeat(120));
        std::fs::create_dir(&home).unwrap();
        let listener = LocalListener::bind(door(), &home, "lodge").unwrap();
        assert!(listener.path().as_os_str().len() <= LONGEST_PATH);
        UnixStream::connect(listener.path()).await.unwrap();
    }

    #[tokio::test]
    async fn a_directory_that_is_a_link_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), home.path().join("run")).unwrap();
        assert!(LocalListener::bind(door(), home.path(), "lodge").is_err());
    }

    #[tokio::test]
    async fn the_host_s_own_processes_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let mut listener = LocalListener::bind(door(), home.path(), "lodge").unwrap();
        let _ours = UnixStream::connect(listener.path()).await.unwrap();
        let (_, admitted) = listener.accept().await;
        assert_eq!(admitted.unwrap_err(), Refused::StartedByAgent);
    }
}
