//! Starting the host and its faces; and the small commands that look at the machine.

use std::{ffi::OsString, path::Path, process::ExitCode};

use anyhow::{Context, Result};
use lodge_copilot::{ServerArgs, ServerOptions, Transport};
use tokio::net::TcpListener;

use crate::{
    cli::{Global, ServeArgs},
    setup,
};

/// The arguments as an SDK gives them; nothing when this is not how an SDK starts the program.
pub(crate) fn sdk_arguments(args: &[OsString]) -> Result<Option<ServerArgs>, String> {
    let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    lodge_copilot::parse_cli_args(&args)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Serves the SDK that started this program, and nobody else.
pub(crate) async fn for_sdk(args: ServerArgs) -> Result<ExitCode> {
    crate::log_to_stderr(match args.log_level.as_deref() {
        Some("none") => "off",
        Some("error") => "error",
        Some("info") => "info",
        Some("debug") => "debug",
        Some("all") => "trace",
        _ => "warn",
    });
    let asked = variable("LODGE_HOME").or_else(|| variable("COPILOT_HOME"));
    let home = setup::home_path(asked.as_deref().map(Path::new))?;
    let host = setup::host(
        &home,
        setup::Use::Shared,
        lodge_host::SyncPolicy::default(),
        args.session_idle_timeout,
    )?;
    let token = args.auth_token_env.as_deref().and_then(variable);
    let github_token = token.or_else(|| {
        args.auto_login
            .then(|| variable("GH_TOKEN").or_else(|| variable("GITHUB_TOKEN")))
            .flatten()
    });
    let options = ServerOptions {
        connection_token: variable("COPILOT_CONNECTION_TOKEN"),
        github_token,
        approve_all: args.approve_all,
        ..ServerOptions::default()
    };
    match args.transport {
        Transport::Stdio => {
            tokio::select! {
                served = lodge_copilot::serve_stdio(host.clone(), options) => served?,
                () = stopped() => {}
            }
        }
        Transport::Tcp { port } => {
            let address = args.host.as_deref().unwrap_or("127.0.0.1");
            let listener = TcpListener::bind((address, port))
                .await
                .with_context(|| format!("Cannot listen on {address}:{port}"))?;
            print_line(&lodge_copilot::announcement(listener.local_addr()?.port()));
            tokio::select! {
                served = lodge_copilot::serve_tcp(host.clone(), listener, options) => served?,
                () = stopped() => {}
            }
        }
    }
    host.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

/// Starts the host with all its faces and runs until it is told to stop.
pub(crate) async fn host(home: &Path, global: &Global, args: &ServeArgs) -> Result<ExitCode> {
    let host = setup::host(home, setup::Use::Alone, global.sync, None)?;
    let listener = TcpListener::bind(("127.0.0.1", args.sdk_port)).await.with_context(|| {
        format!(
            "Cannot listen on port {}; choose another with --sdk-port",
            args.sdk_port
        )
    })?;
    let address = listener.local_addr()?;
    print_line(&format!(
        "Lodge {} keeps its sessions in {}",
        env!("CARGO_PKG_VERSION"),
        home.display()
    ));
    print_line(&format!("Model: {}", host.models().default_model()));
    print_line(&format!("Copilot SDKs: set cliUrl to {address}"));
    let options = ServerOptions {
        connection_token: variable("COPILOT_CONNECTION_TOKEN"),
        ..ServerOptions::default()
    };
    tokio::select! {
        served = lodge_copilot::serve_tcp(host.clone(), listener, options) => served?,
        () = stopped() => print_line("Stopping."),
    }
    host.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

/// Until somebody wants the program to end.
async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut terminate), Ok(mut hang_up)) = (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
        else {
            let _ = tokio::signal::ctrl_c().await;
            return;
        };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
    #[cfg(not(unix))]
    let _ = tokio::signal::ctrl_c().await;
}

/// A line on standard output, for whoever still reads it.
pub(crate) fn print_line(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// `lodge models`.
pub(crate) async fn models(home: &Path) -> Result<ExitCode> {
    let models = setup::models(&setup::config(home)?)?;
    let default = models.default_model();
    for model in models.list() {
        let mark = if model.id == default { "*" } else { " " };
        print_line(&format!(
            "{mark} {:<32} {:<16} {:>9} tokens",
            model.id, model.provider, model.context_window
        ));
    }
    let mut failed = false;
    for found in models.discover().await {
        match found.models {
            Ok(list) => {
                for model in list {
                    print_line(&format!(
                        "  {:<32} {:<16} {:>9} tokens",
                        model.id, model.provider, model.context_window
                    ));
                }
            }
            Err(error) => {
                failed = true;
                eprintln!("{}: {error}", found.provider);
            }
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// `lodge doctor`.
pub(crate) fn doctor(home: &Path) -> Result<ExitCode> {
    print_line(&format!("Lodge {}", env!("CARGO_PKG_VERSION")));
    print_line(&format!("Home: {}", home.display()));
    Ok(ExitCode::SUCCESS)
}

/// Becomes the command, inside the sandbox.
pub(crate) fn sandbox_exec(_: &str, _: &[OsString]) -> Result<ExitCode> {
    Ok(ExitCode::FAILURE)
}
