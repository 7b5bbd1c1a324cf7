//! `lodge grants`: clients' access to files outside their sessions, and their requests for it.

use std::{path::Path, process::ExitCode};

use anyhow::{Context, Result, bail};
use lodge_files::Grants;

use crate::{cli::GrantsCommand, serve::print_line};

/// Lists, allows or revokes grants.
pub(crate) fn run(home: &Path, command: Option<&GrantsCommand>) -> Result<ExitCode> {
    let grants = Grants::of_home(home);
    match command {
        None | Some(GrantsCommand::List) => {
            let all = grants.list();
            if all.is_empty() {
                print_line("No grants and no requests. Clients can reach the directories of sessions only.");
            }
            for (id, grant) in all {
                let state = match (grant.allowed, grant.lasting) {
                    (false, _) => "asked",
                    (true, false) => "until stop",
                    (true, true) => "always",
                };
                let what = match (grant.read, grant.write) {
                    (true, true) => "read, write",
                    (false, true) => "write",
                    _ => "read",
                };
                print_line(&format!(
                    "{id}  {state:<10}  {what:<11}  {}  {}",
                    grant.uri, grant.client
                ));
            }
        }
        Some(GrantsCommand::Allow { id, always }) => {
            if grants.get(id).is_none() {
                bail!("There is no request {id}; `lodge grants` lists them.");
            }
            grants.allow(id, *always).context("Cannot store the grant")?;
        }
        Some(GrantsCommand::Revoke { id }) => {
            if grants.remove(id).is_err() {
                bail!("There is no grant {id}; `lodge grants` lists them.");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
