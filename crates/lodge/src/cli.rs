//! The command line, as clap reads it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lodge_door::Role;
use lodge_host::SyncPolicy;

/// An agent host: runs AI agent sessions and lets many clients watch and steer them.
///
/// In a terminal, `lodge` alone opens a conversation: with the host that runs, or with one that it starts in the background.
/// Elsewhere, and as `lodge serve`, it is the host itself and prints where to connect. Nothing has to be configured: the
/// built-in rehearsal model answers offline until you bring a model of your own.
#[derive(Parser)]
#[command(name = "lodge", version = crate::release::VERSION.as_str(), max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

#[derive(Args, Clone)]
pub(crate) struct Global {
    /// Where sessions are kept [default: the platform's state directory]
    #[arg(long, global = true, env = "LODGE_HOME", value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// When what is written must reach the disk: at each turn, always, or never
    #[arg(
        long,
        global = true,
        env = "LODGE_SYNC",
        value_name = "POLICY",
        default_value_t,
        hide_possible_values = true
    )]
    pub(crate) sync: SyncPolicy,
    /// How much to log to stderr: error, warn, info, debug or trace
    #[arg(long, global = true, env = "LODGE_LOG", value_name = "LEVEL", default_value = "warn", value_parser = crate::logging::parse_level)]
    pub(crate) log_level: String,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start the host in the foreground, or stop the one that runs
    Serve(ServeCommand),
    /// Say whether a host runs, where, and what its sessions do
    Status,
    /// Bring a model: provider, key, model, a test
    Setup,
    /// Send one message and stream the answer to the terminal
    Run(RunArgs),
    /// Serve an editor that speaks the Agent Client Protocol (ACP) on standard input and output
    ///
    /// For Zed, JetBrains, Neovim, Emacs and others, which start it: set `lodge acp` as the agent's command. It joins the host
    /// that runs, or starts one in the background, so its sessions are live in every other client, and theirs in the editor.
    Acp(AcpArgs),
    /// Talk to a running host: watch a session, type, approve, cancel
    Attach(AttachArgs),
    /// Look at sessions: list, show, search, export, delete
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Write a session as a page to share
    Export {
        /// Its id, the beginning of its id, or `last`
        id: String,
        /// What to write
        #[arg(long, value_enum, default_value_t = FormatArg::Md)]
        format: FormatArg,
        /// Where to [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Bring in sessions of the Copilot CLI
    Import {
        /// Sessions, or directories of them [default: those of the Copilot CLI on this machine]
        paths: Vec<PathBuf>,
    },
    /// Verify the logs of sessions and say what would be repaired
    Check(CheckArgs),
    /// List the models that can be used
    Models,
    /// Let the hooks and MCP servers that a folder brings run as they are now, or no longer
    Trust {
        /// The folder; without one, the trusted ones are listed
        folder: Option<PathBuf>,
        /// Only show what it brings, and what has changed since it was accepted
        #[arg(long, requires = "folder", conflicts_with = "remove")]
        show: bool,
        /// Trust it no longer
        #[arg(long, requires = "folder")]
        remove: bool,
    },
    /// The MCP servers of sessions here: list, try out, sign in
    Mcp {
        #[command(subcommand)]
        command: Option<McpCommand>,
    },
    /// Say what is configured, reachable and protected, and what to do about the rest
    Doctor,
    /// Files beyond the directories of sessions that clients may reach, or ask for
    Grants {
        #[command(subcommand)]
        command: Option<GrantsCommand>,
    },
    /// What the host does by itself, or when asked: list, run, remove
    Automations {
        #[command(subcommand)]
        command: Option<AutomationsCommand>,
    },
    /// Let a browser or a phone in: print a link, and a code to scan, that work once
    Pair(PairArgs),
    /// The browsers and phones that were let in: list, revoke
    Devices {
        #[command(subcommand)]
        command: Option<DevicesCommand>,
    },
    /// Print a completion script for your shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Run the host as a service: install, status, logs, uninstall
    #[command(subcommand)]
    Service(crate::service::ServiceCommand),
    /// Write everything that the home holds into one file, also while the host runs
    Backup(crate::backup::BackupArgs),
    /// Make a home from a backup
    Restore(crate::backup::RestoreArgs),
    /// Hosts on other machines: list, add, remove
    Hosts {
        #[command(subcommand)]
        command: Option<crate::remote::HostsCommand>,
    },
    /// Make a certificate, so that other machines can reach the host by TLS
    #[command(subcommand)]
    Tls(crate::remote::TlsCommand),
    /// Carry a connection to the host; used by Lodge itself, through ssh
    #[command(hide = true)]
    Bridge,
    /// This program itself: compare it with a feed of releases
    #[command(name = "self", subcommand)]
    Itself(crate::release::SelfCommand),
    /// Write the man pages into a directory; used for packages
    #[command(hide = true)]
    Man {
        /// The directory
        dir: PathBuf,
    },
    /// Ends what a host leaves behind that is killed; used by Lodge itself
    #[command(name = lodge_tools::GUARD, hide = true)]
    Guard {
        /// The host
        host: String,
    },
}

#[derive(Args)]
pub(crate) struct AcpArgs {
    /// Bring a model, as `lodge setup` does; editors start this in a terminal
    #[arg(long)]
    pub(crate) setup: bool,
}

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// List them
    List,
    /// Start them all, say what came of it, and end them
    Check,
    /// Sign in to a server elsewhere
    Login {
        /// Its name, as listed
        name: String,
        /// Also when you are signed in
        #[arg(long)]
        again: bool,
    },
    /// Forget a login
    Logout {
        /// Its name, as listed
        name: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum AutomationsCommand {
    /// List them
    List,
    /// Run one now
    Run {
        /// The automation, as listed, or how its id begins
        id: String,
    },
    /// Remove one; the sessions of its runs stay
    Remove {
        /// The automation, as listed, or how its id begins
        id: String,
    },
}

#[derive(Args)]
pub(crate) struct PairArgs {
    /// What the device may do: full, approve-only (watch, and answer the agents' questions) or view-only
    #[arg(long, value_name = "ROLE", default_value_t = Role::Full, value_parser = crate::attach::parse_role)]
    pub(crate) role: Role,
    /// What to call the device [default: what it calls itself]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Where the device reaches the host, such as https://lodge.example [default: where the host listens]
    #[arg(long, value_name = "URL")]
    pub(crate) address: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum DevicesCommand {
    /// List them
    List,
    /// Let one in no longer, and close its connections
    Revoke {
        /// The device, as listed
        id: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum GrantsCommand {
    /// List them
    List,
    /// Allow what a client asked for
    Allow {
        /// The request, as listed
        id: String,
        /// Also after the host stops
        #[arg(long)]
        always: bool,
    },
    /// Take back what was allowed, or say no
    Revoke {
        /// The grant, as listed
        id: String,
    },
}

#[derive(Args)]
pub(crate) struct ServeCommand {
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    /// Stop the host that runs; sessions are kept
    #[arg(long)]
    pub(crate) stop: bool,
    /// End when nobody needs it; how `lodge` alone starts a host
    #[arg(long, hide = true, conflicts_with = "stop")]
    pub(crate) background: bool,
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
    /// Port for Copilot SDK apps that connect by address; 0 picks a free one [default: 8765, or a free one if that is taken]
    #[arg(long, value_name = "PORT")]
    pub(crate) sdk_port: Option<u16>,
    /// Certificate for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Origin of a web page that may connect, such as https://lodge.example
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Further name that this host is called by
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
}

impl ServeArgs {
    /// Whether somebody who gives these arguments means a host.
    pub(crate) fn are_given(args: impl IntoIterator<Item = std::ffi::OsString>) -> bool {
        const NAMES: [&str; 8] = [
            "--port",
            "--listen",
            "--socket",
            "--sdk-port",
            "--tls-cert",
            "--tls-key",
            "--allow-origin",
            "--allow-host",
        ];
        args.into_iter().any(|arg| {
            let arg = arg.to_string_lossy();
            let name = arg.split('=').next().unwrap_or_default();
            NAMES.contains(&name)
        })
    }

    /// Where AHP clients are heard.
    pub(crate) fn listen_address(&self) -> std::net::SocketAddr {
        self.listen.unwrap_or_else(|| ([127, 0, 0, 1], self.port).into())
    }
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// What to say; what is piped into the command is added to it
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,
    /// Print every event as a line of JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Go on with a session: its id, the beginning of its id, or `last`
    #[arg(long, value_name = "ID|last")]
    pub(crate) resume: Option<String>,
    /// The model (see `lodge models`)
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// How hard the model shall think, where it offers a choice
    #[arg(long, value_name = "EFFORT")]
    pub(crate) reasoning_effort: Option<String>,
    /// Directory to work in [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// How to work [default: interactive, or as the session was]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// What may run without a question
    #[arg(long, value_enum, default_value_t = ApprovalArg::Safe)]
    pub(crate) approve: ApprovalArg,
    /// Run everything without a question; the same as `--approve all`
    #[arg(long, conflicts_with = "approve")]
    pub(crate) yolo: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ModeArg {
    /// Do what is asked and stop
    Interactive,
    /// Explore and write a plan; change nothing until it is approved
    Plan,
    /// Go on until the task is complete
    Autopilot,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ApprovalArg {
    /// Ask before everything, reading too
    Ask,
    /// Run what is known to be harmless, ask about the rest
    Safe,
    /// Also write inside the working directory without a question
    Edits,
    /// Run everything
    All,
    /// Run only what needs no permission
    None,
}

#[derive(Args)]
pub(crate) struct AttachArgs {
    /// The session: a number of the list, its id or the beginning of it, or `last`; or where the host is, such as ssh://user@machine [default: asks]
    pub(crate) session: Option<String>,
    /// Begin a new session
    #[arg(long, conflicts_with = "session")]
    pub(crate) new: bool,
    /// Where the host is: ssh://, wss://, ws:// or unix:, or its name in `lodge hosts` [default: what the host of --home tells]
    #[arg(long, env = "LODGE_URL", value_name = "URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// The host's token [default: what the host of --home tells]
    #[arg(long, env = "LODGE_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// The model for the first message
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// Directory that new sessions work in [default: the current one, if the host is on this machine]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Line by line, without drawing on the whole screen: for screen readers, and terminals that cannot
    #[arg(long, env = "LODGE_PLAIN")]
    pub(crate) plain: bool,
    /// How many of the last turns to show
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) history: usize,
}

#[derive(Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, the newest first
    List {
        /// Only those of this directory
        #[arg(long, value_name = "DIR")]
        cwd: Option<PathBuf>,
        /// Only those of this repository (`owner/name`)
        #[arg(long)]
        repository: Option<String>,
        /// Only those of this branch
        #[arg(long)]
        branch: Option<String>,
        /// How many at most
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Also those in which nothing was said
        #[arg(long)]
        all: bool,
        /// Print JSON lines
        #[arg(long)]
        json: bool,
    },
    /// Show the conversation of a session
    Show {
        /// Its id, the beginning of its id, or `last`
        id: String,
    },
    /// Find messages
    Search {
        /// Words to look for
        text: String,
        /// How many at most
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Print the events of a session, one JSON line each
    Export {
        /// Its id, the beginning of its id, or `last`
        id: String,
    },
    /// Copy a session into a new one, which goes its own way
    Fork {
        /// Its id, the beginning of its id, or `last`
        id: String,
        /// Only up to the end of this turn; the first is 1 [default: all of it]
        #[arg(long, value_name = "N")]
        at: Option<usize>,
        /// A name for the copy
        #[arg(long)]
        name: Option<String>,
    },
    /// Take back the last messages of a session, and what they did to files
    Rewind {
        /// Its id, the beginning of its id, or `last`
        id: String,
        /// How many messages
        #[arg(default_value_t = 1)]
        messages: usize,
        /// Leave the files as they are
        #[arg(long)]
        keep_files: bool,
        /// Put back what was taken back last
        #[arg(long, conflicts_with_all = ["messages", "keep_files"])]
        undo: bool,
    },
    /// Delete sessions that are too old, too many or too large, by the rules of `[retention]` or by those given
    Prune(crate::prune::PruneArgs),
    /// Delete sessions with everything kept in them
    Delete {
        /// Their ids
        #[arg(required = true)]
        ids: Vec<String>,
        /// Without asking
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum FormatArg {
    /// Markdown
    Md,
    /// One page of HTML, with everything in it
    Html,
    /// The events as they are
    Jsonl,
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// Only this session
    pub(crate) id: Option<String>,
    /// Repair what is damaged; damaged bytes are set aside, never deleted
    #[arg(long)]
    pub(crate) fix: bool,
}
