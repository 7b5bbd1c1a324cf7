//! What is kept before a client hears that it was accepted: messages in the queue of their session, settings in its log.

use ahp_types::state::{Message, MessageKind};
use lodge_events::{Attachment, Uuid};
use lodge_host::{AgentError, Change, Delivery, Host, HostError, Prompt, Session, Written};

use super::{Directories, Effect, LITERAL, Setting, command_in};
use crate::{
    actions::{Refusal, TurnRefusal},
    attachments::unread,
    chats::kept_message,
    projection::{embedded, message_of_prompt},
    session_config::takes_effort,
};

/// The command that a message is, unless its sender wants it taken as it stands.
pub(super) fn command_of(message: &Message) -> Option<&str> {
    let literal = message.meta.as_ref().is_some_and(|meta| meta.contains_key(LITERAL));
    command_in(&message.text).filter(|_| !literal)
}

/// A message as the agent takes it. What is added to its text is not shown to people.
pub(super) fn prompt_of(
    id: &str,
    message: &Message,
    delivery: Delivery,
    attachments: Vec<Attachment>,
    added: impl IntoIterator<Item = String>,
) -> Prompt {
    let prompt = Prompt {
        text: message.text.clone(),
        delivery,
        message_id: Some(id.to_owned()),
        ..Prompt::default()
    };
    if let Some(command) = command_of(message) {
        // What else the message brings is for a model.
        return Prompt {
            command: Some(command.to_owned()),
            ..prompt
        };
    }
    let added = added.into_iter();
    let text = added.fold(message.text.clone(), |text, more| format!("{text}\n\n{more}"));
    Prompt {
        display_text: (text != message.text).then(|| message.text.clone()),
        text,
        attachments,
        ..prompt
    }
}

/// Has a session keep a message before its client hears that it was accepted. The rest is prepared after that, and may take
/// long. If it `begins`, its turn is what comes next. The event with this id says it; false if the log said the same before.
pub(crate) fn accept_message(
    session: &Session,
    event: Uuid,
    send: &Effect,
    begins: bool,
    replaces: Option<String>,
) -> Result<bool, Refusal> {
    let Effect::Send {
        id,
        message,
        delivery,
        chats,
        client,
    } = send
    else {
        return Ok(false);
    };
    let given = unread(message);
    let added = given.texts.into_iter().chain(chats.clone());
    let mut prompt = Prompt {
        needs_preparation: true,
        client: client.clone(),
        replaces,
        ..prompt_of(id, message, *delivery, given.attachments, added)
    };
    // The prompt does not say how this message was written, or the log may say how it was written before.
    if message_of_prompt(&prompt) != **message || session.state().pending.get(id).is_some() {
        let mut message = Message::clone(message);
        // The prompt has these bytes.
        embedded(&mut message).for_each(String::clear);
        let written = Written {
            by_automation: message.origin.kind == MessageKind::Automation,
            message: kept_message(&message),
        };
        prompt.written = Some(Box::new(written.event(id)));
    }
    let accepted = match begins {
        true => session.accept_as(event, prompt),
        false => session.enqueue_as(event, prompt),
    };
    match accepted {
        Ok(event) => Ok(event.is_some()),
        Err(AgentError::Taken) => Err(TurnRefusal::Taken.into()),
        Err(error) => Err(error.into()),
    }
}

impl Setting {
    /// What a session has in its place now, if the chats share it.
    pub(crate) fn now(&self, session: &Session) -> Option<Self> {
        let settings = session.settings();
        match self {
            Self::Mode(_) => Some(Self::Mode(settings.mode)),
            Self::Approval(_) => Some(Self::Approval(settings.approval)),
            _ => None,
        }
    }

    /// Changes a session; its log has the change when this returns.
    pub(crate) async fn apply(self, host: &Host, session: &Session) -> Result<(), HostError> {
        self.apply_as(Uuid::new_v4(), host, session).await
    }

    /// Like [`Setting::apply`], by an event with this id; there is none if nothing changed.
    pub(crate) async fn apply_as(self, id: Uuid, host: &Host, session: &Session) -> Result<(), HostError> {
        let change = match self {
            Self::Title(title) => return Ok(session.rename_as(id, Some(title)).await?),
            Self::Mode(mode) => Change::Mode(mode),
            Self::Approval(approval) => Change::Approval(approval),
            Self::Model(name) => return session.select_model_as(id, host, &name).await,
            Self::Effort(effort) => {
                let model = session.settings().model.id;
                if !takes_effort(host, Some(&model), effort.as_deref()) {
                    let effort = effort.unwrap_or_default();
                    return Err(HostError::Invalid(format!(
                        "the model {model:?} has no thinking level {effort:?}"
                    )));
                }
                Change::ReasoningEffort(effort)
            }
            Self::Directories(Directories { further, chosen }) => Change::ChatDirectories { further, chosen },
            // A session that has begun stays where it works.
            Self::Isolation(_) | Self::Branch(_) => return Ok(()),
        };
        Ok(session.configure_as(id, change).await?)
    }
}
