//! Rules for the directories that a session works in, and those of them that a chat has. The first one of either stays: there
//! its agents run.

use std::path::PathBuf;

use ahp_types::{
    StateAction,
    actions::{
        ChatWorkingDirectoryRemovedAction, ChatWorkingDirectorySetAction, SessionWorkingDirectoryRemovedAction,
        SessionWorkingDirectoryReplacedAction, SessionWorkingDirectorySetAction,
    },
    state::SessionState,
};
use lodge_events::LodgeDirectories;
use serde_json::Value;

use super::{
    Dispatch, Refusal,
    plan::{After, NoChange, Plan},
    refusal::DirectoryRefusal,
};
use crate::{
    chats::addresses,
    conversation::{Conversation, Directories, Effect, Setting},
    face::{Face, Inner},
    state::Uri,
    uri,
};

/// Directories of one session.
pub(crate) const MOST_DIRECTORIES: usize = 32;

/// Whether two addresses are of one directory, however they are spelt.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    a == b || uri::path(a).is_some_and(|path| uri::path(b).as_ref() == Some(&path))
}

/// The directory of this host at an address.
pub(crate) async fn existing(directory: &str) -> Result<PathBuf, DirectoryRefusal> {
    let path = uri::path(directory).ok_or_else(|| DirectoryRefusal::Elsewhere(directory.to_owned()))?;
    match lodge_files::is_directory(path.clone()).await {
        Ok(true) => Ok(path),
        _ => Err(DirectoryRefusal::NotThere(directory.to_owned())),
    }
}

/// The directory that an action adds to a session, looked up before anybody is kept waiting for it.
pub(super) async fn added(action: &Value) -> Option<Result<PathBuf, DirectoryRefusal>> {
    let field = match action.get("type")?.as_str()? {
        "session/workingDirectorySet" => "directory",
        "session/workingDirectoryReplaced" => "replacement",
        _ => return None,
    };
    Some(existing(action.get(field)?.as_str()?).await)
}

/// What an action about the directories of a session does.
pub(super) fn check(inner: &Inner, dispatch: &Dispatch<'_>, action: &mut StateAction) -> Result<Plan, Refusal> {
    let entry = inner.core.sessions.get(&dispatch.channel);
    let entry = entry.ok_or(Refusal::NoSession)?;
    let all = known(&entry.state);
    let (out, mut into) = match action {
        StateAction::SessionWorkingDirectorySet(set) => (None, Some(&mut set.directory)),
        StateAction::SessionWorkingDirectoryRemoved(removed) => (Some(&mut removed.directory), None),
        StateAction::SessionWorkingDirectoryReplaced(replaced) => {
            (Some(&mut replaced.directory), Some(&mut replaced.replacement))
        }
        _ => return Err(Refusal::NotFor("a session")),
    };
    let mut gone = None;
    if let Some(out) = out {
        match all.iter().position(|known| is_same(known, out)) {
            None => return Ok(Plan::nothing(NoChange::Echo)),
            Some(0) => return Err(DirectoryRefusal::SessionStays.into()),
            Some(at) => out.clone_from(&all[at]),
        }
        if works_in(inner, &dispatch.channel, out) {
            return Err(DirectoryRefusal::InUse.into());
        }
        gone = Some(out.clone());
    }
    if let Some(into) = into.as_deref_mut() {
        let path = dispatch.added.clone().ok_or(DirectoryRefusal::Unnamed)??;
        let known = all.iter().find(|known| is_same(known, into));
        let is_there = known.is_some();
        *into = known.map_or_else(|| uri::file(path.components().collect::<PathBuf>()), String::clone);
        match &gone {
            None if !is_there && all.len() >= MOST_DIRECTORIES => {
                return Err(DirectoryRefusal::TooMany.into());
            }
            None if is_there => return Ok(Plan::nothing(NoChange::Echo)),
            Some(gone) if is_same(gone, into) => return Ok(Plan::nothing(NoChange::Echo)),
            _ => {}
        }
    }
    let into = into.map(|into| into.clone());
    let replaced = |list: &[String]| after(list, gone.as_deref(), into.as_deref());
    let default = inner.core.head(&entry.default_chat);
    let chosen = default.and_then(|head| head.working_directories.as_ref());
    let chosen = chosen.map(|chosen| match gone.as_ref().is_some_and(|gone| chosen.contains(gone)) {
        true => replaced(chosen),
        false => chosen.clone(),
    });
    let setting = Setting::Directories(directories(&replaced(all), chosen.as_deref()));
    let moved = gone.map(|gone| (gone, into));
    Ok(Plan::effect(Effect::Change(setting)).then(After::Directories(moved)))
}

/// What an action about the directories of a chat does.
pub(super) fn check_chat(inner: &Inner, dispatch: &Dispatch<'_>, action: &mut StateAction) -> Result<Plan, Refusal> {
    let session = inner.core.entry_of(&dispatch.channel);
    let all = session.map(|session| known(&session.state)).unwrap_or_default();
    let head = inner.core.head(&dispatch.channel);
    let head = head.filter(|_| inner.conversations.contains_key(&dispatch.channel));
    let own = &head.ok_or(DirectoryRefusal::OfSubAgent)?.working_directories;
    let chosen = match action {
        StateAction::ChatWorkingDirectorySet(set) => {
            let known = all.iter().find(|known| is_same(known, &set.directory));
            let known = known.ok_or(DirectoryRefusal::NotOfSession)?;
            set.directory.clone_from(known);
            match own {
                Some(own) if own.contains(known) => return Ok(Plan::nothing(NoChange::Echo)),
                // What it had was all; from now on it is what it names, and it cannot be without its own.
                None if all.first() != Some(known) => {
                    return Err(DirectoryRefusal::OwnFirst.into());
                }
                _ => after(own.as_deref().unwrap_or_default(), None, Some(known)),
            }
        }
        StateAction::ChatWorkingDirectoryRemoved(removed) => {
            let own = own.iter().flatten();
            let at = own.clone().position(|known| is_same(known, &removed.directory));
            match at {
                None => return Ok(Plan::nothing(NoChange::Echo)),
                Some(0) => return Err(DirectoryRefusal::ChatStays.into()),
                Some(_) => {
                    let mut named = own.clone();
                    let known = named.find(|known| is_same(known, &removed.directory));
                    removed.directory = known.cloned().unwrap_or_default();
                    let own: Vec<String> = own.cloned().collect();
                    after(&own, Some(&removed.directory), None)
                }
            }
        }
        _ => return Err(Refusal::NotFor("a chat")),
    };
    let setting = Setting::Directories(directories(all, Some(&chosen)));
    Ok(Plan::effect(Effect::Change(setting)).then(After::Directories(None)))
}

/// A list of directories after one is gone and one came, in its place or at the end.
fn after(list: &[String], gone: Option<&str>, into: Option<&str>) -> Vec<String> {
    let mut list = list.to_vec();
    let at = gone.and_then(|gone| list.iter().position(|known| known == gone));
    let at = at.inspect(|at| drop(list.remove(*at))).unwrap_or(list.len());
    if let Some(into) = into.filter(|into| list.iter().all(|known| known != into)) {
        list.insert(at, into.to_owned());
    }
    list
}

/// The directories of a session, and those of them that a chat has, as its agent takes them.
fn directories(all: &[String], chosen: Option<&[String]>) -> Directories {
    let paths = |all: &[String]| all.iter().filter_map(|address| uri::path(address)).collect();
    Directories {
        further: paths(all.get(1..).unwrap_or_default()),
        chosen: chosen.map(paths),
    }
}

fn known(state: &SessionState) -> &[String] {
    state.working_directories.as_deref().unwrap_or_default()
}

/// Whether the agent of one of a session's chats runs in a directory.
fn works_in(inner: &Inner, session: &str, directory: &str) -> bool {
    let chats = inner.core.chats_of(session);
    let mut first = chats
        .iter()
        .filter_map(|chat| inner.core.head(chat)?.working_directories.as_ref()?.first());
    first.any(|first| first == directory)
}

impl Inner {
    /// The directories of a chat, by their addresses; where its agent runs comes first.
    pub(crate) fn directories_of(&self, chat: &str) -> Vec<String> {
        let own = self.core.head(chat).and_then(|head| head.working_directories.clone());
        own.or_else(|| self.core.entry_of(chat)?.state.working_directories.clone())
            .unwrap_or_default()
    }

    /// Where the agent of a chat may work, as the state says.
    pub(crate) fn work_places(&self, chat: &str) -> Directories {
        let all = self
            .core
            .entry_of(chat)
            .map(|entry| known(&entry.state))
            .unwrap_or_default();
        let head = self.core.head(chat);
        directories(all, head.and_then(|head| head.working_directories.as_deref()))
    }

    /// Whether the state says where a chat works because its log does: so does the default chat's for the whole session.
    pub(crate) fn is_source_of_directories(&self, chat: &str) -> bool {
        let session = self.core.entry_of(chat);
        let is_draft = self.conversations.get(chat).is_some_and(|talk| talk.is_draft);
        !is_draft && session.is_some_and(|session| *session.default_chat == *chat)
    }

    /// Has the agents of a session look where they may work now.
    pub(crate) fn tell_directories(&self, session: &str) {
        for (chat, talk) in self.conversations.iter().filter(|(_, talk)| &*talk.session == session) {
            if !self.is_source_of_directories(chat) {
                talk.tell(Effect::Directories);
            }
        }
    }
}

/// The directories of a session or a chat have changed: what one of them lost or got in its place, its chats do too.
pub(super) fn changed(inner: &mut Inner, channel: &Uri, moved: Option<(String, Option<String>)>) {
    let Some(session) = inner.core.session_of(channel) else {
        return;
    };
    if let Some((directory, replacement)) = moved {
        for chat in inner.core.chats_of(&session) {
            let head = inner.core.head(&chat);
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
        }
    }
    inner.tell_directories(&session);
}

impl Face {
    /// The log of a session tells where it works. What it says now counts: who set something here has shown more than this
    /// event may say.
    pub(crate) fn works_in(&self, inner: &mut Inner, chat: &Uri, told: &LodgeDirectories) {
        let agent = inner.conversations.get(chat).and_then(Conversation::agent);
        let now = agent.map(|agent| agent.state().about.directories);
        let told = now.as_ref().unwrap_or(told);
        let Some(session) = inner.core.session_of(chat) else {
            return;
        };
        let Some(entry) = inner
            .core
            .sessions
            .get(&session)
            .filter(|entry| entry.default_chat == *chat)
        else {
            return;
        };
        let now = addresses(&told.further);
        let shown = known(&entry.state).get(1..).unwrap_or_default().to_vec();
        let gone: Vec<&String> = shown.iter().filter(|known| !now.contains(known)).collect();
        let new: Vec<&String> = now.iter().filter(|known| !shown.contains(known)).collect();
        let (mut actions, mut moved) = (Vec::new(), Vec::new());
        if let ([gone], [new]) = (&gone[..], &new[..]) {
            let (directory, replacement) = ((*gone).clone(), (*new).clone());
            moved.push((directory.clone(), Some(replacement.clone())));
            actions.push(StateAction::SessionWorkingDirectoryReplaced(
                SessionWorkingDirectoryReplacedAction { directory, replacement },
            ));
        } else {
            moved.extend(gone.iter().map(|gone| ((*gone).clone(), None)));
            actions.extend(gone.into_iter().cloned().map(|directory| {
                StateAction::SessionWorkingDirectoryRemoved(SessionWorkingDirectoryRemovedAction { directory })
            }));
            actions.extend(new.into_iter().cloned().map(|directory| {
                StateAction::SessionWorkingDirectorySet(SessionWorkingDirectorySetAction { directory })
            }));
        }
        for action in &actions {
            inner.core.publish(&session, action, None);
        }
        for moved in moved {
            changed(inner, &session, Some(moved));
        }
        let chosen = own_actions(inner, chat, told);
        for action in &chosen {
            inner.core.publish(chat, action, None);
        }
        if !actions.is_empty() {
            inner.tell_directories(&session);
        }
        if !actions.is_empty() || !chosen.is_empty() {
            inner.core.settle(&session);
        }
    }
}

/// What shows which directories of its session a chat has, if it is shown with others. No action says that it has all: it is
/// shown with each of them.
fn own_actions(inner: &Inner, chat: &str, told: &LodgeDirectories) -> Vec<StateAction> {
    let shown = inner.core.head(chat).and_then(|head| head.working_directories.as_ref());
    let now = match (&told.chosen, shown) {
        (Some(chosen), _) => addresses(chosen),
        (None, Some(_)) => {
            let session = inner.core.entry_of(chat);
            session.map(|entry| known(&entry.state).to_vec()).unwrap_or_default()
        }
        (None, None) => return Vec::new(),
    };
    let shown = shown.map(Vec::as_slice).unwrap_or_default();
    let gone = shown.iter().filter(|known| !now.contains(known)).cloned();
    let new = now.iter().filter(|known| !shown.contains(known)).cloned();
    gone.map(|directory| StateAction::ChatWorkingDirectoryRemoved(ChatWorkingDirectoryRemovedAction { directory }))
        .chain(new.map(|directory| StateAction::ChatWorkingDirectorySet(ChatWorkingDirectorySetAction { directory })))
        .collect()
}
