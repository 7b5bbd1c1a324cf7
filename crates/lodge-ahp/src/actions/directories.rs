//! Rules for the directories that a session works in, and those of them that a chat has. The first one of either stays: there
//! its agents run.

use std::path::PathBuf;

use ahp_types::{
    StateAction,
    actions::{ChatWorkingDirectoryRemovedAction, ChatWorkingDirectorySetAction},
    state::SessionState,
};

use super::{After, Dispatch, NoChange, Plan, Refusal};
use crate::{
    face::{Face, Inner},
    state::Uri,
    store::SessionRecord,
    talk::Effect,
    uri,
};

/// Directories of one session.
pub(crate) const MOST_DIRECTORIES: usize = 32;

/// Whether two addresses are of one directory, however they are spelt.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    a == b || uri::path(a).is_some_and(|path| uri::path(b).as_ref() == Some(&path))
}

/// The directory of this host at an address.
pub(crate) fn existing(directory: &str) -> Result<PathBuf, Refusal> {
    let path = uri::path(directory).ok_or_else(|| format!("{directory} is not a directory of this host"))?;
    match path.is_dir() {
        true => Ok(path),
        false => Err(format!("{directory} is not a directory that exists")),
    }
}

/// What an action about the directories of a session does.
pub(super) fn check(inner: &Inner, dispatch: &Dispatch<'_>, action: &mut StateAction) -> Result<Plan, Refusal> {
    let entry = inner.core.sessions.get(&dispatch.channel);
    let entry = entry.ok_or("there is no such session")?;
    let all = known(&entry.state);
    let (out, mut into) = match action {
        StateAction::SessionWorkingDirectorySet(set) => (None, Some(&mut set.directory)),
        StateAction::SessionWorkingDirectoryRemoved(removed) => (Some(&mut removed.directory), None),
        StateAction::SessionWorkingDirectoryReplaced(replaced) => {
            (Some(&mut replaced.directory), Some(&mut replaced.replacement))
        }
        _ => return Err("clients cannot dispatch this for a session".to_owned()),
    };
    let mut gone = None;
    if let Some(out) = out {
        match all.iter().position(|known| is_same(known, out)) {
            None => return Ok(Plan::nothing(NoChange::Echo)),
            Some(0) => return Err("a session stays in the directory that it works in".to_owned()),
            Some(at) => out.clone_from(&all[at]),
        }
        if works_in(inner, &dispatch.channel, out) {
            return Err("a chat of the session works in this directory".to_owned());
        }
        gone = Some(out.clone());
    }
    if let Some(into) = into.as_deref_mut() {
        let path = existing(into)?;
        let known = all.iter().find(|known| is_same(known, into));
        let is_there = known.is_some();
        *into = known.map_or_else(|| uri::file(path.components().collect::<PathBuf>()), String::clone);
        match &gone {
            None if !is_there && all.len() >= MOST_DIRECTORIES => {
                return Err(format!("a session has at most {MOST_DIRECTORIES} directories"));
            }
            None if is_there => return Ok(Plan::nothing(NoChange::Echo)),
            Some(gone) if is_same(gone, into) => return Ok(Plan::nothing(NoChange::Echo)),
            _ => {}
        }
    }
    let moved = gone.map(|gone| (gone, into.map(|into| into.clone())));
    Ok(Plan::default().then(After::Directories(moved)).then(After::Keep))
}

/// What an action about the directories of a chat does.
pub(super) fn check_chat(inner: &Inner, dispatch: &Dispatch<'_>, action: &mut StateAction) -> Result<Plan, Refusal> {
    let session = inner.core.session_of(&dispatch.channel);
    let session = session.and_then(|session| inner.core.sessions.get(&session));
    let all = session.map(|session| known(&session.state)).unwrap_or_default();
    let head = inner.core.chats.get(&dispatch.channel).map(|chat| chat.store.head());
    let head = head.filter(|_| inner.talks.contains_key(&dispatch.channel));
    let own = &head
        .ok_or("a sub-agent works where its agent does")?
        .working_directories;
    match action {
        StateAction::ChatWorkingDirectorySet(set) => {
            let known = all.iter().find(|known| is_same(known, &set.directory));
            let known = known.ok_or("this is not a working directory of the session")?;
            set.directory.clone_from(known);
            match own {
                Some(own) if own.contains(known) => return Ok(Plan::nothing(NoChange::Echo)),
                // What it had was all; from now on it is what it names, and it cannot be without its own.
                None if all.first() != Some(known) => {
                    return Err("name the directory that the chat works in first".to_owned());
                }
                _ => {}
            }
        }
        StateAction::ChatWorkingDirectoryRemoved(removed) => {
            let own = own.iter().flatten();
            let at = own.clone().position(|known| is_same(known, &removed.directory));
            match at {
                None => return Ok(Plan::nothing(NoChange::Echo)),
                Some(0) => return Err("a chat stays in the directory that it works in".to_owned()),
                Some(_) => {
                    let known = own.into_iter().find(|known| is_same(known, &removed.directory));
                    removed.directory = known.cloned().unwrap_or_default();
                }
            }
        }
        _ => return Err("clients cannot dispatch this for a chat".to_owned()),
    }
    Ok(Plan::default().then(After::Directories(None)).then(After::Keep))
}

fn known(state: &SessionState) -> &[String] {
    state.working_directories.as_deref().unwrap_or_default()
}

/// Whether the agent of one of a session's chats runs in a directory.
fn works_in(inner: &Inner, session: &str, directory: &str) -> bool {
    let chats = inner.core.chats_of(session);
    let heads = chats.iter().filter_map(|chat| inner.core.chats.get(chat));
    heads
        .filter_map(|chat| chat.store.head().working_directories.as_ref()?.first())
        .any(|first| first == directory)
}

impl Inner {
    /// The directories of a chat, by their addresses; where its agent runs comes first.
    pub(crate) fn directories_of(&self, chat: &str) -> Vec<String> {
        let own = self.core.chats.get(chat);
        let own = own.and_then(|chat| chat.store.head().working_directories.clone());
        let session = || self.core.sessions.get(&self.core.session_of(chat)?);
        own.or_else(|| session()?.state.working_directories.clone())
            .unwrap_or_default()
    }

    /// Tells the agents of a session where they may work now.
    pub(crate) fn tell_directories(&self, session: &str) {
        for (chat, talk) in self.talks.iter().filter(|(_, talk)| &*talk.session == session) {
            let all = self.directories_of(chat);
            let further = all.iter().skip(1).filter_map(|directory| uri::path(directory));
            talk.tell(Effect::Directories(further.collect()));
        }
    }
}

/// The directories of a session or a chat have changed: what one of them lost or got in its place, its chats do too.
pub(super) fn changed(face: &Face, inner: &mut Inner, channel: &Uri, moved: Option<(String, Option<String>)>) {
    let Some(session) = inner.core.session_of(channel) else {
        return;
    };
    if let Some((directory, replacement)) = moved {
        for chat in inner.core.chats_of(&session) {
            let head = inner.core.chats.get(&chat).map(|chat| chat.store.head());
            let own = head.and_then(|head| head.working_directories.as_ref());
            if !own.is_some_and(|own| own.contains(&directory)) {
                continue;
            }
            let removed = ChatWorkingDirectoryRemovedAction {
                directory: directory.clone(),
            };
            let set = replacement
                .clone()
                .map(|directory| StateAction::ChatWorkingDirectorySet(ChatWorkingDirectorySetAction { directory }));
            let removed = StateAction::ChatWorkingDirectoryRemoved(removed);
            for action in std::iter::once(removed).chain(set) {
                inner.core.publish(&chat, &action, None);
            }
            face.keep(inner, &chat);
        }
    }
    inner.tell_directories(&session);
}

/// The directories of a session beside the first, by their addresses.
pub(crate) fn further_of(state: &SessionState) -> Vec<String> {
    known(state).iter().skip(1).cloned().collect()
}

/// Directories that the agent behind a record works in, beside the one that it runs in.
pub(crate) fn further_directories(record: &SessionRecord, owner: &SessionRecord) -> Vec<PathBuf> {
    let named = match &record.own_directories {
        Some(own) => own.get(1..).unwrap_or_default(),
        None => &owner.directories,
    };
    named.iter().filter_map(|directory| uri::path(directory)).collect()
}
