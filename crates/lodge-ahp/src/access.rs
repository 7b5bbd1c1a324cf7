//! What clients may reach of the host's files, and who decides about the rest.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use lodge_events::{ElicitationRequested, ElicitationSchema};
use lodge_files::{Files, Grant, Private, Root};
use lodge_host::{Answer, ElicitationAnswer, Session};
use serde_json::{Value, json};

use crate::{config::Policy, face::Face, uri};

/// A person who does not answer for so long does not answer.
const PATIENCE: Duration = Duration::from_secs(300);

impl Face {
    /// The directories that clients may reach: projects that sessions work in, and what the host was set up with.
    fn directories(&self) -> Vec<Root> {
        let config = &self.config;
        let mut directories: Vec<PathBuf> = config.roots.iter().chain(&config.default_directory).cloned().collect();
        let inner = self.inner.lock();
        let sessions = inner.core.sessions.values();
        let worked = sessions.flat_map(|session| session.state.working_directories.iter().flatten());
        let worked: Vec<PathBuf> = worked.filter_map(|directory| uri::path(directory)).collect();
        let ids: Vec<String> = inner.talks.values().map(|talk| talk.host_id.clone()).collect();
        drop(inner);
        let homes = self.homes();
        directories.extend(worked.into_iter().filter(|directory| is_project(directory, &homes)));
        directories.sort();
        directories.dedup();
        let kept = kept(self.host.home().path(), &ids).map(|path| Root {
            write: false,
            ..Root::whole(path)
        });
        directories.into_iter().map(Root::whole).chain(kept).collect()
    }

    /// The home of the host and of the person it works for, without links.
    fn homes(&self) -> Vec<PathBuf> {
        let person = std::env::home_dir();
        let homes = person.into_iter().chain([self.host.home().path().to_owned()]);
        homes.map(|home| home.canonicalize().unwrap_or(home)).collect()
    }

    /// What is the host's own: its home, but for what sessions have there for their clients.
    pub(crate) fn private(&self) -> Private {
        let home = self.host.home().path();
        let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
        let ids: Vec<String> = {
            let inner = self.inner.lock();
            inner.talks.values().map(|talk| talk.host_id.clone()).collect()
        };
        let open = kept(&home, &ids).chain([home.join("worktrees")]).collect();
        Private::new(home, open)
    }

    /// The files that every client may reach. A path that came from a tool, a model or a log is only ever read beneath these.
    pub(crate) fn shared_files(&self) -> Files {
        Files::new(self.directories()).without(self.private())
    }

    /// The files that a client may reach: those of the directories, and what it was granted.
    pub(crate) async fn files(&self, client: &str) -> Files {
        let mut roots = self.directories();
        roots.extend(self.grants.clone().roots_beside(client.to_owned()).await);
        Files::new(roots).without(self.private())
    }

    /// Whether a client still reaches a path. Reads what it was granted.
    pub(crate) fn reaches(&self, client: &str, path: &Path) -> bool {
        let mut roots = self.directories();
        roots.extend(self.grants.roots(client));
        Files::new(roots).allows(path, false)
    }

    /// Whether a client reaches a path by nothing but what it was granted.
    pub(crate) fn is_only_granted(&self, path: &Path) -> bool {
        !Files::new(self.directories()).allows(path, false)
    }

    /// Whether a client may have what it asks for now: by the host's policy, or because a person says so.
    pub(crate) async fn decide(self: &Arc<Self>, mut grant: Grant) -> Result<(), &'static str> {
        const NOBODY: &str = "a person has to allow this: see `lodge grants`";
        let keep = |grant: &Grant| self.grants.put(grant).map_err(|_| "cannot save it");
        match self.config.resources {
            Policy::Deny => return Err("this host grants no more access"),
            Policy::Allow => {}
            Policy::Ask => {
                let id = keep(&grant)?;
                let Some(session) = self.somebody() else {
                    return Err(NOBODY);
                };
                match ask(&session, &grant).await.as_deref() {
                    Some("always") => grant.lasting = true,
                    Some("now") => {}
                    // Somebody may have said yes elsewhere meanwhile.
                    _ if self.grants.get(&id).is_some_and(|grant| grant.allowed) => return Ok(()),
                    _ => {
                        let _ = self.grants.remove(&id);
                        return Err("a person denied it");
                    }
                }
            }
        }
        grant.allowed = true;
        keep(&grant).map(drop)
    }

    /// A session whose clients can be asked: a question is a part of a turn.
    fn somebody(&self) -> Option<Session> {
        let inner = self.inner.lock();
        let mut busy = inner.talks.iter().filter(|(chat, talk)| {
            let chat = inner.core.chats.get(*chat);
            let running = chat.is_some_and(crate::state::ChatEntry::is_running);
            running && inner.core.has_audience(&talk.session)
        });
        busy.find_map(|(_, talk)| self.host.live(&talk.host_id))
    }
}

/// Whether a session's directory is one that clients may reach because a session works there. One that holds a home, as `/`
/// does, is not: any client can make a session there, and everything a person has would be open to it. It takes a grant.
fn is_project(directory: &Path, homes: &[PathBuf]) -> bool {
    // What is not there gives nothing away.
    let real = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    real.parent().is_some() && !homes.iter().any(|home| home.starts_with(&real))
}

/// What tools of sessions could not say in full, and what their agents keep for later: it is there to be read.
fn kept<'a>(home: &'a Path, ids: &'a [String]) -> impl Iterator<Item = PathBuf> + 'a {
    let of = move |id: &'a String| ["temp", "files"].map(|dir| home.join("session-state").join(id).join(dir));
    ids.iter().flat_map(of)
}

/// Asks the persons at a session.
async fn ask(session: &Session, grant: &Grant) -> Option<String> {
    let what = match (grant.read, grant.write) {
        (true, true) => "read and write",
        (false, true) => "write",
        _ => "read",
    };
    let schema = json!({
        "type": "object",
        "properties": { "answer": {
            "type": "string",
            "title": "Access to files",
            "description": "May it?",
            "oneOf": [
                { "const": "now", "title": "Allow until the host stops" },
                { "const": "always", "title": "Always allow" },
                { "const": "no", "title": "Deny" },
            ],
        } },
        "required": ["answer"],
    });
    let request_id = uuid::Uuid::new_v4().to_string();
    let question = ElicitationRequested {
        request_id: request_id.clone(),
        message: format!("{} wants to {what} {}", grant.client, grant.uri),
        requested_schema: serde_json::from_value::<ElicitationSchema>(schema).ok(),
        ..ElicitationRequested::default()
    };
    let asked = session.clone();
    let mut asking = tokio::spawn(async move { asked.elicit(question).await });
    let answer = match tokio::time::timeout(PATIENCE, &mut asking).await {
        Ok(answer) => answer,
        Err(_) => {
            let action = "cancel".into();
            let cancel = ElicitationAnswer { action, content: None };
            let _ = session
                .answer(&request_id, Answer::Elicitation(cancel), Default::default())
                .await;
            asking.await
        }
    };
    let answer = answer.ok()?.ok().filter(|answer| answer.action == "accept")?;
    let chosen = serde_json::to_value(answer.content).ok()?;
    chosen.get("answer").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_holds_a_home_is_no_project() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let home = root.join("people/me");
        std::fs::create_dir_all(home.join("project")).unwrap();
        std::os::unix::fs::symlink("/", root.join("all")).unwrap();
        std::os::unix::fs::symlink(&home, root.join("alias")).unwrap();
        let homes = [home.clone()];
        for (directory, expected) in [
            (PathBuf::from("/"), false),
            (root.join("all"), false),
            (root.clone(), false),
            (root.join("people"), false),
            (home.clone(), false),
            (root.join("alias"), false),
            (home.join("project"), true),
            (root.join("alias/project"), true),
            (root.join("people/other"), true),
        ] {
            assert_eq!(is_project(&directory, &homes), expected, "{}", directory.display());
        }
    }
}
