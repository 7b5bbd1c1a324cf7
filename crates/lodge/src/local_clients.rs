//! Programs that use the running host: an SDK app whose server hands over its connection, or a command of this program.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Result, bail};
use clap::Parser;
use futures_util::future::BoxFuture;
use lodge_copilot::{Server, ServerOptions};
use lodge_door::{Admission, LocalListener, turn_away};
use lodge_host::{Caller, Host, Wire};
use lodge_tools::Environment;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::timeout,
};

use crate::{
    cli::{Cli, Command, RunArgs, SessionsCommand},
    console::Console,
    history,
    join::{Hello, Reply},
    prune, run, serve, sessions, setup,
};

/// Time and size limits for a program's request.
const HELLO: Duration = Duration::from_secs(10);
const LONGEST_HELLO: u64 = 64 << 20;

/// Whether a command changes something, so that it goes through the running host.
pub(crate) fn is_for_host(command: &Command) -> bool {
    matches!(
        command,
        Command::Run(_)
            | Command::Reload
            | Command::Import { .. }
            | Command::Sessions(
                SessionsCommand::Fork { .. }
                    | SessionsCommand::Rewind { .. }
                    | SessionsCommand::Delete { .. }
                    | SessionsCommand::Prune(_)
            )
    )
}

/// Whether a command reads what the running host may have more of than the home.
fn may_be_for_host(command: &Command) -> bool {
    matches!(
        command,
        Command::Sessions(SessionsCommand::Show { .. } | SessionsCommand::Export { .. })
    )
}

/// Runs a command that [`is_for_host`], or may be.
pub(crate) async fn execute(host: &Host, command: Command, input: &str, console: &mut Console) -> Result<u8> {
    match command {
        Command::Run(args) => run::run(host, args, input, console).await,
        Command::Reload => setup::reload_models(host).await.map(|()| 0),
        Command::Import { paths } => history::import(host, &paths, console),
        Command::Sessions(SessionsCommand::Fork { id, at, name }) => history::fork(host, &id, at, name, console).await,
        Command::Sessions(SessionsCommand::Rewind {
            id,
            messages,
            keep_files,
            undo,
        }) => {
            let input = match (undo, keep_files) {
                (true, _) => None,
                (false, true) => Some(format!("{messages} chat")),
                (false, false) => Some(messages.to_string()),
            };
            history::rewind(host, &id, input, console).await
        }
        Command::Sessions(command @ (SessionsCommand::Show { .. } | SessionsCommand::Export { .. })) => {
            sessions::read_kept(host, &command, &mut console.out).await
        }
        Command::Sessions(SessionsCommand::Prune(args)) => prune::prune(host, &args, console).await,
        Command::Sessions(SessionsCommand::Delete { ids, yes }) => sessions::delete(host, &ids, yes, console).await,
        _ => bail!("This command does not go through a host."),
    }
}

/// What local clients can use.
pub(crate) struct LocalClients {
    pub(crate) host: Host,
    pub(crate) sdks: Server,
    pub(crate) home: PathBuf,
}

enum LocalRequest {
    /// The SDKs' wire, with the local client's own options.
    Sdk(Box<ServerOptions>),
    Command(Box<Command>),
    /// An editor's connection, and how its configuration is read again.
    Editor(lodge_acp::Reload),
}

impl LocalClients {
    /// Serves local clients until the future is dropped.
    pub(crate) async fn serve(self: Arc<Self>, mut listener: LocalListener) {
        loop {
            let (stream, admitted) = listener.accept().await;
            let this = self.clone();
            tokio::spawn(async move {
                match admitted {
                    Ok(admission) => this.serve_client(stream, admission).await,
                    Err(why) => turn_away(stream, reply(&Reply::Refused(why.to_string())).as_bytes()).await,
                }
            });
        }
    }

    async fn serve_client(&self, mut stream: UnixStream, admission: Admission) {
        let Ok(Ok(hello)) = timeout(HELLO, read_hello(&mut stream)).await else {
            let why = "no valid request arrived in time";
            return turn_away(stream, reply(&Reply::Refused(why.into())).as_bytes()).await;
        };
        let (host, request) = match self.understand(&hello) {
            Ok(understood) => understood,
            Err(error) => {
                let why = reply(&Reply::Refused(crate::describe(&error)));
                return turn_away(stream, why.as_bytes()).await;
            }
        };
        if stream.write_all(reply(&Reply::Welcome).as_bytes()).await.is_err() {
            return;
        }
        match request {
            LocalRequest::Sdk(options) => self.sdks.serve_local_client(host, *options, stream, admission).await,
            LocalRequest::Editor(reload) => {
                let (input, output) = stream.into_split();
                lodge_acp::serve(host, reload, input, output).await;
            }
            LocalRequest::Command(mut command) => {
                let stream = match hand_on_command(&host, &mut command, &hello, stream).await {
                    Some(stream) => stream,
                    None => return,
                };
                let mut console = Console::of_local_client(stream, hello.terminal);
                let done = execute(&host, *command, &hello.input, &mut console).await;
                let code = done.unwrap_or_else(|error| {
                    // Writing to memory cannot fail.
                    let _ = writeln!(console.err, "error: {}", crate::describe(&error));
                    1
                });
                console.exit(code).await;
            }
        }
    }

    /// Serves clients of other hosts of the fleet. Apps, editors and commands were checked on their own host; AHP
    /// clients are checked here, too.
    #[cfg(feature = "fleet")]
    pub(crate) fn serving(self: Arc<Self>, ahp: lodge_ahp::Ahp) -> impl Fn(Wire, UnixStream, &str) {
        move |wire, stream, from| {
            let this = self.clone();
            match wire {
                Wire::Ahp => drop(tokio::spawn(ahp.serve_link(stream, from.to_owned()))),
                Wire::Sdk => drop(tokio::spawn(async move {
                    let (host, options) = (this.host.clone(), ServerOptions::default());
                    this.sdks
                        .serve_local_client(host, options, stream, Admission::owner())
                        .await;
                })),
                Wire::Acp => drop(tokio::spawn(async move {
                    let host = this.host.clone();
                    let (input, output) = stream.into_split();
                    let same = host.clone();
                    let reload = move || -> BoxFuture<_> { Box::pin(std::future::ready(Ok(same.clone()))) };
                    lodge_acp::serve(host, Arc::new(reload), input, output).await;
                })),
                Wire::Command => drop(tokio::spawn(async move {
                    this.serve_client(stream, Admission::owner()).await;
                })),
            }
        }
    }

    /// A local client's request, and a handle to the host on its behalf.
    fn understand(&self, hello: &Hello) -> Result<(Host, LocalRequest)> {
        let own = env!("CARGO_PKG_VERSION");
        if hello.version != own {
            bail!(
                "it is Lodge {own}, and this is Lodge {}. Stop that host and start it again with this program.",
                hello.version
            );
        }
        // Requests from another host run with this host's environment.
        let environment = match hello.session {
            None => Environment::of(hello.environment.iter().cloned()),
            Some(_) => Environment::of(std::env::vars_os()),
        };
        let cwd = PathBuf::from(&hello.cwd);
        let (host, home) = (self.host.clone(), self.home.clone());
        let on_behalf = {
            let (environment, cwd) = (environment.clone(), cwd.clone());
            move || -> Result<Host> {
                let config = setup::config(&home)?;
                Ok(host.on_behalf_of(Caller {
                    models: setup::models(&config, &environment)?,
                    environment: environment.clone(),
                    cwd: cwd.clone(),
                }))
            }
        };
        let caller = on_behalf()?;
        if let Some(args) = serve::sdk_arguments(&hello.args).map_err(anyhow::Error::msg)? {
            let options = serve::sdk_options(&args, &environment, &cwd);
            return Ok((caller, LocalRequest::Sdk(Box::new(options))));
        }
        let program = std::iter::once("lodge".into());
        let cli = Cli::try_parse_from(program.chain(hello.args.iter().cloned()))?;
        let request = match cli.command {
            Some(Command::Acp(_)) => {
                let reload = move || {
                    let again = on_behalf.clone();
                    let read = tokio::task::spawn_blocking(move || again().map_err(|error| crate::describe(&error)));
                    let read: BoxFuture<_> = Box::pin(async { read.await.map_err(|error| error.to_string())? });
                    read
                };
                LocalRequest::Editor(Arc::new(reload))
            }
            Some(mut command) if is_for_host(&command) || may_be_for_host(&command) => {
                if let (Some(named), Some(session)) = (session_of(&mut command), &hello.session) {
                    named.clone_from(session);
                }
                LocalRequest::Command(Box::new(command))
            }
            _ => bail!("this is not a request for a host"),
        };
        Ok((caller, request))
    }
}

/// The session that a command continues, as the command names it.
fn session_of(command: &mut Command) -> Option<&mut String> {
    match command {
        Command::Run(RunArgs { resume, .. }) => resume.as_mut(),
        Command::Sessions(SessionsCommand::Fork { id, .. } | SessionsCommand::Rewind { id, .. }) => Some(id),
        _ => None,
    }
}

/// Forwards a command to the host that has the session it continues. Returns the stream if that is this host. The
/// caller's environment is not sent.
async fn hand_on_command(
    host: &Host,
    command: &mut Command,
    hello: &Hello,
    mut stream: UnixStream,
) -> Option<UnixStream> {
    let Some(wanted) = session_of(command) else {
        return Some(stream);
    };
    if !host.is_kept() || hello.session.is_some() {
        return Some(stream);
    }
    let session = sessions::find(host.home(), wanted).unwrap_or_else(|_| wanted.clone());
    // Errors are reported when the session is opened.
    let Ok(Some(mut link)) = host.way_to(&session, Wire::Command).await else {
        return Some(stream);
    };
    let handed_on = Hello {
        version: hello.version.clone(),
        args: hello.args.clone(),
        cwd: hello.cwd.clone(),
        environment: Vec::new(),
        terminal: hello.terminal,
        input: hello.input.clone(),
        session: Some(session),
    };
    let said = async {
        let mut line = serde_json::to_vec(&handed_on)?;
        line.push(b'\n');
        link.write_all(&line).await?;
        let mut answer = Vec::new();
        loop {
            match link.read_u8().await? {
                b'\n' => break,
                byte => answer.push(byte),
            }
        }
        Ok::<Reply, anyhow::Error>(serde_json::from_slice(&answer)?)
    };
    let why = match timeout(HELLO, said).await {
        Ok(Ok(Reply::Welcome)) => {
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut link).await;
            return None;
        }
        Ok(Ok(Reply::Refused(why))) => why,
        _ => "it does not answer".to_owned(),
    };
    let mut console = Console::of_local_client(stream, hello.terminal);
    let _ = writeln!(console.err, "error: The host that has the session refused: {why}");
    console.exit(1).await;
    None
}

fn reply(reply: &Reply) -> String {
    // It contains only text, which can always be serialised.
    serde_json::to_string(reply).unwrap_or_default() + "\n"
}

async fn read_hello(stream: &mut UnixStream) -> Result<Hello> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream.take(LONGEST_HELLO));
    reader.read_until(b'\n', &mut line).await?;
    Ok(serde_json::from_slice(&line)?)
}
