//! What events beside the chain say about a session as a whole: its name, its directories, which session it is a chat
//! of. The last event of each type counts, in lists and in the session itself.

use lodge_events::{Event, LodgeChat, LodgeChats, LodgeDirectories, LodgeNamed, LodgeWorktree, Payload};
use serde::{Deserialize, Serialize};

/// What a log says about its session as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// What it was named, once it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named: Option<LodgeNamed>,
    /// Where it works beside its working directory.
    pub directories: LodgeDirectories,
    /// The worktree that was made for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<LodgeWorktree>,
    /// What makes it a chat of another one, or made it one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat: Option<LodgeChat>,
    /// How its chats are listed.
    pub chats: LodgeChats,
}

impl About {
    /// The types of events that it is made of.
    pub(super) const KINDS: [&str; 5] = [
        LodgeNamed::NAME,
        LodgeDirectories::NAME,
        LodgeWorktree::NAME,
        LodgeChat::NAME,
        LodgeChats::NAME,
    ];

    /// Whether an event says something about its session as a whole.
    pub fn is_told_by(event: &Event) -> bool {
        Self::KINDS.contains(&event.kind())
    }

    /// Takes one event into account.
    pub fn fold(&mut self, payload: &Payload) {
        match payload {
            Payload::LodgeNamed(named) => self.named = Some((**named).clone()),
            Payload::LodgeDirectories(directories) => self.directories = (**directories).clone(),
            Payload::LodgeWorktree(worktree) => self.worktree = Some((**worktree).clone()),
            Payload::LodgeChat(chat) => self.chat = Some((**chat).clone()),
            Payload::LodgeChats(chats) => self.chats = (**chats).clone(),
            _ => {}
        }
    }

    /// Whether its name is one that an app made up.
    pub fn has_automatic_name(&self) -> bool {
        let is_automatic = |named: &LodgeNamed| named.automatic == Some(true);
        self.named.as_ref().is_some_and(is_automatic)
    }

    /// The session that it is a chat of.
    pub fn chat_of(&self) -> Option<&str> {
        self.chat.as_ref()?.session.as_deref()
    }

    /// The same for the index: empty for what was a chat once.
    pub(super) fn indexed_chat_of(&self) -> Option<&str> {
        self.chat
            .as_ref()
            .map(|chat| chat.session.as_deref().unwrap_or_default())
    }

    /// Its name: what a person called it, else what is said beside the log.
    pub(super) fn name(&self, label: Option<String>) -> Option<String> {
        match &self.named {
            Some(named) => named.name.clone(),
            None => label,
        }
    }
}
