//! Uses the host that runs on a home, so that it locks nobody out: a program of the same person hands its connection or command
//! to the host, with its environment and directory. The host keeps those in memory only.

use std::{
    ffi::OsString,
    io::{IsTerminal, Read, Write},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::{CommandFactory, error::ErrorKind};
use lodge_host::{Host, LogError, SyncPolicy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::UnixStream,
    sync::mpsc,
    time::timeout,
};

use crate::{
    cli::{Cli, Command, SessionsCommand},
    console::{self, Console, Heard, Shown, Terminal},
    host_file, keyring, launch, local_clients, run, setup,
};

/// Time limit for a host to release the home, or to say where it is.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time limit for a host to answer on an accepted connection, which may have to wait for the keyring.
const ANSWER: Duration = Duration::from_secs(10).saturating_add(keyring::PATIENCE);
/// How long standard input may be silent before the person is told what Lodge waits for.
const SILENCE: Duration = Duration::from_secs(2);
/// Time limit for standard input to begin, if there is a message without it and nobody sees what Lodge waits for.
const FIRST_INPUT: Duration = Duration::from_secs(5);

/// The request with which a program comes to a running host.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hello {
    pub(crate) version: String,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: OsString,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) terminal: Terminal,
    /// Piped input of the command.
    pub(crate) input: String,
    /// The session that the command continues, if another host of the fleet forwards it.
    #[serde(default)]
    pub(crate) session: Option<String>,
}

/// The host's answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Reply {
    Welcome,
    Refused(String),
}

impl Hello {
    pub(crate) fn new(input: String) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            args: std::env::args_os().skip(1).collect(),
            cwd: std::env::current_dir().unwrap_or_default().into(),
            environment: std::env::vars_os().collect(),
            terminal: Terminal::own(),
            input,
            session: None,
        }
    }
}

/// A host that can be used.
pub(crate) enum Reached {
    /// A host in this process.
    Own(Host),
    /// The connection to the running host.
    Running(UnixStream),
}

/// Reaches the running host, or starts one in this process if none runs.
pub(crate) async fn reach(
    home: &Path,
    sync: SyncPolicy,
    idle_after: Option<Duration>,
    hello: &Hello,
) -> Result<Reached> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let locked = match setup::host(home, setup::Use::Shared, sync, idle_after) {
            Err(error) if matches!(error.downcast_ref(), Some(LogError::Locked { .. })) => error,
            other => return other.map(Reached::Own),
        };
        if let Some(stream) = connect(home, hello).await? {
            return Ok(Reached::Running(stream));
        }
        if Instant::now() > patience {
            bail!("{locked}, and it does not say where it can be reached. Stop it, or use another --home.");
        }
        // The host is about to start or stop.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Connects to the host of a home. `None` if none runs.
pub(crate) async fn connect(home: &Path, hello: &Hello) -> Result<Option<UnixStream>> {
    let Some(note) = host_file::find(home)? else {
        return Ok(None);
    };
    if note.version != hello.version {
        bail!(
            "The host on {} (process {}) is Lodge {}, and this is Lodge {}. Stop that host and start it again with this program.",
            home.display(),
            note.pid,
            note.version,
            hello.version
        );
    }
    let Some(socket) = note.join_socket else {
        bail!(
            "The host on {} (process {}) has no local socket, so this command cannot use it. Stop the host, or use another --home.",
            home.display(),
            note.pid
        );
    };
    let Ok(mut stream) = UnixStream::connect(&socket).await else {
        return Ok(None);
    };
    let mut line = serde_json::to_vec(hello)?;
    line.push(b'\n');
    let answered = async {
        // A refused local client gets the answer before it has sent everything.
        let sent = stream.write_all(&line).await;
        let mut answer = Vec::new();
        // Byte by byte: anything after the line is for other readers.
        while let Ok(byte) = stream.read_u8().await
            && byte != b'\n'
        {
            answer.push(byte);
        }
        match answer.is_empty() {
            true => sent.map(|()| answer),
            false => Ok(answer),
        }
    };
    let answer = timeout(ANSWER, answered)
        .await
        .with_context(|| format!("The host (process {}) does not answer", note.pid))?;
    match answer {
        Ok(answer) if !answer.is_empty() => match serde_json::from_slice(&answer) {
            Ok(Reply::Welcome) => Ok(Some(stream)),
            Ok(Reply::Refused(why)) => bail!("The host on {} refused: {why}", home.display()),
            Err(_) => bail!("The host on {} sent an unexpected answer", home.display()),
        },
        // The host stopped meanwhile.
        _ => Ok(None),
    }
}

/// Carries a client's connection until either side closes it. False if the host ended it.
pub(crate) async fn hand_on(
    stream: UnixStream,
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> bool {
    let (mut from_host, mut to_host) = stream.into_split();
    let mut down = std::pin::pin!(async {
        let _ = tokio::io::copy(&mut from_host, &mut output).await;
        let _ = output.shutdown().await;
    });
    tokio::select! {
        () = &mut down => return false,
        _ = tokio::io::copy(&mut input, &mut to_host) => {}
    }
    // The client is finished: the host ends the rest and closes.
    let _ = to_host.shutdown().await;
    down.await;
    true
}

/// Carries an editor's connection to the host of a home, which is started if none runs.
pub(crate) async fn editor(home: &Path) -> Result<ExitCode> {
    let hello = Hello::new(String::new());
    let stream = loop {
        launch::ensure(home).await?;
        // A host that is about to stop does not answer, and another one is started.
        if let Some(stream) = connect(home, &hello).await? {
            break stream;
        }
    };
    let (input, output) = lodge_copilot::open_stdio()?;
    if !hand_on(stream, input, output).await {
        bail!("The host on {} ended, or closed the connection", home.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a command in the running host, or in a host of its own.
pub(crate) async fn command(home: &Path, sync: SyncPolicy, command: Command) -> Result<ExitCode> {
    let input = match &command {
        Command::Run(args) => {
            // Without a message, the input is the message.
            let is_given = args.prompt.iter().any(|word| !word.trim().is_empty());
            let waits = !is_given || args.prompt.last().is_some_and(|word| word == run::WAIT);
            let input = piped_input(waits)?;
            if run::prompt(&args.prompt, &input).trim().is_empty() {
                let nothing = "No message. Give one, as in `lodge run \"hello\"`, or pipe one in.";
                Cli::command().error(ErrorKind::MissingRequiredArgument, nothing).exit();
            }
            input
        }
        _ => String::new(),
    };
    let hello = Hello::new(input);
    match reach(home, sync, None, &hello).await? {
        Reached::Own(host) => {
            let mut console = Console::own();
            // A session that was only rewound was not resumed, so it is not ended either.
            let ends = !matches!(command, Command::Sessions(SessionsCommand::Rewind { .. }));
            let code = local_clients::execute(&host, command, &hello.input, &mut console).await;
            installed().await;
            if ends {
                host.shutdown().await;
            }
            let _ = console.flush().await;
            code.map(ExitCode::from)
        }
        Reached::Running(stream) => watch(stream).await,
    }
}

/// Runs a command that reads a session in the running host. Nothing if none runs that could.
pub(crate) async fn read(home: &Path) -> Result<Option<ExitCode>> {
    match connect(home, &Hello::new(String::new())).await {
        Ok(Some(stream)) => watch(stream).await.map(Some),
        Ok(None) | Err(_) => Ok(None),
    }
}

/// Has the running host read its models again. False if none runs.
pub(crate) async fn reload(home: &Path) -> Result<bool> {
    let hello = Hello {
        args: vec!["reload".into()],
        ..Hello::new(String::new())
    };
    let Some(stream) = connect(home, &hello).await? else {
        return Ok(false);
    };
    let mut lines = BufReader::new(stream).lines();
    let mut complaint = String::new();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line)? {
            Shown::Out(_) => {}
            Shown::Err(text) => complaint.push_str(&text),
            Shown::Exit(0) => return Ok(true),
            Shown::Exit(_) => break,
        }
    }
    bail!(
        "The running host cannot use the new settings: {}",
        complaint.trim().trim_start_matches("error: ")
    )
}

/// Waits until MCP servers are installed, because they end with this process.
async fn installed() {
    let mut installations = lodge_host::mcp::installations();
    if *installations.borrow() == 0 {
        return;
    }
    eprintln!(
        "Waiting for MCP servers to finish installing. Ctrl-C cancels; a half-finished install may break the next start."
    );
    tokio::select! {
        _ = installations.wait_for(|installations| *installations == 0) => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// All of standard input, unless it is a terminal. Half a message is never sent. Programs that start others often leave an
/// input open to which nothing ever comes: unless `waits`, a run that no person watches fails when input does not begin in time.
/// A person is told what Lodge waits for.
fn piped_input(waits: bool) -> Result<String> {
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Ok(String::new());
    }
    if !waits && !std::io::stderr().is_terminal() && !begins(&stdin, FIRST_INPUT) {
        let nothing = format!(
            "Nothing came on standard input within {} s, so no message was sent. To send no input, add `< /dev/null`. To wait \
             for the input however long it takes, end the message with `-`.",
            FIRST_INPUT.as_secs()
        );
        Cli::command().error(ErrorKind::Io, nothing).exit();
    }
    let (done, ended) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if ended.recv_timeout(SILENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let without = match waits {
                true => "",
                false => " To send no input, press Ctrl-C and add `< /dev/null`.",
            };
            eprintln!("Reading standard input until it ends…{without}");
        }
    });
    let mut bytes = Vec::new();
    let read = stdin.read_to_end(&mut bytes);
    drop(done);
    match read {
        // Some programs are started without standard input.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) => Ok(String::new()),
        Err(error) => Err(error).context("Cannot read standard input"),
        Ok(_) => String::from_utf8(bytes).context("Standard input is not UTF-8 text"),
    }
}

/// Whether input, or its end, comes in time.
fn begins(input: &impl std::os::fd::AsFd, patience: Duration) -> bool {
    let patience = Timespec {
        tv_sec: patience.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    // What cannot be waited for is read at once.
    poll(&mut [PollFd::new(input, PollFlags::IN)], Some(&patience)) != Ok(0)
}

/// Shows the output of a command in the running host, and sends it the person's input.
async fn watch(stream: UnixStream) -> Result<ExitCode> {
    let (from_host, mut to_host) = stream.into_split();
    let mut lines = BufReader::new(from_host).lines();
    let (typed, mut heard) = mpsc::unbounded_channel();
    if Terminal::own().has_person() {
        console::read_lines(typed.clone());
    }
    console::hear_sizes(typed.clone());
    let mut interrupted = false;
    let mut ctrl_c = std::pin::pin!(tokio::signal::ctrl_c());
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    loop {
        let said = tokio::select! {
            line = lines.next_line() => {
                let frame = line.ok().flatten().and_then(|line| serde_json::from_str(&line).ok());
                match frame {
                    Some(Shown::Out(text)) => out.write_all(text.as_bytes()).and_then(|()| out.flush())?,
                    Some(Shown::Err(text)) => err.write_all(text.as_bytes()).and_then(|()| err.flush())?,
                    Some(Shown::Exit(code)) => return Ok(code.into()),
                    None => bail!(
                        "The host stopped before the command finished. Nothing recorded is lost; continue with `lodge run --resume last`."
                    ),
                }
                continue;
            }
            Some(said) = heard.recv() => said,
            _ = &mut ctrl_c => {
                ctrl_c.set(tokio::signal::ctrl_c());
                if std::mem::replace(&mut interrupted, true) {
                    return Ok(run::Exit::Aborted.into());
                }
                Heard::Interrupt
            }
        };
        let mut line = serde_json::to_vec(&said)?;
        line.push(b'\n');
        // If the host is gone, reading reports it.
        let _ = to_host.write_all(&line).await;
    }
}
