//! Standard input and output without a thread in between, where the system allows it.
//!
//! Node starts its children with sockets for standard input and output, Python with pipes; both can be polled. For
//! anything else (a file, a terminal) tokio's blocking threads do.

use std::{fs::File, io, os::fd::AsFd};

use tokio::io::{AsyncRead, AsyncWrite};

type Input = Box<dyn AsyncRead + Unpin + Send>;
type Output = Box<dyn AsyncWrite + Unpin + Send>;

/// Opens both.
pub(crate) fn open() -> io::Result<(Input, Output)> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    Ok((reader(input)?, writer(output)?))
}

fn reader(file: File) -> io::Result<Input> {
    Ok(match Kind::of(&file)? {
        Kind::Pipe => Box::new(tokio::net::unix::pipe::Receiver::from_owned_fd(file.into())?),
        Kind::Socket => Box::new(socket(file)?),
        Kind::Other => Box::new(tokio::io::stdin()),
    })
}

fn writer(file: File) -> io::Result<Output> {
    Ok(match Kind::of(&file)? {
        Kind::Pipe => Box::new(tokio::net::unix::pipe::Sender::from_owned_fd(file.into())?),
        Kind::Socket => Box::new(socket(file)?),
        Kind::Other => Box::new(tokio::io::stdout()),
    })
}

fn socket(file: File) -> io::Result<tokio::net::UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(std::os::fd::OwnedFd::from(file));
    socket.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(socket)
}

enum Kind {
    Pipe,
    Socket,
    Other,
}

impl Kind {
    fn of(file: &File) -> io::Result<Self> {
        use std::os::unix::fs::FileTypeExt;
        let kind = file.metadata()?.file_type();
        Ok(match (kind.is_fifo(), kind.is_socket()) {
            (true, _) => Self::Pipe,
            (_, true) => Self::Socket,
            _ => Self::Other,
        })
    }
}
