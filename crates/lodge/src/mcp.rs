//! `lodge mcp`: lists and checks the MCP servers of sessions here, and signs in to remote ones.

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use lodge_host::{
    McpFiles, Trust, logins,
    mcp::{Configured, LoginOptions, ServerInfo, Servers, Source, Status, Transport},
    mcp_servers, servers_on_trial,
};

use crate::{cli::McpCommand, listing::count, serve::print_line, setup};

/// Longer than any server may take to start: every start ends by itself.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How often progress is reported.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

pub(crate) async fn run(home: &Path, command: Option<&McpCommand>) -> Result<ExitCode> {
    let known = known(home)?;
    match command {
        None | Some(McpCommand::List) => Ok(list(home, &known)),
        Some(McpCommand::Check) => Ok(check(home, known).await),
        Some(McpCommand::Login { name, again }) => login(home, &known, name, *again).await,
        Some(McpCommand::Logout { name }) => {
            let url = remote(&known, name)?;
            print_line(match logins(home).forget(&url) {
                true => "Forgotten.",
                false => "You were not signed in.",
            });
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The servers of a session in this folder.
pub(crate) fn known(home: &Path) -> Result<Vec<Configured>> {
    let cwd = std::env::current_dir().unwrap_or_default();
    let configured = setup::config(home)?.mcp.servers();
    Ok(mcp_servers(
        home,
        &Trust::at(home),
        &configured,
        &McpFiles::Trusted,
        &cwd,
    ))
}

fn say_if_none(known: &[Configured]) {
    if known.is_empty() {
        print_line(
            "There are no MCP servers. Add them to lodge.toml (`[mcp.servers.NAME]`), to mcp-config.json in the home,",
        );
        print_line("or to .mcp.json in this folder; docs/mcp.md has an example.");
    }
}

fn list(home: &Path, known: &[Configured]) -> ExitCode {
    say_if_none(known);
    let logins = logins(home);
    for server in known {
        print_line(&format!("{}  ({})", server.name, source(server.source)));
        print_line(&match &server.config {
            Ok(config) if config.disabled => format!("    off; {}", place(&config.transport)),
            Ok(config) => match config.remote().map(|remote| logins.token(&remote.url).is_some()) {
                Some(true) => format!("    {}; signed in", place(&config.transport)),
                _ => format!("    {}", place(&config.transport)),
            },
            Err(error) => format!("    ✗ {error}"),
        });
    }
    ExitCode::SUCCESS
}

fn source(source: Source) -> &'static str {
    match source {
        Source::User => "yours",
        Source::Workspace => "this folder's",
        Source::Plugin => "a plugin's",
        Source::Builtin => "Lodge's",
        Source::Client => "an app's",
    }
}

/// Where a server is. Arguments and headers may contain secrets, so neither is shown.
fn place(transport: &Transport) -> String {
    match transport {
        Transport::Stdio { command, args, .. } if args.is_empty() => format!("runs {command}"),
        Transport::Stdio { command, args, .. } => format!("runs {command} with {}", count(args.len(), "argument")),
        Transport::Http(remote) | Transport::Sse(remote) => {
            remote.url.split(['?', '#']).next().unwrap_or_default().to_owned()
        }
    }
}

/// Starts all servers, reports the result, and stops them.
async fn check(home: &Path, known: Vec<Configured>) -> ExitCode {
    say_if_none(&known);
    let mut failed = false;
    for (server, tools) in try_out(home, known).await {
        failed |= server.status == Status::Failed;
        print_line(&state(&server, tools));
    }
    match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// A server's state in one line.
pub(crate) fn state(server: &ServerInfo, tools: usize) -> String {
    let name = &server.name;
    match server.status {
        Status::Connected => {
            let tools = count(tools, "tool");
            let left_out = match server.left_out.as_slice() {
                [] => String::new(),
                names => format!("; unsupported (task-only): {}", names.join(", ")),
            };
            format!("✓ {name} answers and has {tools}{left_out}")
        }
        Status::NeedsAuth => format!("· {name} needs you to sign in: `lodge mcp login {name}`"),
        Status::Disabled => format!("· {name} is off"),
        Status::Pending | Status::Stopped => format!("✗ {name} did not start"),
        Status::Failed => {
            let error = server.error.as_deref().unwrap_or("no reason was given");
            let mark = if error.contains("lodge trust") { "·" } else { "✗" };
            format!("{mark} {name}: {}", error.replace('\n', "\n    "))
        }
    }
}

/// Starts servers as a session would. Returns the state of each, and how many tools it has.
pub(crate) async fn try_out(home: &Path, known: Vec<Configured>) -> Vec<(ServerInfo, usize)> {
    let servers = servers_on_trial(home, std::env::current_dir().unwrap_or_default(), known);
    tokio::select! {
        () = servers.ready(PATIENCE) => {}
        () = tell_progress(&servers) => {}
    }
    let tools = servers.tools();
    let count = |name: &str| tools.iter().filter(|(server, _)| **server == *name).count();
    let found = servers.list().into_iter();
    let found = found.map(|server| {
        let tools = count(&server.name);
        (server, tools)
    });
    let found = found.collect();
    servers.shutdown().await;
    found
}

/// Reports from time to time which servers are still starting. Never ends.
async fn tell_progress(servers: &Servers) {
    let begun = Instant::now();
    loop {
        tokio::time::sleep(PROGRESS_EVERY).await;
        let starting: Vec<String> = servers
            .list()
            .into_iter()
            .filter(|server| servers.is_starting(&server.name))
            .map(|server| server.name)
            .collect();
        if !starting.is_empty() {
            eprintln!(
                "… {} s: waiting for {} (a server may install itself when it first starts)",
                begun.elapsed().as_secs(),
                lodge_terminal::plain(&starting.join(", "))
            );
        }
    }
}

async fn login(home: &Path, known: &[Configured], name: &str, again: bool) -> Result<ExitCode> {
    let url = remote(known, name)?;
    let config = known
        .iter()
        .find(|server| server.name == name)
        .and_then(|server| server.config.as_ref().ok());
    let logins = logins(home);
    if logins.token(&url).is_some() && !again {
        print_line("You are signed in. Use --again to sign in again.");
        return Ok(ExitCode::SUCCESS);
    }
    let options = LoginOptions {
        client: config.map(|config| config.oauth.clone()).unwrap_or_default(),
        ..LoginOptions::default()
    };
    let login = logins.begin(&url, options).await?;
    print_line("Open this in a browser on this machine, and sign in:");
    print_line(&format!("\n  {}\n", login.url));
    print_line("Waiting… (Ctrl-C to cancel)");
    login.ended().await?;
    print_line(&format!("Signed in to {name}. Sessions use it from now on."));
    Ok(ExitCode::SUCCESS)
}

/// The address of a remote server.
fn remote(known: &[Configured], name: &str) -> Result<String> {
    let server = known.iter().find(|server| server.name == name);
    let server = server.with_context(|| format!("There is no MCP server named {name}; `lodge mcp` lists them"))?;
    match server.config.as_ref().map(|config| config.remote()) {
        Ok(Some(remote)) => Ok(remote.url.clone()),
        Ok(None) => bail!("{name} is a program on this machine: there is nothing to sign in to"),
        Err(error) => bail!("{name} cannot be used: {error}"),
    }
}
