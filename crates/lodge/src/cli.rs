//! The command line, as clap reads it.

use std::{ffi::OsString, path::PathBuf};

use clap::{ArgMatches, Args, CommandFactory, Parser, Subcommand, ValueEnum, error::ErrorKind, parser::ValueSource};
use lodge_door::Role;
use lodge_host::SyncPolicy;

use crate::view::Format;

/// Run AI agent sessions, and watch and steer them from many clients.
///
/// In a terminal, `lodge` opens a conversation. It joins the running host, or starts one in the background. Without a terminal,
/// and as `lodge serve`, it is the host itself and prints where to connect. You need no configuration: the built-in rehearsal
/// model answers offline until you set up your own.
#[derive(Parser)]
#[command(name = "lodge", version = crate::release::VERSION.as_str(), max_term_width = 100)]
#[command(after_help = "Examples:
  lodge                          open a conversation
  lodge \"fix the failing test\"   open a new one with this message
  lodge run \"hello\"              send one message and print the answer
  lodge setup                    set up a model
  lodge doctor                   check the configuration")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) chat: ChatOptions,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// How a conversation is opened.
#[derive(Args, Clone, Default)]
pub(crate) struct ChatOptions {
    /// Open the conversation of a session: its id, the beginning of it, or the last one
    #[arg(long, value_name = "ID|last", num_args = 0..=1, default_missing_value = "last")]
    pub(crate) resume: Option<String>,
    /// Continue the last session of this directory; a message is sent to it
    #[arg(long = "continue", conflicts_with = "resume")]
    pub(crate) last: bool,
    /// Start a new session
    #[arg(long, conflicts_with_all = ["resume", "last"])]
    pub(crate) new: bool,
    /// The model for the first message (see `lodge models`)
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// What runs without approval in this session
    #[arg(long, value_enum)]
    pub(crate) approve: Option<ApprovalArg>,
}

impl ChatOptions {
    /// Whether any option was given, which selects `chat`.
    pub(crate) fn are_given(&self) -> bool {
        self.resume.is_some() || self.last || self.new || self.model.is_some() || self.approve.is_some()
    }

    /// Fills unset options from `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            resume: self.resume.or(other.resume),
            last: self.last || other.last,
            new: self.new || other.new,
            model: self.model.or(other.model),
            approve: self.approve.or(other.approve),
        }
    }
}

/// Reads a command line. What is not a command and has a space in it, or stands behind `--`, is the first message of a
/// conversation.
pub(crate) fn read(args: &[OsString]) -> Result<ArgMatches, clap::Error> {
    let read = |args: &[OsString]| Cli::command().try_get_matches_from(args);
    let error = match read(args) {
        Err(error) if matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument) => error,
        other => return other,
    };
    let is_message = |arg: &OsString| arg == "--" || arg.to_string_lossy().trim().contains(char::is_whitespace);
    let with_command = |at: usize| {
        let mut args = args.to_vec();
        args.insert(at, "chat".into());
        read(&args).ok()
    };
    let mut places = (1..args.len()).filter(|at| is_message(&args[*at]));
    places.find_map(with_command).ok_or(error)
}

/// The heading of options that every command takes. They come last, apart from a command's own.
const GLOBAL: &str = "Global options";

#[derive(Args, Clone)]
pub(crate) struct Global {
    /// Directory where Lodge keeps everything [default: the platform's state directory]
    #[arg(long, global = true, env = "LODGE_HOME", value_name = "DIR", help_heading = GLOBAL)]
    pub(crate) home: Option<PathBuf>,
    /// When writes must reach the disk: turn (when a turn begins and ends), always or never
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        env = "LODGE_SYNC",
        value_name = "POLICY",
        default_value_t,
        hide_possible_values = true
    )]
    pub(crate) sync: SyncPolicy,
    /// What to log to standard error: error, warn, info, debug or trace
    #[arg(long, global = true, help_heading = GLOBAL, env = "LODGE_LOG", value_name = "LEVEL", default_value = "warn", value_parser = crate::logging::parse_level)]
    pub(crate) log_level: String,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the host in the foreground, or stop the running one
    #[command(after_help = "Examples:
  lodge serve
  lodge serve --port 9000
  lodge serve --listen 0.0.0.0:8764   # needs TLS: lodge tls init
  lodge serve --stop")]
    Serve(ServeCommand),
    /// Look at a fleet: its hosts, its sessions; drain a host
    #[cfg(feature = "fleet")]
    #[command(
        subcommand,
        after_help = "Examples:
  lodge fleet status --fleet nats://one:4222,nats://two:4222
  lodge fleet drain one --fleet nats://one:4222"
    )]
    Fleet(crate::fleet::FleetCommand),
    /// Show whether a host is running, where, and what its sessions are doing
    #[command(after_help = "Examples:
  lodge status")]
    Status,
    /// Set up a model: choose a provider, enter a key, test it
    #[command(after_help = "Examples:
  lodge setup")]
    Setup,
    /// Read the models again in the running host; `lodge setup` uses it
    #[command(hide = true)]
    Reload,
    /// Open a conversation, with a first message if you like
    #[command(after_help = "Examples:
  lodge chat fix the failing test
  lodge chat --continue \"and the next one\"
  lodge chat --approve edits \"add a dark theme\"")]
    Chat {
        /// The first message; it begins a new session unless --continue or --resume is given
        #[arg(value_name = "MESSAGE")]
        message: Vec<String>,
        #[command(flatten)]
        options: ChatOptions,
    },
    /// Send one message and print the answer
    #[command(after_help = "Examples:
  lodge run \"explain this repository\"
  git diff | lodge run \"review this\"
  lodge run --resume last \"go on\"
  lodge run --approve edits \"fix the failing test\"
  lodge run --mode plan \"add a dark theme\"")]
    Run(RunArgs),
    /// Serve an editor that speaks the Agent Client Protocol (ACP) over standard input and output
    ///
    /// For Zed, JetBrains, Neovim, Emacs and others, which start it: set `lodge acp` as the agent's command. It joins the running
    /// host, or starts one in the background, so every client sees the same sessions.
    #[command(after_help = "Examples:
  lodge acp
  lodge acp --setup")]
    Acp(AcpArgs),
    /// Open a conversation with a session of a running host
    #[command(after_help = "Examples:
  lodge attach last
  lodge attach --new --cwd ~/project
  lodge attach ssh://me@machine
  lodge attach --plain last")]
    Attach(AttachArgs),
    /// List, show, search, fork, rewind and delete sessions
    #[command(after_help = "Examples:
  lodge sessions list
  lodge sessions show last
  lodge sessions search \"retry\"
  lodge sessions rewind last")]
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Export a session as Markdown, HTML or events
    #[command(after_help = "Examples:
  lodge export last
  lodge export last --format html -o session.html
  lodge export last --format jsonl")]
    Export {
        /// The session: its id, the beginning of its id, or `last`
        id: String,
        /// The format
        #[arg(long, value_enum, default_value_t = FormatArg::Md)]
        format: FormatArg,
        /// The file to write [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Import sessions of the Copilot CLI
    #[command(after_help = "Examples:
  lodge import
  lodge import ~/backup/session-state")]
    Import {
        /// Sessions, or directories of sessions [default: those of the Copilot CLI on this machine]
        paths: Vec<PathBuf>,
    },
    /// Check the logs of sessions, and repair damaged ones
    #[command(after_help = "Examples:
  lodge check
  lodge check last --fix")]
    Check(CheckArgs),
    /// List the models
    #[command(after_help = "Examples:
  lodge models")]
    Models,
    /// Trust or untrust a folder's hooks and MCP servers
    #[command(after_help = "Examples:
  lodge trust --show .
  lodge trust .
  lodge trust
  lodge trust --remove .")]
    Trust {
        /// The folder; without it, list the trusted folders
        folder: Option<PathBuf>,
        /// Show what the folder would start, and what changed since you accepted it
        #[arg(long, requires = "folder", conflicts_with = "remove")]
        show: bool,
        /// Untrust the folder
        #[arg(long, requires = "folder")]
        remove: bool,
    },
    /// List MCP servers, check them, and sign in to them
    #[command(after_help = "Examples:
  lodge mcp
  lodge mcp check
  lodge mcp login docs")]
    Mcp {
        #[command(subcommand)]
        command: Option<McpCommand>,
    },
    /// Check the configuration, the model and the protection of this machine
    #[command(after_help = "Examples:
  lodge doctor")]
    Doctor,
    /// Manage client access outside session directories
    #[command(after_help = "Examples:
  lodge grants
  lodge grants allow a1b2 --always
  lodge grants revoke a1b2")]
    Grants {
        #[command(subcommand)]
        command: Option<GrantsCommand>,
    },
    /// Manage automations
    #[command(after_help = "Examples:
  lodge automations
  lodge automations run a1b2
  lodge automations remove a1b2")]
    Automations {
        #[command(subcommand)]
        command: Option<AutomationsCommand>,
    },
    /// Pair a browser or phone: print a link and a QR code that work once
    #[command(after_help = "Examples:
  lodge pair
  lodge pair --role view-only --name \"Meeting room\"")]
    Pair(PairArgs),
    /// List and revoke paired devices
    #[command(after_help = "Examples:
  lodge devices
  lodge devices revoke a1b2")]
    Devices {
        #[command(subcommand)]
        command: Option<DevicesCommand>,
    },
    /// Print what to set in VS Code, so that it reaches the running host
    #[command(after_help = "Examples:
  lodge vscode")]
    Vscode,
    /// Print a completion script for your shell
    #[command(after_help = "Examples:
  lodge completions bash > ~/.local/share/bash-completion/completions/lodge
  lodge completions fish > ~/.config/fish/completions/lodge.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Run the host as a service
    #[command(after_help = "Examples:
  lodge service install
  lodge service install -- --port 9000
  lodge service status
  lodge service logs --follow")]
    #[command(subcommand)]
    Service(crate::service::ServiceCommand),
    /// Back up the home into one file, even while the host is running
    #[command(after_help = "Examples:
  lodge backup
  lodge backup lodge.tar.gz")]
    Backup(crate::backup::BackupArgs),
    /// Create a home from a backup
    #[command(after_help = "Examples:
  lodge restore lodge.tar.gz --home ~/restored")]
    Restore(crate::backup::RestoreArgs),
    /// Manage hosts on other machines
    #[command(after_help = "Examples:
  lodge hosts add work ssh://me@machine
  lodge hosts
  lodge hosts remove work")]
    Hosts {
        #[command(subcommand)]
        command: Option<crate::remote::HostsCommand>,
    },
    /// Create a certificate, so that other machines can reach the host over TLS
    #[command(after_help = "Examples:
  lodge tls init --name machine.example")]
    #[command(subcommand)]
    Tls(crate::remote::TlsCommand),
    /// Carry a connection to the host; Lodge uses it over ssh
    #[command(hide = true)]
    Bridge,
    /// Check for a newer release
    #[command(after_help = "Examples:
  lodge self check --feed https://example.com/lodge/release.json")]
    #[command(name = "self", subcommand)]
    Itself(crate::release::SelfCommand),
    /// Write the man pages into a directory; packaging uses it
    #[command(hide = true)]
    Man {
        /// The directory
        dir: PathBuf,
    },
    /// End what a killed host leaves behind; Lodge uses it
    #[command(name = lodge_tools::GUARD, hide = true)]
    Guard {
        /// The host
        host: String,
    },
}

#[derive(Args)]
pub(crate) struct AcpArgs {
    /// Set up a model, as `lodge setup` does; editors run this in a terminal
    #[arg(long)]
    pub(crate) setup: bool,
}

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// List the servers
    #[command(after_help = "Examples:
  lodge mcp list")]
    List,
    /// Start each server, report what happened, and stop it
    #[command(after_help = "Examples:
  lodge mcp check")]
    Check,
    /// Sign in to a remote server
    #[command(after_help = "Examples:
  lodge mcp login docs
  lodge mcp login docs --again")]
    Login {
        /// The name of the server
        name: String,
        /// Sign in again, even if you are signed in
        #[arg(long)]
        again: bool,
    },
    /// Sign out of a server
    #[command(after_help = "Examples:
  lodge mcp logout docs")]
    Logout {
        /// The name of the server
        name: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum AutomationsCommand {
    /// List the automations
    #[command(after_help = "Examples:
  lodge automations list")]
    List,
    /// Run an automation now
    #[command(after_help = "Examples:
  lodge automations run a1b2")]
    Run {
        /// The id of the automation, or the beginning of it
        id: String,
    },
    /// Remove an automation; the sessions of its runs stay
    #[command(after_help = "Examples:
  lodge automations remove a1b2")]
    Remove {
        /// The id of the automation, or the beginning of it
        id: String,
    },
}

#[derive(Args)]
pub(crate) struct PairArgs {
    /// What the device may do: full, approve-only (watch and answer questions) or view-only
    #[arg(long, value_name = "ROLE", default_value_t = Role::Full, value_parser = crate::attach::parse_role)]
    pub(crate) role: Role,
    /// Name of the device [default: the name it gives itself]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Address at which the device reaches the host, such as https://lodge.example [default: where the host listens]
    #[arg(long, value_name = "URL")]
    pub(crate) address: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum DevicesCommand {
    /// List the paired devices
    #[command(after_help = "Examples:
  lodge devices list")]
    List,
    /// Revoke a device and close its connections
    #[command(after_help = "Examples:
  lodge devices revoke a1b2")]
    Revoke {
        /// The id of the device, or the beginning of it
        id: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum GrantsCommand {
    /// List grants and requests
    #[command(after_help = "Examples:
  lodge grants list")]
    List,
    /// Allow a request
    #[command(after_help = "Examples:
  lodge grants allow a1b2
  lodge grants allow a1b2 --always")]
    Allow {
        /// The id of the request, or the beginning of it
        id: String,
        /// Keep the grant after the host stops
        #[arg(long)]
        always: bool,
    },
    /// Revoke a grant, or refuse a request
    #[command(after_help = "Examples:
  lodge grants revoke a1b2")]
    Revoke {
        /// The id of the grant or request, or the beginning of it
        id: String,
    },
}

#[derive(Args)]
pub(crate) struct ServeCommand {
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    /// Stop the running host; sessions are kept
    #[arg(long)]
    pub(crate) stop: bool,
    /// Stop when nobody needs the host; `lodge` starts a host like this
    #[arg(long, hide = true, conflicts_with = "stop")]
    pub(crate) background: bool,
    /// Write the log into the home; service managers without a log start a host like this
    #[arg(long, hide = true, conflicts_with = "stop")]
    pub(crate) log_to_home: bool,
}

#[derive(Args, Clone)]
pub(crate) struct ServeArgs {
    /// Port for AHP clients on loopback; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 8764)]
    pub(crate) port: u16,
    /// Address and port for AHP clients, instead of --port; anything but loopback needs TLS
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "port")]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// Unix socket for AHP clients, instead of a port
    #[arg(long, value_name = "PATH", conflicts_with_all = ["port", "listen"])]
    pub(crate) socket: Option<PathBuf>,
    /// Port for Copilot SDK apps, as in RuntimeConnection.forUri("127.0.0.1:8765"); before SDK 1.0: cliUrl. 0 picks a free
    /// one [default: 8765, or a free one if that is taken]
    #[arg(long, value_name = "PORT")]
    pub(crate) sdk_port: Option<u16>,
    /// TLS certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Key of the TLS certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Origin of a web page that may connect, such as https://lodge.example
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Extra host name to accept
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    #[cfg(feature = "fleet")]
    #[command(flatten)]
    pub(crate) fleet: crate::fleet::FleetArgs,
}

impl ServeArgs {
    /// Whether the command line has any of them: then a host is meant.
    pub(crate) fn are_given(given: &ArgMatches) -> bool {
        let options = Self::augment_args(clap::Command::new("serve"));
        let is_given =
            |option: &clap::Arg| given.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine);
        options.get_arguments().any(is_given)
    }

    /// Where AHP clients are heard.
    pub(crate) fn listen_address(&self) -> std::net::SocketAddr {
        self.listen.unwrap_or_else(|| ([127, 0, 0, 1], self.port).into())
    }
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// The message; piped input is added to it. `-` at the end waits for it however long it takes
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,
    /// Print every event as a line of JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// What to print
    #[arg(long, value_enum, default_value_t, conflicts_with = "json")]
    pub(crate) output_format: OutputFormat,
    /// Continue a session: its id, the beginning of its id, or `last`
    #[arg(long, value_name = "ID|last")]
    pub(crate) resume: Option<String>,
    /// The model (see `lodge models`)
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// How hard the model thinks, if it offers a choice
    #[arg(long, value_name = "EFFORT")]
    pub(crate) reasoning_effort: Option<String>,
    /// Directory to work in [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// How the agent works [default: the session's mode, or interactive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// What runs without approval during this run [default: the session's approval mode, or safe]
    #[arg(long, value_enum)]
    pub(crate) approve: Option<ApprovalArg>,
    /// Run everything without approval during this run; the same as `--approve all`
    #[arg(long, conflicts_with = "approve")]
    pub(crate) yolo: bool,
}

impl RunArgs {
    /// What is printed of the turn.
    pub(crate) fn format(&self) -> Format {
        match self.output_format {
            _ if self.json => Format::Events,
            OutputFormat::Text => Format::Text,
            OutputFormat::Json => Format::Json,
        }
    }
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The turn for people, or just the answer if the output is redirected
    #[default]
    Text,
    /// One JSON object at the end: session, result, exit code, usage, duration
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ModeArg {
    /// Do what is asked and stop
    Interactive,
    /// Explore and write a plan; change nothing until you approve it
    Plan,
    /// Work until the task is complete
    Autopilot,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ApprovalArg {
    /// Ask about everything, even reads
    Ask,
    /// Run what is known to be harmless, and ask about the rest
    Safe,
    /// Also allow writes inside the working directory
    Edits,
    /// Run everything
    All,
    /// Run only what needs no approval, and deny the rest
    None,
}

impl ApprovalArg {
    /// Its name, here and as a setting of sessions.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Safe => "safe",
            Self::Edits => "edits",
            Self::All => "all",
            Self::None => "none",
        }
    }
}

#[derive(Args)]
pub(crate) struct AttachArgs {
    /// The session: its number in the list (with --plain), its id or the beginning of it, or `last`; or a host, such as ssh://user@machine
    /// [default: the last session in this directory; with --plain, ask]
    pub(crate) session: Option<String>,
    /// Start a new session
    #[arg(long, conflicts_with = "session")]
    pub(crate) new: bool,
    /// The host: ssh://, wss://, ws:// or unix:, or its name in `lodge hosts` [default: the host of --home]
    #[arg(long, env = "LODGE_URL", value_name = "URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// What a person calls the host that `url` leads to.
    #[arg(skip)]
    pub(crate) host: Option<String>,
    /// The host's token [default: the local host's token]
    #[arg(
        long,
        env = "LODGE_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    pub(crate) token: Option<String>,
    /// The model for the first message
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// Working directory of new sessions [default: the current one, if the host is on this machine]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Print line by line instead of using the whole screen: for screen readers and simple terminals
    #[arg(long, env = "LODGE_PLAIN", value_parser = crate::console::parse_switch)]
    pub(crate) plain: bool,
    /// How many turns to show at the start, with --plain
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) history: usize,
    /// Without a session, open the last one of this directory instead of asking.
    #[arg(skip)]
    pub(crate) last_here: bool,
    /// The first message.
    #[arg(skip)]
    pub(crate) message: Option<String>,
    /// What runs without approval in the session.
    #[arg(skip)]
    pub(crate) approve: Option<ApprovalArg>,
}

#[derive(Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, newest first
    #[command(after_help = "Examples:
  lodge sessions list
  lodge sessions list --cwd . --limit 5
  lodge sessions list --json")]
    List {
        /// Only sessions in this directory
        #[arg(long, value_name = "DIR")]
        cwd: Option<PathBuf>,
        /// Only sessions in this repository (`owner/name`)
        #[arg(long)]
        repository: Option<String>,
        /// Only sessions on this branch
        #[arg(long)]
        branch: Option<String>,
        /// How many to show
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Include sessions without a message
        #[arg(long)]
        all: bool,
        /// Print JSON lines
        #[arg(long)]
        json: bool,
    },
    /// Show the conversation of a session
    #[command(after_help = "Examples:
  lodge sessions show last")]
    Show {
        /// The session: its id, the beginning of its id, or `last`
        id: String,
    },
    /// Search messages
    #[command(after_help = "Examples:
  lodge sessions search \"rate limit\"")]
    Search {
        /// The words to look for
        text: String,
        /// How many to show
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Print the events of a session; the same as `lodge export --format jsonl`
    #[command(hide = true)]
    Export {
        /// The session: its id, the beginning of its id, or `last`
        id: String,
    },
    /// Copy a session into a new one
    #[command(after_help = "Examples:
  lodge sessions fork last
  lodge sessions fork last --at 3 --name \"another way\"")]
    Fork {
        /// The session: its id, the beginning of its id, or `last`
        id: String,
        /// Copy only up to the end of this turn; the first is 1 [default: all turns]
        #[arg(long, value_name = "N")]
        at: Option<usize>,
        /// Name of the copy
        #[arg(long)]
        name: Option<String>,
    },
    /// Rewind the last messages of a session and their file changes
    #[command(after_help = "Examples:
  lodge sessions rewind last
  lodge sessions rewind last 2 --keep-files
  lodge sessions rewind last --undo")]
    Rewind {
        /// The session: its id, the beginning of its id, or `last`
        id: String,
        /// How many messages to rewind
        #[arg(default_value_t = 1)]
        messages: usize,
        /// Leave the files as they are
        #[arg(long)]
        keep_files: bool,
        /// Undo the last rewind
        #[arg(long, conflicts_with_all = ["messages", "keep_files"])]
        undo: bool,
    },
    /// Delete old sessions by age, number or size
    #[command(after_help = "Examples:
  lodge sessions prune --dry-run
  lodge sessions prune --max-age 90d --dry-run
  lodge sessions prune --max-size 10GB --yes")]
    Prune(crate::prune::PruneArgs),
    /// Delete sessions and everything in them
    #[command(after_help = "Examples:
  lodge sessions delete last
  lodge sessions delete a1b2 c3d4 --yes")]
    Delete {
        /// The ids of the sessions
        #[arg(required = true)]
        ids: Vec<String>,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum FormatArg {
    /// Markdown
    Md,
    /// One self-contained HTML page
    Html,
    /// The events, one per line
    Jsonl,
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// Check only this session
    pub(crate) id: Option<String>,
    /// Repair damaged logs; damaged bytes go to a file beside the log and are never deleted
    #[arg(long)]
    pub(crate) fix: bool,
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    /// Every command that people see, with all words of its name.
    fn visible(command: &clap::Command, name: &str, found: &mut Vec<(String, clap::Command)>) {
        found.push((name.to_owned(), command.clone()));
        for child in command
            .get_subcommands()
            .filter(|child| !child.is_hide_set() && child.get_name() != "help")
        {
            visible(child, &format!("{name} {}", child.get_name()), found);
        }
    }

    #[test]
    fn every_command_shows_examples_that_work() {
        let mut commands = Vec::new();
        visible(&Cli::command(), "lodge", &mut commands);
        assert!(commands.len() > 40, "{}", commands.len());
        for (name, command) in commands {
            let shown = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = shown.strip_prefix("Examples:\n");
            let examples = examples.unwrap_or_else(|| panic!("`{name} --help` has no examples"));
            assert!(
                examples.lines().any(|line| line.trim().starts_with(&name)),
                "{name}: {examples}"
            );
            for line in examples.lines() {
                let line = line.split(" #").next().unwrap_or_default();
                // A remark stands behind several spaces; what is piped in or out is the shell's.
                let line = line.trim().split("  ").next().unwrap_or_default();
                let line = line.split(" > ").next().unwrap_or_default();
                let line = line.rsplit(" | ").next().unwrap_or_default();
                let (mut words, mut quoted) = (vec![String::new()], false);
                for c in line.chars() {
                    match c {
                        '"' => quoted = !quoted,
                        ' ' if !quoted => words.push(String::new()),
                        c => words.last_mut().expect("it begins with one").push(c),
                    }
                }
                let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
                let read = read(&words);
                assert!(read.is_ok(), "{name}: {line}: {}", read.unwrap_err());
            }
        }
    }

    #[test]
    fn a_first_message_needs_no_command() {
        let parsed = |line: &[&str]| {
            let args: Vec<OsString> = std::iter::once(&"lodge").chain(line).map(Into::into).collect();
            let cli = Cli::from_arg_matches(&read(&args)?)?;
            match cli.command {
                Some(Command::Chat { message, options }) => Ok((message.join(" "), options.or(cli.chat))),
                _ => panic!("{line:?} is no message"),
            }
        };
        for (line, message, new, model) in [
            (&["fix the bug"][..], "fix the bug", false, None),
            (&["--new", "-m", "a b", "fix the bug"], "fix the bug", true, Some("a b")),
            (&["-m", "x", "fix the bug", "--new"], "fix the bug", true, Some("x")),
            (&["--", "fix", "it"], "fix it", false, None),
            (&["--new", "--", "status"], "status", true, None),
            (&["chat", "fix"], "fix", false, None),
        ] {
            let (said, options) = parsed(line).unwrap_or_else(|error: clap::Error| panic!("{line:?}: {error}"));
            assert_eq!((said.as_str(), options.new), (message, new), "{line:?}");
            assert_eq!(options.model.as_deref(), model, "{line:?}");
        }
        // Whoever mistypes a command says nothing to an agent.
        for (line, told) in [
            (&["stauts"][..], "unrecognized subcommand 'stauts'"),
            (&["run", "--bad", "some text"], "unexpected argument '--bad'"),
            (&["sessions", "lst", "a b"], "unrecognized subcommand 'lst'"),
            (&["--new", "--continue"], "cannot be used with"),
        ] {
            let error = parsed(line).err().unwrap_or_else(|| panic!("{line:?} is a message"));
            assert!(error.to_string().contains(told), "{line:?}: {error}");
        }
    }

    #[test]
    fn options_of_every_command_come_last_under_their_own_heading() {
        let mut commands = Vec::new();
        let mut root = Cli::command();
        root.build();
        visible(&root, "lodge", &mut commands);
        for (name, mut command) in commands {
            let help = command.render_long_help().to_string();
            let heading = help
                .find("\nGlobal options:\n")
                .unwrap_or_else(|| panic!("{name}: {help}"));
            for option in ["--home <DIR>", "--sync <POLICY>", "--log-level <LEVEL>"] {
                assert!(
                    help.find(option).is_some_and(|at| at > heading),
                    "{name} {option}: {help}"
                );
            }
        }
    }
}
