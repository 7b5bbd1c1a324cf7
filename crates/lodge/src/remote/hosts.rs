//! `lodge hosts`: names for hosts on other machines, with their addresses, pins and tokens.

use std::{collections::BTreeMap, io::IsTerminal, path::Path, process::ExitCode};

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use lodge_files::replace;
use serde::{Deserialize, Serialize};

use super::{
    pin::{self, Pin},
    ssh::SshTarget,
};
use crate::serve::print_line;

const FILE: &str = "hosts.json";

/// `lodge hosts`.
#[derive(Subcommand)]
pub(crate) enum HostsCommand {
    /// List the hosts
    #[command(after_help = "Examples:
  lodge hosts list")]
    List,
    /// Add a host under a name; then `lodge attach --url NAME` connects to it
    #[command(after_help = "Examples:
  lodge hosts add work ssh://me@machine
  lodge hosts add box wss://machine:8764 --token")]
    Add {
        /// Name of the host
        name: String,
        /// Address: ssh://user@machine, wss://machine:port, ws:// or unix:
        url: String,
        /// Accept only this key, whoever signed it; `lodge tls init` prints it
        #[arg(long, value_name = "SHA256")]
        pin: Option<String>,
        /// Read the host's token from standard input and store it; not needed with ssh
        #[arg(long)]
        token: bool,
    },
    /// Remove a host
    #[command(after_help = "Examples:
  lodge hosts remove work")]
    Remove {
        /// Name of the host
        name: String,
    },
}

#[derive(Default, Clone, Serialize, Deserialize)]
struct Entry {
    url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pin: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

type Entries = BTreeMap<String, Entry>;

/// A host and its address.
pub(super) struct Known {
    pub(super) url: String,
    pub(super) pin: Option<Pin>,
    pub(super) token: Option<String>,
}

impl Known {
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            pin: None,
            token: None,
        }
    }
}

/// The names of all hosts.
pub(crate) fn names(home: &Path) -> Result<Vec<String>> {
    Ok(read(home)?.into_keys().collect())
}

/// Names and addresses of the hosts whose pages a browser can reach.
pub(crate) fn pages(home: &Path) -> Result<Vec<(String, String)>> {
    let page = |(name, entry): (String, Entry)| {
        let rest = entry.url.strip_prefix("ws")?;
        // The part after the question mark may be a token.
        let address = rest.split('?').next()?;
        Some((name, format!("http{address}")))
    };
    Ok(read(home)?.into_iter().filter_map(page).collect())
}

/// Finds a host by its name.
pub(super) fn find(home: &Path, name: &str) -> Result<Known> {
    let mut entries = read(home)?;
    let Some(entry) = entries.remove(name) else {
        bail!(
            "There is no host called {name:?}. List them with `lodge hosts list`, or add one with `lodge hosts add`."
        );
    };
    let pin = entry
        .pin
        .map(|pin| pin.parse().map_err(anyhow::Error::msg))
        .transpose()?;
    Ok(Known {
        url: entry.url,
        pin,
        token: entry.token,
    })
}

/// Runs `lodge hosts`.
pub(crate) fn hosts(home: &Path, command: Option<HostsCommand>) -> Result<ExitCode> {
    let mut entries = read(home)?;
    match command {
        None | Some(HostsCommand::List) => {
            if entries.is_empty() {
                print_line("There are no hosts. Add one: lodge hosts add NAME ssh://user@machine");
            }
            for (name, entry) in entries {
                let pinned = if entry.pin.is_some() { "  pinned" } else { "" };
                print_line(&format!("{name:<16} {}{pinned}", entry.url));
            }
        }
        Some(HostsCommand::Add { name, url, pin, token }) => {
            check(&name, &url, pin.as_deref())?;
            let token = if token { Some(read_token()?) } else { None };
            let entry = Entry { url, pin, token };
            let replaced = entries.insert(name.clone(), entry).is_some();
            write(home, &entries)?;
            let done = if replaced { "was changed" } else { "was added" };
            print_line(&format!("{name} {done}. Connect with: lodge attach --url {name}"));
        }
        Some(HostsCommand::Remove { name }) => {
            ensure!(entries.remove(&name).is_some(), "There is no host called {name:?}.");
            write(home, &entries)?;
            print_line(&format!("{name} was removed."));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check(name: &str, url: &str, pin: Option<&str>) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    ensure!(
        !name.is_empty() && name.len() <= 64 && name.chars().all(plain),
        "Invalid name {name:?}: use letters, digits, dots, dashes and underscores."
    );
    match (url.strip_prefix("ssh://"), pin) {
        (Some(_), Some(_)) => bail!("A pin is for wss://. ssh checks its hosts itself."),
        (Some(target), None) => drop(SshTarget::parse(target)?),
        (None, Some(pin)) => {
            let pin: Pin = pin.parse().map_err(anyhow::Error::msg)?;
            pin::Target::parse(url, pin)?;
        }
        (None, None) => ensure!(
            ["ws://", "wss://", "unix:"]
                .iter()
                .any(|scheme| url.starts_with(scheme)),
            "{url:?} is not the address of a host; it must begin with ssh://, wss://, ws:// or unix:."
        ),
    }
    Ok(())
}

/// Tokens are never given on a command line, where others can see them.
fn read_token() -> Result<String> {
    if std::io::stdin().is_terminal() {
        eprintln!("Enter the token:");
    }
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .context("Cannot read standard input")?;
    let token = line.trim();
    ensure!(!token.is_empty(), "There is no token on standard input.");
    Ok(token.to_owned())
}

fn read(home: &Path) -> Result<Entries> {
    let path = home.join(FILE);
    match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Entries::new()),
        Err(error) => Err(error).with_context(|| format!("Cannot read {}", path.display())),
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("{} is invalid", path.display())),
    }
}

fn write(home: &Path, entries: &Entries) -> Result<()> {
    std::fs::create_dir_all(home).with_context(|| format!("Cannot create {}", home.display()))?;
    let path = home.join(FILE);
    let text = serde_json::to_vec_pretty(entries)?;
    replace(&path, &text).with_context(|| format!("Cannot write {}", path.display()))
}
