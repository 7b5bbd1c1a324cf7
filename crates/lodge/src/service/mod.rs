//! `lodge service`: installs the host as a user service, started at login and restarted when it fails.

mod launchd;
mod systemd;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand};

use crate::{
    cli::{Cli, Command as Subcommands},
    host_file, launch,
    serve::print_line,
};

/// Exit codes as `systemctl status` has them.
const NOT_RUNNING: u8 = 3;
const NOT_INSTALLED: u8 = 4;

/// `lodge service`.
#[derive(Subcommand)]
pub(crate) enum ServiceCommand {
    /// Install and start the service; install again to change its options
    #[command(after_help = "Examples:
  lodge service install
  lodge service install --print
  lodge service install -- --port 9000")]
    Install {
        /// Print what would be installed, and install nothing
        #[arg(long)]
        print: bool,
        /// Options for the host, such as `-- --port 9000`
        #[arg(last = true, value_name = "OPTION")]
        options: Vec<String>,
    },
    /// Show whether the service is running; exits with 3 if it is not, and with 4 if it is not installed
    #[command(after_help = "Examples:
  lodge service status")]
    Status,
    /// Show the log of the service
    #[command(after_help = "Examples:
  lodge service logs --lines 20
  lodge service logs --follow")]
    Logs {
        /// Keep printing new lines
        #[arg(long, short)]
        follow: bool,
        /// How many lines to show
        #[arg(long, short = 'n', default_value_t = 100)]
        lines: u32,
    },
    /// Stop and remove the service; sessions and settings stay
    #[command(after_help = "Examples:
  lodge service uninstall")]
    Uninstall,
}

/// A kind of service manager.
trait Manager {
    /// The file that describes the service.
    fn file(&self) -> Result<PathBuf>;
    fn describe(&self, program: &Path, arguments: &[String], home: &Path) -> Result<String>;
    /// Makes the manager read the file, and start the service or restart it.
    fn start(&self, file: &Path) -> Result<()>;
    /// Stops the service for good.
    fn stop(&self, file: &Path) -> Result<()>;
    /// One word about it, such as `active`.
    fn state(&self) -> Result<String>;
    /// What shows its logs.
    fn logs(&self, home: &Path, follow: bool, lines: u32) -> Result<Command>;
    /// What else the person may want to do.
    fn hint(&self) -> &'static str;
}

pub(crate) fn run(home: &Path, command: ServiceCommand) -> Result<ExitCode> {
    let manager: &dyn Manager = match cfg!(target_os = "macos") {
        true => &launchd::Launchd,
        false => &systemd::Systemd,
    };
    match command {
        ServiceCommand::Install { print, options } => install(manager, home, print, options),
        ServiceCommand::Status => status(manager, home),
        ServiceCommand::Logs { follow, lines } => logs(manager, home, follow, lines),
        ServiceCommand::Uninstall => uninstall(manager),
    }
}

fn install(manager: &dyn Manager, home: &Path, print: bool, options: Vec<String>) -> Result<ExitCode> {
    let program = launch::program().context("Cannot find Lodge's own program")?;
    // The home is named, because a service knows no `LODGE_HOME` of a shell.
    let home_name = home.to_str().context("The path of the home is not UTF-8")?;
    let words = ["serve", "--home", home_name].into_iter();
    let arguments: Vec<String> = words.map(str::to_owned).chain(options).collect();
    let parsed = Cli::try_parse_from(std::iter::once("lodge").chain(arguments.iter().map(String::as_str)))?;
    // Options that mean something else than running have no place here.
    let runs = matches!(parsed.command, Some(Subcommands::Serve(serve)) if !serve.stop && !serve.background);
    ensure!(runs, "Only options of `lodge serve` can be given here.");
    let text = manager.describe(&program, &arguments, home)?;
    if print {
        print_line(text.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let file = manager.file()?;
    for dir in [file.parent(), Some(home)].into_iter().flatten() {
        std::fs::create_dir_all(dir).with_context(|| format!("Cannot create {}", dir.display()))?;
    }
    let before = std::fs::read(&file).ok();
    std::fs::write(&file, text).with_context(|| format!("Cannot write {}", file.display()))?;
    if let Err(error) = manager.start(&file) {
        // What does not run is not installed, or is as it was.
        let _ = match before {
            Some(text) => std::fs::write(&file, text),
            None => std::fs::remove_file(&file),
        };
        return Err(error);
    }
    print_line(&format!("The service is installed ({}) and running.", file.display()));
    print_line(manager.hint());
    Ok(ExitCode::SUCCESS)
}

fn status(manager: &dyn Manager, home: &Path) -> Result<ExitCode> {
    let file = manager.file()?;
    if !file.exists() {
        print_line("The service is not installed. Install it with `lodge service install`.");
        return Ok(ExitCode::from(NOT_INSTALLED));
    }
    let state = manager.state()?;
    print_line(&format!("Service   {state} ({})", file.display()));
    if let Some(note) = host_file::running(home)? {
        print_line(&format!(
            "Host      Lodge {}, process {}, at {}",
            note.version, note.pid, note.ahp
        ));
    }
    Ok(match state.as_str() {
        "active" => ExitCode::SUCCESS,
        _ => ExitCode::from(NOT_RUNNING),
    })
}

fn logs(manager: &dyn Manager, home: &Path, follow: bool, lines: u32) -> Result<ExitCode> {
    let mut command = manager.logs(home, follow, lines)?;
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("Cannot run {name}"))?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn uninstall(manager: &dyn Manager) -> Result<ExitCode> {
    let file = manager.file()?;
    if !file.exists() {
        print_line("The service is not installed.");
        return Ok(ExitCode::SUCCESS);
    }
    manager.stop(&file)?;
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("Cannot remove {}", file.display()));
        }
        _ => print_line("The service is stopped and removed. Sessions and settings stay."),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a program of the service manager; an error with what it said, unless it succeeds.
fn call(program: &str, args: &[&str]) -> Result<()> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("Cannot run {program}, which the service needs"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{program} {}` failed: {}", args.join(" "), said.trim());
    }
    Ok(())
}

/// A directory of the person's.
fn person() -> Result<PathBuf> {
    std::env::home_dir().context("There is no home directory in which to install the service")
}
