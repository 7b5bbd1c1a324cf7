//! The program: arguments, configuration, start-up, shutdown, printing. It may not know how anything works inside.

mod attach;
mod backup;
mod cli;
mod console;
mod doctor;
#[cfg(feature = "fleet")]
mod fleet;
mod form;
mod grants;
mod history;
mod host_file;
mod join;
mod keyring;
mod launch;
mod listing;
mod local_clients;
mod log_file;
mod logging;
mod mcp;
mod notify;
mod prune;
mod question;
mod release;
mod remote;
mod run;
mod serve;
mod service;
mod sessions;
mod settings_file;
mod setup;
mod setup_command;
mod trust;
mod view;
mod vscode;

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, error::ErrorKind};

use crate::cli::{Cli, Command, ServeArgs};

/// How long threads of a host may still write when everything else is done.
const LAST_WRITES: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let args: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    // First, because every command of an agent waits for it.
    if let [first, spec, _, command @ ..] = args.as_slice()
        && first == lodge_tools::sandbox::SUBCOMMAND
    {
        let error = lodge_tools::sandbox::run(&spec.to_string_lossy(), command);
        eprintln!("error: {error}");
        return ExitCode::from(lodge_tools::sandbox::NOT_STARTED);
    }
    // Before there are other threads.
    lodge_tools::unblock_signals();
    match serve::sdk_arguments(&args) {
        Ok(Some(sdk)) => {
            let served = block_on(serve::for_sdk(sdk));
            let failed = served.is_err();
            let code = finish(served);
            if failed {
                lodge_copilot::hear_out_client();
            }
            return code;
        }
        Ok(None) => {}
        Err(message) => {
            eprintln!("{message}");
            lodge_copilot::hear_out_client();
            return ExitCode::FAILURE;
        }
    }
    if std::env::var_os("LODGE_HOME").is_some_and(|home| home.is_empty()) {
        eprintln!("error: LODGE_HOME is empty. Unset it, or set it to a directory.");
        return ExitCode::from(2);
    }
    let given = cli::read(&std::env::args_os().collect::<Vec<_>>()).unwrap_or_else(|error| error.exit());
    let cli = Cli::from_arg_matches(&given).unwrap_or_else(|error| error.exit());
    finish(dispatch(cli, ServeArgs::are_given(&given)))
}

fn finish(result: Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            // Whoever stopped reading wants no more to read.
            let unread = error
                .downcast_ref::<std::io::Error>()
                .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe);
            if !unread {
                // A terminal that is gone cannot be told.
                let _ = writeln!(std::io::stderr(), "error: {}", describe(&error));
            }
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes, each said once: some errors say theirs themselves.
pub(crate) fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.ends_with(&cause) {
            let between = if text.is_empty() { "" } else { ": " };
            text = format!("{text}{between}{cause}");
        }
    }
    // Causes quote files and answers of others.
    lodge_terminal::plain(&text)
}

/// Runs the command. `for_host` says that the command line has options of a host.
fn dispatch(cli: Cli, for_host: bool) -> Result<ExitCode> {
    let home = setup::home_path(cli.global.home.as_deref());
    let file = match (&cli.command, &home) {
        (Some(Command::Serve(args)), Ok(home)) if args.background || args.log_to_home => {
            Some(log_file::LogFile::open(home)?)
        }
        _ => None,
    };
    match file {
        Some(file) => logging::log_to(&cli.global.log_level, file),
        None => logging::log_to_stderr(&cli.global.log_level),
    }
    match cli.command {
        None | Some(Command::Chat { .. }) if cli.chat.are_given() && for_host => {
            let both = "Options of a conversation cannot be used with options of a host.";
            Cli::command().error(ErrorKind::ArgumentConflict, both).exit()
        }
        Some(ref command) if cli.chat.are_given() && !matches!(command, Command::Chat { .. }) => {
            let misplaced = "These options belong after the command.";
            Cli::command().error(ErrorKind::ArgumentConflict, misplaced).exit()
        }
        None if cli.chat.are_given() || (is_at_terminal() && !for_host) => {
            block_on(attach::converse(&home?, cli.chat, None))
        }
        Some(Command::Chat { message, options }) => {
            let message = Some(message.join(" ")).filter(|message| !message.trim().is_empty());
            block_on(attach::converse(&home?, options.or(cli.chat), message))
        }
        None => serve(serve::host(&home?, &cli.global, &cli.serve, serve::Ends::WhenTold)),
        Some(Command::Serve(args)) if args.stop => block_on(launch::stop(&home?)),
        Some(Command::Serve(args)) => {
            let ends = match args.background {
                true => serve::Ends::WhenUnneeded,
                false => serve::Ends::WhenTold,
            };
            serve(serve::host(&home?, &cli.global, &args.serve, ends))
        }
        #[cfg(feature = "fleet")]
        Some(Command::Fleet(command)) => block_on(fleet::run(&command)),
        Some(Command::Status) => block_on(attach::status(&home?)),
        Some(Command::Setup) => block_on(setup_command::run(&home?)),
        Some(Command::Acp(args)) if args.setup => block_on(setup_command::run(&home?)),
        Some(Command::Acp(_)) => block_on(join::editor(&home?)),
        Some(command) if local_clients::is_for_host(&command) => {
            block_on(join::command(&home?, cli.global.sync, command))
        }
        Some(Command::Attach(mut args)) => block_on(async {
            let home = home?;
            // The way to another machine, open for as long as this runs.
            let _way = remote::open(&home, &mut args).await?;
            attach::attach(&home, args).await
        }),
        Some(Command::Bridge) => block_on(remote::bridge(&home?)),
        Some(Command::Hosts { command }) => remote::hosts(&home?, command),
        Some(Command::Tls(command)) => remote::tls(&home?, command),
        Some(Command::Service(command)) => service::run(&home?, command),
        Some(Command::Backup(args)) => backup::backup(&home?, &args),
        Some(Command::Restore(args)) => backup::restore(&home?, &args),
        Some(Command::Export { id, format, output }) => history::export(&home?, &id, format, output.as_deref()),
        Some(Command::Run(_) | Command::Reload | Command::Import { .. }) => unreachable!("they are for a host"),
        Some(Command::Sessions(command)) => {
            let home = home?;
            let by_host = match sessions::is_elsewhere(&home, &command) {
                true => block_on(join::read(&home))?,
                false => None,
            };
            by_host.map_or_else(|| sessions::sessions(&home, command), Ok)
        }
        Some(Command::Check(args)) => sessions::check(&home?, &args),
        Some(Command::Models) => block_on(serve::models(&home?)),
        Some(Command::Trust { folder, show, remove }) => trust::run(&home?, folder.as_deref(), show, remove),
        Some(Command::Grants { command }) => grants::run(&home?, command.as_ref()),
        Some(Command::Automations { command }) => block_on(attach::automations(&home?, command.as_ref())),
        Some(Command::Mcp { command }) => block_on(mcp::run(&home?, command.as_ref())),
        Some(Command::Vscode) => vscode::explain(&home?),
        Some(Command::Doctor) => block_on(doctor::doctor(&home?)),
        Some(Command::Pair(args)) => block_on(attach::pair(&home?, &args)),
        Some(Command::Devices { command }) => block_on(attach::devices(&home?, command.as_ref())),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "lodge", &mut script);
            let _ = std::io::stdout().write_all(&script);
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Itself(command)) => block_on(release::run(command)),
        Some(Command::Man { dir }) => release::man(&dir),
        Some(Command::Guard { host }) => {
            lodge_tools::stand_guard(&host);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Whether a person started the program at a terminal.
fn is_at_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Runs something to its end. A thread that still waits, for a line to be typed or for another program, does not hold this one.
fn block_on<T>(task: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime()?;
    let done = runtime.block_on(task);
    runtime.shutdown_background();
    done
}

/// The same for a host, whose threads may still write for a moment. One that waits for a disk does not hold it.
fn serve(host: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    let runtime = runtime()?;
    let code = runtime.block_on(host);
    runtime.shutdown_timeout(LAST_WRITES);
    code
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let workers = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()?)
}
