//! Starts the host and its faces. Also the small commands that report on them.

use std::{
    ffi::OsString,
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use lodge_ahp::{Ahp, AhpConfig};
use lodge_copilot::{ServerArgs, ServerOptions, Transport};
use lodge_door::{Door, LocalListener};
use lodge_events::AbortReason;
use lodge_host::{Host, Keeper, LogError, SyncPolicy};
use lodge_http::{HttpConfig, Listen, Pages, ServeError, TlsFiles};
use lodge_telemetry::TraceOptions;
use lodge_tools::Environment;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{
    cli::{Global, ServeArgs},
    host_file,
    join::{self, Hello, Reached},
    local_clients::LocalClients,
    notify, prune, remote, setup, vscode,
};

/// How often the files with which others find the host are checked. Somebody may delete them, or the whole home.
const LOOK: Duration = Duration::from_secs(5);

/// Parses the arguments of an SDK; `None` if this is not how an SDK starts the program.
pub(crate) fn sdk_arguments(args: &[OsString]) -> Result<Option<ServerArgs>, String> {
    let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    lodge_copilot::parse_cli_args(&args)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The GitHub host that tokens are for.
fn github_host(environment: &Environment) -> String {
    let host = environment
        .text("COPILOT_GH_HOST")
        .or_else(|| environment.text("GH_HOST"));
    let host = host.unwrap_or_else(|| "github.com".to_owned());
    if host.contains("://") {
        host
    } else {
        format!("https://{host}")
    }
}

/// Serves only the SDK that started this program.
pub(crate) async fn for_sdk(args: ServerArgs) -> Result<ExitCode> {
    crate::logging::log_to_stderr(match args.log_level.as_deref() {
        Some("none") => "off",
        Some("error") => "error",
        Some("info") => "info",
        Some("debug") => "debug",
        Some("all") => "trace",
        _ => "warn",
    });
    let asked = variable("LODGE_HOME").or_else(|| variable("COPILOT_HOME"));
    let home = setup::home_path(asked.as_deref().map(Path::new))?;
    let hello = Hello::new(String::new());
    let reached = join::reach(
        &home,
        lodge_host::SyncPolicy::default(),
        args.session_idle_timeout,
        &hello,
    )
    .await?;
    let options = sdk_options(&args, &Environment::default(), Path::new(&hello.cwd));
    let stopped = stopped()?;
    let listener = match args.transport {
        Transport::Stdio => None,
        Transport::Tcp { port } => {
            let address = args.host.as_deref().unwrap_or("127.0.0.1");
            let listener = bind_for_sdk(address, port, &options).await?;
            print_line(&lodge_copilot::announcement(listener.local_addr()?.port()));
            Some(listener)
        }
    };
    match (reached, listener) {
        (Reached::Own(host), listener) => {
            let serve = async {
                match listener {
                    Some(listener) => lodge_copilot::serve_tcp(host.clone(), listener, options).await,
                    None => lodge_copilot::serve_stdio(host.clone(), options).await,
                }
            };
            let mut reason = AbortReason::RemoteCommand;
            tokio::select! {
                served = serve => served?,
                why = stopped => reason = why,
            }
            host.shutdown_because(reason).await;
        }
        (Reached::Running(stream), None) => {
            let (input, output) = lodge_copilot::open_stdio()?;
            tokio::select! {
                finished = join::hand_on(stream, input, output) => {
                    anyhow::ensure!(finished, "The host on {} stopped, or closed the connection", home.display());
                }
                _ = stopped => {}
            }
        }
        (Reached::Running(_), Some(listener)) => tokio::select! {
            served = hand_on_all(&home, &hello, listener) => served?,
            _ = stopped => {}
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// Hands every connection to the running host.
async fn hand_on_all(home: &Path, hello: &Hello, listener: TcpListener) -> Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        let _ = socket.set_nodelay(true);
        let Some(stream) = join::connect(home, hello).await? else {
            anyhow::bail!("The host on {} stopped", home.display());
        };
        tokio::spawn(async move {
            let (input, output) = socket.into_split();
            join::hand_on(stream, input, output).await;
        });
    }
}

/// Options for clients of the SDKs, from the arguments and environment of the program that they started.
pub(crate) fn sdk_options(args: &ServerArgs, environment: &Environment, cwd: &Path) -> ServerOptions {
    let variable = |name: &str| environment.text(name);
    lodge_tools::hide_variables(args.auth_token_env.clone());
    let token = args.auth_token_env.as_deref().and_then(variable);
    let github_token = token.or_else(|| {
        args.auto_login
            .then(|| variable("GH_TOKEN").or_else(|| variable("GITHUB_TOKEN")))
            .flatten()
    });
    ServerOptions {
        connection_token: variable("COPILOT_CONNECTION_TOKEN"),
        github_token,
        github_host: github_host(environment),
        github_api: variable("COPILOT_DEBUG_GITHUB_API_URL"),
        copilot_api: variable("COPILOT_API_URL"),
        approve_all: args.approve_all,
        insecure_plaintext: args.insecure_plaintext,
        traces: TraceOptions::of(variable),
        plugin_directories: args.plugin_directories.iter().map(|dir| cwd.join(dir)).collect(),
        ..ServerOptions::default()
    }
}

/// Listens for clients of the SDKs, if that is safe or explicitly accepted.
async fn bind_for_sdk(host: &str, port: u16, options: &ServerOptions) -> Result<TcpListener> {
    let cannot = || format!("Cannot listen on {host}:{port}");
    let found = tokio::net::lookup_host((host, port)).await.with_context(cannot)?;
    let addresses: Vec<_> = found.collect();
    for address in &addresses {
        options.check_address(address.ip())?;
    }
    TcpListener::bind(addresses.as_slice()).await.with_context(cannot)
}

/// When the host ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    WhenTold,
    /// Also when no client is connected and nothing runs for a while. Such a host takes free ports if the usual ones
    /// are in use.
    WhenUnneeded,
}

/// How long to wait for a home whose host does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens a home for a single host. A host killed a moment ago keeps the home until the system has closed its files, so
/// a home whose host does not answer is tried again.
async fn open(home: &Path, sync: SyncPolicy, keeper: Option<Arc<dyn Keeper>>) -> Result<Host> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let error = match setup::host_with(home, setup::Use::Alone, sync, None, keeper.clone()) {
            Err(error) if matches!(error.downcast_ref(), Some(LogError::Locked { .. })) => error,
            other => return other,
        };
        if host_file::running(home)?.is_some() || Instant::now() > patience {
            return Err(error);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Starts the host with all its faces and runs until it ends.
pub(crate) async fn host(home: &Path, global: &Global, args: &ServeArgs, ends: Ends) -> Result<ExitCode> {
    if ends == Ends::WhenUnneeded {
        // The terminal from which it was started may close. This fails only if the process already leads a session.
        let _ = rustix::process::setsid();
    }
    #[cfg(feature = "fleet")]
    let mut member = crate::fleet::Member::join(&args.fleet, home).await?;
    #[cfg(feature = "fleet")]
    let keeper = member.as_ref().map(crate::fleet::Member::keeper);
    #[cfg(not(feature = "fleet"))]
    let keeper = None;
    let host = match open(home, global.sync, keeper).await {
        Err(error) if matches!(error.downcast_ref(), Some(LogError::Locked { .. })) => {
            let why = format!("{error}. Stop it, connect to it, or use another --home.");
            // The program that started the background host looks for the host that has the home.
            anyhow::ensure!(ends == Ends::WhenUnneeded, why);
            print_line(&why);
            return Ok(ExitCode::SUCCESS);
        }
        host => host?,
    };
    #[cfg(feature = "fleet")]
    if let Some(member) = &mut member {
        if args.fleet.fleet_import {
            member.import(&host).await?;
        }
        member.work(&host).await?;
    }
    // Ends processes that tools of a killed host left running. Scanning all processes takes a while, so it happens
    // beside the start.
    tokio::task::spawn_blocking(lodge_tools::sweep_orphans);
    let door = Arc::new(Door::open(home)?);
    // Before agents start any program, the host must be able to recognise theirs.
    lodge_door::adopt_orphans(&door);
    let sdk_listener = listen_for_sdks(args.sdk_port).await?;
    let sdk = sdk_listener.local_addr()?;
    let listen = match &args.socket {
        Some(path) => Listen::Unix(path.clone()),
        None => Listen::Tcp(args.listen_address()),
    };
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
        }),
        _ if args.socket.is_none() && !args.listen_address().ip().is_loopback() => remote::own_files(home),
        _ => None,
    };
    let secure = tls.is_some();
    let directory = std::env::current_dir().ok();
    let config = setup::config(home)?;
    let (settings, retention) = (config.ahp, config.retention.retention());
    let pricing = config.prices.map(|prices| prices.by_model()).unwrap_or_default();
    let directories = |named: &[String]| -> Vec<PathBuf> {
        let absolute = |text: &String| lodge_tools::paths::absolute(home, text);
        named.iter().map(absolute).collect()
    };
    let vscode = directories(&settings.vscode);
    let config = AhpConfig {
        roots: directory
            .clone()
            .into_iter()
            .chain(directories(&settings.roots))
            .collect(),
        resources: settings.resources,
        default_directory: directory,
        lines: crate::logging::LINES.clone(),
        pricing,
        // Links for people; errors in them do not keep the host from starting.
        other_hosts: remote::pages(home).unwrap_or_else(|error| {
            tracing::warn!("{}", crate::describe(&error));
            Vec::new()
        }),
        ..AhpConfig::new(door.clone())
    };
    let ahp = Ahp::open(host.clone(), config)
        .await
        .context("Cannot open the files kept for AHP clients")?;
    let config = HttpConfig {
        listen,
        any_port: ends == Ends::WhenUnneeded,
        tls,
        allowed_origins: args.allow_origin.clone(),
        allowed_hosts: args.allow_host.clone(),
        pages: Some(Pages::new(lodge_web::serve)),
        ..HttpConfig::loopback(door.clone())
    };
    let http = lodge_http::serve(host.clone(), config, ahp.clone())
        .await
        .map_err(|error| match error {
            ServeError::Io { what, error }
                if error.kind() == std::io::ErrorKind::AddrInUse && args.socket.is_none() =>
            {
                anyhow::anyhow!("{what}; choose another with --port: {error}")
            }
            error => error.into(),
        })?;
    let place = match (http.local_addr(), http.socket()) {
        (Some(address), _) => format!("{}://{address}/", if secure { "wss" } else { "ws" }),
        (None, Some(path)) => format!("unix:{}", path.display()),
        (None, None) => String::new(),
    };
    let socket = local_socket(&door, home, "lodge");
    let sdk_socket = local_socket(&door, home, "sdk");
    let join_socket = local_socket(&door, home, "join");
    let path_of = |socket: &Option<LocalListener>| socket.as_ref().map(|socket| socket.path().to_owned());
    let note = host_file::Note {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        background: ends == Ends::WhenUnneeded,
        ahp: place.clone(),
        copilot: sdk.to_string(),
        socket: path_of(&socket),
        sdk_socket: path_of(&sdk_socket),
        join_socket: path_of(&join_socket),
    };
    if let Some(socket) = socket {
        http.serve_local(socket);
    }
    // Before others can find the host, because they may stop it.
    let stopped = stopped()?;
    let listed = match &note.socket {
        Some(socket) => vscode::Listed::publish(&vscode, socket)?,
        None => vscode::Listed::default(),
    };
    let (listed, found) = (Arc::new(listed), Arc::new(host_file::Discovery::publish(home, note)?));
    print_line(&format!(
        "Lodge {} · sessions in {}",
        env!("CARGO_PKG_VERSION"),
        home.display()
    ));
    print_line(&format!("Model         {}", model_line(&host)));
    if let Some(address) = http.local_addr() {
        let scheme = if secure { "https" } else { "http" };
        print_line(&format!(
            "Page          {scheme}://{address}/ (pair a browser with: lodge pair)"
        ));
    }
    // Output that is not a terminal is a file, a log or another program, where a token does not belong.
    match door.token().filter(|_| std::io::stdout().is_terminal()) {
        Some(token) => {
            print_line(&format!("AHP clients   {place}?tkn={token}"));
            print_line(&format!("Copilot SDKs  {}", sdk_line(sdk)));
            print_line(&format!("              connection token {token}"));
        }
        None => {
            print_line(&format!("AHP clients   {place}"));
            print_line(&format!("Copilot SDKs  {}", sdk_line(sdk)));
            print_line(&format!("Token         in {}", host_file::token_file(home).display()));
        }
    }
    print_line("Ctrl-C stops.");
    notify::ready();
    let options = ServerOptions {
        connection_token: variable("COPILOT_CONNECTION_TOKEN"),
        door: Some(door.clone()),
        traces: TraceOptions::of(variable),
        ..ServerOptions::default()
    };
    let local_clients = Arc::new(LocalClients {
        host: host.clone(),
        sdks: lodge_copilot::Server::new(host.clone(), options),
        home: home.to_owned(),
    });
    #[cfg(feature = "fleet")]
    if let Some(member) = &member {
        member.serve(local_clients.clone().serving(ahp.clone()));
    }
    let local = async {
        match sdk_socket {
            Some(socket) => local_clients.sdks.serve_local(socket).await,
            None => std::future::pending().await,
        }
    };
    let joining = async {
        match join_socket {
            Some(socket) => local_clients.clone().serve(socket).await,
            None => std::future::pending().await,
        }
    };
    let mut reason = AbortReason::RemoteCommand;
    tokio::select! {
        served = local_clients.sdks.serve_tcp(sdk_listener) => served?,
        () = local => {}
        () = joining => {}
        () = keep_files(door, found.clone(), listed.clone()) => {}
        () = crate::launch::not_needed(&host), if ends == Ends::WhenUnneeded => print_line("No client is connected and nothing is running; stopping."),
        () = prune::keep_to(host.clone(), retention) => {}
        why = stopped => {
            reason = why;
            print_line("Stopping.");
        }
    }
    notify::stopping();
    if let Err(error) = found.stopping() {
        tracing::warn!(%error, "cannot record that this host is stopping, so a client may start it again");
    }
    http.shutdown().await;
    ahp.shutdown().await;
    host.shutdown_because(reason).await;
    #[cfg(feature = "fleet")]
    if let Some(member) = member {
        member.leave().await;
    }
    Ok(ExitCode::SUCCESS)
}

/// A socket on which programs of this user need no token. The host also works without it.
fn local_socket(door: &Arc<Door>, home: &Path, name: &str) -> Option<LocalListener> {
    LocalListener::bind(door.clone(), home, name)
        .inspect_err(|error| tracing::warn!("there is no local socket, so programs here need the token: {error}"))
        .ok()
}

/// Restores the files with which others find the host, if somebody deletes them.
async fn keep_files(door: Arc<Door>, found: Arc<host_file::Discovery>, listed: Arc<vscode::Listed>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let (door, found, listed) = (door.clone(), found.clone(), listed.clone());
        let keep = move || {
            door.keep_files()
                .and_then(|()| found.keep())
                .and_then(|()| listed.keep())
        };
        let kept = tokio::task::spawn_blocking(keep).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, "the files by which clients find this host cannot be written");
        }
    }
}

fn model_line(host: &lodge_host::Host) -> String {
    match host.models().default_model().as_str() {
        "rehearsal" => "rehearsal (built in, offline; to use your own, see docs/models.md)".into(),
        name => name.to_owned(),
    }
}

/// Listens for Ctrl-C and for signals from now on. What it returns waits for one.
fn stopped() -> Result<impl Future<Output = AbortReason>> {
    let listen = || {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hang_up] = kinds.map(signal);
        std::io::Result::Ok([interrupt?, terminate?, hang_up?])
    };
    let [mut interrupt, mut terminate, mut hang_up] = listen().context("Cannot listen for signals")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => AbortReason::UserInitiated,
            _ = terminate.recv() => AbortReason::RemoteCommand,
            _ = hang_up.recv() => AbortReason::RemoteCommand,
        }
    })
}

/// Prints a line on standard output, if anybody still reads it.
pub(crate) fn print_line(line: &str) {
    print_styled(&lodge_terminal::plain(line));
}

/// Prints a line of Lodge's own that steers the terminal. Nothing of anybody else's may be in it.
pub(crate) fn print_styled(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// `lodge models`.
pub(crate) async fn models(home: &Path) -> Result<ExitCode> {
    let models = setup::models(&setup::config(home)?, &Environment::default())?;
    let mut failed = false;
    for found in models.discover().await {
        if let Err(error) = found.models {
            failed = true;
            eprintln!("error: {}: {error}", found.provider);
        }
    }
    let default = models.default_model();
    for model in models.list() {
        let mark = if model.id == default { "*" } else { " " };
        let context = match model.context_window {
            0 => String::new(),
            window => format!("{window:>9} tokens"),
        };
        let line = format!("{mark} {:<32} {:<16} {context}", model.id, model.provider);
        print_line(line.trim_end());
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The usual port for apps.
const SDK_PORT: u16 = 8765;

/// Listens on the requested port. The usual one may belong to the host of another user or home: then a free one is
/// used.
async fn listen_for_sdks(port: Option<u16>) -> anyhow::Result<TcpListener> {
    let wanted = port.unwrap_or(SDK_PORT);
    match TcpListener::bind(("127.0.0.1", wanted)).await {
        Err(error) if port.is_none() && error.kind() == std::io::ErrorKind::AddrInUse => {
            eprintln!("Port {SDK_PORT} is in use, so Copilot SDK apps get the port below. Choose one with --sdk-port.");
            Ok(TcpListener::bind(("127.0.0.1", 0)).await?)
        }
        bound => bound.with_context(|| format!("Cannot listen on port {wanted}; choose another with --sdk-port")),
    }
}

/// SDKs from 1.0 on silently ignore `cliUrl`.
fn sdk_line(address: std::net::SocketAddr) -> String {
    format!("RuntimeConnection.forUri(\"{address}\"); before SDK 1.0: cliUrl {address}")
}
