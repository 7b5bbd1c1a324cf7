//! What clients may reach of the host's files, and who decides about the rest.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use lodge_files::{Grant, Private, Reach, Root};
use lodge_host::{Access, Session};

use crate::{config::Policy, face::Face, uri};

impl Face {
    /// What every client may reach: projects that sessions work in, and what the host was set up with. A path that came from a tool,
    /// a model or a log is only ever read beneath this.
    pub(crate) fn shared_files(&self) -> Reach {
        let config = &self.config;
        let mut roots: Vec<Root> = config
            .roots
            .iter()
            .chain(&config.default_directory)
            .map(Root::whole)
            .collect();
        let inner = self.inner.lock();
        let sessions = inner.core.sessions.values();
        let worked = sessions.flat_map(|session| session.state.working_directories.iter().flatten());
        roots.extend(worked.filter_map(|directory| uri::path(directory)).map(Root::project));
        drop(inner);
        roots.sort();
        roots.dedup();
        let kept = self.kept(self.host.home().path());
        roots.extend(kept.into_iter().map(|path| Root {
            write: false,
            ..Root::whole(path)
        }));
        Reach {
            roots,
            homes: self.homes.clone(),
            private: self.private(),
            granted: None,
        }
    }

    /// What a client may reach: what every client may, and what it was granted.
    pub(crate) fn files(&self, client: &str) -> Reach {
        Reach {
            granted: Some((self.grants.clone(), client.to_owned())),
            ..self.shared_files()
        }
    }

    /// What is the host's own: its home, but for what sessions have there for their clients.
    pub(crate) fn private(&self) -> Private {
        let open = self.kept(&self.home).into_iter().chain([self.home.join("worktrees")]);
        Private::new(self.home.clone(), open.collect())
    }

    /// What tools of sessions could not say in full, and what their agents keep for later: it is there to be read.
    fn kept(&self, home: &Path) -> Vec<PathBuf> {
        let inner = self.inner.lock();
        let of = |id: &str| ["temp", "files"].map(|dir| home.join("session-state").join(id).join(dir));
        inner
            .conversations
            .values()
            .flat_map(|talk| of(&talk.host_id))
            .collect()
    }

    /// Whether a client may have what it asks for now: by the host's policy, or because a person says so.
    pub(crate) async fn decide(self: &Arc<Self>, mut grant: Grant) -> Result<(), &'static str> {
        const NOBODY: &str = "this needs a person's approval: see `lodge grants`";
        let keep = |grant: &Grant| self.grants.put(grant).map_err(|_| "cannot save it");
        match self.config.resources {
            Policy::Deny => return Err("this host does not grant access"),
            Policy::Allow => {}
            Policy::Ask => {
                let id = keep(&grant)?;
                let Some(session) = self.somebody() else {
                    return Err(NOBODY);
                };
                match session.ask_access(&grant).await {
                    Some(Access::Lasting) => grant.lasting = true,
                    Some(Access::ForNow) => {}
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
        let mut busy = inner.conversations.iter().filter(|(chat, talk)| {
            let chat = inner.core.chats.get(*chat);
            let running = chat.is_some_and(crate::state::ChatEntry::is_running);
            running && inner.core.has_audience(&talk.session)
        });
        busy.find_map(|(_, talk)| self.host.live(&talk.host_id))
    }
}
