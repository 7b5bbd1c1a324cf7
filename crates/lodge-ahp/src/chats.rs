//! The chats of sessions and what is kept of both, as the host tells them and as clients see them.

use ahp_types::state::{
    AgentSelection, AutomationSessionOrigin, ChangesSummary, ChatOrigin, Message, MessageKind, MessageOrigin,
    ModelSelection, SessionOrigin, SessionStatus, SideChatSelection,
};
use lodge_events::{ChatBeginning, ChatSource, LodgeChat};
use lodge_host::{About, ChangeCounts, Marks, MessageTemplate, NamedModel, SessionSummary};

use crate::{automations, load::UNTITLED, uri};

/// A further chat of a session: a session of the host's that is shown inside another, or was.
#[derive(Debug, Clone)]
pub(crate) struct Chat {
    /// Its address, as the client chose it.
    pub(crate) uri: String,
    /// The host's id of the session behind it.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) origin: ChatOrigin,
    /// How many of its first turns are not shown, because they only are what a side chat knows.
    pub(crate) hidden_turns: usize,
    /// The session that it was made in, when it was moved: addresses of what it has name that one.
    pub(crate) born: Option<String>,
    /// Those of its session's directories that it has, when it has not all.
    pub(crate) directories: Option<Vec<String>>,
    /// Whether it is a session of its own now.
    pub(crate) is_own: bool,
}

impl Chat {
    /// What a log says of the chat that its session is or was.
    pub(crate) fn of(id: &str, about: &About) -> Option<Self> {
        let chat = about.chat.as_ref()?;
        let name = about.named.as_ref().and_then(|named| named.name.clone());
        Some(Self {
            uri: chat.address.clone(),
            id: id.to_owned(),
            title: name.unwrap_or_else(|| UNTITLED.to_owned()),
            origin: origin(&chat.origin),
            hidden_turns: chat.hidden_turns.unwrap_or_default() as usize,
            born: chat.born.clone(),
            directories: chosen_directories(about),
            is_own: chat.session.is_none(),
        })
    }

    /// What a line of the catalogue says of it.
    pub(crate) fn of_line(line: &SessionSummary) -> Option<Self> {
        let chat = Self::of(&line.id, &line.about)?;
        let title = line.title.clone().unwrap_or(chat.title);
        Some(Self { title, ..chat })
    }

    /// What a side chat was opened about.
    pub(crate) fn selection(&self) -> Option<String> {
        match &self.origin {
            ChatOrigin::SideChat { selection, .. } => selection.as_ref().map(|selection| selection.text.clone()),
            _ => None,
        }
    }

    /// What its log says of it as a chat of a session, or as a session of its own.
    pub(crate) fn event(&self, session: Option<&str>) -> LodgeChat {
        let (kind, chat, turn_id, selection) = match self.origin.clone() {
            ChatOrigin::Fork { chat, turn_id } => (ChatBeginning::Fork, Some(chat), Some(turn_id), None),
            ChatOrigin::SideChat {
                chat,
                turn_id,
                selection,
            } => (ChatBeginning::SideChat, Some(chat), Some(turn_id), selection),
            _ => (ChatBeginning::User, None, None, None),
        };
        let (selection, part_id) = match selection {
            Some(selection) => (Some(selection.text), selection.response_part_id),
            None => (None, None),
        };
        LodgeChat {
            session: session.map(str::to_owned),
            address: self.uri.clone(),
            origin: ChatSource {
                kind,
                chat,
                turn_id,
                selection,
                part_id,
            },
            hidden_turns: Some(self.hidden_turns as u64).filter(|turns| *turns > 0),
            born: self.born.clone(),
        }
    }
}

fn origin(source: &ChatSource) -> ChatOrigin {
    let chat = source.chat.clone().unwrap_or_default();
    let turn_id = source.turn_id.clone().unwrap_or_default();
    match source.kind {
        ChatBeginning::Fork => ChatOrigin::Fork { chat, turn_id },
        ChatBeginning::SideChat => ChatOrigin::SideChat {
            chat,
            turn_id,
            selection: source.selection.clone().map(|text| SideChatSelection {
                text,
                response_part_id: source.part_id.clone(),
            }),
        },
        _ => ChatOrigin::User,
    }
}

/// Puts chats into the order that somebody chose. A default chat that it does not name comes first, others last.
pub(crate) fn sort<T>(chats: &mut [T], order: &[String], default: &str, address: impl Fn(&T) -> &String) {
    chats.sort_by_key(|chat| {
        let place = order.iter().position(|known| known == address(chat));
        match place {
            Some(place) => place + 1,
            None if address(chat) == default => 0,
            None => usize::MAX,
        }
    });
}

/// The addresses of directories.
pub(crate) fn addresses(paths: &[String]) -> Vec<String> {
    paths.iter().map(uri::file).collect()
}

/// Those of its session's directories that a chat has, when it has not all, by their addresses.
pub(crate) fn chosen_directories(about: &About) -> Option<Vec<String>> {
    about.directories.chosen.as_deref().map(addresses)
}

/// What the agent is called in a session.
pub(crate) fn provider(marks: &Marks) -> String {
    marks.agent.clone().unwrap_or_else(|| uri::PROVIDER.to_owned())
}

/// Keeps what the agent is called, where that is not its name here.
pub(crate) fn call_provider(marks: &mut Marks, name: &str) {
    marks.agent = (name != uri::PROVIDER).then(|| name.to_owned());
}

/// How a session came to be, where that was not by a person.
pub(crate) fn made_by(marks: &Marks) -> Option<SessionOrigin> {
    let maker = marks.made_by.as_ref()?;
    Some(SessionOrigin::Automation(AutomationSessionOrigin {
        automation: automations::address(&maker.automation),
        run: format!("{}{}", automations::RUN, maker.run),
    }))
}

/// The flags of the person, as bits of a status.
pub(crate) fn flags(marks: &Marks) -> u32 {
    let bit = |set: bool, flag: SessionStatus| if set { flag.bits() } else { 0 };
    bit(marks.read, SessionStatus::IsRead) | bit(marks.archived, SessionStatus::IsArchived)
}

/// What turns changed, in numbers.
pub(crate) fn changes(counts: ChangeCounts) -> ChangesSummary {
    ChangesSummary {
        additions: Some(counts.added),
        deletions: Some(counts.removed),
        files: Some(counts.files),
    }
}

/// A message as the host keeps it.
pub(crate) fn kept_message(message: &Message) -> MessageTemplate {
    let attachments = message.attachments.as_ref().map(|all| {
        let all = all.iter().filter_map(|one| serde_json::to_value(one).ok());
        all.collect()
    });
    MessageTemplate {
        text: message.text.clone(),
        attachments,
        model: message.model.clone().map(kept_model),
        agent: message.agent.as_ref().map(|agent| agent.uri.clone()),
        notes: message.meta.clone(),
    }
}

/// A message that the host keeps, as clients see it.
pub(crate) fn shown_message(kept: MessageTemplate, kind: MessageKind) -> Message {
    // An attachment of a kind that is not known any more is kept as it is.
    let attachments = kept.attachments.map(|all| {
        let all = all.into_iter().filter_map(|one| serde_json::from_value(one).ok());
        all.collect()
    });
    Message {
        text: kept.text,
        origin: MessageOrigin { kind },
        attachments,
        model: kept.model.map(shown_model),
        agent: kept.agent.map(|uri| AgentSelection { uri }),
        meta: kept.notes,
    }
}

/// A model as the host keeps it.
pub(crate) fn kept_model(model: ModelSelection) -> NamedModel {
    NamedModel {
        id: model.id,
        options: model.config.map(|config| config.into_iter().collect()),
    }
}

/// A model that the host keeps, as clients see it.
pub(crate) fn shown_model(model: NamedModel) -> ModelSelection {
    ModelSelection {
        id: model.id,
        config: model.options.map(|options| options.into_iter().collect()),
    }
}
