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

/// Hears out, briefly, the client that started the program.
///
/// An SDK writes its first request right after starting the program. To a program that has said what is wrong and is gone
/// by then it reports a broken pipe instead of what was said.
pub fn hear_out_client() {
    let (sender, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        while io::Read::read(&mut io::stdin(), &mut [0; 4096]).is_ok_and(|read| read > 0) && sender.send(()).is_ok() {}
    });
    let mut patience = std::time::Duration::from_millis(500);
    while heard.recv_timeout(patience).is_ok() {
        patience = std::time::Duration::from_millis(50);
    }
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
