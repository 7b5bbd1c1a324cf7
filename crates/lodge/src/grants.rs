//! `lodge grants`: clients' access to files outside their sessions, and their requests for it.

use std::{path::Path, process::ExitCode};

use anyhow::{Context, Result, bail};
use lodge_files::{Grant, Grants};

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
            let (id, grant) = find(&grants, id)?;
            grants.allow(&id, *always).context("Cannot store the grant")?;
            let until = if *always { "always" } else { "until the host stops" };
            print_line(&format!("Allowed {until}: {} for {}.", grant.uri, grant.client));
        }
        Some(GrantsCommand::Revoke { id }) => {
            let (id, grant) = find(&grants, id)?;
            grants.remove(&id).context("Cannot remove the grant")?;
            let done = if grant.allowed { "Revoked" } else { "Refused" };
            print_line(&format!("{done}: {} for {}.", grant.uri, grant.client));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The grant or request of this id, or of the only id that begins so.
fn find(grants: &Grants, id: &str) -> Result<(String, Grant)> {
    let all = grants.list();
    let begun: Vec<_> = all
        .iter()
        .filter(|(known, _)| !id.is_empty() && known.starts_with(id))
        .collect();
    match (all.iter().find(|(known, _)| known == id), begun.as_slice()) {
        (Some(exact), _) => Ok(exact.clone()),
        (None, [only]) => Ok((*only).clone()),
        (None, []) => bail!("There is no grant or request {id:?}; `lodge grants` lists them."),
        (None, many) => bail!(
            "{} grants and requests begin with {id:?}; give more of the id.",
            many.len()
        ),
    }
}
