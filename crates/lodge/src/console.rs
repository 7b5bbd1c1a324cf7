//! Input and output of a command: this process's terminal, or that of the program that sent the command to the host.

use std::{
    convert::Infallible,
    io::{self, BufWriter, IsTerminal, Write},
    sync::Arc,
};

use lodge_terminal::Scheme;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Input from the person at the terminal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Heard {
    /// A typed line.
    Line(String),
    /// The end of the input.
    End,
    /// Ctrl-C.
    Interrupt,
    /// A new size of the terminal.
    Resized(Size),
    /// The person is gone.
    Gone,
}

/// Output of a command in the host, on its way to the local client's terminal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Shown {
    Out(String),
    Err(String),
    Exit(u8),
}

/// Whether a variable with this value turns something on.
fn is_on(value: &str) -> bool {
    !["", "0", "false", "no", "off"].contains(&value.to_ascii_lowercase().as_str())
}

/// Reads the value of an option that a variable can turn on, too.
pub(crate) fn parse_switch(value: &str) -> Result<bool, Infallible> {
    Ok(is_on(value))
}

/// Columns and rows of a terminal.
pub(crate) type Size = (u16, u16);

/// Which streams of the program are a terminal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Terminal {
    pub(crate) stdin: bool,
    pub(crate) stderr: bool,
    /// The terminal's size, if it can be drawn on and all output goes to it.
    pub(crate) screen: Option<Size>,
    /// The colours that its environment asks for.
    pub(crate) scheme: Scheme,
}

impl Terminal {
    pub(crate) fn own() -> Self {
        let stderr = io::stderr().is_terminal();
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let plain = variable("LODGE_PLAIN").is_some_and(|value| is_on(&value));
        let able = variable("TERM").is_some_and(|term| term != "dumb") && !plain;
        Self {
            stdin: io::stdin().is_terminal(),
            stderr,
            screen: size().filter(|_| able && stderr && io::stdout().is_terminal()),
            scheme: Scheme::detect(variable).unwrap_or_default(),
        }
    }

    /// Whether there is a person to ask.
    pub(crate) fn has_person(self) -> bool {
        self.stdin && self.stderr
    }
}

/// The two output streams of a command, and its input.
pub(crate) struct Console {
    pub(crate) out: Box<dyn Write + Send>,
    pub(crate) err: Box<dyn Write + Send>,
    pub(crate) terminal: Terminal,
    heard: mpsc::UnboundedReceiver<Heard>,
    /// The source of the input, until it is first needed.
    source: Option<Source>,
    wire: Option<(OwnedWriteHalf, Arc<Mutex<Vec<u8>>>)>,
}

struct Source {
    into: mpsc::UnboundedSender<Heard>,
    wire: Option<OwnedReadHalf>,
}

impl Console {
    /// The console of this process.
    pub(crate) fn own() -> Self {
        Self::new(
            Box::new(BufWriter::new(io::stdout())),
            Box::new(io::stderr()),
            Terminal::own(),
            None,
            None,
        )
    }

    pub(crate) fn of_local_client(stream: UnixStream, terminal: Terminal) -> Self {
        let (read, write) = stream.into_split();
        let buffer = Arc::<Mutex<Vec<u8>>>::default();
        let sink = |frame| {
            let buffer = buffer.clone();
            Box::new(Sink { buffer, frame })
        };
        let (out, err) = (sink(Shown::Out), sink(Shown::Err));
        Self::new(out, err, terminal, Some(read), Some((write, buffer)))
    }

    fn new(
        out: Box<dyn Write + Send>,
        err: Box<dyn Write + Send>,
        terminal: Terminal,
        read: Option<OwnedReadHalf>,
        wire: Option<(OwnedWriteHalf, Arc<Mutex<Vec<u8>>>)>,
    ) -> Self {
        let (into, heard) = mpsc::unbounded_channel();
        Self {
            out,
            err,
            terminal,
            heard,
            source: Some(Source { into, wire: read }),
            wire,
        }
    }

    /// The next input. Lines are read only if there is a person.
    pub(crate) async fn heard(&mut self) -> Heard {
        if let Some(source) = self.source.take() {
            match source.wire {
                Some(wire) => drop(tokio::spawn(hear_local_client(wire, source.into))),
                None => hear_own(&source.into, self.terminal.has_person()),
            }
        }
        match self.heard.recv().await {
            Some(heard) => heard,
            None => std::future::pending().await,
        }
    }

    /// Prints a line of the answer.
    pub(crate) fn say(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }

    /// Flushes the output. Waits for a local client that reads slowly.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        self.out.flush()?;
        if let Some((wire, buffer)) = &mut self.wire {
            let waiting = std::mem::take(&mut *buffer.lock());
            wire.write_all(&waiting).await?;
        }
        Ok(())
    }

    /// Tells a local client the command's exit code.
    pub(crate) async fn exit(mut self, code: u8) {
        if let Some((_, buffer)) = &self.wire {
            push(buffer, &Shown::Exit(code));
        }
        // A local client that is gone needs no answer.
        let _ = self.flush().await;
    }

    /// Asks a question that is answered with a line. `None` if nobody can answer.
    pub(crate) async fn ask(&mut self, question: &str) -> io::Result<Option<String>> {
        if !self.terminal.has_person() {
            return Ok(None);
        }
        write!(self.err, "{question}")?;
        self.err.flush()?;
        self.flush().await?;
        loop {
            return Ok(match self.heard().await {
                Heard::Line(line) => Some(line),
                Heard::Resized(_) => continue,
                Heard::End | Heard::Interrupt | Heard::Gone => None,
            });
        }
    }
}

/// Reads the input of this process's terminal.
fn hear_own(into: &mpsc::UnboundedSender<Heard>, lines: bool) {
    let interrupts = into.clone();
    // A single listener: a new one for each signal would miss those in between.
    if let Ok(mut signals) = signal(SignalKind::interrupt()) {
        tokio::spawn(
            async move { while signals.recv().await.is_some() && interrupts.send(Heard::Interrupt).is_ok() {} },
        );
    }
    if lines {
        read_lines(into.clone());
    }
    hear_sizes(into.clone());
}

/// The size of this process's terminal; `None` without one.
fn size() -> Option<Size> {
    let size = crossterm::terminal::size().ok()?;
    (size.0 > 0 && size.1 > 0).then_some(size)
}

/// Reports when this process's terminal is resized.
pub(crate) fn hear_sizes(into: mpsc::UnboundedSender<Heard>) {
    let Ok(mut signals) = signal(SignalKind::window_change()) else {
        return;
    };
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            if size().is_some_and(|size| into.send(Heard::Resized(size)).is_err()) {
                return;
            }
        }
    });
}

/// Reads lines from standard input, in a separate thread: reading from a terminal cannot be cancelled, and must not
/// keep the runtime from ending.
pub(crate) fn read_lines(into: mpsc::UnboundedSender<Heard>) {
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
            let Ok(line) = line else { break };
            if into.send(Heard::Line(line)).is_err() {
                return;
            }
        }
        let _ = into.send(Heard::End);
    });
}

async fn hear_local_client(wire: OwnedReadHalf, into: mpsc::UnboundedSender<Heard>) {
    let mut lines = BufReader::new(wire).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(heard) = serde_json::from_str(&line) else { break };
        if into.send(heard).is_err() {
            return;
        }
    }
    let _ = into.send(Heard::Gone);
}

/// Writes into the frames for a local client.
struct Sink {
    buffer: Arc<Mutex<Vec<u8>>>,
    frame: fn(String) -> Shown,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // All output is text, but may be cut anywhere.
        let whole = bytes.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
        let (text, length) = match whole {
            0 => (String::from_utf8_lossy(bytes).into_owned(), bytes.len()),
            length => (String::from_utf8_lossy(&bytes[..length]).into_owned(), length),
        };
        push(&self.buffer, &(self.frame)(text));
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn push(buffer: &Mutex<Vec<u8>>, frame: &Shown) {
    let mut buffer = buffer.lock();
    // Frames contain only text and numbers, which can always be serialised.
    let _ = serde_json::to_writer(&mut *buffer, frame);
    buffer.push(b'\n');
}
