//! How VS Code finds the host: its list of agent hosts on a machine, and the settings that name one.
//!
//! The list is a directory in VS Code's user data, with one file per host. VS Code's command line reads it, and so does VS Code
//! over SSH. An entry names the host's local socket, which needs no token, so no secret leaves the home.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use crate::{host_file, serve::print_line};

/// Version of the entries' format, for VS Code.
const SCHEMA: u32 = 2;
/// VS Code's name for a host that belongs to no window.
const STANDALONE: &str = "standalone";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    schema_version: u32,
    r#type: &'static str,
    pid: u32,
    instance_id: String,
    protocol_version: &'static str,
    connection_token: &'static str,
    endpoint: Endpoint,
}

#[derive(Serialize)]
struct Endpoint {
    r#type: &'static str,
    path: PathBuf,
}

impl Entry {
    fn new(socket: &Path) -> Self {
        Self {
            schema_version: SCHEMA,
            r#type: STANDALONE,
            pid: std::process::id(),
            instance_id: uuid::Uuid::new_v4().to_string(),
            protocol_version: lodge_ahp::version::SUPPORTED[0],
            connection_token: "",
            endpoint: Endpoint {
                r#type: "socket",
                path: socket.to_owned(),
            },
        }
    }

    /// VS Code reads an entry only from a file with a matching name.
    fn file_name(&self) -> String {
        let identity = format!("{}\0{}\0{}", self.r#type, self.pid, self.instance_id);
        let sum = ring::digest::digest(&ring::digest::SHA256, identity.as_bytes());
        let digits: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{digits}.json")
    }
}

/// The host's entries in VS Code's lists, while it runs. VS Code removes entries of a killed host.
#[derive(Default)]
pub(crate) struct Listed {
    files: Vec<PathBuf>,
    entry: Vec<u8>,
}

impl Listed {
    /// Adds the host to the lists in these user data directories of VS Code. Warns about a directory that cannot be
    /// used.
    pub(crate) fn publish(directories: &[PathBuf], socket: &Path) -> Result<Self> {
        let entry = Entry::new(socket);
        let mut listed = Self {
            files: Vec::new(),
            entry: serde_json::to_vec(&entry)?,
        };
        for directory in directories {
            match list_in(directory, &entry, &listed.entry) {
                Ok(file) => listed.files.push(file),
                Err(error) => tracing::warn!("VS Code does not find this host, because {error}"),
            }
        }
        Ok(listed)
    }

    /// Restores entries that somebody deleted.
    pub(crate) fn keep(&self) -> io::Result<()> {
        for file in &self.files {
            if !file.try_exists()? {
                lodge_files::replace(file, &self.entry)?;
            }
        }
        Ok(())
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn list_in(user_data: &Path, entry: &Entry, bytes: &[u8]) -> Result<PathBuf, String> {
    let shown = user_data.display();
    if !user_data.is_dir() {
        return Err(format!(
            "{shown} is not a directory. Correct `vscode` in [ahp] of lodge.toml."
        ));
    }
    let list = user_data.join("agent-host/local-endpoint");
    let entries = list.join("entries");
    let file = entries.join(entry.file_name());
    lodge_files::private_directory(&list)
        .and_then(|()| lodge_files::private_directory(&entries))
        .and_then(|()| lodge_files::replace(&file, bytes))
        .map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    Ok(file)
}

/// `lodge vscode`: prints the settings with which VS Code reaches the running host.
pub(crate) fn explain(home: &Path) -> Result<ExitCode> {
    let note = host_file::running(home)?.context("No host is running. Start one with `lodge serve`")?;
    let address = note.ahp.trim_start_matches("ws://").trim_end_matches('/');
    let token = host_file::token(home).unwrap_or_default();
    let settings = json!({
        "chat.remoteAgentHostsEnabled": true,
        "chat.remoteAgentHosts": [{ "name": "Lodge", "address": address, "connectionToken": token }],
    });
    print_line("VS Code on this machine: add this to its settings.json");
    print_line(&serde_json::to_string_pretty(&settings)?);
    if let Some(socket) = &note.socket {
        print_line("\nVS Code's server, also in code-server: start it with");
        print_line(&format!("  --agent-host-bridge-path {}", socket.display()));
    }
    print_line(&format!(
        "\nVS Code over SSH, and `code agent ps`: name VS Code's user data directory in {}, and restart the host",
        home.join("lodge.toml").display()
    ));
    print_line("  [ahp]\n  vscode = [\"~/.config/Code\"]");
    Ok(ExitCode::SUCCESS)
}
