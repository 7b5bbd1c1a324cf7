//! Input and output of a command: this process's terminal, or that of the program that sent the command to the host.

use std::{
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

/// What a person at the terminal does.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Heard {
    /// Types a line.
    Line(String),
    /// Says that no more lines come.
    End,
    /// Presses Ctrl-C.
    Interrupt,
    /// Gives the terminal another size.
    Resized(Size),
    /// Has left.
    Gone,
}

/// What a command in the host sends to where it is shown.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Shown {
    Out(String),
    Err(String),
    Exit(u8),
}

/// Columns and rows of a terminal.
pub(crate) type Size = (u16, u16);

/// Which ends of the program are a terminal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Terminal {
    pub(crate) stdin: bool,
    pub(crate) stderr: bool,
    /// The size of a terminal that can be drawn on, where all output goes to it.
    pub(crate) screen: Option<Size>,
    /// The colours that its variables ask for.
    pub(crate) scheme: Scheme,
}

impl Terminal {
    pub(crate) fn own() -> Self {
        let stderr = io::stderr().is_terminal();
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let able = variable("TERM").is_some_and(|term| term != "dumb") && variable("LODGE_PLAIN").is_none();
        Self {
            stdin: io::stdin().is_terminal(),
            stderr,
            screen: size().filter(|_| able && stderr && io::stdout().is_terminal()),
            scheme: Scheme::detect(variable),
        }
    }

    /// Whether somebody can be asked.
    pub(crate) fn has_person(self) -> bool {
        self.stdin && self.stderr
    }
}

/// The two streams that a command prints to, and what it hears.
pub(crate) struct Console {
    pub(crate) out: Box<dyn Write + Send>,
    pub(crate) err: Box<dyn Write + Send>,
    pub(crate) terminal: Terminal,
    heard: mpsc::UnboundedReceiver<Heard>,
    /// Where what is heard comes from, as long as nobody listens.
    source: Option<Source>,
    wire: Option<(OwnedWriteHalf, Arc<Mutex<Vec<u8>>>)>,
}

struct Source {
    into: mpsc::UnboundedSender<Heard>,
    wire: Option<OwnedReadHalf>,
}

impl Console {
    /// That of this process.
    pub(crate) fn own() -> Self {
        Self::new(
            Box::new(BufWriter::new(io::stdout())),
            Box::new(io::stderr()),
            Terminal::own(),
            None,
            None,
        )
    }

    pub(crate) fn of_guest(stream: UnixStream, terminal: Terminal) -> Self {
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

    /// What the person does next. Lines are read only where there is a person.
    pub(crate) async fn heard(&mut self) -> Heard {
        if let Some(source) = self.source.take() {
            match source.wire {
                Some(wire) => drop(tokio::spawn(hear_guest(wire, source.into))),
                None => hear_own(&source.into, self.terminal.has_person()),
            }
        }
        match self.heard.recv().await {
            Some(heard) => heard,
            None => std::future::pending().await,
        }
    }

    /// A line of the answer.
    pub(crate) fn say(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }

    /// Makes visible what was printed. Waits for a guest that reads slowly.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        self.out.flush()?;
        if let Some((wire, buffer)) = &mut self.wire {
            let waiting = std::mem::take(&mut *buffer.lock());
            wire.write_all(&waiting).await?;
        }
        Ok(())
    }

    /// Tells a guest how the command ended.
    pub(crate) async fn exit(mut self, code: u8) {
        if let Some((_, buffer)) = &self.wire {
            push(buffer, &Shown::Exit(code));
        }
        // Whoever has left need not be told.
        let _ = self.flush().await;
    }

    /// Asks a question that is answered by a line. Nothing when nobody can answer.
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

/// Hears the person at this process's terminal.
fn hear_own(into: &mpsc::UnboundedSender<Heard>, lines: bool) {
    let interrupts = into.clone();
    // One listener for all of them: one made anew would miss what comes in between.
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

/// The size of this process's terminal; nothing where it has none.
fn size() -> Option<Size> {
    let size = crossterm::terminal::size().ok()?;
    (size.0 > 0 && size.1 > 0).then_some(size)
}

/// Hears when this process's terminal gets another size.
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

/// Reads lines from standard input. A thread of its own: reading from a terminal cannot be cancelled, and must not keep the
/// runtime from ending.
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

async fn hear_guest(wire: OwnedReadHalf, into: mpsc::UnboundedSender<Heard>) {
    let mut lines = BufReader::new(wire).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(heard) = serde_json::from_str(&line) else { break };
        if into.send(heard).is_err() {
            return;
        }
    }
    let _ = into.send(Heard::Gone);
}

/// Prints into the frames that go to a guest.
struct Sink {
    buffer: Arc<Mutex<Vec<u8>>>,
    frame: fn(String) -> Shown,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Everything that is printed is text, but may be cut anywhere.
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
    // Frames hold text and numbers, which can always be written.
    let _ = serde_json::to_writer(&mut *buffer, frame);
    buffer.push(b'\n');
}
