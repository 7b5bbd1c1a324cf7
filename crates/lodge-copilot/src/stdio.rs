//! Standard input and output without a thread in between, where the system allows it.
//!
//! Node starts its children with sockets for standard input and output, Python with pipes; both can be polled. For anything
//! else (a file, a terminal), tokio's blocking threads are used.

use std::{fs::File, io, os::fd::AsFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite};

type Input = Box<dyn AsyncRead + Unpin + Send>;
type Output = Box<dyn AsyncWrite + Unpin + Send>;

/// Standard input and output, for one client.
pub fn open() -> io::Result<(Input, Output)> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    Ok((reader(input)?, writer(output)?))
}

/// Hears out, briefly, the client that started the program.
///
/// An SDK writes its first request right after it starts the program. If the program has already reported an error and
/// exited, the SDK reports a broken pipe instead of that error. Afterwards the input is closed: what the SDK writes
/// after the end of the output must fail, and not wait for an answer.
pub fn hear_out_client() {
    let input = rustix::stdio::stdin();
    let mut millis = 500;
    loop {
        let patience = Timespec {
            tv_sec: 0,
            tv_nsec: millis * 1_000_000,
        };
        let heard = poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&patience));
        if !heard.is_ok_and(|ready| ready > 0) || !rustix::io::read(input, &mut [0; 4096]).is_ok_and(|read| read > 0) {
            break;
        }
        millis = 50;
    }
    if let Ok(nothing) = File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(nothing);
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
